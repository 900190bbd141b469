"""Any JAX environment as one of Brax's, for trainers and wrappers that take those."""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from gymbridge.core.extras import needs
from gymbridge.core.spaces import space_leaves
from gymbridge.errors import ArgumentTypeError, EnvContractError
from gymbridge.jax_env.env import JaxEnv
from gymbridge.jax_env.rows import Row, reset_row, step_row
from gymbridge.jax_env.traced import TracedEnv
from gymbridge.jax_env.tracing import action_struct, cast_like

with needs("brax", "to_brax"):
    from gymbridge.private.brax import brax_envs

__all__ = ["to_brax"]

_OF_BRAX = ("sum_reward", "length")
"""Metrics that Brax's own wrappers add up."""


def to_brax(env: JaxEnv) -> brax_envs.Env:
    """Return a JAX environment as a `brax.envs.Env`, which Brax's wrappers and trainers take.

    It is traced here. Its declared time limit is the attribute `episode_length`, which Brax's
    `EpisodeWrapper` applies. Options of `reset` have their defaults, and nothing looks for NaN.

    Args:
        env: The environment. Observations are in a `Box` (n,) or a `Dict` of `Box`es, each with an
            axis at least. Actions are in a `Box` (n,) of floats with finite bounds, to which those
            of Brax's policies, from -1 to 1, are scaled.

    Returns:
        In its `State`, ``pipeline_state`` is that of `env`, and ``done`` is 1 after either flag.
        ``info`` has "infos", those of `env`, and "time_out", 1 where the task truncates the
        episode. Infos that are one float each are also ``metrics``.

    Raises:
        ArgumentTypeError: `env` is not a `JaxEnv`.
        EnvContractError: It has other spaces, or values that outlive their episode.
        NotInstalledError: Brax is not installed. Other errors are those of `JaxVectorEnv`.
    """
    if not isinstance(env, JaxEnv):
        hint = "of a batch, pass what it was built with"
        raise ArgumentTypeError(f"`env` must be a gymbridge.JaxEnv, got {env!r}; {hint}.")
    return _BraxEnv(env)


class _BraxEnv(brax_envs.Env):
    backend: Any = "jax"
    observation_size: Any = None
    action_size: Any = None

    def __init__(self, env: JaxEnv) -> None:
        self._env = traced = TracedEnv(env)
        _check(traced)
        self.episode_length = env.max_episode_steps
        sizes = jax.tree.map(lambda like: like.shape, action_struct(traced.observation_space))
        self.observation_size = sizes if isinstance(sizes, dict) else sizes[0]
        space: Any = traced.action_space
        self._action, self.action_size = action_struct(space), space.shape[0]
        low, high = space.low / 2, space.high / 2  # The difference of halves is finite.
        self._middle, self._half = high + low, high - low

    def reset(self, rng: jax.Array) -> brax_envs.State:
        return self._show(reset_row(self._env, rng), {}, {})

    def step(self, state: brax_envs.State, action: jax.Array) -> brax_envs.State:
        leaves = tuple(jax.tree.leaves(state.pipeline_state))
        row = Row(leaves, cast("Any", None), *state.info["stream"])
        action = cast_like(self._middle + self._half * action, self._action)
        row = step_row(self._env, 1, (), row, action)
        return self._show(row, state.metrics, state.info)

    def _show(self, row: Row, metrics: dict[str, Any], info: dict[str, Any]) -> brax_envs.State:
        """Return a row in Brax's structure, with what its wrappers keep in the two dicts."""
        seen = row.seen
        done = jnp.asarray(seen.terminated | seen.truncated, float)
        timeout = jnp.asarray(seen.truncated & ~seen.terminated, float)
        # Brax's restarts put the first `pipeline_state` back, so the random stream is not in it.
        info = {**info, "infos": seen.info, "stream": (row.key, row.steps)}
        info |= {"truncation": timeout, "time_out": timeout}
        metrics = metrics | {
            name: x
            for name, x in seen.info.items()
            if name not in _OF_BRAX and getattr(x, "shape", None) == () and x.dtype.kind == "f"
        }
        state = cast("Any", self._env.unflatten(row.leaves))
        return brax_envs.State(state, seen.obs, seen.reward, done, metrics, info)


def _check(env: TracedEnv) -> None:
    """Raise `EnvContractError` for what Brax's interface cannot have."""
    if env.carried:
        raise EnvContractError(
            f"`to_brax` needs an environment without `carried`, got {list(env.carried)}: Brax's "
            "restarts put the first state back."
        )
    action, seen = env.action_space, env.observation_space
    bounds = np.stack([action.low, action.high]) if isinstance(action, spaces.Box) else np.ones(1)
    if not (bounds.ndim == 2 and bounds.dtype.kind == "f" and np.isfinite(bounds).all()):
        raise EnvContractError(
            f"`to_brax` needs actions in a Box (n,) of floats with finite bounds, got {action}."
        )
    axes = [len(leaf.shape) if isinstance(leaf, spaces.Box) else 0 for leaf in space_leaves(seen)]
    if 0 in axes or not (axes == [1] or isinstance(seen, spaces.Dict)):
        raise EnvContractError(
            "`to_brax` needs observations in a Box (n,), or in a Dict of Boxes with an axis at "
            f"least, got {seen}."
        )
