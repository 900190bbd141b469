"""The reference of several scripts: a step of Brax or Playground alone."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import jax
import numpy as np

FETCHED = ("obs", "reward", "done")


def bare_step(
    engine: Any,
    num_envs: int,
    actions: list[np.ndarray],
    fetched: tuple[str, ...] = FETCHED,
    infos: Collection[str] = (),
) -> Callable[[int], None]:
    """Return the jitted ``vmap(env.step)`` that plays `actions` in turn and never restarts.

    Args:
        engine: Environment of Brax or Playground.
        num_envs: Environments of the batch.
        actions: Arrays of shape (num_envs, action_size).
        fetched: Fields of the state that each step copies to numpy arrays.
        infos: Entries of the state's `info` that it copies as well, if there are such.
    """
    keys = jax.random.split(jax.random.PRNGKey(0), num_envs)
    state = jax.jit(jax.vmap(engine.reset))(keys)
    jitted, found = jax.jit(jax.vmap(engine.step)), [name for name in infos if name in state.info]

    def step(index: int) -> None:
        nonlocal state
        state = jitted(state, actions[index % len(actions)])
        outputs = [getattr(state, name) for name in fetched]
        jax.tree.map(np.asarray, (outputs, [state.info[name] for name in found]))

    return step
