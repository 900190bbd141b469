"""`gymnasium.make`: a batch of one, seen as one environment under Gymnasium's `TimeLimit`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import TimeLimit

from gymbridge.errors import ArgumentError, ArgumentTypeError, EpisodeEndedError
from gymbridge.single_env import SingleEnv, make_envpool
from tests.support.system_libraries import OPENGL, has_libraries

IDS = (
    "Brax/fast-v0",
    "EnvPool/Acrobot-v1",
    "EnvPool/CartPole-v1",
    "EnvPool/FetchReach-v4",
    "EnvPool/FrozenLake-v1",
    "EnvPool/MiniGrid-Empty-5x5-v0",
    "EnvPool/Play2048-v1",
)

# Gymnasium's own tests take these two as the nature of a task, too.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*A Box observation space minimum value is -infinity"),
    pytest.mark.filterwarnings("ignore:.*A Box observation space maximum value is infinity"),
]


def steps(env: gym.Env, action: Any, most: int = 400) -> Iterator[tuple[int, Any]]:
    """Yield number and outcome of each step until the episode ends."""
    for number in range(1, most + 1):
        outcome = env.step(action)
        yield number, outcome
        if outcome[2] or outcome[3]:
            return


@pytest.mark.parametrize("env_id", IDS)
def test_view__passes_gymnasiums_checks_and_has_python_values(env_id: str) -> None:
    env = gym.make(env_id)
    needs_opengl = env_id == "EnvPool/FetchReach-v4"
    is_undrawable = needs_opengl and not has_libraries(OPENGL[:1])
    check_env(env.unwrapped, skip_render_check=is_undrawable)
    assert isinstance(env.unwrapped, SingleEnv)
    obs, info = env.reset(seed=9)
    assert obs in env.observation_space
    obs, *results, after = env.step(env.action_space.sample())
    assert obs in env.observation_space
    assert [type(value) for value in results] == [float, bool, bool]
    assert after.keys() == info.keys()


def test_time_limit__is_the_only_one() -> None:
    action = np.zeros(1, np.float32)
    for given, expected in ((None, 200), (7, 7), (209, 209)):
        env = gym.make("EnvPool/Pendulum-v1", max_episode_steps=given)
        assert isinstance(env, TimeLimit)
        assert env.spec.max_episode_steps == expected
        env.reset(seed=0)
        *_, (number, outcome) = steps(env, action)
        assert (number, *outcome[2:4]) == (expected, False, True)
    env = gym.make("EnvPool/Pendulum-v1", max_episode_steps=-1)
    env.reset(seed=0)
    assert [*steps(env, action)][-1][0] == 400


def test_time_limit__sets_both_flags_on_a_tie_after_which_a_step_is_refused() -> None:
    env = gym.make("EnvPool/CartPole-v1")
    env.reset(seed=0)
    *_, (natural, outcome) = steps(env, 1)
    assert outcome[2:4] == (True, False)
    tied = gym.make("EnvPool/CartPole-v1", max_episode_steps=natural)
    tied.reset(seed=0)
    *_, (number, outcome) = steps(tied, 1)
    assert (number, *outcome[2:4]) == (natural, True, True)
    with pytest.raises(EpisodeEndedError, match=r"Environments \[0\] have ended"):
        tied.step(1)
    assert tied.reset()[0] in tied.observation_space


@pytest.mark.parametrize("given", [None, 5, 300, -1])
def test_task__whose_reward_depends_on_its_limit_keeps_its_own(given: int | None) -> None:
    env = gym.make("EnvPool/MiniGrid-Empty-5x5-v0", max_episode_steps=given)
    env.reset(seed=0)
    for action in (2, 2, 1, 2, 2):
        _, reward, terminated, truncated, _ = env.step(action)
    assert reward == pytest.approx(1 - 0.9 * 5 / 100, abs=1e-6)
    assert (terminated, truncated) == (True, given == 5)
    env.reset()
    *_, (number, outcome) = steps(env, 0)
    assert (number, *outcome[2:4]) == (5 if given == 5 else 100, False, True)


def test_seed__may_be_any_int_and_nothing_else() -> None:
    env, twin = gym.make("EnvPool/CartPole-v1"), gym.make("EnvPool/CartPole-v1")
    twin.reset(seed=3)
    for seed in (2**40, np.uint8(3)):
        env.reset(seed=seed)
        found = env.unwrapped.np_random_seed
        assert (found, type(found)) == (seed, int)
    for seed in (-1, 1.5, "3", [3], True):
        with pytest.raises((ArgumentError, ArgumentTypeError), match="`seed` must be"):
            env.unwrapped.reset(seed=seed)  # type: ignore[arg-type]
    np.testing.assert_array_equal(env.step(1)[0], twin.step(1)[0])
    np.testing.assert_array_equal(env.reset()[0], twin.reset()[0])


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [("EnvPool/CartPole-v1", {"num_threads": np.int64(1)}), ("Brax/fast-v0", {"action_repeat": 2})],
)
def test_spec__in_json_rebuilds_the_environment(env_id: str, kwargs: dict[str, Any]) -> None:
    if "Brax" in env_id:
        device, name = jax.devices()[0], "cpu:0"
    else:
        device, name = pytest.importorskip("torch").device("cpu"), "cpu"
    env = gym.make(env_id, device=device, **kwargs)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.spec == env.spec
    assert again.spec.kwargs["device"] == name
    np.testing.assert_array_equal(again.reset(seed=3)[0], env.reset(seed=3)[0])


@pytest.mark.parametrize(
    ("name", "value"), [("autoreset_mode", "SameStep"), ("num_envs", 4), ("max_episode_steps", 9)]
)
def test_arguments__of_a_batch_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"`{name}` cannot be given for a single environment"):
        make_envpool(task_id="CartPole-v1", **{name: value})
