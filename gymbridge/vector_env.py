"""The old path of `gymbridge.core.vector_env`."""

from __future__ import annotations

from gymbridge.core.vector_env import BridgeVectorEnv as BridgeVectorEnv

__all__ = ["BridgeVectorEnv"]
