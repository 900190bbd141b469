"""A batch of any functional JAX environment as a `Simulator` of pure functions.

A restart draws with the key ``fold_in(PRNGKey(seed), episode)``, so episode k of an environment
depends only on its seed and k: not on the batch size, the mode, other environments, or the
generator that JAX is set to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space

from gymbridge.core.arrays.jax_devices import check_threads, find_place
from gymbridge.core.devices import check_spread
from gymbridge.core.episode import Renderer, Seeds, TimeStep, View
from gymbridge.core.jax_private import default_generator, factorizes
from gymbridge.core.rendering import DEFAULT_FPS
from gymbridge.core.specs import name_device
from gymbridge.errors import unexpected_keyword
from gymbridge.functional.protocol import KEY, FunctionalEnv, action_struct
from gymbridge.functional.rows import are_finite, cut_gradients, make_finite, sever, where_rows

__all__ = ["FunctionalRenderer", "FunctionalSimulator", "FunctionalState"]


class FunctionalState(NamedTuple):
    """A batch of states.

    The leaves of the environment's states are kept flat: flattening their classes in every call of
    the compiled step would cost more than the step of a small environment.
    """

    leaves: tuple[jax.Array, ...]  # each (num_envs, ...)
    diverged: jax.Array  # (num_envs,) bool, the last step produced NaN or Inf
    seed: jax.Array  # (num_envs,) uint32
    episode: jax.Array  # (num_envs,) uint32, episodes begun since the seed was given


class FunctionalSimulator:
    """A batch of one functional environment.

    Args:
        env: The environment.
        num_envs: Size of the batch.
        device: Where the batch is: a `jax.Device` or its name, or a `jax.sharding.NamedSharding` or
            list that spreads its rows evenly over several; None for JAX's default device.
        task_limit: Default time limit in steps, or None.
        action_repeat: Simulator steps per step; rewards add up, and a row stops at its episode's
            end.
        guarded: Whether a row that produces NaN or Inf ends with its last finite observation.
        calls: LAPACK calls on many matrices that a step may have at the same time, if it has any.

    Raises:
        ArgumentError: `num_envs` is not a multiple of the devices, or JAX has no such device.
    """

    seed_range = 2**32 - 1

    def __init__(
        self,
        env: FunctionalEnv[Any],
        num_envs: int,
        *,
        device: Any = None,
        task_limit: int | None = None,
        action_repeat: int = 1,
        guarded: bool = True,
        calls: int = 2,
    ) -> None:
        self.num_envs, self.task_limit = num_envs, task_limit
        # Whoever chose the place has said how many calls of LAPACK a step has.
        self.device = find_place(device, num_envs, calls=0)
        self.num_devices = len(getattr(self.device, "device_set", [None]))
        check_spread(num_envs, self.num_devices)
        self.env, self.action_repeat = env, action_repeat
        facts, drawing = env.facts, env.drawing
        self.engine, self.built_with = facts.engine, facts.model
        self.step_seconds = action_repeat * (facts.step_seconds or 1 / DEFAULT_FPS)
        self.metadata: dict[str, Any] = {
            "render_modes": ["rgb_array"] if drawing and drawing.is_possible else [],
            "render_fps": max(1, round(1 / self.step_seconds)),
        }
        self.single_observation_space: Space[Any] = env.observation_space
        self.single_action_space: Space[Any] = env.action_space
        self.reset_options: Mapping[str, Any] = facts.reset_options
        # Wherever these are traced, such as in a user's `jax.jit`.
        reset_row = default_generator()(env.reset)
        self.step_row = default_generator()(partial(_repeat, env, action_repeat))
        self.shapes = jax.eval_shape(reset_row, KEY)
        check_threads(self.device, num_envs, calls, self._factorizes)
        self._guarded, self._calls = guarded, calls
        self._reset_rows, self._read_rows = jax.vmap(reset_row), jax.vmap(env.read)
        self._step_rows = jax.vmap(self.step_row)
        # A function, since a bound method would be a circle that keeps the simulator alive.
        guarded_step = partial(_step_and_guard, env, num_envs, self._step_rows)
        self._guarded_step = sever(guarded_step, env.physics_leaves)
        # A fresh reset costs as much as its chunk; an eighth of the batch costs least on CPU.
        self._chunk = max(-(-num_envs // 8), min(num_envs, 8))
        # XLA reads the condition of a loop on the host, for which an accelerator waits each time.
        devices = getattr(self.device, "device_set", {self.device})
        self._resets_in_chunks = all(device.platform == "cpu" for device in devices)

    def split(self) -> FunctionalSimulator:
        """Return a simulator of the rows of one device."""
        first = min(self.device.device_set, key=lambda device: device.id)
        return self._rebuilt_with(self.num_envs // self.num_devices, device=first, calls=0)()

    def __reduce__(self) -> Any:
        """Pickle as what it was built from, with the device by its name."""
        device, limit = name_device(self.device), self.task_limit
        return self._rebuilt_with(self.num_envs, device=device, task_limit=limit), ()

    def _rebuilt_with(self, num_envs: int, **options: Any) -> partial[FunctionalSimulator]:
        kept = {"action_repeat": self.action_repeat, "guarded": self._guarded, "calls": self._calls}
        options = kept | options
        return partial(FunctionalSimulator, self.env, num_envs, **options)

    def restart(
        self, state: FunctionalState | None, mask: jax.Array, seeds: Seeds | None
    ) -> tuple[FunctionalState, TimeStep]:
        """Begin new episodes under `mask`; see `gymbridge.core.episode.Simulator.restart`."""
        if state is None:
            assert seeds is not None, "the first state needs seeds"
            seed = jnp.asarray(seeds.values)
            episode = jnp.zeros(self.num_envs, jnp.uint32)
            initial = self._reset_every(seed, episode, seeds.options or {})
            state = FunctionalState(initial, jnp.zeros(self.num_envs, bool), seed, episode)
        else:
            state = self._begin(state, mask, seeds)
        return state, self.read(state)

    def advance(
        self,
        state: FunctionalState,
        actions: Any,
        restart: jax.Array | None,
        hold: jax.Array | None,
    ) -> tuple[FunctionalState, TimeStep]:
        """Take one step; see `gymbridge.core.episode.Simulator.advance`."""
        moving: tuple[Any, Any] = (self.env_state(state), actions)
        for idle in (restart, hold):
            if idle is not None:
                moving = cut_gradients(idle, moving)
        if self._guarded:
            after, diverged = self._guarded_step(*moving)
        else:
            after, diverged = self._step_rows(*moving), state.diverged
        stepped = state._replace(leaves=_flat(after), diverged=diverged)
        if hold is not None:
            stepped = where_rows(hold, self._without_reward(state), stepped)
        if restart is not None:
            stepped = self._begin(stepped, restart, None)
        return stepped, self.read(stepped)

    def make_renderer(self, view: View) -> FunctionalRenderer:
        """Return the renderer; see `gymbridge.core.episode.Simulator.make_renderer`."""
        drawing = self.env.drawing
        if drawing is None:
            why = "the environment cannot be drawn; give its translation a `drawing`"
            raise unexpected_keyword("FunctionalVectorEnv", "render_mode", self.env.facts.name, why)
        return FunctionalRenderer(self, drawing.drawn, drawing.make_renderer(view))

    def close(self) -> None:
        """Do nothing: arrays are freed with their last reference."""

    @default_generator()
    def _factorizes(self) -> bool:
        """Return whether `reset` or `step` of the environment factorizes matrices."""
        given = KEY, self.shapes, action_struct(self.single_action_space)
        return factorizes(lambda k, s, a: (self.env.reset(k), self.step_row(s, a)), *given)

    def leaf_names(self) -> list[str]:
        """Return the engine's name of each leaf of its state; levels are joined by dots."""
        paths = jax.tree_util.tree_flatten_with_path(self.shapes)[0]
        names = (jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths)
        # Where physics are drawn, the engine's own state is the field `state` of a larger one.
        return [name.removeprefix("state.") for name in names]

    def env_state(self, state: FunctionalState) -> Any:
        """Return the batch of states in the environment's own structure."""
        return jax.tree.unflatten(jax.tree.structure(self.shapes), state.leaves)

    def read(self, state: FunctionalState) -> TimeStep:
        """Return what a user sees of the batch."""
        time_step: TimeStep = self._read_rows(self.env_state(state))
        if not self._guarded:
            return time_step
        return time_step._replace(info={**time_step.info, "nonfinite": state.diverged})

    def _without_reward(self, state: FunctionalState) -> FunctionalState:
        env_state = self.env_state(state)
        now = self._read_rows(env_state)
        idle = jax.vmap(self.env.write)(env_state, now.obs, jnp.zeros_like(now.reward))
        return state._replace(leaves=_flat(idle))

    def _begin(
        self, state: FunctionalState, mask: jax.Array, seeds: Seeds | None
    ) -> FunctionalState:
        seed, episode, options = state.seed, state.episode + mask.astype("uint32"), {}
        if seeds is not None:
            options = seeds.options or {}
            given = mask & seeds.given
            seed = jnp.where(given, seeds.values, seed)
            episode = jnp.where(given, 0, episode).astype(jnp.uint32)
        mask = jnp.asarray(mask)

        drawn = seed, episode, options
        if self._resets_in_chunks:

            def renew(leaves: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
                return where_rows(mask, self._reset_under(mask, *drawn), leaves)

            leaves = jax.lax.cond(mask.any(), renew, lambda leaves: leaves, state.leaves)
        else:
            # No tangent enters the condition, so a backward pass has none.
            kept = jax.lax.stop_gradient(state.leaves)
            fresh = jax.lax.cond(mask.any(), lambda: self._reset_every(*drawn), lambda: kept)
            leaves = where_rows(mask, fresh, state.leaves)
        return FunctionalState(leaves, state.diverged & ~mask, seed, episode)

    def _reset_every(
        self, seed: jax.Array, episode: jax.Array, options: dict[str, Any]
    ) -> tuple[jax.Array, ...]:
        """Return fresh states in every row."""
        return _flat(self._reset_rows(_episode_keys(seed, episode), **options))

    def _reset_under(
        self, mask: jax.Array, seed: jax.Array, episode: jax.Array, options: dict[str, Any]
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
            jnp.zeros((padded, *leaf.shape), leaf.dtype) for leaf in jax.tree.leaves(self.shapes)
        )

        def reset_chunk(loop: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
            start, rows = loop
            chosen = jax.lax.dynamic_slice_in_dim(ids, start, chunk)
            keys = _episode_keys(seed[chosen], episode[chosen])
            given = jax.tree.map(lambda leaf: jnp.asarray(leaf)[chosen], options)
            fresh = _flat(self._reset_rows(keys, **given))
            update = partial(jax.lax.dynamic_update_slice_in_dim, start_index=start, axis=0)
            return start + chunk, tuple(map(update, rows, fresh))

        start = jnp.zeros((), count.dtype)
        buffer = jax.lax.while_loop(lambda loop: loop[0] < count, reset_chunk, (start, buffer))[1]
        place = jnp.maximum(jnp.cumsum(mask) - 1, 0)
        return tuple(leaf[place] for leaf in buffer)


class FunctionalRenderer(NamedTuple):
    """Draws the states of a simulator, by the environment's renderer."""

    simulator: FunctionalSimulator
    drawn: Callable[[Any], Any]
    renderer: Renderer

    def draw(self, state: FunctionalState) -> list[np.ndarray]:
        """Return a frame of each environment; see `gymbridge.core.episode.Renderer`."""
        return self.renderer.draw(self.drawn(self.simulator.env_state(state)))

    def close(self) -> None:
        """Release the resources for drawing."""
        self.renderer.close()


def _flat(state: Any) -> tuple[jax.Array, ...]:
    return tuple(jax.tree.leaves(state))


@default_generator()
def _episode_keys(seed: jax.Array, episode: jax.Array) -> jax.Array:
    """Return the PRNG key of each row's episode, (num_envs, 2) uint32."""
    return jax.vmap(lambda s, k: jax.random.fold_in(jax.random.PRNGKey(s), k))(seed, episode)


def _step_and_guard(
    env: FunctionalEnv[Any], num_envs: int, step_rows: Any, before: Any, actions: Any
) -> tuple[Any, jax.Array]:
    """Step every row; a row that produced NaN or Inf keeps its last finite observation.

    Checked are observation, reward, and what the environment names as its positions.
    """
    after = step_rows(before, actions)
    was, now = jax.vmap(env.read)(before), jax.vmap(env.read)(after)
    diverged = ~are_finite((now.obs, now.reward, env.positions(after)), num_envs)
    obs = where_rows(diverged, jax.tree.map(make_finite, was.obs), now.obs)
    reward = jnp.where(diverged, 0, now.reward)
    after = where_rows(diverged, jax.vmap(env.finish)(after), after)
    return jax.vmap(env.write)(after, obs, reward), diverged


def _repeat(env: FunctionalEnv[Any], action_repeat: int, state: Any, action: Any) -> Any:
    """Step one row `action_repeat` times, adding rewards, and stay where its episode ends."""
    stepped = env.step(state, action)
    if action_repeat == 1:
        return stepped

    def again(_: Any, now: Any) -> Any:
        seen = env.read(now)
        over = seen.terminated | seen.truncated
        later = env.step(*cut_gradients(over, (now, action)))
        after = env.read(later)
        later = env.write(later, after.obs, seen.reward + after.reward)
        return jax.tree.map(partial(jnp.where, over), now, later)

    return jax.lax.fori_loop(1, action_repeat, again, stepped)
