"""A batch of any JAX environment as a `Simulator` of pure functions.

A restart draws with the key ``fold_in(PRNGKey(seed), episode)``, so episode k of an environment
depends only on its seed and k: not on the batch size, the mode, other environments, or the
generator that JAX is set to.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space

from gymbridge.core.arrays.jax import pack_tree, unpack_tree
from gymbridge.core.arrays.jax_devices import check_threads
from gymbridge.core.devices import check_spread
from gymbridge.core.episode import Renderer, ResetRequest, TimeStep, View
from gymbridge.core.rendering import DEFAULT_FPS
from gymbridge.jax_env.checks import check_summed
from gymbridge.jax_env.divergence import guard_reset, guard_step
from gymbridge.jax_env.options import Kept
from gymbridge.jax_env.rows import (
    Row,
    begin_rows,
    cut_gradients,
    drawn_part,
    reset_row,
    step_row,
    where_rows,
)
from gymbridge.jax_env.traced import TracedEnv
from gymbridge.jax_env.tracing import KEY, action_struct, make_unique, name_paths
from gymbridge.private.jax import default_generator, factorizes

__all__ = ["Episodes", "JaxRenderer", "JaxSimulator"]


class Episodes(NamedTuple):
    """A batch between two calls."""

    rows: Row
    seed: jax.Array  # (num_envs,) uint32
    episode: jax.Array  # (num_envs,) uint32, episodes begun since the seed was given


class JaxSimulator:
    """A batch of one JAX environment.

    Args:
        env: The environment.
        num_envs: Size of the batch.
        device: Where the batch is: a `jax.Device`, or a `jax.sharding.NamedSharding` that spreads
            its rows evenly over several.
        task_limit: Default time limit in steps, or None.
        action_repeat: Simulator steps per step; rewards add up, and a row stops at its episode's
            end.
        summed: Names of infos that add up as well.
        guarded: Whether a row that produces NaN or Inf ends with its last finite observation.
        calls: LAPACK calls on many matrices that a step may have at the same time, if it has any.
    """

    seed_range = 2**32 - 1

    def __init__(
        self,
        env: TracedEnv,
        num_envs: int,
        *,
        device: Any,
        task_limit: int | None,
        action_repeat: int,
        summed: Sequence[str],
        guarded: bool,
        calls: int,
    ) -> None:
        self.num_envs, self.task_limit, self.device = num_envs, task_limit, device
        devices = getattr(device, "device_set", {device})
        self.num_devices, self.platform = len(devices), next(iter(devices)).platform
        check_spread(num_envs, self.num_devices)
        self.env, self.action_repeat = env, action_repeat
        metadata = env.metadata
        self.engine, self.built_with = metadata.engine, metadata.model
        self.step_seconds = action_repeat * (metadata.step_seconds or 1 / DEFAULT_FPS)
        self.metadata: dict[str, Any] = {
            "render_modes": ["rgb_array"] if env.drawing.is_possible else [],
            "render_fps": max(1, round(1 / self.step_seconds)),
        }
        self.single_observation_space: Space[Any] = env.observation_space
        self.single_action_space: Space[Any] = env.action_space
        self.reset_options: Mapping[str, Any] = {
            name: option.read for name, option in env.options.items()
        }
        # The settings hold wherever these are traced, such as in a user's `jax.jit`.
        reset = default_generator()(partial(reset_row, env))
        self.step_row = default_generator()(partial(step_row, env, action_repeat, summed))
        self.reset_row = guard_reset(reset) if guarded else reset
        self.row: Row = jax.eval_shape(self.reset_row, KEY)
        check_summed(summed, self.row.seen.info)
        check_threads(device, num_envs, calls, self._factorizes)
        self._reset_rows = jax.vmap(self.reset_row)
        rows = guard_step(env, self.step_row) if guarded else jax.vmap(self.step_row)
        self._step_rows: Callable[[Row, Any], Row] = rows
        # XLA reads the condition of a loop on the host, for which an accelerator waits each time.
        self._resets_in_chunks = self.platform == "cpu"

    def split(self) -> JaxSimulator:
        """Return a simulator of the rows of one device; this one if there are no others."""
        if self.num_devices == 1:
            return self
        part = copy.copy(self)
        part.num_envs, part.num_devices = self.num_envs // self.num_devices, 1
        part.device = min(self.device.device_set, key=lambda device: device.id)
        return part

    def restart(
        self, state: Episodes | None, mask: jax.Array, seeds: ResetRequest | None
    ) -> tuple[Episodes, TimeStep]:
        """Begin new episodes under `mask`; see `gymbridge.core.episode.Simulator.restart`."""
        if state is None:
            assert seeds is not None, "the first state needs seeds"
            seed = jnp.asarray(seeds.values)
            episode = jnp.zeros(self.num_envs, jnp.uint32)
            state = Episodes(self._reset_every(seed, episode, seeds.options or {}), seed, episode)
        else:
            carried = state.rows.seen.info
            state = self._begin(self._with_rest(state), mask, seeds, carried)
        return state, state.rows.seen

    def advance(
        self,
        state: Episodes,
        actions: Any,
        restart: jax.Array | None,
        freeze: jax.Array | None,
    ) -> tuple[Episodes, TimeStep]:
        """Take one step; see `gymbridge.core.episode.Simulator.advance`."""
        moving: tuple[Row, Any] = (state.rows, actions)
        for idle in (restart, freeze):
            if idle is not None:
                moving = cut_gradients(idle, moving)
        rows, carried = self._step_rows(*moving), state.rows.seen.info
        if freeze is not None:
            seen = state.rows.seen
            frozen = state.rows._replace(seen=seen._replace(reward=jnp.zeros_like(seen.reward)))
            rows = where_rows(freeze, frozen, rows)
        state = state._replace(rows=rows)
        if restart is not None:
            state = self._begin(state, restart, None, carried)
        return state, state.rows.seen

    def make_renderer(self, view: View) -> JaxRenderer:
        """Return the renderer; see `gymbridge.core.episode.Simulator.make_renderer`."""
        return JaxRenderer(self, self.env.drawing.make_renderer(view))

    def close(self) -> None:
        """Do nothing: arrays are freed with their last reference."""

    @default_generator()
    def _factorizes(self) -> bool:
        """Return whether `reset` or `step` of the environment factorizes matrices."""
        given = KEY, self.row, action_struct(self.single_action_space)
        return factorizes(lambda k, r, a: (self.reset_row(k), self.step_row(r, a)), *given)

    def leaf_names(self) -> list[str]:
        """Return the engine's name of each leaf of its state; levels are joined by dots."""
        # Where physics are drawn, the engine's own state is the field `state` of a larger one.
        names = [
            name.removeprefix("state.") or "state" for name in name_paths(self.env.state_shapes)
        ]
        return make_unique(names)

    def field_names(self) -> list[str]:
        """Return the names of `field_leaves`: those of `leaf_names`, and of the observation."""
        seen = name_paths({"seen": {"obs": self.row.seen.obs}})
        return make_unique([*self.leaf_names(), *seen])

    def drawn(self, state: Episodes) -> Any:
        """Return what the environment's renderer or viewer draws."""
        return self.env.drawing.drawn(self.env.unflatten(state.rows.leaves), self.num_envs)

    def _with_rest(self, state: Episodes) -> Episodes:
        """Return the batch with zeros for what `without_rest` left out."""
        if state.rows.seen.reward is not None:
            return state
        obs, *_, carried = state.rows.seen
        zeros = jax.tree.map(
            lambda leaf: jnp.zeros((self.num_envs, *leaf.shape), leaf.dtype), self.row.seen
        )
        seen = zeros._replace(obs=obs, info={**zeros.info, **carried})
        return state._replace(rows=state.rows._replace(seen=seen))

    def without_rest(self, state: Episodes) -> Episodes:
        """Return the batch with None for what the next call does not need of its last time step.

        It needs the observation, and infos that outlive their episode.
        """
        seen = state.rows.seen
        carried = {name: seen.info[name] for name in self.env.carried}
        seen = TimeStep(seen.obs, None, None, None, carried)
        return state._replace(rows=state.rows._replace(seen=seen))

    def _begin(
        self, state: Episodes, mask: jax.Array, request: ResetRequest | None, carried: Any
    ) -> Episodes:
        mask = jnp.asarray(mask)
        values, is_given, options = request or (state.seed, jnp.zeros_like(mask), None)
        seeded = mask & is_given
        seed = jnp.where(seeded, values, state.seed)
        episode = jnp.where(seeded, 0, state.episode + mask.astype("uint32")).astype(jnp.uint32)
        kept = {
            name: Kept(jax.lax.stop_gradient(carried[name]), ~seeded) for name in self.env.carried
        }
        given, old = (seed, episode, kept | (options or {})), drawn_part(state.rows)
        # Options may have gradients, which no loop passes.
        if self._resets_in_chunks and not options:

            def renew(sent: Any) -> Any:
                return _send(where_rows(mask, self._reset_under(mask, *given), _receive(sent)))

            drawn = _receive(jax.lax.cond(mask.any(), renew, lambda sent: sent, _send(old)))
        else:
            # No tangent enters the condition, so a backward pass has none.
            kept = jax.lax.stop_gradient(old)
            reset = self._reset_every
            fresh = jax.lax.cond(mask.any(), lambda: drawn_part(reset(*given)), lambda: kept)
            drawn = where_rows(mask, fresh, old)
        return Episodes(begin_rows(mask, drawn, state.rows), seed, episode)

    def _reset_every(self, seed: jax.Array, episode: jax.Array, options: dict[str, Any]) -> Row:
        return self._reset_rows(_episode_keys(seed, episode), **options)

    def _reset_under(
        self, mask: jax.Array, seed: jax.Array, episode: jax.Array, options: dict[str, Any]
    ) -> Row:
        """Return the drawn part of fresh rows under `mask`, and any elsewhere.

        The rows under the mask are reset a chunk at a time, so that the cost follows their count,
        into a buffer from which each row is gathered. The buffer and the list of ids are padded to
        whole chunks: `dynamic_slice` clamps its start, and would reset rows twice. No tangent
        enters the loop, so reverse mode passes it.
        """
        size = self.num_envs
        # Each reset costs as much as a chunk; those of an eighth of the batch cost least on a CPU.
        chunk = max(-(-size // 8), min(size, 8))
        padded = -(-size // chunk) * chunk
        ids = jnp.nonzero(mask, size=padded, fill_value=0)[0]
        count = mask.sum()
        like = drawn_part(self.row)
        buffer = jax.tree.map(lambda leaf: jnp.zeros((padded, *leaf.shape), leaf.dtype), like)

        def reset_chunk(loop: tuple[jax.Array, Row]) -> tuple[jax.Array, Row]:
            start, rows = loop
            chosen = jax.lax.dynamic_slice_in_dim(ids, start, chunk)
            keys = _episode_keys(seed[chosen], episode[chosen])
            given = jax.tree.map(lambda leaf: jnp.asarray(leaf)[chosen], options)
            fresh = drawn_part(self._reset_rows(keys, **given))
            update = partial(jax.lax.dynamic_update_slice_in_dim, start_index=start, axis=0)
            return start + chunk, jax.tree.map(update, rows, fresh)

        start = jnp.zeros((), count.dtype)
        buffer = jax.lax.while_loop(lambda loop: loop[0] < count, reset_chunk, (start, buffer))[1]
        place = jnp.maximum(jnp.cumsum(mask) - 1, 0)
        return jax.tree.map(lambda leaf: leaf[place], buffer)


def _send(drawn: Row) -> tuple[Row, Any]:
    """Return what was drawn with its infos packed: a condition copies each of its arrays."""
    seen: Any = drawn.seen
    return drawn._replace(seen=seen._replace(info=None)), pack_tree(seen.info)


def _receive(sent: tuple[Row, Any]) -> Row:
    drawn, packed = sent
    return drawn._replace(seen=drawn.seen._replace(info=unpack_tree(packed)))


class JaxRenderer(NamedTuple):
    """Draws the states of a simulator, by the environment's renderer."""

    simulator: JaxSimulator
    renderer: Renderer

    def draw(self, state: Episodes) -> list[np.ndarray]:
        """Return a frame of each environment; see `gymbridge.core.episode.Renderer`."""
        return self.renderer.draw(self.simulator.drawn(state))

    def close(self) -> None:
        """Release the resources for drawing."""
        self.renderer.close()


@default_generator()
def _episode_keys(seed: jax.Array, episode: jax.Array) -> jax.Array:
    """Return the PRNG key of each row's episode, (num_envs, 2) uint32."""
    return jax.vmap(lambda s, k: jax.random.fold_in(jax.random.PRNGKey(s), k))(seed, episode)
