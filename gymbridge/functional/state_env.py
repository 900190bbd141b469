"""Environments whose states are like Brax's, as a `FunctionalEnv`: Brax's own and Playground's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from gymbridge.core.episode import TimeStep
from gymbridge.functional.contract import Contract
from gymbridge.functional.rows import make_finite

__all__ = ["StateEnv"]


class StateEnv:
    """One environment, traced and checked.

    Its states are dataclasses with `obs`, `reward`, `done`, `metrics` and `info`, and a field with
    the state of the simulation.

    Args:
        contract: The environment with its spaces and infos.
        loop_advice: See `FunctionalEnv`.
    """

    def __init__(self, contract: Contract, loop_advice: str) -> None:
        self.observation_space = contract.observation_space
        self.action_space = contract.action_space
        self.loop_advice = loop_advice
        self.engine, self.leaves = contract.env, contract.leaves
        self.model = None if contract.leaves is None else contract.leaves.model
        unwrapped = contract.env.unwrapped
        backend = getattr(unwrapped, "backend", None)
        self.name = f"{type(unwrapped).__name__}{f' (backend {backend})' if backend else ''}"
        self.reset, self.step = contract.reset, contract.step
        self._physics, self._select_info = contract.style.physics, contract.select_info

    def read(self, state: Any) -> TimeStep:
        """Return what a user sees; `info["truncation"]` is Brax's name for an end by timeout."""
        over = state.done > 0
        truncated = over & False
        if "truncation" in state.info:
            truncated = (state.info["truncation"] > 0) & over
        info = self._select_info(state)
        return TimeStep(state.obs, state.reward, over & ~truncated, truncated, info)

    def write(self, state: Any, obs: Any, reward: jax.Array) -> Any:
        """Return the state with another observation and reward."""
        return replace(state, obs=obs, reward=reward)

    def finish(self, state: Any) -> Any:
        """Return the state with `done` 1, no truncation, and 0 for NaN in metrics and infos."""
        info = jax.tree_util.tree_map_with_path(_finish_info, state.info)
        metrics = jax.tree.map(make_finite, state.metrics)
        return replace(state, done=jnp.ones_like(state.done), metrics=metrics, info=info)

    def positions(self, state: Any) -> Any:
        """Return the generalised positions and velocities; none without physics."""
        names = ("q", "qd", "qpos", "qvel")
        return [getattr(self.physics_leaves(state), name, None) for name in names]

    def physics_leaves(self, state: Any) -> Any:
        """Return the whole state of the simulation."""
        return getattr(state, self._physics)


def _finish_info(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
    is_truncation = [getattr(entry, "key", None) for entry in path] == ["truncation"]
    return jnp.zeros_like(leaf) if is_truncation else make_finite(leaf)
