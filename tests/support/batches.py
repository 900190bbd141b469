"""Batches of every engine in every kind of arrays, and trees of their arrays."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import VectorEnv

import gymbridge
from gymbridge import BridgeVectorEnv
from gymbridge.testing import scripted_vector_env

MODES = ("NextStep", "SameStep", "Disabled")
"""Each autoreset mode, by its value."""

KINDS = ("numpy", "torch", "jax")
"""Each kind of arrays."""

HOST_LENGTHS = [[2, 3], [3, 1], [1, 4], [5, 2], [3, 3], [4, 1], [2, 2], [6, 1], [1, 1], [3, 5]]
"""Episode lengths of the host's script, by row and episode."""

HOST_TRUNCATES = [[False, True], [False, False], [True, False], [False, False], [True, True]] * 2

KIND_LENGTHS = (1, 2, 3, 3, 5, 2)
"""Episode lengths of the Brax script; the draw of an episode picks one."""

KIND_TRUNCATES = (False, True, False, True, False, False)


def _make_host(num_envs: int, **options: Any) -> BridgeVectorEnv:
    return scripted_vector_env(HOST_LENGTHS[:num_envs], HOST_TRUNCATES[:num_envs], **options)


def _make_tensors(num_envs: int, **options: Any) -> BridgeVectorEnv:
    from tests.support.tensor_script import tensor_vector_env

    return tensor_vector_env(HOST_LENGTHS[:num_envs], HOST_TRUNCATES[:num_envs], **options)


def _make_brax(num_envs: int, **options: Any) -> BridgeVectorEnv:
    from gymbridge import BraxVectorEnv
    from tests.support.scripted_brax import ScriptedBraxEnv

    return BraxVectorEnv(ScriptedBraxEnv(KIND_LENGTHS, KIND_TRUNCATES), num_envs, **options)


def _make_func_env(num_envs: int, **options: Any) -> BridgeVectorEnv:
    from from_func_env import FromFuncEnv
    from gymnasium.envs.phys2d.cartpole import CartPoleFunctional

    from gymbridge import JaxVectorEnv

    return JaxVectorEnv(FromFuncEnv(CartPoleFunctional()), num_envs, **options)


def _make_task(batch: str, task: str, num_envs: int, **options: Any) -> BridgeVectorEnv:
    """Return a batch of a task, by the name of its class, which imports its engine."""
    return getattr(gymbridge, batch)(task, num_envs, **options)


_make_pool = partial(_make_task, "EnvPoolVectorEnv")
_make_physics = partial(_make_task, "BraxVectorEnv", backend="spring")
_make_playground = partial(_make_task, "PlaygroundVectorEnv", "CartpoleBalance")

_BATCHES: dict[str, tuple[str | None, Callable[..., BridgeVectorEnv]]] = {
    "host": (None, _make_host),
    "brax": ("brax.envs", _make_brax),
    "func_env": ("jax", _make_func_env),
    "envpool": ("envpool.registration", partial(_make_pool, "CartPole-v1")),
    "frozen_lake": ("envpool.registration", partial(_make_pool, "FrozenLake-v1")),
    "pendulum": ("envpool.registration", partial(_make_pool, "Pendulum-v1")),
    "half_cheetah": ("envpool.registration", partial(_make_pool, "HalfCheetah-v5")),
    "fast": ("brax.envs", partial(_make_physics, "fast")),
    "inverted_pendulum": ("brax.envs", partial(_make_physics, "inverted_pendulum")),
    "playground": ("mujoco_playground", _make_playground),
    "tensors": ("torch", _make_tensors),
    "two_devices": ("brax.envs", partial(_make_brax, device="cpu:all")),
}
"""A module of the engine that a batch needs, and what makes it.

Without the engines, `brax` and `envpool` are the folders of their tests.
"""

SCRIPTED = ("host", "brax")
"""The scripted task, on the host and through Brax."""

_SLOW = ("inverted_pendulum", "playground")

QUICK = tuple(name for name in _BATCHES if name not in _SLOW)
"""Those that compile in a moment, or nothing.

The last one is Brax's scripted task over two CPU devices; an odd batch is on one of them.
"""


def make_batch(
    engine: str,
    mode: Any = "NextStep",
    *,
    num_envs: int = 4,
    limit: int | None = None,
    arrays: str = "numpy",
    **options: Any,
) -> Any:
    """Return a new batch; skip the test where its engine is not installed."""
    module, make = _BATCHES[engine]
    if module is not None:
        pytest.importorskip(module)
    return make(num_envs, autoreset_mode=mode, max_episode_steps=limit, arrays=arrays, **options)


shared_batch = cache(make_batch)
"""The same, one per combination of arguments, since each batch on JAX compiles: seed it first."""


class Cell(NamedTuple):
    """An engine in one kind of arrays and one mode."""

    engine: str
    kind: str
    mode: str

    def batch(self, *, limit: int | None = 4, **options: Any) -> Any:
        """Return its shared batch; skip the test where its arrays are not installed."""
        pytest.importorskip(self.kind)
        return shared_batch(self.engine, self.mode, limit=limit, arrays=self.kind, **options)


def cells(
    engines: Sequence[str] = (*QUICK, *_SLOW),
    *,
    kinds: Sequence[str] = KINDS,
    modes: Sequence[str] = MODES,
) -> list[Any]:
    """Return the cells of some engines, kinds and modes, as parameters of a test.

    The rule and the layout of results know no engine. So the two scripted engines have all cells,
    and each other engine three: each mode and each kind once, in other pairs than its neighbour.
    Physics, which compiles for long, has one of them; the table of reproducibility has the others.
    """
    found = []
    for index, engine in enumerate(_BATCHES):
        for cell in (Cell(engine, kind, mode) for mode in modes for kind in kinds):
            row, column = MODES.index(cell.mode), KINDS.index(cell.kind)
            is_slow = engine in _SLOW
            if engine not in engines or (is_slow and cell.mode != "SameStep"):
                continue
            if engine in SCRIPTED or (row + index) % 3 == column:
                marks = pytest.mark.slow if is_slow else ()
                found.append(pytest.param(cell, marks=marks, id="-".join(cell)))
    return found


def draw_actions(envs: VectorEnv, rng: np.random.Generator) -> np.ndarray:
    """Return random actions in numpy, the same ones where actions of floats are shorter."""
    space = envs.single_action_space
    if isinstance(space, spaces.Discrete):
        return rng.integers(0, int(space.n), envs.num_envs)
    assert isinstance(space, spaces.Box)
    actions = rng.uniform(-1, 1, (envs.num_envs, *space.shape))
    return actions.astype(np.float32).astype(space.dtype)


def to_kind(array: np.ndarray, arrays: str, device: Any = None) -> Any:
    """Return a numpy array as one of that kind; on a device, if one is given."""
    if arrays == "torch":
        import torch

        return torch.from_numpy(array.copy()).to(device)
    if arrays == "jax":
        import jax
        import jax.numpy as jnp

        return jnp.asarray(array) if device is None else jax.device_put(array.copy(), device)
    return array


def to_numpy(tree: Any) -> Any:
    """Return a tree of arrays of any kind with copies in numpy; the rest is copied as it is."""
    if isinstance(tree, dict):
        return {key: to_numpy(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return tuple(to_numpy(value) for value in tree)
    if isinstance(tree, np.ndarray | np.generic) or not hasattr(tree, "shape"):
        return copy.deepcopy(tree)
    return tree.detach().cpu().numpy().copy() if hasattr(tree, "detach") else np.array(tree)


def leaves(tree: Any) -> Iterator[Any]:
    """Yield every array of a tree, and those in arrays of objects."""
    if isinstance(tree, dict | list | tuple):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(value)
    elif hasattr(tree, "shape"):
        yield tree
        if tree.dtype == object:
            yield from leaves(tuple(tree))
