"""Brax, MuJoCo Playground and EnvPool as Gymnasium vector environments.

Arrays are numpy's, torch's or jax's. Through Brax and Playground, torch can take gradients.
Importing the package registers the ids of every engine and imports none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gymbridge import errors as errors
from gymbridge.errors import GymbridgeError as GymbridgeError
from gymbridge.registration import register_all

if TYPE_CHECKING:
    from gymbridge.brax import BraxVectorEnv as BraxVectorEnv
    from gymbridge.core.vector_env import BridgeVectorEnv as BridgeVectorEnv
    from gymbridge.envpool import EnvPoolVectorEnv as EnvPoolVectorEnv
    from gymbridge.playground import PlaygroundVectorEnv as PlaygroundVectorEnv

__all__ = [
    "BraxVectorEnv",
    "BridgeVectorEnv",
    "EnvPoolVectorEnv",
    "GymbridgeError",
    "PlaygroundVectorEnv",
    "__version__",
    "errors",
]

__version__ = "0.1.0"

_LAZY = {
    "BraxVectorEnv": "gymbridge.brax",
    "BridgeVectorEnv": "gymbridge.core.vector_env",
    "EnvPoolVectorEnv": "gymbridge.envpool",
    "PlaygroundVectorEnv": "gymbridge.playground",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


register_all()
