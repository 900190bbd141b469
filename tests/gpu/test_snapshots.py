"""Snapshots go from the CPU to the GPU and back, in memory and on disk, and the run goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.batches import to_numpy
from tests.support.gpu_work import make
from tests.support.player import play
from tests.support.trees import assert_same

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("to_gpu", [True, False], ids=["to the GPU", "to the CPU"])
@pytest.mark.parametrize(
    ("engine", "arrays"),
    [("plain", "numpy"), ("plain", "torch"), ("gradients", "torch"), ("func_env", "jax")],
)
def test_snapshot__goes_on_on_the_other_device(
    engine: str, arrays: str, mode: str, to_gpu: bool, device: str, tmp_path: Path
) -> None:
    places = ("cpu", device) if to_gpu else (device, "cpu")
    here, there = (make(engine, mode, place, arrays=arrays) for place in places)
    here.reset(seed=[5, 1, 7, 7])
    before = play(here, 7, begins=False)[-1][0]
    state = here.get_state()
    here.save_state(tmp_path / "state")
    wanted = play(here, 8, begins=False)
    for restore in (there.set_state, lambda _: there.load_state(tmp_path / "state")):
        obs = restore(state)
        assert_same(to_numpy(obs), before)
        assert there.np_random_seed == (5, 1, 7, 7)
        if arrays == "torch":
            assert obs.device == there.device == torch.empty(0, device=places[1]).device
        assert_same(play(there, 8, begins=False), wanted, digits=1e-5)
    assert np.any([step[2] | step[3] for step in wanted if len(step) == 5])
