"""Batches of every engine in every kind of arrays, and trees of these arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from batches import KIND_LENGTHS, KIND_TRUNCATES
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from gymbridge import BridgeVectorEnv
from gymbridge.testing import scripted_vector_env

__all__ = [
    "SIMULATORS",
    "draw_actions",
    "leaves",
    "make_batch",
    "play",
    "shared_batch",
    "to_kind",
    "to_numpy",
]

_LENGTHS = [[2, 3], [3, 1], [1, 4], [5, 2]]
_TRUNCATES = [[False, True], [False, False], [True, False], [False, False]]


def _make_host(num_envs: int, **options: Any) -> BridgeVectorEnv:
    repeats = -(-num_envs // 4)
    lengths, truncates = (_LENGTHS * repeats)[:num_envs], (_TRUNCATES * repeats)[:num_envs]
    return scripted_vector_env(lengths, truncates, **options)


def _make_brax(num_envs: int, **options: Any) -> BridgeVectorEnv:
    from gymbridge import BraxVectorEnv
    from gymbridge.testing.scripted_brax import ScriptedBraxEnv

    return BraxVectorEnv(ScriptedBraxEnv(KIND_LENGTHS, KIND_TRUNCATES), num_envs, **options)


def _make_func_env(num_envs: int, **options: Any) -> BridgeVectorEnv:
    from func_env import make_func_env
    from gymnasium.envs.phys2d.cartpole import CartPoleFunctional

    return make_func_env(CartPoleFunctional(), num_envs, **options)


def _make_task(task_id: str, num_envs: int, **options: Any) -> BridgeVectorEnv:
    from gymbridge import EnvPoolVectorEnv

    return EnvPoolVectorEnv(task_id, num_envs, **options)


def _make_physics(name: str, backend: str, num_envs: int, **options: Any) -> BridgeVectorEnv:
    from gymbridge import BraxVectorEnv

    return BraxVectorEnv(name, num_envs, backend=backend, **options)


_BATCHES: dict[str, tuple[str | None, Callable[..., BridgeVectorEnv]]] = {
    "host": (None, _make_host),
    "brax": ("brax.envs", _make_brax),
    "func_env": ("jax", _make_func_env),
    "envpool": ("envpool.registration", partial(_make_task, "CartPole-v1")),
    "frozen_lake": ("envpool.registration", partial(_make_task, "FrozenLake-v1")),
    "half_cheetah": ("envpool.registration", partial(_make_task, "HalfCheetah-v5")),
    "fast": ("brax.envs", partial(_make_physics, "fast", "generalized")),
    "inverted_pendulum": ("brax.envs", partial(_make_physics, "inverted_pendulum", "generalized")),
}
"""A module of the engine that a batch needs, and what makes it.

Without the engines, `brax` and `envpool` are the folders of their tests.
"""

_SLOW = ("inverted_pendulum",)

SIMULATORS = tuple(
    pytest.param(name, marks=pytest.mark.slow if name in _SLOW else ()) for name in _BATCHES
)
"""Every engine: scripted on the host and on Brax, a `FuncEnv`, EnvPool's tasks, and physics."""


def make_batch(
    simulator: str, arrays: str, mode: str = "NextStep", *, num_envs: int = 4, **options: Any
) -> Any:
    """Return a new batch; skip the test where the engine is not installed."""
    module, make = _BATCHES[simulator]
    if module is not None:
        pytest.importorskip(module)
    return make(num_envs, arrays=arrays, autoreset_mode=mode, **options)


shared_batch = cache(make_batch)
"""The same, one per combination of arguments, since each batch on JAX compiles: seed it first."""


def draw_actions(envs: BridgeVectorEnv, rng: np.random.Generator) -> np.ndarray:
    """Return random actions in numpy."""
    space = envs.single_action_space
    if isinstance(space, spaces.Discrete):
        return rng.integers(0, int(space.n), envs.num_envs)
    assert isinstance(space, spaces.Box)
    return rng.uniform(-1, 1, (envs.num_envs, *space.shape)).astype(space.dtype)


def to_kind(array: np.ndarray, arrays: str) -> Any:
    """Return a numpy array as one of that kind."""
    if arrays == "torch":
        import torch

        return torch.from_numpy(array.copy())
    if arrays == "jax":
        import jax.numpy as jnp

        return jnp.asarray(array)
    return array


def to_numpy(tree: Any) -> Any:
    """Return a tree of arrays of any kind with copies in numpy."""
    if isinstance(tree, dict):
        return {key: to_numpy(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return tuple(to_numpy(value) for value in tree)
    return tree.detach().numpy().copy() if hasattr(tree, "detach") else np.array(tree)


def leaves(tree: Any) -> Iterator[Any]:
    """Yield every array of a tree."""
    if isinstance(tree, dict | list | tuple):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(value)
    else:
        yield tree


def play(
    envs: BridgeVectorEnv, num_steps: int, touch: Callable[[Any], None] = lambda shown: None
) -> list[Any]:
    """Return copies in numpy of all that a run with fixed actions shows; see `batches.play`.

    `touch` is called after each call with what it took and what it returned.
    """
    rng, kind = np.random.default_rng(0), getattr(envs, "arrays", "numpy")
    is_disabled = envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED
    shown: Any = envs.reset(seed=3)
    log = [to_numpy(shown)]
    touch((shown,))
    for _ in range(num_steps):
        actions = to_kind(draw_actions(envs, rng), kind)
        shown = envs.step(actions)
        log.append(to_numpy(shown))
        over = log[-1][2] | log[-1][3]
        touch((shown, actions))
        if is_disabled and over.any():
            mask = to_kind(over, kind)
            shown = envs.reset(options={"reset_mask": mask})
            log.append(to_numpy(shown))
            touch((shown, mask))
    return log
