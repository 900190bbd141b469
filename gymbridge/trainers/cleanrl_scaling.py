"""The old path of `gymbridge.trainers.cleanrl.scaling`."""

from __future__ import annotations

from gymbridge.trainers.cleanrl.scaling import RunningMoments as RunningMoments
from gymbridge.trainers.cleanrl.scaling import ScaledVectorEnv as ScaledVectorEnv

__all__ = ["RunningMoments", "ScaledVectorEnv"]
