"""A batch behind old gym's interface is what CleanRL's scripts for EnvPool were written for."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from old_gymnasium import make_scripted_envs, sync
from strategies import Script

from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.testing import scripted_vector_env
from gymbridge.trainers.cleanrl_envpool import OldGymVectorEnv, make_cleanrl_envpool

LENGTHS, TRUNCATES = [[2, 3], [3, 1], [1, 4]], [[False, True], [True, False], [True, True]]


class Totals:
    """Sums as the scripts' own wrapper keeps them: begun anew where `terminated` says so."""

    def __init__(self, envs: OldGymVectorEnv) -> None:
        self.envs, self.sums = envs, np.zeros(envs.num_envs, np.float32)
        self.lengths = np.zeros(envs.num_envs, np.int32)

    def step(self, actions: Any) -> Any:
        obs, rewards, dones, infos = self.envs.step(actions)
        self.sums += infos["reward"]
        self.lengths += 1
        infos["r"], infos["l"] = self.sums.copy(), self.lengths.copy()
        self.sums *= 1 - infos["terminated"]
        self.lengths *= 1 - infos["terminated"]
        return obs, rewards, dones, infos


def scripted() -> OldGymVectorEnv:
    return OldGymVectorEnv(scripted_vector_env(LENGTHS, TRUNCATES), seed=3)


def test_step__has_four_parts_in_next_step_order() -> None:
    view, plain = scripted(), scripted_vector_env(LENGTHS, TRUNCATES)
    np.testing.assert_array_equal(view.reset(), plain.reset(seed=3)[0])
    kinds = set()
    for number in range(30):
        actions = np.array([number % 3, 1, 2])
        obs, rewards, dones, infos = view.step(actions)
        obs2, rewards2, terminations, truncations, infos2 = plain.step(actions)
        np.testing.assert_array_equal(obs, obs2)
        np.testing.assert_array_equal(rewards, rewards2)
        np.testing.assert_array_equal(dones, terminations | truncations)
        np.testing.assert_array_equal(infos["TimeLimit.truncated"], truncations)
        np.testing.assert_array_equal(infos["terminated"], dones)
        np.testing.assert_array_equal(infos["reward"], rewards)
        np.testing.assert_array_equal(infos["draw"], infos2["draw"])
        assert infos["lives"].tolist() == [0, 0, 0]
        assert infos["terminated"].dtype == infos["lives"].dtype == np.int32
        assert not any(key.startswith("_") for key in infos)
        kinds |= {*zip(terminations, truncations, strict=True)}
    assert len(kinds) == 3


def test_loop_of_the_script__logs_every_game_and_leaks_into_none() -> None:
    totals = Totals(scripted())
    totals.envs.reset()
    found: list[list[tuple[float, int]]] = [[], [], []]
    for _ in range(25):
        _, _, dones, infos = totals.step(np.array([1, 1, 1]))
        for index, done in enumerate(dones):
            if done and infos["lives"][index] == 0:
                found[index].append((infos["r"][index], infos["l"][index]))
    for row, log in enumerate(found):
        first = LENGTHS[row][0]
        assert log[0] == (first + first * (first + 1) / 8, first)
        for number, (total, length) in enumerate(log[1:], start=1):
            steps = LENGTHS[row][number % 2]
            # The step that begins an episode counts as one and adds no reward, as in EnvPool.
            assert (total, length) == (steps + steps * (steps + 1) / 8, steps + 1)
        assert len(log) > 5


def test_first_reset__takes_the_seed_and_later_ones_draw_on() -> None:
    view, plain = scripted(), scripted_vector_env(LENGTHS, TRUNCATES)
    view.reset()
    plain.reset(seed=3)
    assert view.envs.np_random_seed == (3, 4, 5)
    view.reset()
    plain.reset()
    actions = np.array([0, 1, 2])
    np.testing.assert_array_equal(view.step(actions)[3]["draw"], plain.step(actions)[4]["draw"])


def test_attributes__may_be_assigned_as_the_script_does() -> None:
    view = scripted()
    assert view.is_vector_env
    assert view.single_observation_space == view.observation_space == spaces.Box(0, np.inf, ())
    view.num_envs = 3
    view.single_action_space = view.action_space
    view.single_observation_space = view.observation_space
    view.is_vector_env = True
    assert view.single_action_space.n == 3
    view.close()
    assert view.envs.closed


class OldDiscrete:
    def __init__(self, n: int) -> None:
        self.n = n


class OldBox:
    def __init__(self, low: Any, high: Any, shape: Any, dtype: Any) -> None:
        self.low, self.high, self.shape, self.dtype = low, high, shape, dtype


def test_spaces__are_old_gyms_where_the_script_imports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    old = SimpleNamespace(spaces=SimpleNamespace(Discrete=OldDiscrete, Box=OldBox))
    monkeypatch.setitem(sys.modules, "gym", old)
    view = scripted()
    assert isinstance(view.action_space, OldDiscrete)
    assert view.action_space.n == 3
    assert isinstance(view.observation_space, OldBox)
    assert (view.observation_space.shape, view.observation_space.dtype) == ((), np.float32)
    monkeypatch.delitem(sys.modules, "gym")
    assert isinstance(scripted().action_space, spaces.Discrete)


@pytest.mark.parametrize("mode", ["SameStep", "Disabled"])
def test_other_modes__are_refused_by_name(mode: str) -> None:
    script = Script(np.array([[2]]), np.array([[False]]))
    ours = scripted_vector_env([2], autoreset_mode=mode)
    for envs in (ours, sync(make_scripted_envs(script), mode)):
        wrong = r"got AutoresetMode\.\w+; build it with `autoreset_mode='NextStep'`"
        with pytest.raises(ArgumentError, match=wrong):
            OldGymVectorEnv(envs)
    with pytest.raises(ArgumentTypeError, match="make_cleanrl_envpool"):
        OldGymVectorEnv("Breakout-v5")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"env_type": "gymnasium"}, ArgumentError, r"`env_type` must be 'gym'.*make_vec"),
        ({"seed": -1}, ArgumentError, "`seed`"),
        ({"seed": "one"}, ArgumentTypeError, "`seed`"),
        ({"task_id": "Nothing-v5"}, gym.error.NameNotFound, "Nothing"),
    ],
)
def test_make__refuses_bad_arguments(arguments: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make_cleanrl_envpool(**{"task_id": "Breakout-v5", "num_envs": 2, **arguments})


@pytest.mark.filterwarnings("ignore:.*precision lowered")
@pytest.mark.parametrize("task_id", ["SpaceInvaders-v5", "EnvPool/SpaceInvaders-v5"])
def test_atari__is_what_the_pool_itself_shows(task_id: str) -> None:
    """Lost lives end episodes, rewards are clipped, and infos tell the game's own score."""
    envpool = pytest.importorskip("envpool")
    options: dict[str, Any] = {"episodic_life": True, "reward_clip": True, "frame_skip": 8}
    view = make_cleanrl_envpool(task_id, env_type="gym", num_envs=2, seed=5, **options)
    pool = envpool.make_gymnasium("SpaceInvaders-v5", num_envs=2, seed=5, **options)
    np.testing.assert_array_equal(view.reset(), pool.reset()[0])
    rng, lost, over, clipped = np.random.default_rng(0), 0, 0, 0
    for _ in range(500):
        actions = rng.integers(0, 6, 2)
        obs, rewards, dones, infos = view.step(actions)
        obs2, rewards2, terminations, truncations, infos2 = pool.step(actions)
        np.testing.assert_array_equal(obs, obs2)
        np.testing.assert_array_equal(rewards, rewards2)
        np.testing.assert_array_equal(dones, terminations | truncations)
        for key in ("reward", "lives", "terminated", "elapsed_step"):
            np.testing.assert_array_equal(infos[key], infos2[key], err_msg=key)
        lost += int((dones & (infos["lives"] > 0)).sum())
        over += int((dones & (infos["lives"] == 0)).sum())
        clipped += int((infos["reward"] > rewards).sum())
        assert not infos["TimeLimit.truncated"].any()
    assert lost > 3
    assert over > 1
    assert clipped > 3
    view.close()


def test_make__takes_ids_with_their_module() -> None:
    pytest.importorskip("envpool")
    assert make_cleanrl_envpool("gymbridge:EnvPool/CartPole-v1", num_envs=2).num_envs == 2


@pytest.mark.parametrize("seed", [2**31, 2**40])
def test_make__takes_seeds_of_any_size(seed: int) -> None:
    pytest.importorskip("envpool")
    view = make_cleanrl_envpool("CartPole-v1", num_envs=2, seed=seed)
    view.reset()
    assert view.envs.np_random_seed == (seed, seed + 1)
