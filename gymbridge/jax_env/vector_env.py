"""A batch of JAX environments: its snapshots, and the batch as pure functions."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Self

from gymbridge.core.processes import check_not_forked, check_open
from gymbridge.core.requests import read_count
from gymbridge.core.snapshots import (
    SavesState,
    Snapshot,
    check_same_batch,
    check_snapshot,
    describe,
)
from gymbridge.core.vector_env import BridgeVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.jax_env.carries import CarryLeaves
from gymbridge.jax_env.linearization import Linearization, Linearizer, read_fields
from gymbridge.jax_env.runners import JaxRunner, make_pure
from gymbridge.jax_env.simulator import JaxSimulator
from gymbridge.private.jax import apart, with_transfers
from gymbridge.version import __version__

__all__ = ["FunctionalVectorEnv"]

_ENVIRONMENTS = ("brax_env", "env", "simulator")
_NOT_OF_THE_STATE = (
    *("self", "arrays", "device", "differentiable", "residuals", "mjx_solver_gradient"),
    *("info_keys", "render_mode", "render_size", "camera"),
)
"""Arguments of vector environments in which a batch may differ from that of a snapshot."""

_OF_ONE_BATCH = ("closed", "is_forked", "_np_random", "_np_random_seed", "_spec")
"""Attributes that a copy of a batch does not have."""

_OF_EVERY_COPY = ("_construction", "_options", "_about", "_compiled")
"""Attributes that the copies of a batch share."""


class FunctionalVectorEnv(SavesState, BridgeVectorEnv):
    """A `BridgeVectorEnv` over a `JaxSimulator`, whose first argument is the environment.

    `copy.copy` and `copy.deepcopy` return an equal batch, not yet reset, which uses what this one
    has traced and compiled, for example to evaluate beside training. It is equal to this batch as
    it was traced: environments and engines that have changed since have no effect on it. The
    constructor and `pickle` trace what is there now.
    """

    _runner: JaxRunner

    def __init__(self, simulator: JaxSimulator, **options: Any) -> None:
        super().__init__(simulator, **options)
        runner = self._runner
        self._options = {**options, "make_runner": lambda *_: runner}
        # Described at once, since the user may change what was given.
        self._about = self._describe()
        self._compiled: dict[Any, Any] = {}

    def __copy__(self) -> Self:
        """Return an equal batch, not yet reset, with the same compiled functions."""
        return self._duplicate(None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return what `copy.copy` does, with copies of the attributes of derived classes."""
        return self._duplicate(memo)

    @apart()
    def _duplicate(self, memo: dict[int, Any] | None) -> Self:
        check_not_forked()
        envs = type(self).__new__(type(self))
        BridgeVectorEnv.__init__(envs, self._simulator, **self._options)
        vars(envs).update({key: x for key, x in vars(self).items() if key in _OF_EVERY_COPY})
        envs.spec = self.spec
        known = {*vars(envs), *_OF_ONE_BATCH}
        others = {key: x for key, x in vars(self).items() if key not in known}
        if memo is not None:
            memo[id(self)] = envs
            others = copy.deepcopy(others, memo)
        vars(envs).update(others)
        return envs

    _reset = apart()(BridgeVectorEnv._reset)
    _step = with_transfers(BridgeVectorEnv._step)
    render = with_transfers(BridgeVectorEnv.render)

    @apart()
    def get_state(self) -> Snapshot:
        """Return the whole state: physics, random streams, counters, flags and observation.

        Returns:
            snapshot: Arrays without a graph, which later calls do not change. A batch with other
                arrays, on another device or without gradients can also be restored from it.

        Raises:
            ResetNeededError: Before the first `reset`.
            BusyError: Another call of the batch is running.
            ClosedError: After `close`.
        """
        check_open(self)
        with self._one_thread:
            carry = self._runner.unpack(self._running("get_state"))
            leaves = self._compile_once("leaves", CarryLeaves)
            return Snapshot(self._about, self.np_random_seed, leaves.take(carry))

    @apart()
    def set_state(self, state: Snapshot) -> Any:
        """Restore the batch from a snapshot of a batch like this one, and cut the graph.

        Returns:
            observations: (num_envs, ...), the current ones.

        Raises:
            ArgumentTypeError: `state` is not a `Snapshot`, or has parts of the wrong type.
            ArgumentError: The snapshot is of another environment, mode or number of environments,
                of other keywords, or of another version of gymbridge.
            BusyError: Another call of the batch is running.
            ClosedError: After `close`.
        """
        check_open(self)
        with self._one_thread:
            self._wait_for_reads()
            carry = self._runner.pack(self._give(state))
            obs = self._to_user(self._runner.observe(carry))
            self._carry, self._seeds = carry, tuple(state.seeds)
            return obs

    @apart()
    def render_html(
        self, states: Sequence[Snapshot] | None = None, *, index: int = 0, height: int = 480
    ) -> str:
        """Return a page with Brax's viewer of one environment; it loads the viewer from the web.

        Args:
            states: Snapshots of this batch, in the order of time; None for the current state.
            index: Index of the environment that is shown.
            height: Height of the viewer in pixels.

        Returns:
            page: HTML that plays the states in simulated time.

        Raises:
            ArgumentTypeError: `states` is neither None nor a list of snapshots.
            ArgumentError: `states` is empty or has a snapshot of another batch, `index` is out of
                range, or the task has no MuJoCo model.
            ResetNeededError: Before the first `reset`, without `states`.
            SimulationError: The viewer cannot show the model, such as one with an ellipsoid.
        """
        check_open(self)
        if read_count("index", index, 0) >= self.num_envs:
            raise ArgumentError(f"`index` must be below {self.num_envs}, got {index}.")
        with self._one_thread:
            if states is None:
                carries = [self._runner.unpack(self._running("render_html"))]
            else:
                given = _read_states(states)
                self._wait_for_reads()
                carries = list(map(self._give, given))
            simulator = self._runner.rule.simulator
        height, env = read_count("height", height), simulator.env
        if env.drawing.make_page is None:
            name = env.metadata.name
            raise ArgumentError(f"`render_html` needs a MuJoCo model, and {name} has none.")
        drawn = [simulator.drawn(carry.state) for carry in carries]
        return env.drawing.make_page(drawn, index, simulator.step_seconds, height)

    def linearize(self, actions: Any, fields: Sequence[str] | None = None) -> Linearization:
        """Return the derivatives of the next step, in every environment, without taking it.

        The state is the generalised positions, velocities and activations of the mechanism. What
        derives from them is computed anew, and all else, such as infos and random streams, stays as
        it is. A quaternion is four numbers. The derivatives are those of the physics: episodes
        neither end nor begin, and NaN and Inf are returned as they come, such as those that MJX's
        derivative can have where its solver finds nothing to do. This needs no
        ``differentiable=True`` and no graph.

        Args:
            actions: (num_envs, ...), as in `step`.
            fields: Names of float leaves of the state, by which to linearise instead, as they are
                in `physics_state_fields`. All other leaves stay as they are. None for the
                coordinates of the mechanism, which a `JaxEnv` does not have.

        Returns:
            linearization: See `Linearization`; its arrays are of the kind of `arrays`.

        Raises:
            ArgumentError: `fields` is None, and the coordinates are not known; or it has a name
                that is unknown or not that of floats.
            ArgumentTypeError: `fields` is not a list of names.
            EnvContractError: Actions are not floats.
            SimulationError: Forward mode cannot pass the step, as with `jax.custom_vjp`.
            ResetNeededError: Before the first `reset`. Other errors are those of `step`.
        """
        check_open(self)
        with self._one_thread:
            carry = self._running("linearize")
            names = read_fields(fields)
            linearizer = self._compile_once(names, lambda rule: Linearizer(rule.simulator, names))
            found = self._runner.apply(linearizer, carry, self._read_actions(actions))
            return Linearization(**self._to_user(found), fields=dict(linearizer.fields))

    def functional(self) -> tuple[Any, Callable[..., Any], Callable[..., Any]]:
        """Return the batch as pure functions, which `jax.jit`, `jax.lax.scan` and `jax.vmap` take.

        Modes, limits, restarts, seeds and infos are those of the class. Arguments are not checked:
        actions must have the dtype of their space and lie in it.

        Returns:
            A copy of the batch's state, called ``carry``, and two functions that do not change the
            batch: ``reset(carry, mask, seeds) -> (carry, (observations, infos))``, with mask
            (num_envs,) bool, and seeds (num_envs,) uint32 or None to continue the random streams;
            ``step(carry, actions) -> (carry, returned)``, with the five values of `step`.

        Raises:
            ArgumentError: The batch was not built with ``arrays="jax"``.
            ResetNeededError: Before the first `reset`.
        """
        self._check_functional()
        with self._one_thread:
            return make_pure(self._runner.rule, self._infos, self._running("functional"))

    def _give(self, state: Snapshot) -> Any:
        check_snapshot(state)
        check_same_batch(state.batch, self._about)
        if len(state.seeds) != self.num_envs:
            raise ArgumentError(f"`state` must have {self.num_envs} seeds, got {len(state.seeds)}.")
        return self._compile_once("leaves", CarryLeaves).give(state.leaves)

    def _compile_once(self, key: Any, make: Callable[[Any], Any]) -> Any:
        """Return what `make` returns for the episode rule; copies of the batch share it."""
        if key not in self._compiled:
            self._compiled[key] = make(self._runner.rule)
        return self._compiled[key]

    def _describe(self) -> dict[str, str]:
        """Return what a batch must have in common with that of a snapshot."""
        args, kwargs = self._construction
        signature = inspect.signature(type(self).__init__)
        given = signature.bind(self, *args, **kwargs).arguments
        rest = [p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
        given |= {key: value for name in rest for key, value in given.pop(name, {}).items()}
        named = [given.pop(name) for name in _ENVIRONMENTS if name in given]
        simulator = self._runner.rule.simulator
        keywords = {
            key: describe(value)
            for key, value in given.items()
            if key not in _NOT_OF_THE_STATE and value is not None
        }
        return {
            "gymbridge": __version__,
            "environment": simulator.env.metadata.name,
            "task": describe(named[0] if named and isinstance(named[0], str) else simulator.engine),
            **keywords,
            "num_envs": str(self.num_envs),
            "autoreset_mode": self.autoreset_mode.value,
            "max_episode_steps": str(self.max_episode_steps),
            "action_repeat": str(simulator.action_repeat),
            "action_space": describe(simulator.single_action_space),
            "observation_space": describe(simulator.single_observation_space),
        }


def _read_states(states: Any) -> list[Any]:
    if not isinstance(states, list | tuple) or isinstance(states, Snapshot):
        raise ArgumentTypeError(
            f"`states` must be a list of what `get_state` returned, got {type(states).__name__}."
        )
    if not states:
        raise ArgumentError("`states` must hold at least one snapshot, got none.")
    return list(states)
