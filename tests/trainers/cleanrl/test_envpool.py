"""A batch behind old gym's interface is what CleanRL's scripts for EnvPool were written for."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.testing import scripted_vector_env
from gymbridge.trainers.cleanrl.envpool import OldGymVectorEnv, make_cleanrl_envpool

LENGTHS, TRUNCATES = [[2, 3], [3, 1], [1, 4]], [[False, True], [True, False], [True, True]]


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
    assert (view.reward_range, view.render_mode) == ((-np.inf, np.inf), None)  # old gym's wrappers
    view.close()
    assert view.envs.closed


def test_spaces__are_old_gyms_where_the_script_imports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    makers = {name: lambda *args, name=name: (name, *args) for name in ("Discrete", "Box")}
    monkeypatch.setitem(sys.modules, "gym", SimpleNamespace(spaces=SimpleNamespace(**makers)))
    assert scripted().action_space == ("Discrete", 3)
    assert scripted().observation_space == ("Box", 0, np.inf, (), np.float32)
    monkeypatch.delitem(sys.modules, "gym")
    assert isinstance(scripted().action_space, spaces.Discrete)


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
def test_atari__is_what_the_pool_itself_gives() -> None:
    """Lost lives end episodes, rewards are clipped, and infos hold the game's own score."""
    envpool = pytest.importorskip("envpool")
    options: dict[str, Any] = {"episodic_life": True, "reward_clip": True, "frame_skip": 8}
    view = make_cleanrl_envpool("SpaceInvaders-v5", "gym", num_envs=2, seed=5, **options)
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


@pytest.mark.parametrize("task_id", ["EnvPool/CartPole-v1", "gymbridge:EnvPool/CartPole-v1"])
def test_make__takes_ids_and_seeds_of_any_size(task_id: str) -> None:
    pytest.importorskip("envpool")
    view = make_cleanrl_envpool(task_id, num_envs=2, seed=2**40)
    view.reset()
    assert view.envs.np_random_seed == (2**40, 2**40 + 1)
