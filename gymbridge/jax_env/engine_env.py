"""Environments of Brax's kind, translated to a `JaxEnv`: Brax's own and Playground's.

Their `reset` and `step` return one dataclass with `obs`, `reward`, `done`, `metrics`, `info` and
the state of the simulation. It is the state here, and what a user sees is taken out of it. Where
physics are drawn, those of the episode are beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space, spaces

from gymbridge.core.episode import split_done
from gymbridge.errors import ArgumentError, ArgumentTypeError, EnvContractError
from gymbridge.jax_env.checks import read_space, to_plain
from gymbridge.jax_env.env import Coordinates, Drawing, Drawn, EnvMetadata, JaxEnv
from gymbridge.jax_env.infos import is_carriable, make_info_selector
from gymbridge.jax_env.model import ModelLeaves, Physics
from gymbridge.jax_env.options import Kept, carry_tree
from gymbridge.jax_env.own_rendering import draw_by
from gymbridge.jax_env.randomization import Randomization, RandomizedEpisode
from gymbridge.jax_env.rendering import MujocoRenderer
from gymbridge.jax_env.tracing import KEY, action_struct, to_strong, trace
from gymbridge.jax_env.viewer import make_page
from gymbridge.private.jax import current_trace, keeps_old_traces
from gymbridge.private.mjx import SolverGradient, read_solver_gradient

__all__ = ["EngineEnv", "StateFields"]

_POSITIONS = ("q", "qd", "qpos", "qvel")
_OF_MJX = ("qpos", "qvel", "act")
_OF_BRAX = ("q", "qd")


class StateFields(NamedTuple):
    """The names that an engine with states like Brax's gives to things."""

    engine: str  # "Brax"
    argument: str  # the environment's name in errors about arguments: "brax_env"
    state: str  # class of its states: "brax.envs.State"
    physics: str  # field of a state that has the simulation's: "pipeline_state"
    model: str  # attribute of the unwrapped environment with the model: "sys"
    mj_model: str  # path in the unwrapped environment of what MuJoCo draws: "sys.mj_model"
    package: str  # where the engine's own `render` methods are: "brax"
    training: tuple[str, ...]  # modules of its training wrappers, which batch and restart
    starting_at: Callable[..., Any]  # lets an environment begin elsewhere; see `private.brax`
    preserved: str = ""  # entry of `state.info` that its own wrapper keeps when an episode ends


class EngineEnv(JaxEnv):
    """One environment of an engine. Its keyword-only arguments are those that all engines share.

    Args:
        env: The environment, unbatched and without training wrappers.
        fields: Names in its engine.
        info_keys: Which infos there are; see `make_info_selector`.
        differentiable: Whether `step` has a backward pass.
        randomization_fn: Function that draws the physics of each episode; see `Randomization`.
        carried: Names of entries of ``state.info`` that outlive their episode; see `JaxEnv`. The
            entry that the engine's own wrapper keeps is among them without being named, if it is
            an array or nested dicts of some.
        mjx_solver_gradient: How gradients of `step` pass MJX's solver, see `SolverGradient`.
        action_space: Space of one action, where the environment declares none.
        observation_space: Space of one observation, where the environment declares none.
    """

    def __init__(
        self,
        env: Any,
        fields: StateFields,
        info_keys: Sequence[str] | str | None,
        differentiable: bool,
        *,
        randomization_fn: Callable[..., Any] | None = None,
        carried: Sequence[str] = (),
        mjx_solver_gradient: str = "auto",
        action_space: Space[Any] | None = None,
        observation_space: Space[Any] | None = None,
    ) -> None:
        _refuse_training_wrappers(env, fields)
        _check_carried(carried)
        self._env, self._fields = env, fields
        self._leaves = leaves = ModelLeaves(env.unwrapped, fields.model)
        mode = read_solver_gradient(mjx_solver_gradient, differentiable=differentiable)
        self._solver = SolverGradient(mode) if mode else None

        def run(physics: Physics | None, function: Callable[..., Any], *args: Any) -> Any:
            with leaves.replaced(physics):
                return function(*args)

        self._call = call = self._solver.wrap(run) if self._solver else run
        self._begins_with: list[Any] = []
        begin = partial(_begin_at, fields.starting_at, env, self._begins_with)
        check = partial(_to_state, fields.state)
        # Functions of this object alone: JAX would take the trace that it made of an equal bound
        # method, although the environment may have changed since.
        self._reset = jax.jit(
            lambda key, physics, start: check("reset", call(physics, begin, start, key))
        )
        self._step = jax.jit(
            lambda state, action, physics: check("step", call(physics, env.step, state, action))
        )
        self._trace(action_space, observation_space, info_keys, carried)
        backend = getattr(env.unwrapped, "backend", None)
        self.name = f"{type(env.unwrapped).__name__}{f' (backend {backend})' if backend else ''}"
        self.step_seconds, self.coordinates = _find_step_seconds(env), self._find_coordinates()
        self._randomization: Randomization | None = None
        if randomization_fn is not None:
            self._randomize(randomization_fn)

    def _trace(
        self, action_space: Any, observation_space: Any, info_keys: Any, carried: Sequence[str]
    ) -> None:
        """Find out what the states have, and check what the later check does not know of."""
        env, owner = self._env, type(self._env.unwrapped).__name__
        run = partial(trace, f"the {self._fields.engine} environment {owner}", self._fields.package)
        begun = run("reset", self._reset, KEY, None, None)
        _check_scalars(begun)
        self._begun = begun = to_strong(begun)
        inferred = _to_space(begun.obs)
        self.observation_space = _declared(
            env, "observation_space", observation_space, lambda: inferred
        )
        self.action_space = _declared(
            env, "action_space", action_space, lambda: _unit_box(env.action_size)
        )
        action = action_struct(read_space(self, "action_space", owner))
        if self._solver:
            self._solver.is_used = False  # until the step runs it
        run("step", self._step, begun, action, None)
        if self._solver:
            _check_solver(self._solver, owner, self._step, begun, action)
        preserved = self._fields.preserved
        kept = {*carried, *({preserved} if is_carriable(begun.info.get(preserved)) else ())}
        self._select_info = make_info_selector(begun, info_keys, kept)
        self.carried: Mapping[str, Any] = {
            name: carry_tree(begun.info[name], name) for name in sorted(kept)
        }
        names = _OF_MJX[:2] if hasattr(self.physics_leaves(begun), "qpos") else _OF_BRAX
        # Without any where the environment does not begin its simulation in this trace.
        start = dict(zip(names, self._begins_with, strict=False))
        self._start = {
            name: carry_tree(like, name) for name, like in start.items() if name not in kept
        }
        self.reset_options: Mapping[str, Any] = self._start

    def _randomize(self, function: Callable[..., Any]) -> None:
        """Let each episode draw its physics."""
        randomization = Randomization(self.name, self._leaves, function)

        def run(physics: Physics, key: Any, state: Any, action: Any) -> Any:
            return self._reset(key, physics, None), self._step(state, action, physics)

        randomization.check_read(run, self._begun, action_struct(self.action_space))
        self._randomization = randomization
        self.reset_options = {"randomization": randomization.option, **self._start}

    def reset(self, key: jax.Array, **given: Any) -> tuple[Any, ...]:
        """Begin an episode, with physics that are drawn or given where there is a function.

        Positions and velocities that are given take the place of the environment's own where its
        simulation begins. What is carried takes its place in ``state.info`` after the reset.
        """
        drawn = self._randomization
        physics = None if drawn is None else drawn.draw(key, given["randomization"])
        start = [given[name] for name in self._start]
        state = self._reset(key, physics, start or None)
        info = {name: given[name].over(state.info[name]) for name in self.carried}
        info = type(state.info)({**state.info, **info}) if info else state.info
        reward, done = jnp.zeros_like(state.reward), jnp.zeros_like(state.done)
        state = replace(state, reward=reward, done=done, info=info)
        episode, info = self._join(state, physics)
        return episode, state.obs, info

    def step(self, key: Any, state: Any, action: Any) -> tuple[Any, ...]:
        """Take one simulator step; `info["truncation"]` is Brax's name for an end by timeout."""
        del key  # these environments keep one in their state
        state, physics = self._split(state)
        state = self._step(state, action, physics)
        # The width of a flag means nothing, and Brax's own differ under x64.
        state = replace(state, done=jnp.asarray(state.done, self._begun.done.dtype))
        done = state.done > 0
        timeout = state.info["truncation"] > 0 if "truncation" in state.info else done & False
        episode, info = self._join(state, physics)
        return episode, state.obs, state.reward, *split_done(done, timeout), info

    def positions(self, state: Any) -> Any:
        """Return the generalised positions and velocities; none without physics."""
        return [getattr(self.physics_leaves(state), name, None) for name in _POSITIONS]

    def physics_leaves(self, state: Any) -> Any:
        """Return the whole state of the simulation."""
        return getattr(self._split(state)[0], self._fields.physics)

    def _join(self, state: Any, physics: Physics | None) -> tuple[Any, dict[str, Any]]:
        """Return what is kept, and its infos: with the physics of the episode where they vary."""
        info = self._select_info(state)
        if physics is None:
            return state, info
        return RandomizedEpisode(state, physics), {**info, "randomization": dict(physics)}

    def _split(self, kept: Any) -> tuple[Any, Physics | None]:
        """Return the engine's state in what is kept, and the physics of the episode or None."""
        return kept if isinstance(kept, RandomizedEpisode) else (kept, None)

    def _env_metadata(self) -> EnvMetadata:
        found = super()._env_metadata()
        found = found._replace(engine=self._env, model=self._leaves.model, state_name="State")
        found = found._replace(drawing=self._describe_drawing(found))
        reason = self._solver and self._solver.unsupported_reason
        return found._replace(loop_advice=reason) if reason else found

    def _describe_drawing(self, metadata: EnvMetadata) -> Drawing:
        """Return how it is drawn: by its own `render`, or by MuJoCo, as in the viewer."""
        owner, render = f"{self._fields.engine}VectorEnv", _own_render(self._env, self._fields)
        model = _read(self._env.unwrapped, self._fields.mj_model)
        drawing = draw_by(render, metadata.name, owner)._replace(drawn=self._drawn)
        if model is None:
            return drawing
        drawing = drawing._replace(make_page=partial(make_page, metadata, model))
        if render is not None:
            return drawing
        return drawing._replace(make_renderer=partial(MujocoRenderer, model), is_possible=True)

    def _drawn(self, states: Any, count: int) -> Drawn:
        """Return what frames of a batch of states are drawn from."""
        own, physics = self._split(states)
        return Drawn(own, count, self.physics_leaves(own), physics or {})

    def _find_coordinates(self) -> Coordinates | None:
        """Return the coordinates of its states, whose `write` also takes the physics of a row.

        A step of MJX computes everything else anew. Brax's own pipelines read what their last step
        computed, so the state of the simulation is made by `pipeline_init`.
        """
        field, env = self._fields.physics, self._env
        now = getattr(self._begun, field)
        is_mjx = all(hasattr(now, name) for name in _OF_MJX)
        if is_mjx:
            kept = [name for name in _OF_MJX if getattr(now, name).size]
        elif all(hasattr(now, name) for name in _OF_BRAX) and hasattr(env, "pipeline_init"):
            kept = [*_OF_BRAX]
        else:
            return None

        def write(state: Any, leaves: Sequence[Any]) -> Any:
            own, physics = self._split(state)
            if is_mjx:
                placed = replace(getattr(own, field), **dict(zip(kept, leaves, strict=True)))
            else:
                placed = self._call(physics, env.pipeline_init, *leaves)
            return self._join(replace(own, **{field: placed}), physics)[0]

        return Coordinates(tuple(f"{field}.{name}" for name in kept), write)


def _to_state(kind: str, verb: str, state: Any) -> Any:
    """Return a state with observations in plain dicts and rewards that are floats."""
    parts = ("obs", "reward", "done", "metrics", "info", "replace")
    if not all(hasattr(state, name) for name in parts):
        raise EnvContractError(f"`{verb}` must return a {kind}, got {type(state).__name__}.")
    for name in ("metrics", "info"):
        found = getattr(state, name)
        if not isinstance(found, Mapping):
            raise EnvContractError(f"`State.{name}` must be a dict, got {found}.")
    reward = jax.tree.map(_as_float, state.reward)
    return replace(state, obs=to_plain(state.obs), reward=reward)


def _check_carried(names: Any) -> None:
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ArgumentTypeError(f"`carried` must be a list of names, got {names!r}.")
    if taken := {"self", "key", "reset_mask"}.intersection(names):
        raise ArgumentError(
            f"`carried` must not have {taken.pop()!r}: `reset` has an argument of that name. "
            "Rename the entry of `state.info`."
        )


def _begin_at(
    starting_at: Callable[..., Any], env: Any, found: list[Any], start: list[Kept] | None, key: Any
) -> Any:
    """Reset an environment, with given positions and velocities where its simulation begins.

    Their shapes are left in `found`. What begins in a function that the environment compiles itself
    is left alone: JAX would keep what it was given.
    """
    outer = current_trace()

    def place(*own: Any) -> Any:
        if current_trace() is not outer:
            return own
        arrays = [jnp.asarray(leaf) for leaf in own]
        found[:] = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in arrays]
        if start is None:
            return own
        return [kept.over(leaf) for kept, leaf in zip(start, arrays, strict=True)]

    with starting_at(env.unwrapped, place):
        return env.reset(key)


def _refuse_training_wrappers(env: Any, fields: StateFields) -> None:
    while any(base.__name__ == "Wrapper" for base in type(env).__mro__):
        for base in type(env).__mro__:
            if base.__module__ in fields.training and base.__name__ != "Wrapper":
                raise EnvContractError(
                    f"`{fields.argument}` must not be wrapped in {fields.engine}'s "
                    f"{base.__name__}: gymbridge does batching, time limit, randomisation and "
                    "autoreset. Pass the environment inside it, with `max_episode_steps`, "
                    "`action_repeat`, `randomization_fn` and `autoreset_mode`."
                )
        env = env.env


def _as_float(leaf: Any) -> Any:
    array = jnp.asarray(leaf)
    is_float = jnp.issubdtype(array.dtype, jnp.floating)
    return array if is_float else jnp.asarray(array, jnp.float32)


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


def _declared(
    env: Any, name: str, given: Space[Any] | None, make_default: Callable[[], Space[Any]]
) -> Any:
    """Return the space that an environment declares, or else the user's, or else the default."""
    own = getattr(env, name, None)
    if not isinstance(own, Space):
        return make_default() if given is None else given
    if given is not None and own != given:
        raise ArgumentError(
            f"`{name}` is declared by the environment as {own}, got {given}; leave it out."
        )
    return own


def _unit_box(action_size: int) -> spaces.Box:
    dtype: Any = jax.dtypes.canonicalize_dtype(float).type  # The physics has this dtype.
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
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    else:
        low, high = (0, 1) if dtype.kind == "b" else (-np.inf, np.inf)
    return spaces.Box(low, high, struct.shape, dtype.type)


def _own_render(env: Any, fields: StateFields) -> Callable[[Any], Any] | None:
    """Return the environment's `render`, unless it is the engine's, which takes a trajectory."""
    render = _read(env, "render")
    if not callable(render):
        return None
    module = getattr(getattr(render, "__func__", render), "__module__", None) or ""
    return None if module.partition(".")[0] == fields.package else render


def _read(env: Any, path: str) -> Any:
    """Return an attribute by its path; None where there is none, or a property raises."""
    try:
        return attrgetter(path)(env)
    except Exception:  # The engine's properties may be abstract, or read a model that is missing.
        return None


def _find_step_seconds(env: Any) -> float | None:
    """Return a step's simulated seconds, if they are any."""
    try:
        seconds = float(_read(env, "dt"))
    except (TypeError, ValueError):
        return None
    return seconds if 0 < seconds < math.inf else None
