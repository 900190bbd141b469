"""What Ctrl-C cuts short leaves no answers of one step to be read as those of the next.

Signals reach Python between two of its instructions, such as those that send to a pool and receive
from it.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")

from gymbridge.errors import ResetNeededError
from tests.support.envpool_runs import act_all, make
from tests.support.player import play
from tests.support.trees import assert_same

PARTS = {
    "send": ("_simulator", "pool", "send"),
    "receive": ("_simulator", "pool", "receive"),
    "step": ("_runner", "step"),
    "laid out": ("_infos", "to_gymnasium"),
}
"""What is interrupted, just as it has returned. tests/faults has every place of every call."""


@pytest.mark.parametrize("begun", [3, 8], ids=["midway", "at an end"])
@pytest.mark.parametrize("where", PARTS)
def test_interrupted_step__asks_for_a_reset_and_leaves_nothing_behind(
    mode: str, where: str, begun: int
) -> None:
    options = {"max_episode_steps": 9, "render_mode": "rgb_array"}
    envs, twin = (make("LunarLander-v3", 4, mode, **options) for _ in range(2))
    play(envs, begun, seed=1)
    actions = act_all(envs, 0, 0)
    *path, name = PARTS[where]
    owner: Any = reduce(getattr, path, envs)
    work = getattr(owner, name)

    def cut_short(*args: Any) -> Any:
        work(*args)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, cut_short)
        with pytest.raises(KeyboardInterrupt):
            envs.step(actions)
    for call in (
        lambda: envs.step(actions),
        lambda: envs.reset(options={"reset_mask": np.arange(4) < 2}),
        envs.render,
    ):
        with pytest.raises(ResetNeededError, match=r"interrupted.*Call `reset\(\)`"):
            call()
    elapsed = [returned[-1]["elapsed_step"].tolist() for returned in play(envs, 4, seed=None)]
    assert elapsed == [[count] * 4 for count in range(5)]
    assert len(envs.render()) == 4
    assert_same(play(envs, 30, seed=5), play(twin, 30, seed=5))
