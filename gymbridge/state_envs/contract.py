"""The rules by which an environment with Brax's kind of states can be batched.

Tracing `reset` and `step` of one environment finds its structure, shapes and dtypes without running
it; a mismatch is reported here, with the leaf that breaks the rule, instead of deep inside XLA.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space, spaces

from gymbridge.core.jax_private import default_promotion, keeps_old_traces
from gymbridge.core.spaces import cast_space
from gymbridge.errors import ArgumentError, EnvContractError
from gymbridge.functional.protocol import KEY, action_struct
from gymbridge.functional.tracing import (
    cast_like,
    check_containers,
    check_same_leaves,
    close,
    trace,
)
from gymbridge.state_envs.infos import make_info_selector
from gymbridge.state_envs.mjx_private import SolverGradient
from gymbridge.state_envs.model import ModelLeaves, Physics

__all__ = ["Contract", "Style"]

_MODEL_LOCK = threading.RLock()
"""Held in each trace, since in another thread's the environment may have another model."""


class Style(NamedTuple):
    """The names that an engine with states like Brax's gives to things."""

    engine: str  # "Brax"
    argument: str  # the environment's name in errors about arguments: "brax_env"
    state: str  # class of its states: "brax.envs.State"
    physics: str  # field of a state that holds the simulation's: "pipeline_state"
    model: str  # attribute of the unwrapped environment with the model: "sys"
    mj_model: str  # path in the unwrapped environment of what MuJoCo draws: "sys.mj_model"
    package: str  # where the engine's own `render` methods are: "brax"
    make_page: Callable[..., str]  # makes a page of HTML; see `gymbridge.state_envs.viewer`
    training: tuple[str, ...]  # modules of its training wrappers, which batch and restart


class Contract:
    """One environment, traced: its pure functions, spaces and infos.

    Args:
        env: The environment, unbatched and without training wrappers.
        style: Names in its engine.
        action_space: Space of one action, where the environment declares none.
        observation_space: Space of one observation, where the environment declares none.
        info_keys: Which infos there are; see `make_info_selector`.
        mjx_solver_gradient: How gradients of `step` pass MJX's solver, see `SolverGradient`; None
            without gradients.

    Raises:
        SimulationError: `reset` or `step` fails while it is traced.
        EnvContractError: The environment is wrapped for training, `reset` and `step` disagree in
            structure, shape or dtype, reward or `done` is not a scalar, or the gradients of MJX's
            solver do not reach functions that the environment compiled itself.
        ArgumentError: A space or `mjx_solver_gradient` does not fit the environment.
    """

    def __init__(
        self,
        env: Any,
        style: Style,
        *,
        action_space: Space[Any] | None = None,
        observation_space: Space[Any] | None = None,
        info_keys: Sequence[str] | str | None = None,
        mjx_solver_gradient: str | None = None,
    ) -> None:
        _refuse_training_wrappers(env, style)
        self.env, self.style = env, style
        with _MODEL_LOCK:
            model = getattr(env.unwrapped, style.model, None)
        self.leaves = None if model is None else ModelLeaves(model)
        # Functions of this contract alone: JAX would take the trace that it made of an equal bound
        # method, although the environment may have changed since.
        self.call_with = call = partial(_call_with, env.unwrapped, style.model, self.leaves)
        self._reset = jax.jit(lambda key, physics: call(physics, env.reset, key))
        self.solver = SolverGradient(mjx_solver_gradient) if mjx_solver_gradient else None
        step = self.solver.wrap(env.step) if self.solver else env.step
        self._step = jax.jit(lambda state, action, physics: call(physics, step, state, action))
        run = partial(
            trace, f"the {style.engine} environment {type(env.unwrapped).__name__}", style.package
        )
        begun = run("reset", self._reset, KEY, None)
        self.state = self._read_state("reset", begun)
        _check_scalars(self.state)
        inferred = _to_space(self.state.obs)
        declared = self._declared("observation_space", observation_space)
        self.observation_space = (
            inferred if declared is None else cast_space(declared, jax.dtypes.canonicalize_dtype)
        )
        _check_same_arrays(self.observation_space, inferred)
        self.action_space = self._declared("action_space", action_space) or _unit_box(
            env.action_size
        )
        action = action_struct(self.action_space)
        stepped = run("step", self._step, self.state, action, None)
        _check_step(self.state, self._read_state("step", stepped), style.physics)
        if self.solver:
            _check_solver(self.solver, type(env.unwrapped).__name__, self._step, self.state, action)
        self.select_info = make_info_selector(self.state, info_keys)
        self._own_reset = close(self._reset, KEY, None)
        self._own_step = close(self._step, self.state, action, None)

    def reset(self, key: jax.Array, physics: Physics | None = None) -> Any:
        """Return the initial state of one episode, with reward and `done` 0 and fixed dtypes.

        Args:
            key: PRNG key.
            physics: Leaves to be used in place of the model's own.
        """
        state = self._own_reset(key) if physics is None else self._reset(key, physics)
        zero = {name: jnp.zeros_like(getattr(state, name)) for name in ("reward", "done")}
        return self._normalise(replace(state, **zero))

    def step(self, state: Any, action: jax.Array, physics: Physics | None = None) -> Any:
        """Return the state after one simulator step of one environment."""
        if physics is None:
            return self._normalise(self._own_step(state, action))
        return self._normalise(self._step(state, action, physics))

    def _read_state(self, verb: str, state: Any) -> Any:
        """Return the shapes of a state: observations in plain dicts, float rewards, no weak types.

        Raises:
            EnvContractError: `state` is not a state of a single environment.
        """
        parts = ("obs", "reward", "done", "metrics", "info", "replace")
        if not all(hasattr(state, name) for name in parts):
            raise EnvContractError(
                f"`{verb}` must return a {self.style.state}, got {type(state).__name__}."
            )
        for name in ("metrics", "info"):
            found = getattr(state, name)
            if not isinstance(found, Mapping):
                raise EnvContractError(f"`State.{name}` must be a dict, got {found}.")
        reward = jax.tree.map(_as_float, state.reward)
        state = state.replace(obs=_to_plain(state.obs), reward=reward)
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), state)

    def _normalise(self, state: Any) -> Any:
        """Return the state with observations as plain dicts, `reset`'s dtypes and no weak types."""
        return cast_like(replace(state, obs=_to_plain(state.obs)), self.state)

    def _declared(self, name: str, given: Space[Any] | None) -> Space[Any] | None:
        own = getattr(self.env, name, None)
        own = own if isinstance(own, Space) else None
        if own is not None and given is not None and own != given:
            raise ArgumentError(
                f"`{name}` is declared by the environment as {own}, got {given}; leave it out."
            )
        return own if own is not None else given


def _call_with(
    env: Any,
    name: str,
    leaves: ModelLeaves | None,
    physics: Physics | None,
    function: Callable[..., Any],
    *args: Any,
) -> Any:
    """Call a function of the environment while its model has other leaves, as a trace does."""
    with _MODEL_LOCK, default_promotion():
        if not physics or leaves is None:
            return function(*args)
        model, own = leaves.replace(physics), getattr(env, name)
        try:
            setattr(env, name, model)
            return function(*args)
        finally:
            setattr(env, name, own)


def _refuse_training_wrappers(env: Any, style: Style) -> None:
    while any(base.__name__ == "Wrapper" for base in type(env).__mro__):
        for base in type(env).__mro__:
            if base.__module__ in style.training and base.__name__ != "Wrapper":
                raise EnvContractError(
                    f"`{style.argument}` must not be wrapped in {style.engine}'s {base.__name__}: "
                    "gymbridge does batching, time limit, randomisation and autoreset. Pass the "
                    "environment inside it, with `max_episode_steps`, `action_repeat`, "
                    "`randomization_fn` and `autoreset_mode`."
                )
        env = env.env


def _as_float(leaf: Any) -> Any:
    is_float = jnp.issubdtype(leaf.dtype, jnp.floating)
    return leaf if is_float else jax.ShapeDtypeStruct(leaf.shape, jnp.float32)


def _check_scalars(state: Any) -> None:
    """Raise unless what ends an episode and what it earns are scalars."""
    scalars = {"reward": state.reward, "done": state.done}
    if "truncation" in state.info:
        scalars["info['truncation']"] = state.info["truncation"]
    for name, leaf in scalars.items():
        if getattr(leaf, "shape", None) != ():
            raise EnvContractError(
                f"`State.{name}` must be a scalar in a single environment, got {leaf}; gymbridge "
                "does the batching, so pass an unbatched environment."
            )


def _check_step(reset: Any, step: Any, physics: str) -> None:
    """Raise unless `step` returns what `reset` does, leaf by leaf."""
    # The width of a flag means nothing, and Brax's own differ under x64.
    check_same_leaves("State", reset, step, verbs=("reset", "step"), loose=(".done",))
    for name in (physics, "metrics", "info"):
        before, after = (getattr(state, name, None) for state in (reset, step))
        check_containers(f"State.{name}", before, after, ("reset", "step"))


def _check_solver(solver: SolverGradient, name: str, step: Any, state: Any, action: Any) -> None:
    """Raise unless gradients pass MJX's solver as the user chose, if the step runs it."""
    is_old = keeps_old_traces(step, state, action, None)
    if is_old and solver.is_used:
        raise EnvContractError(
            f"`differentiable=True` has no effect in functions that {name} compiled itself, since "
            "`jax.jit` keeps MJX's solver as it was when they were traced first. Leave `jax.jit` "
            "out of the environment: the batch compiles it."
        )
    if solver.mode != "auto" and not solver.is_used:
        raise ArgumentError(
            f"`mjx_solver_gradient={solver.mode!r}` has no effect: the step of {name} does not run "
            "MJX's constraint solver. Leave it out."
        )


def _to_plain(obs: Any) -> Any:
    """Return observations with every mapping as a plain dict, as `spaces.Dict` batches them."""
    if hasattr(obs, "items"):
        return {key: _to_plain(value) for key, value in obs.items()}
    return obs


def _unit_box(action_size: int) -> spaces.Box:
    dtype: Any = jax.dtypes.canonicalize_dtype(float).type  # As the physics.
    return spaces.Box(-1.0, 1.0, (int(action_size),), dtype)


def _to_space(struct: Any) -> Space[Any]:
    if isinstance(struct, dict):
        return spaces.Dict({key: _to_space(value) for key, value in struct.items()})
    if not isinstance(struct, jax.ShapeDtypeStruct):
        raise EnvContractError(f"`State.obs` must be an array or a mapping of such, got {struct}.")
    dtype = struct.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biuf":
        raise EnvContractError(
            f"`State.obs` must have a bool, integer or float dtype of numpy, got {dtype}."
        )
    if dtype.kind == "b":
        return spaces.Box(0, 1, struct.shape, dtype)
    if dtype.kind in "iu":
        return spaces.Box(np.iinfo(dtype).min, np.iinfo(dtype).max, struct.shape, dtype)
    return spaces.Box(-np.inf, np.inf, struct.shape, dtype.type)


def _check_same_arrays(declared: Space[Any], inferred: Space[Any]) -> None:
    if isinstance(declared, spaces.Dict) and isinstance(inferred, spaces.Dict):
        if declared.spaces.keys() == inferred.spaces.keys():
            for key, space in declared.spaces.items():
                _check_same_arrays(space, inferred[key])
            return
    elif (declared.shape, declared.dtype) == (inferred.shape, inferred.dtype):
        return
    raise ArgumentError(
        f"`observation_space` must hold what the environment returns, {inferred}, got {declared}."
    )
