"""The old path of `gymbridge.core.episode`, with the old names of `EpisodeRule` and `TimeStep`."""

from gymbridge.core.episode import STEP_INFOS, Carry, Outcome, Seeds, Simulator, TimeStep
from gymbridge.core.episode import EpisodeRule as AutoresetRule
from gymbridge.core.episode import TimeStep as Tick

__all__ = [
    "STEP_INFOS",
    "AutoresetRule",
    "Carry",
    "Outcome",
    "Seeds",
    "Simulator",
    "Tick",
    "TimeStep",
]
