"""Batches in several threads at once run as they do one after the other."""

from __future__ import annotations

import pytest
from children import Child
from thread_runs import run_together


@pytest.mark.slow
def test_batches_of_several_threads__run_as_alone(child: Child) -> None:
    for module in ("brax.envs", "envpool.registration", "torch"):
        pytest.importorskip(module)
    child.call(run_together)
