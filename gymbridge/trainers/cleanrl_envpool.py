"""The old path of `gymbridge.trainers.cleanrl.envpool`."""

from __future__ import annotations

from gymbridge.trainers.cleanrl.envpool import OldGymVectorEnv as OldGymVectorEnv
from gymbridge.trainers.cleanrl.envpool import make_cleanrl_envpool as make_cleanrl_envpool

__all__ = ["OldGymVectorEnv", "make_cleanrl_envpool"]
