"""The old path of `gymbridge.gradients.vector_env`."""

from __future__ import annotations

from gymbridge.core.snapshots import Snapshot as Snapshot
from gymbridge.gradients.vector_env import DifferentiableVectorEnv as DifferentiableVectorEnv

__all__ = ["DifferentiableVectorEnv", "Snapshot"]
