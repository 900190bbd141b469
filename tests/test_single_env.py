"""`gymnasium.make`: a batch of one, seen as one environment under Gymnasium's `TimeLimit`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit
from trees import assert_same

from gymbridge.errors import ArgumentError, ArgumentTypeError, ClosedError, EpisodeEndedError
from gymbridge.single_env import SingleEnv, make_envpool

IDS = (
    "Brax/fast-v0",
    "EnvPool/Acrobot-v1",
    "EnvPool/CartPole-v1",
    "EnvPool/FetchReach-v4",
    "EnvPool/FrozenLake-v1",
    "EnvPool/MiniGrid-Empty-5x5-v0",
    "EnvPool/Play2048-v1",
)

MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)

# Gymnasium's own tests take these two as the nature of a task, too.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*A Box observation space minimum value is -infinity"),
    pytest.mark.filterwarnings("ignore:.*A Box observation space maximum value is infinity"),
]


def make(env_id: str, **kwargs: Any) -> gym.Env:
    """Return `gymnasium.make` of it; skip the test where its engine is not installed."""
    engine = env_id.split("/")[0].lower()
    if importlib.util.find_spec(engine) is None:
        pytest.skip(f"{engine} is not installed")
    return gym.make(env_id, **kwargs)


def steps(env: gym.Env, action: Any, most: int = 400) -> Iterator[tuple[int, Any]]:
    """Yield number and outcome of each step until the episode ends."""
    for number in range(1, most + 1):
        shown = env.step(action)
        yield number, shown
        if shown[2] or shown[3]:
            return


@pytest.mark.parametrize("env_id", IDS)
def test_view__passes_gymnasiums_checks(env_id: str) -> None:
    check_env(make(env_id).unwrapped)


@pytest.mark.parametrize("env_id", IDS)
def test_view__shows_python_values_within_the_spaces(env_id: str) -> None:
    env = make(env_id, max_episode_steps=6)
    assert isinstance(env.unwrapped, SingleEnv)
    obs, info = env.reset(seed=1)
    names = {*info}
    env.action_space.seed(0)
    for _ in range(6):
        assert obs in env.observation_space
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert [type(value) for value in (reward, terminated, truncated)] == [float, bool, bool]
        assert {*info} == names
        assert not any(name.startswith("_") for name in names)
        if terminated or truncated:
            break
    assert (obs in env.observation_space, terminated or truncated) == (True, True)


@pytest.mark.parametrize("env_id", IDS)
def test_view__is_row_0_of_a_batch(env_id: str) -> None:
    env, envs = make(env_id), gym.make_vec(env_id, num_envs=1, autoreset_mode="Disabled")
    env.action_space.seed(3)
    pairs = [(env.reset(seed=9), envs.reset(seed=9))]
    for _ in range(15):
        action = env.action_space.sample()
        pairs.append((env.step(action), envs.step(np.asarray(action)[None])))
        if pairs[-1][1][2][0]:
            break
    for single, batch in pairs:
        assert_same(_as_batch(single[0]), batch[0])
        assert [np.float32(value) for value in single[1:-1]] == [part[0] for part in batch[1:-1]]
        for name, value in single[-1].items():
            np.testing.assert_array_equal(value, batch[-1][name][0])


def _as_batch(obs: Any) -> Any:
    if isinstance(obs, dict):
        return {key: _as_batch(value) for key, value in obs.items()}
    return np.array([obs], np.int32 if isinstance(obs, int) else None)


@pytest.mark.parametrize(
    ("env_id", "action", "limit"),
    [("EnvPool/Pendulum-v1", np.zeros(1, np.float32), 200), ("EnvPool/MountainCar-v0", 1, 200)],
)
def test_time_limit__is_the_only_one(env_id: str, action: Any, limit: int) -> None:
    for given, expected in ((None, limit), (7, 7), (limit + 9, limit + 9)):
        env = make(env_id, max_episode_steps=given)
        assert isinstance(env, TimeLimit)
        assert env.spec.max_episode_steps == expected
        env.reset(seed=0)
        *_, (number, shown) = steps(env, action)
        assert (number, shown[2], shown[3]) == (expected, False, True)
    env = make(env_id, max_episode_steps=-1)
    env.reset(seed=0)
    assert [*steps(env, action)][-1][0] == 400


def test_time_limit__sets_both_flags_on_a_tie() -> None:
    env = make("EnvPool/CartPole-v1")
    env.reset(seed=0)
    *_, (natural, shown) = steps(env, 1)
    assert (shown[2], shown[3]) == (True, False)
    tied = make("EnvPool/CartPole-v1", max_episode_steps=natural)
    tied.reset(seed=0)
    *_, (number, shown) = steps(tied, 1)
    assert (number, shown[2], shown[3]) == (natural, True, True)


@pytest.mark.parametrize("given", [None, 5, 300, -1])
def test_task__whose_reward_depends_on_its_limit_keeps_its_own(given: int | None) -> None:
    env = make("EnvPool/MiniGrid-Empty-5x5-v0", max_episode_steps=given)
    env.reset(seed=0)
    for action in (2, 2, 1, 2, 2):
        _, reward, terminated, truncated, _ = env.step(action)
    assert reward == pytest.approx(1 - 0.9 * 5 / 100, abs=1e-6)
    assert (terminated, truncated) == (True, given == 5)
    env.reset()
    *_, (number, shown) = steps(env, 0)
    assert (number, shown[2], shown[3]) == (
        min(given or 100, 100) if given != -1 else 100,
        False,
        True,
    )


def test_step__after_the_end_is_refused() -> None:
    env = make("EnvPool/CartPole-v1")
    env.reset(seed=0)
    assert [*steps(env, 1)][-1][1][2]
    with pytest.raises(EpisodeEndedError, match=r"Environments \[0\] have ended"):
        env.step(1)
    obs, _ = env.reset()
    assert obs in env.observation_space


@pytest.mark.parametrize("env_id", ["EnvPool/CartPole-v1", "EnvPool/Blackjack-v1"])
@pytest.mark.filterwarnings("ignore:.*EnvPool/Blackjack-v1 is out of date")  # Atari has a v5
def test_seed__of_the_view_is_the_batchs(env_id: str) -> None:
    env = make(env_id)
    begun = [env.reset(seed=5)[0], env.reset()[0], env.reset()[0]]
    assert env.unwrapped.np_random_seed == 5
    again = make(env_id)
    assert_same([again.reset(seed=5)[0], again.reset()[0], again.reset()[0]], begun)


def test_seed__drawn_by_the_first_reset_is_told() -> None:
    env = make("EnvPool/CartPole-v1")
    obs, _ = env.reset()
    again, _ = make("EnvPool/CartPole-v1").reset(seed=env.unwrapped.np_random_seed)
    np.testing.assert_array_equal(again, obs)


@pytest.mark.parametrize("seed", [np.int64(3), np.uint8(3)])
def test_seed__may_be_numpy_s(seed: Any) -> None:
    env = make("EnvPool/CartPole-v1")
    obs, _ = env.reset(seed=3)
    np.testing.assert_array_equal(env.reset(seed=seed)[0], obs)
    assert (env.unwrapped.np_random_seed, type(env.unwrapped.np_random_seed)) == (3, int)
    assert env.reset(seed=2**40)[0] in env.observation_space
    assert env.unwrapped.np_random_seed == 2**40


@pytest.mark.parametrize("seed", [-1, 1.5, "3", [3], True])
def test_seed__that_is_none_changes_nothing(seed: Any) -> None:
    env, twin = make("EnvPool/CartPole-v1"), make("EnvPool/CartPole-v1")
    for one in (env, twin):
        one.reset(seed=3)
    with pytest.raises((ArgumentError, ArgumentTypeError), match="`seed` must be"):
        env.unwrapped.reset(seed=seed)
    np.testing.assert_array_equal(env.step(1)[0], twin.step(1)[0])
    np.testing.assert_array_equal(env.reset()[0], twin.reset()[0])


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [("EnvPool/CartPole-v1", {"num_threads": np.int64(1)}), ("Brax/fast-v0", {"action_repeat": 2})],
)
def test_spec__in_json_rebuilds_the_environment(env_id: str, kwargs: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    env = make(env_id, device=torch.device("cpu"), **kwargs)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.spec == env.spec
    assert again.spec.kwargs["device"] == "cpu"
    np.testing.assert_array_equal(again.reset(seed=3)[0], env.reset(seed=3)[0])


@pytest.mark.parametrize(
    ("name", "value"), [("autoreset_mode", "SameStep"), ("num_envs", 4), ("max_episode_steps", 9)]
)
def test_arguments__of_a_batch_are_refused(name: str, value: Any) -> None:
    pytest.importorskip("envpool")
    with pytest.raises(ArgumentError, match=f"`{name}` cannot be given for a single environment"):
        make_envpool(task_id="CartPole-v1", **{name: value})
    if name != "max_episode_steps":  # which `gymnasium.make` keeps for itself
        with pytest.raises(ArgumentError, match=f"`{name}` cannot be given for a single env"):
            gym.make("EnvPool/CartPole-v1", **{name: value})


def test_view__refuses_unknown_options_and_closes_the_batch() -> None:
    env = make("EnvPool/CartPole-v1")
    with pytest.raises(ArgumentError, match="unknown key 'low'"):
        env.reset(options={"low": -0.1})
    env.reset(seed=0)
    view = env.unwrapped
    env.close()
    with pytest.raises(ClosedError):
        view.step(0)


SYNCED = {
    "EnvPool/CartPole-v1": 11,
    "EnvPool/FrozenLake-v1": 6,
    "EnvPool/LunarLander-v3": 15,
    "EnvPool/MiniGrid-Empty-5x5-v0": 100,
    "Brax/fast-v0": 7,
}


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("env_id", SYNCED)
def test_sync_vector_env__over_views_is_the_batch(env_id: str, mode: AutoresetMode) -> None:
    """The figures are equal; rewards are float64 there, and a tie sets both flags."""
    limit = {} if "MiniGrid" in env_id else {"max_episode_steps": SYNCED[env_id]}
    make(env_id).close()
    kwargs = {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": mode}}
    sync = gym.make_vec(env_id, num_envs=3, **kwargs, **limit)
    envs = gym.make_vec(env_id, num_envs=3, autoreset_mode=mode, **limit)
    assert_same(_plain(sync.reset(seed=2)), _plain(envs.reset(seed=2)))
    envs.action_space.seed(1)
    ended = 0
    for _ in range(120 if "MiniGrid" in env_id else 50):
        actions = envs.action_space.sample()
        expected, actual = sync.step(actions), envs.step(actions)
        assert_same(_plain(actual), _plain(expected))
        over = actual[2] | actual[3]
        ended += over.sum()
        if mode == AutoresetMode.DISABLED and over.any():
            options = [{"reset_mask": over.copy()} for _ in range(2)]
            assert_same(
                _plain(envs.reset(options=options[0])), _plain(sync.reset(options=options[1]))
            )
    assert ended >= 3


def _plain(shown: tuple[Any, ...]) -> Any:
    """Return an outcome with float32 rewards, terminated only on a tie, and ints for numpy's."""
    if len(shown) == 2:
        return shown
    obs, rewards, terminated, truncated, infos = shown
    final = {
        key: list(map(_with_ints, value)) for key, value in infos.items() if key == "final_obs"
    }
    return obs, rewards.astype(np.float32), terminated, truncated & ~terminated, infos | final


def _with_ints(obs: Any) -> Any:
    if isinstance(obs, dict):
        return {key: _with_ints(value) for key, value in obs.items()}
    return int(obs) if isinstance(obs, np.integer) else obs


@pytest.mark.parametrize("name", ["grad", "bfloat16"])
def test_tensor_that_numpy_cannot_read__is_refused_with_the_way_out(name: str) -> None:
    pytest.importorskip("envpool")
    torch = pytest.importorskip("torch")
    env = gym.make("EnvPool/Pendulum-v1")
    env.reset(seed=0)
    action = torch.zeros(1)
    bad = action.clone().requires_grad_() if name == "grad" else action.bfloat16()
    with pytest.raises(ArgumentTypeError, match=r"Pass actions\.(detach|float)\(\)"):
        env.step(bad)
    env.step(action)
