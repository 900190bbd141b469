"""The old path of `gymbridge.core.episode`."""

from __future__ import annotations

from gymbridge.core.episode import STEP_INFOS as STEP_INFOS
from gymbridge.core.episode import Carry as Carry
from gymbridge.core.episode import EpisodeRule as AutoresetRule
from gymbridge.core.episode import Outcome as Outcome
from gymbridge.core.episode import Seeds as Seeds
from gymbridge.core.episode import Simulator as Simulator
from gymbridge.core.episode import TimeStep as Tick
from gymbridge.core.episode import TimeStep as TimeStep

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
