"""Brax behind the two verbs: a batch of `brax.envs.Env` as a pure `Simulator`.

A restart draws ``fold_in(PRNGKey(seed), episode)``, so episode k of an environment depends on its
seed and k alone: not on the batch size, the mode or the neighbours.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from brax import envs as brax_envs
from gymnasium import Space

from gymbridge.backends.brax_contract import Contract
from gymbridge.backends.brax_gradients import cut_gradients, sever, where_rows
from gymbridge.episode import Outcome, Seeds, Tick

__all__ = ["BraxSimulator", "BraxState"]


class BraxState(NamedTuple):
    """A batch of Brax environments.

    The leaves of `brax.envs.State` are kept flat: flattening its dataclasses in every call of the
    compiled step would cost more than the step of a small environment.
    """

    leaves: tuple[jax.Array, ...]  # each (num_envs, ...); what a diverged row shows is finite
    diverged: jax.Array  # (num_envs,) bool, physics left the finite numbers in the last step
    seed: jax.Array  # (num_envs,) uint32
    episode: jax.Array  # (num_envs,) uint32, episodes begun since the seed was given


class BraxSimulator:
    """A batch of one Brax environment, pure and compiled by `jax.jit`.

    Args:
        contract: The environment, traced and checked, with its spaces and infos.
        num_envs: Size of the batch.
        task_limit: Default time limit in steps, or None.
        action_repeat: Simulator steps per step; rewards add up, a row stops at its episode's end.
        device: Where the batch is.
        guarded: Whether diverged rows are found, ended and shown with their last finite values.
    """

    seed_range = 2**32 - 1
    native = "jax"

    def __init__(
        self,
        contract: Contract,
        num_envs: int,
        *,
        device: Any,
        task_limit: int | None,
        action_repeat: int,
        guarded: bool,
    ) -> None:
        self.num_envs = num_envs
        self.task_limit = task_limit
        self.device = device
        self.metadata: dict[str, Any] = {"render_modes": []}
        self.single_observation_space: Space[Any] = contract.observation_space
        self.single_action_space: Space[Any] = contract.action_space
        self.engine = contract.brax_env
        self._select_info = contract.select_info
        self._shapes = contract.state  # of one environment
        self._guarded = guarded
        self._reset_rows = jax.vmap(contract.reset)
        self._step_rows = jax.vmap(partial(_repeat, contract.step, action_repeat))
        self._guarded_step = sever(lambda env, act: _guard(env, self._step_rows(env, act)))
        # A fresh reset costs as much as its chunk; an eighth of the batch costs least on CPU.
        self._chunk = max(-(-num_envs // 8), min(num_envs, 8))

    def restart(
        self, state: BraxState | None, mask: jax.Array, seeds: Seeds | None
    ) -> tuple[BraxState, Tick]:
        """Begin new episodes under `mask`; see `gymbridge.episode.Simulator.restart`."""
        if state is None:
            assert seeds is not None, "the first state needs seeds"
            seed = jnp.asarray(seeds.values)
            episode = jnp.zeros(self.num_envs, jnp.uint32)
            env = self._reset_rows(_episode_keys(seed, episode))
            state = BraxState(_flat(env), jnp.zeros(self.num_envs, bool), seed, episode)
        else:
            state = self._begin(state, mask, seeds)
        return state, self._show(state)

    def advance(
        self,
        state: BraxState,
        actions: jax.Array,
        restart: jax.Array | None,
        hold: jax.Array | None,
    ) -> tuple[BraxState, Tick]:
        """Take one step; see `gymbridge.episode.Simulator.advance`."""
        before = self.env_state(state)
        moving: tuple[Any, Any] = (before, actions)
        for idle in (restart, hold):
            if idle is not None:
                moving = cut_gradients(idle, moving)
        if self._guarded:
            env, diverged = self._guarded_step(*moving)
        else:
            env, diverged = self._step_rows(*moving), state.diverged
        stepped = state._replace(leaves=_flat(env), diverged=diverged)
        if hold is not None:
            resting = replace(before, reward=jnp.zeros_like(before.reward))
            stepped = where_rows(hold, state._replace(leaves=_flat(resting)), stepped)
        if restart is not None:
            stepped = self._begin(stepped, restart, None)
        return stepped, self._show(stepped)

    def compile(self, rule: Any, arrange: Any) -> Any:
        """Return the rule as one compiled function, whose arrays are on the batch's device."""

        def run(*args: Any) -> Outcome:
            outcome: Outcome = rule(*args)
            return outcome if arrange is None else arrange(outcome, *args)

        return jax.jit(run, out_shardings=jax.sharding.SingleDeviceSharding(self.device))

    def close(self) -> None:
        """Do nothing: arrays go with their last reference."""

    def leaf_names(self) -> list[str]:
        """Return what Brax calls each of the state's leaves, such as "pipeline_state.q"."""
        paths = jax.tree_util.tree_flatten_with_path(self._shapes)[0]
        return [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]

    def env_state(self, state: BraxState) -> brax_envs.State:
        """Return the batch as Brax knows it."""
        return jax.tree.unflatten(jax.tree.structure(self._shapes), state.leaves)

    def _begin(self, state: BraxState, mask: jax.Array, seeds: Seeds | None) -> BraxState:
        seed, episode = state.seed, state.episode + mask
        if seeds is not None:
            given = mask & seeds.given
            seed = jnp.where(given, seeds.values, seed)
            episode = jnp.where(given, 0, episode).astype(jnp.uint32)
        mask = jnp.asarray(mask)

        def renew(leaves: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            return where_rows(mask, self._reset_under(mask, seed, episode), leaves)

        leaves = jax.lax.cond(mask.any(), renew, lambda leaves: leaves, state.leaves)
        return BraxState(leaves, state.diverged & ~mask, seed, episode)

    def _reset_under(
        self, mask: jax.Array, seed: jax.Array, episode: jax.Array
    ) -> tuple[jax.Array, ...]:
        """Return fresh states in the rows under `mask`, and any in the others.

        The rows under the mask are reset a chunk at a time, so that the cost follows their count,
        into a buffer from which each row is gathered. The buffer and the list of ids are padded to
        whole chunks: `dynamic_slice` clamps its start, and would reset rows twice. No tangent
        enters the loop, so reverse mode passes it.
        """
        size, chunk = self.num_envs, self._chunk
        padded = -(-size // chunk) * chunk
        ids = jnp.nonzero(mask, size=padded, fill_value=0)[0]
        count = mask.sum()
        buffer = tuple(
            jnp.zeros((padded, *leaf.shape), leaf.dtype) for leaf in jax.tree.leaves(self._shapes)
        )

        def reset_chunk(loop: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
            start, rows = loop
            chosen = jax.lax.dynamic_slice_in_dim(ids, start, chunk)
            fresh = _flat(self._reset_rows(_episode_keys(seed[chosen], episode[chosen])))
            update = partial(jax.lax.dynamic_update_slice_in_dim, start_index=start, axis=0)
            return start + chunk, tuple(map(update, rows, fresh))

        start = jnp.zeros((), count.dtype)
        buffer = jax.lax.while_loop(lambda loop: loop[0] < count, reset_chunk, (start, buffer))[1]
        place = jnp.maximum(jnp.cumsum(mask) - 1, 0)
        return tuple(leaf[place] for leaf in buffer)

    def _show(self, state: BraxState) -> Tick:
        env = self.env_state(state)
        truncated = jnp.zeros(self.num_envs, bool)
        if "truncation" in env.info:  # Brax's own name for an end that is a timeout
            truncated = (env.info["truncation"] > 0) & (env.done > 0)
        terminated = (env.done > 0) & ~truncated
        info = self._select_info(env)
        if self._guarded:
            info["nonfinite"] = state.diverged
        return Tick(env.obs, env.reward, terminated, truncated, info)


def _flat(env: brax_envs.State) -> tuple[jax.Array, ...]:
    return tuple(jax.tree.leaves(env))


def _episode_keys(seed: jax.Array, episode: jax.Array) -> jax.Array:
    """Return the PRNG key of each row's episode, (num_envs, 2) uint32."""
    return jax.vmap(lambda s, k: jax.random.fold_in(jax.random.PRNGKey(s), k))(seed, episode)


def _repeat(step: Any, action_repeat: int, env: brax_envs.State, action: Any) -> brax_envs.State:
    """Step one row `action_repeat` times, adding rewards, and stay where its episode ends."""
    stepped = step(env, action)
    if action_repeat == 1:
        return stepped

    def again(_: Any, now: brax_envs.State) -> brax_envs.State:
        later = step(*cut_gradients(now.done > 0, (now, action)))
        later = replace(later, reward=now.reward + later.reward)
        return jax.tree.map(partial(jnp.where, now.done > 0), now, later)

    return jax.lax.fori_loop(1, action_repeat, again, stepped)


def _guard(before: brax_envs.State, after: brax_envs.State) -> tuple[brax_envs.State, jax.Array]:
    """End the rows that left the finite numbers, and show their last finite observation.

    Checked are observation, reward and the generalised positions and velocities. Metrics and infos
    that are not finite become 0 in such a row.
    """
    physics = after.pipeline_state
    moving = [getattr(physics, name, None) for name in ("q", "qd", "qpos", "qvel")]
    diverged = jnp.zeros(after.done.shape, bool)
    for leaf in jax.tree.leaves((after.obs, after.reward, moving)):
        if jnp.issubdtype(leaf.dtype, jnp.inexact):
            diverged |= ~jnp.isfinite(leaf).reshape(leaf.shape[0], -1).all(1)

    def clean(leaf: jax.Array) -> jax.Array:
        return where_rows(diverged, _finite(leaf), leaf)

    shown = replace(
        after,
        obs=where_rows(diverged, jax.tree.map(_finite, before.obs), after.obs),
        reward=jnp.where(diverged, 0, after.reward),
        done=jnp.where(diverged, jnp.ones_like(after.done), after.done),
        metrics=jax.tree.map(clean, after.metrics),
        info=jax.tree.map(clean, after.info),
    )
    if "truncation" in shown.info:
        truncation = shown.info["truncation"]
        kept = jnp.where(diverged, jnp.zeros_like(truncation), truncation)
        shown = replace(shown, info={**shown.info, "truncation": kept})
    return shown, diverged


def _finite(leaf: jax.Array) -> jax.Array:
    """Return the values with 0 in place of those that are not finite."""
    if not jnp.issubdtype(leaf.dtype, jnp.inexact):
        return leaf
    return jnp.where(jnp.isfinite(leaf), leaf, 0)
