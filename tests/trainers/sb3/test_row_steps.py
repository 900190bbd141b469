"""A batch of ours gives, environment by environment, what any batch gives of the same episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import VectorWrapper

from gymbridge import EnvPoolVectorEnv
from gymbridge.trainers.sb3.row_steps import step_rows
from tests.support.references import BareBatch
from tests.support.trees import assert_same


def play(envs: Any, num_steps: int = 90, wrap: Any = lambda envs: envs) -> list[Any]:
    batch = wrap(envs)
    envs.reset(seed=11)
    envs.action_space.seed(3)
    return [step_rows(batch, envs.action_space.sample()) for _ in range(num_steps)]


@pytest.mark.parametrize(
    ("task_id", "limit"),
    [
        ("CartPole-v1", None),
        ("FrozenLake-v1", None),  # integers as observations
        ("CartpoleBalance-v1", 4),  # a dict of them
        ("UTurn-v0", 6),
        ("MiniGrid-Empty-5x5-v0", 5),
    ],
)
def test_own_step__gives_what_a_wrapper_gives_that_does_nothing(
    task_id: str, limit: int | None
) -> None:
    """The tests of SB3's view have the same for drawn scripts."""
    envs = EnvPoolVectorEnv(task_id, 3, max_episode_steps=limit, autoreset_mode="SameStep")
    own, any_ = play(envs), play(envs, wrap=VectorWrapper)
    assert_same(own, any_)
    assert sum(len(ended) for *_, ended in own) > 5


ARRAY = np.full((2, 2), 7, np.float32)


@pytest.mark.parametrize("final_obs", [ARRAY, {"a": ARRAY}])
def test_batch_without_final_infos__has_its_final_observations(final_obs: Any) -> None:
    rows = step_rows(BareBatch(final_obs), np.array([0, 0]))
    final = {"a": ARRAY[1]} if isinstance(final_obs, dict) else ARRAY[1]
    assert_same(rows[-1], [(1, final, {})])


def double(step: Any) -> Any:
    """Return the step with rewards that count twice."""

    def doubled(*args: Any) -> Any:
        obs, rewards, *rest = step(*args)
        return obs, 2 * rewards, *rest

    return doubled


class Doubled(EnvPoolVectorEnv):
    """A batch with a step of its own."""

    step = double(EnvPoolVectorEnv.step)


@pytest.mark.parametrize("where", ["subclass", "instance"])
def test_step__of_the_user_s_own_counts(where: str) -> None:
    """Whoever changes `step` means what the trainer sees."""
    make = Doubled if where == "subclass" else EnvPoolVectorEnv
    envs: Any = make("CartPole-v1", 3, autoreset_mode="SameStep")
    if where == "instance":
        envs.step = double(envs.step)
    assert [rewards.tolist() for _, rewards, *_ in play(envs, 5)] == [[2.0] * 3] * 5
