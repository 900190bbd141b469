"""The reference of several scripts: a step of Brax or Playground alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

FETCHED = ("obs", "reward", "done")


def bare_step(
    engine: Any, num_envs: int, actions: list[np.ndarray], fetched: tuple[str, ...] = FETCHED
) -> Callable[[int], None]:
    """Return the jitted ``vmap(env.step)`` that plays `actions` in turn and never restarts.

    Args:
        engine: Environment of Brax or Playground.
        num_envs: Environments of the batch.
        actions: Arrays of shape (num_envs, action_size).
        fetched: Fields of the state that each step copies to numpy arrays.
    """
    keys = jax.random.split(jax.random.PRNGKey(0), num_envs)
    state = jax.jit(jax.vmap(engine.reset))(keys)
    jitted = jax.jit(jax.vmap(engine.step))

    def step(index: int) -> None:
        nonlocal state
        state = jitted(state, actions[index % len(actions)])
        jax.tree.map(np.asarray, [getattr(state, name) for name in fetched])

    return step
