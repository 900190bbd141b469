"""Wrappers of batches in numpy, torch or jax arrays, in every autoreset mode.

Names, keywords and formulas are those of `gymnasium.wrappers.vector`. Nothing is read on the host:
a wrapper adds a few operations to a step in torch, and one compiled function in jax.
"""

from gymbridge.wrappers.episode_statistics import RecordEpisodeStatistics
from gymbridge.wrappers.frame_stack import FrameStackObservation
from gymbridge.wrappers.moments import RunningMoments
from gymbridge.wrappers.normalization import NormalizeObservation, NormalizeReward
from gymbridge.wrappers.ranges import ClipReward, RescaleAction

__all__ = [
    "ClipReward",
    "FrameStackObservation",
    "NormalizeObservation",
    "NormalizeReward",
    "RecordEpisodeStatistics",
    "RescaleAction",
    "RunningMoments",
]
