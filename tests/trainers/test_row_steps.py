"""A batch of ours tells row by row what any other would tell of the same episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import VectorWrapper
from hypothesis import given
from strategies import Script, limits, scripts
from trees import assert_same

from gymbridge import EnvPoolVectorEnv
from gymbridge.errors import EnvContractError
from gymbridge.testing import scripted_vector_env
from gymbridge.trainers.row_steps import step_rows


def tell(envs: Any, num_steps: int, *, is_wrapped: bool) -> list[Any]:
    """Return the steps of a run, by our own way or, in a wrapper that does nothing, by any's."""
    batch = VectorWrapper(envs) if is_wrapped else envs
    envs.reset(seed=11)
    envs.action_space.seed(3)
    return [step_rows("envs", batch, envs.action_space.sample()) for _ in range(num_steps)]


def count_ends(log: list[Any]) -> int:
    return sum(len(ended[0]) for *_, ended in log if ended is not None)


@given(script=scripts(), limit=limits())
def test_own_step__tells_what_any_step_tells(script: Script, limit: int | None) -> None:
    lengths, truncates = script
    own, any_ = (
        tell(
            scripted_vector_env(
                lengths, truncates, max_episode_steps=limit, autoreset_mode="SameStep"
            ),
            12,
            is_wrapped=is_wrapped,
        )
        for is_wrapped in (False, True)
    )
    assert_same(own, any_)


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
def test_own_step__tells_what_any_step_tells_of_tasks(task_id: str, limit: int | None) -> None:
    own, any_ = (
        tell(
            EnvPoolVectorEnv(task_id, 3, max_episode_steps=limit, autoreset_mode="SameStep"),
            90,
            is_wrapped=is_wrapped,
        )
        for is_wrapped in (False, True)
    )
    assert_same(own, any_)
    assert count_ends(own) > 5


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
def test_step__that_somebody_put_in_its_place_counts(where: str) -> None:
    """Whoever changes `step` means what the trainer sees."""
    if where == "subclass":
        envs: Any = Doubled("CartPole-v1", 3, autoreset_mode="SameStep")
    else:
        envs = EnvPoolVectorEnv("CartPole-v1", 3, autoreset_mode="SameStep")
        envs.step = double(envs.step)
    log = tell(envs, 5, is_wrapped=False)
    assert [rewards.tolist() for _, rewards, *_ in log] == [[2.0] * 3] * 5


def test_any_step__names_a_batch_that_hides_how_episodes_ended() -> None:
    class Silent(VectorWrapper):
        def step(self, actions: Any) -> Any:
            *rest, _ = super().step(actions)
            return *rest, {}

    envs = Silent(scripted_vector_env([1, 2], autoreset_mode="SameStep"))
    envs.reset(seed=0)
    with pytest.raises(EnvContractError, match=r"`vector_env` ended .* \[0\] without"):
        step_rows("vector_env", envs, np.zeros(2, int))
