"""A `JaxEnv` as a `FunctionalEnv`: traced once, checked, with its time step beside its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gymbridge.core.episode import Renderer, TimeStep, View
from gymbridge.core.requests import read_info_keys
from gymbridge.core.spaces import cast_space
from gymbridge.errors import unexpected_keyword
from gymbridge.functional.protocol import KEY, Drawing, Facts, action_struct
from gymbridge.functional.rendering import OwnRenderer
from gymbridge.functional.rows import make_finite
from gymbridge.functional.tracing import cast_like, check_same_leaves, close, trace
from gymbridge.jax_env.checks import (
    check_infos,
    check_observation,
    check_scalars,
    check_structure,
    read_mapping,
    read_space,
    to_plain,
    unpack,
)
from gymbridge.jax_env.env import JaxEnv
from gymbridge.jax_env.options import given_together, read_option_defaults, read_reset_options

__all__ = ["STEP_STREAM", "JaxState", "TranslatedEnv"]

STEP_STREAM = 0x73746570
"""Folded into an episode's key for its steps, since `reset` may split or fold the key itself."""

_STEP = ("state", "observation", "reward", "terminated", "truncated", "info")


class JaxState(NamedTuple):
    """A state of a `JaxEnv`, and what a user sees of it."""

    state: Any
    key: jax.Array  # stream of the episode's steps
    steps: jax.Array  # () uint32, steps since the episode began
    seen: TimeStep


class TranslatedEnv:
    """One `JaxEnv`, traced and checked.

    Args:
        env: The environment.
        info_keys: The names of the infos that `read` returns; None or "all" for all.

    Raises:
        SimulationError: A method fails while it is traced.
        EnvContractError: The two methods disagree, or return what a batch cannot have; the message
            names the leaf.
        ArgumentError: A space does not fit what the methods return, or there is no such info.
        ArgumentTypeError: A space, an option or another argument is of the wrong type.
    """

    def __init__(self, env: JaxEnv, info_keys: Sequence[str] | str | None = None) -> None:
        self._env, name = env, env.name or type(env).__name__
        self.observation_space = cast_space(
            read_space(env, "observation_space"), jax.dtypes.canonicalize_dtype
        )
        self.action_space = read_space(env, "action_space")
        readers, structs = read_reset_options(env)
        self.facts = Facts(name, env, step_seconds=env.step_seconds, reset_options=readers)
        self._check(env, structs, read_option_defaults(env, structs))
        self._shown = read_info_keys(info_keys, self._infos) or ()
        if info_keys is None:
            self._shown = self._infos.keys()

    def _check(self, env: JaxEnv, options: dict[str, Any], defaults: dict[str, Any]) -> None:
        """Trace the methods, check what they return, and keep the traces, which all calls run."""
        # Functions of this translation alone, since JAX keeps traces by function.
        reset, step = jax.jit(partial(_reset, env)), jax.jit(partial(_step, env))
        run = partial(trace, self.facts.name, "")
        # Without weak types, as `_normalise` returns a state to the next step.
        begun = jax.tree.map(_to_strong, run("reset", reset, KEY, {}))
        action = action_struct(self.action_space)
        stepped = run("step", step, KEY, begun[0], action)
        check_structure("state", begun[0], stepped[0], ("reset", "step"))
        for verb, seen in (("reset", begun[1]), ("step", stepped[1])):
            check_observation(self.observation_space, seen, verb)
        self._reward = check_scalars(*stepped[2:5])
        self._infos, self._defaults = check_infos(
            begun[2], stepped[5], read_mapping(env, "info_defaults")
        )
        self._state, self._obs = begun[:2]
        self._positions, self._physics_leaves = (
            _close(run, verb, getattr(env, verb), self._state)
            for verb in ("positions", "physics_leaves")
        )
        self._step = close(step, KEY, begun[0], action)
        self._option_defaults, self._resets = defaults, {}
        for names in given_together(options, defaults):
            given = {name: options[name] for name in names}
            _check_options(begun, run("reset", reset, KEY, given))
            self._resets[names] = close(reset, KEY, given)

    @property
    def drawing(self) -> Drawing:
        """By the environment's own `render(state)`."""
        is_possible = callable(getattr(self._env, "render", None))
        # The steps stand for empty states.
        return Drawing(self._make_renderer, lambda batch: (batch.state, batch.steps), is_possible)

    def reset(self, key: jax.Array, **options: Any) -> JaxState:
        """Return the initial state of one episode."""
        state, obs, info = self._run_reset(key, options)
        no = jnp.zeros((), bool)
        seen = TimeStep(obs, jnp.zeros((), self._reward), no, no, info)
        steps = jnp.zeros((), jnp.uint32)
        return self._normalise(JaxState(state, jax.random.fold_in(key, STEP_STREAM), steps, seen))

    def step(self, state: JaxState, action: Any) -> JaxState:
        """Return the state one step later."""
        key = jax.random.fold_in(state.key, state.steps)
        after, *seen = self._step(key, state.state, action)
        return self._normalise(JaxState(after, state.key, state.steps + 1, TimeStep(*seen)))

    def read(self, state: JaxState) -> TimeStep:
        """Return what a user sees of a state, which has all infos."""
        info = {name: value for name, value in state.seen.info.items() if name in self._shown}
        return state.seen._replace(info=info)

    def write(self, state: JaxState, obs: Any, reward: Any) -> JaxState:
        """Return the state with another observation and reward to read."""
        return state._replace(seen=state.seen._replace(obs=obs, reward=reward))

    def finish(self, state: JaxState) -> JaxState:
        """Return the state as terminated, with 0 for NaN and Inf in its infos."""
        info = jax.tree.map(make_finite, state.seen.info)
        seen = state.seen._replace(terminated=jnp.ones((), bool), info=info)
        return state._replace(seen=seen)

    def positions(self, state: JaxState) -> Any:
        """Return the leaves that must stay finite, besides observation and reward."""
        return _by_row(self._positions, state)

    def physics_leaves(self, state: JaxState) -> Any:
        """Return the leaves that make the vjp of a step zero when they overflow."""
        return _by_row(self._physics_leaves, state)

    def _run_reset(self, key: jax.Array, options: dict[str, Any]) -> tuple[Any, Any, Any]:
        """Run the trace in which these options are given, or these and others by their defaults."""
        if frozenset(options) not in self._resets:
            options = self._option_defaults | options
        return self._resets[frozenset(options)](key, options)

    def _normalise(self, now: JaxState) -> JaxState:
        """Return the state with the dtypes that were checked, no weak types and all infos."""
        seen = now.seen
        return now._replace(
            state=cast_like(now.state, self._state),
            seen=TimeStep(
                cast_like(seen.obs, self._obs),
                jnp.asarray(seen.reward, self._reward),
                jnp.asarray(seen.terminated),
                jnp.asarray(seen.truncated),
                cast_like(_fill(seen.info, self._defaults), self._infos),
            ),
        )

    def _make_renderer(self, view: View) -> Renderer:
        """Return the renderer of the environment's own frames.

        Raises:
            KeywordError: The environment has no `render`.
        """
        render = getattr(self._env, "render", None)
        if not callable(render):
            why = "the environment has no method `render(state)` that returns an image"
            raise unexpected_keyword("JaxVectorEnv", "render_mode", self.facts.name, why)
        return OwnRenderer(lambda drawn: render(drawn[0]), self.facts.name)


def _reset(env: JaxEnv, key: Any, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    state, obs, info = unpack("reset", env.reset(key, **options), ("state", "observation", "info"))
    return state, to_plain(obs), info


def _step(env: JaxEnv, key: Any, state: Any, action: Any) -> tuple[Any, ...]:
    after, obs, *others = unpack("step", env.step(key, state, action), _STEP)
    return after, to_plain(obs), *others


def _by_row(function: Callable[[Any], Any], batch: JaxState) -> Any:
    """Return what a function of one state returns for each; the steps stand for empty states."""
    return jax.vmap(lambda state, _: function(state))(batch.state, batch.steps)


def _close(run: Callable[..., Any], verb: str, function: Callable[..., Any], state: Any) -> Any:
    """Return a method of a state as it is traced here; see `close`."""
    # A function of its own, since JAX keeps traces by function, and bound methods can be equal.
    fresh = jax.jit(lambda state: function(state))
    run(verb, fresh, state)
    return close(fresh, state)


def _check_options(begun: tuple[Any, ...], chosen: tuple[Any, ...]) -> None:
    """Raise unless `reset` returns the same leaves with options as without."""
    verbs = ("reset", "reset with options")
    for part, before, after in zip(_STEP, begun[:2], chosen[:2], strict=False):
        check_structure(part, before, after, verbs)
    check_same_leaves("info", begun[2], chosen[2], verbs=verbs)


def _to_strong(leaf: Any) -> Any:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


def _fill(infos: Any, defaults: Mapping[str, Any]) -> Any:
    """Return infos with the defaults of those that are missing."""
    inner = {
        name: _fill(infos[name], default)
        for name, default in defaults.items()
        if name in infos and isinstance(infos[name], dict)
    }
    return {**defaults, **infos, **inner}
