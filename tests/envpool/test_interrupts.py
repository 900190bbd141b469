"""What Ctrl-C cuts short leaves no answers of one step to be read as those of the next.

Signals reach Python between two of its instructions, such as those that send to a pool and receive
from it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")

from envpool_runs import act_all, make, play
from trees import assert_same

from gymbridge.errors import ResetNeededError

CALLS = {
    "send": ("_simulator", "pool", "send"),
    "receive": ("_simulator", "pool", "receive"),
    "rows": ("_simulator", "pool", "reset"),
    "step": ("_runner", "step"),
    "laid out": ("_infos", "lay_out"),
}
"""What is interrupted, just as it has returned."""


def interrupt(
    envs: Any, where: str, call: Callable[[], Any], error: type[BaseException] = KeyboardInterrupt
) -> None:
    """Make a call whose part `where` does its work, and then a signal's handler raises."""

    def cut_short(*args: Any) -> Any:
        work(*args)
        raise error

    *path, name = CALLS[where]
    owner = reduce(getattr, path, envs)
    work = getattr(owner, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, cut_short)
        with pytest.raises(error):
            call()


@pytest.mark.parametrize("begun", [3, 8], ids=["midway", "at an end"])
@pytest.mark.parametrize("where", ["send", "receive", "step", "laid out"])
@pytest.mark.parametrize("task_id", ["CartPole-v1", "LunarLander-v3"])
def test_interrupted_step__asks_for_a_reset_and_leaves_nothing_behind(
    task_id: str, mode: str, where: str, begun: int
) -> None:
    envs = make(task_id, 4, mode, max_episode_steps=9)
    play(envs, begun, seed=1)
    actions = act_all(envs, 0, 0)
    interrupt(envs, where, lambda: envs.step(actions))
    for call in (
        lambda: envs.step(actions),
        lambda: envs.reset(options={"reset_mask": np.arange(4) < 2}),
    ):
        with pytest.raises(ResetNeededError, match=r"interrupted.*Call `reset\(\)`"):
            call()
    elapsed = [returned[-1]["elapsed_step"].tolist() for returned in play(envs, 4, seed=None)]
    assert elapsed == [[count] * 4 for count in range(5)]
    twin = make(task_id, 4, mode, max_episode_steps=9)
    assert_same(play(envs, 30, seed=5), play(twin, 30, seed=5))


@pytest.mark.parametrize(("seed", "where"), [(None, "receive"), (4, "rows")])
def test_interrupted_reset__asks_for_another(mode: str, seed: int | None, where: str) -> None:
    envs = make("CartPole-v1", 4, mode, max_episode_steps=9)
    play(envs, 5)
    interrupt(envs, where, lambda: envs.reset(seed=seed))
    with pytest.raises(ResetNeededError, match=r"[Cc]all `reset\(\)`"):
        envs.step(np.zeros(4, int))
    assert envs.reset()[1]["elapsed_step"].tolist() == [0] * 4
    play(envs, 40, seed="go on")


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError, SystemExit])
@pytest.mark.parametrize("where", ["rows", "receive", "laid out"])
def test_interrupted_seed__leaves_the_seeds_that_the_batch_reports(
    where: str, error: type[BaseException]
) -> None:
    """Handlers of other signals than Ctrl-C's raise what they like."""
    envs, twin = make("CartPole-v1", 4), make("CartPole-v1", 4)
    envs.reset(seed=1)
    interrupt(envs, where, lambda: envs.reset(seed=1000), error)
    begun = [envs.reset()[0], envs.reset()[0]]
    assert_same(begun, [twin.reset(seed=list(envs.np_random_seed))[0], twin.reset()[0]])
