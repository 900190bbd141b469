"""The old path of `gymbridge.gradients.vector_env`."""

from __future__ import annotations

from gymbridge.gradients.vector_env import DifferentiableVectorEnv as DifferentiableVectorEnv
from gymbridge.gradients.vector_env import Snapshot as Snapshot

__all__ = ["DifferentiableVectorEnv", "Snapshot"]
