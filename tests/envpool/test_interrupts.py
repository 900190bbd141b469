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

from envpool_runs import act_all, make
from trees import assert_same

from gymbridge.errors import ResetNeededError

MODES = ("NextStep", "SameStep", "Disabled")

CALLS = {
    "send": ("_simulator", "pool", "send"),
    "receive": ("_simulator", "pool", "receive"),
    "rows": ("_simulator", "pool", "reset"),
    "step": ("_runner", "step"),
    "show": ("_infos", "lay_out_step"),
    "laid out": ("_infos", "lay_out_reset"),
}
"""What is interrupted, just as it has returned."""


def interrupt(envs: Any, where: str, call: Callable[[], Any]) -> None:
    """Make a call whose part `where` does its work, and then Ctrl-C is pressed."""

    def cut_short(*args: Any) -> Any:
        work(*args)
        raise KeyboardInterrupt

    *path, name = CALLS[where]
    owner = reduce(getattr, path, envs)
    work = getattr(owner, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, cut_short)
        with pytest.raises(KeyboardInterrupt):
            call()


def run(envs: Any, first: int, num_steps: int) -> list[Any]:
    """Return steps with limits short enough that episodes end; ended rows are reset if DISABLED."""
    log = []
    for step in range(first, first + num_steps):
        log.append(envs.step(act_all(envs, 2, step)))
        over = log[-1][2] | log[-1][3]
        if envs.autoreset_mode.value == "Disabled" and over.any():
            log.append(envs.reset(options={"reset_mask": over}))
    return log


CASES = [
    (task_id, mode, where)
    for task_id in ("CartPole-v1", "LunarLander-v3")
    for mode in MODES
    for where in ("send", "receive", "step", "show")
]


@pytest.mark.parametrize("begun", [3, 8], ids=["midway", "at an end"])
@pytest.mark.parametrize(("task_id", "mode", "where"), CASES)
def test_interrupted_step__asks_for_a_reset_and_leaves_nothing_behind(
    task_id: str, mode: str, where: str, begun: int
) -> None:
    envs = make(task_id, 4, mode, max_episode_steps=9)
    envs.reset(seed=1)
    run(envs, 0, begun)
    actions = act_all(envs, 0, 0)
    interrupt(envs, where, lambda: envs.step(actions))
    for call in (
        lambda: envs.step(actions),
        lambda: envs.reset(options={"reset_mask": np.arange(4) < 2}),
    ):
        with pytest.raises(ResetNeededError, match=r"interrupted.*Call `reset\(\)`"):
            call()
    log = [envs.reset(), *run(envs, 0, 4)]
    assert [shown[-1]["elapsed_step"].tolist() for shown in log] == [[n] * 4 for n in range(5)]
    assert_same(again(envs, 5), again(make(task_id, 4, mode, max_episode_steps=9), 5))


def again(envs: Any, seed: int) -> list[Any]:
    """Return a run from a new seed, which builds a new pool."""
    return [envs.reset(seed=seed), *run(envs, 0, 30)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", [None, 4], ids=["drawing on", "seeded"])
def test_interrupted_reset__asks_for_another(mode: str, seed: int | None) -> None:
    envs = make("CartPole-v1", 4, mode, max_episode_steps=9)
    envs.reset(seed=1)
    run(envs, 0, 5)
    interrupt(envs, "receive" if seed is None else "rows", lambda: envs.reset(seed=seed))
    with pytest.raises(ResetNeededError, match=r"[Cc]all `reset\(\)`"):
        envs.step(np.zeros(4, int))
    assert envs.reset()[1]["elapsed_step"].tolist() == [0] * 4
    run(envs, 0, 40)


@pytest.mark.parametrize("where", ["rows", "receive", "show"])
def test_interrupted_seed__leaves_the_seeds_that_are_shown(where: str) -> None:
    envs = make("CartPole-v1", 4)
    envs.reset(seed=1)
    interrupt(envs, where if where != "show" else "laid out", lambda: envs.reset(seed=1000))
    begun = [envs.reset()[0], envs.reset()[0]]
    other = make("CartPole-v1", 4)
    wanted = [other.reset(seed=list(envs.np_random_seed))[0], other.reset()[0]]
    assert_same(begun, wanted)
