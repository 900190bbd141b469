"""Brax, MuJoCo Playground, EnvPool and any JAX environment as Gymnasium vector environments.

Arrays are numpy's, torch's or jax's. Through Brax and Playground, torch can take gradients.
Importing the package registers the ids of every engine and imports none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gymbridge import errors as errors
from gymbridge.core.lazy import import_at_first_use
from gymbridge.engines import ENGINES, register_all
from gymbridge.errors import GymbridgeError as GymbridgeError
from gymbridge.version import __version__ as __version__

if TYPE_CHECKING:
    from gymbridge.brax import BraxVectorEnv as BraxVectorEnv
    from gymbridge.core.vector_env import BridgeVectorEnv as BridgeVectorEnv
    from gymbridge.envpool import EnvPoolVectorEnv as EnvPoolVectorEnv
    from gymbridge.jax_env.env import JaxEnv as JaxEnv
    from gymbridge.jax_vector_env import JaxVectorEnv as JaxVectorEnv
    from gymbridge.playground import PlaygroundVectorEnv as PlaygroundVectorEnv

__all__ = [
    "BraxVectorEnv",
    "BridgeVectorEnv",
    "EnvPoolVectorEnv",
    "GymbridgeError",
    "JaxEnv",
    "JaxVectorEnv",
    "PlaygroundVectorEnv",
    "__version__",
    "errors",
]

__getattr__ = import_at_first_use(
    __name__,
    {
        "BridgeVectorEnv": "gymbridge.core.vector_env",
        "JaxEnv": "gymbridge.jax_env.env",
        "JaxVectorEnv": "gymbridge.jax_vector_env",
        **dict(engine.vector_entry_point.split(":")[::-1] for engine in ENGINES.values()),
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)


register_all()
