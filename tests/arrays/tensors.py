"""Scripted batches of torch and jax arrays, and trees of these arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from batches import KIND_LENGTHS, KIND_TRUNCATES
from gymnasium.vector import AutoresetMode

from gymbridge import BridgeVectorEnv
from gymbridge.testing import scripted_vector_env

__all__ = [
    "KINDS",
    "SIMULATORS",
    "leaves",
    "make_batch",
    "play",
    "shared_batch",
    "to_kind",
    "to_numpy",
]

KINDS = ("torch", "jax")
SIMULATORS = ("host", "brax", "envpool")

_LENGTHS = [[2, 3], [3, 1], [1, 4], [5, 2]]
_TRUNCATES = [[False, True], [False, False], [True, False], [False, False]]


def make_batch(simulator: str, arrays: str, mode: str = "NextStep", **options: Any) -> Any:
    """Return a new batch of four; skip the test where the engine is not installed."""
    options = {"arrays": arrays, "autoreset_mode": mode, **options}
    if simulator == "host":
        return scripted_vector_env(_LENGTHS, _TRUNCATES, **options)
    pytest.importorskip(simulator)
    if simulator == "envpool":
        from gymbridge import EnvPoolVectorEnv

        return EnvPoolVectorEnv("CartPole-v1", 4, **options)
    from gymbridge import BraxVectorEnv
    from gymbridge.testing.scripted_brax import ScriptedBraxEnv

    return BraxVectorEnv(ScriptedBraxEnv(KIND_LENGTHS, KIND_TRUNCATES), 4, **options)


shared_batch = cache(make_batch)
"""The same, one per combination of arguments, since each batch on Brax compiles: seed it first."""


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

    Actions of `EnvPool`'s two are drawn there, those of the script elsewhere; `touch` is called
    after each call with what it took and what it returned.
    """
    rng, kind = np.random.default_rng(0), getattr(envs, "arrays", "numpy")
    is_disabled = envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED
    shown: Any = envs.reset(seed=3)
    log = [to_numpy(shown)]
    touch((shown,))
    num_actions = int(envs.single_action_space.n)  # type: ignore[attr-defined]
    for _ in range(num_steps):
        actions = to_kind(rng.integers(0, num_actions, envs.num_envs), kind)
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
