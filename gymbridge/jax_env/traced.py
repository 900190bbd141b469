"""One JAX environment as the checked traces of its methods, which are what a batch runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from gymbridge.core.episode import TimeStep
from gymbridge.core.requests import read_info_keys
from gymbridge.core.spaces import cast_space
from gymbridge.jax_env.checks import (
    check_carried,
    check_infos,
    check_observation,
    check_scalars,
    read_mapping,
    read_space,
    to_plain,
    unpack,
)
from gymbridge.jax_env.env import JaxEnv
from gymbridge.jax_env.options import given_together, read_carried, read_reset_options
from gymbridge.jax_env.own_rendering import draw_by
from gymbridge.jax_env.tracing import (
    KEY,
    action_struct,
    cast_like,
    check_structure,
    close,
    to_strong,
    trace,
)
from gymbridge.private.jax import used_inputs

__all__ = ["TracedEnv"]

_RESET = ("state", "observation", "info")
_STEP = ("state", "observation", "reward", "terminated", "truncated", "info")


class TracedEnv:
    """One environment, traced and checked.

    Nothing of the environment is called again, so nothing that changes later has an effect.

    Args:
        env: The environment.
        info_keys: The names of the infos in its time steps; None or "all" for all.

    Attributes:
        observation_space: Space of one observation, in JAX's dtypes.
        action_space: Space of one action.
        metadata: What is known of the environment, an `EnvMetadata`.
        drawing: How it is drawn.
        options: Options of `reset`, by name.
        carried: Names of the options that are infos, and outlive an episode.
        state_shapes: Shapes and dtypes of a state.
        reads_keys: Whether `step` uses its key.

    Raises:
        SimulationError: A method fails while it is traced.
        EnvContractError: The two methods disagree, or return what a batch cannot have; the message
            names the leaf.
        ArgumentError: A space does not fit what the methods return, or there is no such info.
        ArgumentTypeError: A space, an option or another argument is of the wrong type.
    """

    def __init__(self, env: JaxEnv, info_keys: Sequence[str] | str | None = None) -> None:
        self.metadata = env._env_metadata()
        name = self.metadata.name
        # Without a `Drawing`, the environment's method `render` draws.
        self.drawing = self.metadata.drawing or draw_by(getattr(env, "render", None), name)
        self.observation_space = cast_space(
            read_space(env, "observation_space", name), jax.dtypes.canonicalize_dtype
        )
        self.action_space = read_space(env, "action_space", name)
        kept, defaults = read_carried(env)
        self.options, self.carried = read_reset_options(env) | kept, tuple(kept)
        self._always = {
            name: option.default
            for name, option in self.options.items()
            if option.default is not None
        }
        self._trace(env, defaults)
        shown = read_info_keys(info_keys, self._infos)
        self._shown = {*(self._infos if shown is None else shown), *self.carried}

    def _trace(self, env: JaxEnv, defaults: Mapping[str, Any]) -> None:
        """Trace the methods, check what they return, and keep the traces, which all calls run."""
        # Functions of this object alone, since JAX keeps traces by function.
        reset, step = jax.jit(partial(_reset, env, defaults)), jax.jit(partial(_step, env))
        run = partial(trace, self.metadata.name, "")
        # Without weak types, as `_normalise` returns a state to the next step.
        begun = to_strong(run("reset", reset, KEY, self._always))
        action = action_struct(self.action_space)
        stepped = run("step", step, KEY, begun[0], action)
        check_structure(self.metadata.state_name, begun[0], stepped[0], ("reset", "step"))
        for verb, seen in (("reset", begun[1]), ("step", stepped[1])):
            check_observation(self.observation_space, seen, verb)
        self._reward = check_scalars(*stepped[2:5])
        self._infos, self._defaults = check_infos(
            begun[2], stepped[5], read_mapping(env, "info_defaults")
        )
        for name in self.carried:
            check_carried(name, self._infos.get(name), self.options[name].like.value)
        self.state_shapes, self._obs = begun[:2]
        self.positions, self.physics_leaves = (
            _close(run, verb, getattr(env, verb), self.state_shapes)
            for verb in ("positions", "physics_leaves")
        )
        self._step = close(step, KEY, self.state_shapes, action)
        self.reads_keys: bool = used_inputs(step, KEY, self.state_shapes, action)[0]
        self._resets = {}
        for names in given_together(self.options):
            given = {name: self.options[name].like for name in names}
            if names != self._always.keys():
                chosen = run("reset", reset, KEY, given)
                for part, before, after in zip(_RESET, begun, chosen, strict=True):
                    check_structure(part, before, after, ("reset", "reset with options"))
            self._resets[names] = close(reset, KEY, given)

    def reset(self, key: jax.Array, options: Mapping[str, Any]) -> tuple[Any, TimeStep]:
        """Return the initial state and time step of one episode, with options by name."""
        options = {**self._always, **options}
        state, obs, info = self._resets[frozenset(options)](key, options)
        no = jnp.zeros((), bool)
        return self._normalise(state, TimeStep(obs, jnp.zeros((), self._reward), no, no, info))

    def step(self, key: jax.Array, state: Any, action: Any) -> tuple[Any, TimeStep]:
        """Return the state and the time step one step later; the flags are the environment's."""
        after, *seen = self._step(key, state, action)
        return self._normalise(after, TimeStep(*seen))

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """Return a state, or a batch of such, by its leaves."""
        return jax.tree.unflatten(jax.tree.structure(self.state_shapes), leaves)

    def _normalise(self, state: Any, seen: TimeStep) -> tuple[Any, TimeStep]:
        """Return both with the dtypes that were checked, no weak types and the infos shown."""
        info = cast_like(_fill(seen.info, self._defaults), self._infos)
        return cast_like(state, self.state_shapes), TimeStep(
            cast_like(seen.obs, self._obs),
            jnp.asarray(seen.reward, self._reward),
            jnp.asarray(seen.terminated),
            jnp.asarray(seen.truncated),
            {name: value for name, value in info.items() if name in self._shown},
        )


def _reset(
    env: JaxEnv, defaults: Mapping[str, Any], key: Any, options: dict[str, Any]
) -> tuple[Any, Any, Any]:
    plain = {name: options[name].over(default) for name, default in defaults.items()}
    state, obs, info = unpack("reset", env.reset(key, **options | plain), _RESET)
    return state, to_plain(obs), info


def _step(env: JaxEnv, key: Any, state: Any, action: Any) -> tuple[Any, ...]:
    after, obs, *others = unpack("step", env.step(key, state, action), _STEP)
    return after, to_plain(obs), *others


def _close(run: Callable[..., Any], verb: str, function: Callable[..., Any], state: Any) -> Any:
    """Return a method of a state as it is traced here; see `close`."""
    # A new function, since JAX keeps traces by function, and bound methods can be equal.
    fresh = jax.jit(lambda state: function(state))
    run(verb, fresh, state)
    return close(fresh, state)


def _fill(infos: Any, defaults: Mapping[str, Any]) -> Any:
    """Return infos with the defaults of those that are missing."""
    inner = {
        name: _fill(infos[name], default)
        for name, default in defaults.items()
        if name in infos and isinstance(infos[name], dict)
    }
    return {**defaults, **infos, **inner}
