"""Brax's `Env` as a `FunctionalEnv`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from gymbridge.brax.contract import Contract
from gymbridge.brax.package import brax_envs
from gymbridge.core.episode import TimeStep
from gymbridge.functional.rows import make_finite

__all__ = ["BraxFunctionalEnv"]


class BraxFunctionalEnv:
    """One Brax environment, traced and checked.

    Args:
        contract: The environment with its spaces and infos.
    """

    loop_advice = (
        "MJX does so with more than one solver iteration: set `opt.iterations` to 1, as in "
        "`env.sys = env.sys.tree_replace({'opt.iterations': 1})`, and pass that environment. "
        "Or use backend='generalized', 'spring' or 'positional'."
    )

    def __init__(self, contract: Contract) -> None:
        self.observation_space = contract.observation_space
        self.action_space = contract.action_space
        self.engine = contract.brax_env
        unwrapped = contract.brax_env.unwrapped
        backend = getattr(unwrapped, "backend", None)
        self.name = f"{type(unwrapped).__name__}{f' (backend {backend})' if backend else ''}"
        self.reset, self.step = contract.reset, contract.step
        self._select_info = contract.select_info

    def read(self, state: brax_envs.State) -> TimeStep:
        """Return what a user sees; `info["truncation"]` is Brax's name for an end by timeout."""
        over = state.done > 0
        truncated = over & False
        if "truncation" in state.info:
            truncated = (state.info["truncation"] > 0) & over
        info = self._select_info(state)
        return TimeStep(state.obs, state.reward, over & ~truncated, truncated, info)

    def write(self, state: brax_envs.State, obs: Any, reward: jax.Array) -> brax_envs.State:
        """Return the state with another observation and reward."""
        return replace(state, obs=obs, reward=reward)

    def finish(self, state: brax_envs.State) -> brax_envs.State:
        """Return the state with `done` 1, no truncation, and 0 for NaN in metrics and infos."""
        info = jax.tree_util.tree_map_with_path(_finish_info, state.info)
        metrics = jax.tree.map(make_finite, state.metrics)
        return replace(state, done=jnp.ones_like(state.done), metrics=metrics, info=info)

    def positions(self, state: brax_envs.State) -> Any:
        """Return the generalised positions and velocities; none without physics."""
        names = ("q", "qd", "qpos", "qvel")
        return [getattr(state.pipeline_state, name, None) for name in names]

    def physics_leaves(self, state: brax_envs.State) -> Any:
        """Return the whole state of the physics pipeline."""
        return state.pipeline_state


def _finish_info(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
    is_truncation = [getattr(entry, "key", None) for entry in path] == ["truncation"]
    return jnp.zeros_like(leaf) if is_truncation else make_finite(leaf)
