"""Which calls wait for torch, as a batch on a GPU does before it writes into memory."""

from __future__ import annotations

import numpy as np
import torch

from tests.support.point_mass import make_batch


def test_calls_without_actions__wait_for_what_torch_still_reads() -> None:
    """On a CPU, where there is nothing to wait for; a step waits through its actions."""
    envs, waits = make_batch(autoreset_mode="Disabled"), []
    envs._wait_for_reads = lambda: waits.append(None)
    actions, some = torch.zeros(4, 2), np.arange(4) < 2
    envs.reset(seed=0)
    state = envs.get_state()
    calls = {
        "reset": lambda: envs.reset(options={"reset_mask": some}),
        "step": lambda: envs.step(actions),
        "step_some": lambda: envs.step_some(actions, some),
        "get_state": envs.get_state,
        "set_state": lambda: envs.set_state(state),
        "detach": envs.detach,
    }
    found = set()
    for name, call in calls.items():
        waits.clear()
        call()
        if waits:
            found.add(name)
    assert found == set(calls) - {"step"}
