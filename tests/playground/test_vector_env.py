"""Episodes, limits, observations and infos of a small environment, and which environments pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco_playground")

from gymnasium import spaces
from mujoco_playground import State, wrapper

from gymbridge import PlaygroundVectorEnv
from tests.support.oracle import Oracle, Row, check_run
from tests.support.playground_samples import OwnPlayground, SampleMjxEnv, make_config

SEEDS = [0, 7, 7, 2**32 - 1]
REPEAT, LENGTH = 2, 5
LIMIT = 3
"""ceil(LENGTH / REPEAT)."""
ENV = SampleMjxEnv(make_config(action_repeat=REPEAT, episode_length=LENGTH))


def test_episodes__are_those_of_a_plain_loop(mode: str) -> None:
    envs = PlaygroundVectorEnv(ENV, len(SEEDS), autoreset_mode=mode)
    infos = ("steps", "length", "last")
    own = [OwnPlayground(ENV, seed, infos, action_repeat=REPEAT) for seed in SEEDS]
    oracle = Oracle(envs, [Row(one, LIMIT) for one in own])
    check_run(oracle, 100, seed=SEEDS)
    assert min(oracle.ends.values()) > 3, oracle.ends


@pytest.mark.parametrize(
    ("entries", "given", "limit"),
    [
        ({"action_repeat": REPEAT, "episode_length": LENGTH}, {}, LIMIT),
        ({"action_repeat": REPEAT, "episode_length": LENGTH}, {"action_repeat": 1}, LENGTH),
        ({"episode_length": LENGTH}, {}, LENGTH),
        ({"action_repeat": REPEAT}, {}, None),
        ({}, {"action_repeat": 3}, None),
    ],
)
def test_limit__is_the_config_s_in_steps_of_the_batch_unless_given(
    entries: dict[str, int], given: dict[str, int], limit: int | None
) -> None:
    env = SampleMjxEnv(make_config(**entries))
    assert PlaygroundVectorEnv(env, **given).max_episode_steps == limit


def test_action_repeat__is_the_config_s_unless_given() -> None:
    """Episodes above have the configuration's; here another one is given."""
    env = SampleMjxEnv(make_config(action_repeat=REPEAT))
    envs = PlaygroundVectorEnv(env, 4, action_repeat=3, autoreset_mode="Disabled")
    envs.reset(seed=1)
    infos = envs.step(np.zeros((4, 1), np.float32))[-1]
    assert infos["steps"].tolist() == np.minimum(3, infos["length"]).tolist()
    assert infos["length"].max() > 3


class Bare(SampleMjxEnv):
    """An environment that never calls `MjxEnv.__init__`."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def test_custom_env__without_a_configuration_of_the_usual_kind_has_no_limit_and_runs() -> None:
    for attributes in ({"_config": None}, {"_config": object()}):
        assert PlaygroundVectorEnv(Bare(**attributes)).max_episode_steps is None
    assert not hasattr(Bare(), "_config")
    envs = PlaygroundVectorEnv(Bare(), 3)
    assert envs.max_episode_steps is None
    assert envs.single_action_space == spaces.Box(-1, 1, (1,), np.float32)
    envs.reset(seed=0)
    infos = envs.step(np.ones((3, 1), np.float32))[-1]
    assert infos["steps"].tolist() == [1] * 3


class Doubled(wrapper.Wrapper):
    """A wrapper of a user, which neither batches nor restarts."""

    def step(self, state: State, action: Any) -> State:
        stepped = self.env.step(state, action)
        return stepped.replace(reward=2 * stepped.reward)


def test_wrapper__of_a_user_s_own_is_taken_with_the_config_inside() -> None:
    env = SampleMjxEnv(make_config(action_repeat=1, episode_length=LENGTH))
    envs = PlaygroundVectorEnv(Doubled(env), 2)
    assert envs.max_episode_steps == LENGTH
    envs.reset(seed=0)
    _, rewards, *_, infos = envs.step(np.ones((2, 1), np.float32))
    np.testing.assert_array_equal(rewards, 2 * infos["reward/push"], strict=True)
