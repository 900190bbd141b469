"""The derivatives of one step of a batch with respect to state and actions, by forward mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from gymbridge.core.episode import Carry, EpisodeRule
from gymbridge.errors import ArgumentError, ArgumentTypeError, SimulationError, nearest
from gymbridge.functional.compilation import log_compilation
from gymbridge.functional.protocol import Coordinates, check_float_actions
from gymbridge.functional.simulator import FunctionalSimulator
from gymbridge.functional.spreading import find_sharding, spread

__all__ = ["Linearization", "Linearizer", "find_linearizer"]

_FOUND: WeakKeyDictionary[Any, dict[Any, Linearizer]] = WeakKeyDictionary()


class Linearization(NamedTuple):
    """A step near the current state: ``x' + A @ dx + B @ du``, where x' is the next state.

    The arrays are of the batch's kind. A differentiable batch returns them without a graph.
    """

    A: Any  # (num_envs, F, F) float, derivative of the next state with respect to the current one
    B: Any  # (num_envs, F, num_actions) float, derivative with respect to the actions
    x: Any  # (num_envs, F) float, the current state
    fields: dict[str, slice]  # columns of x by the names of the leaves, which are A's and B's rows


class Linearizer:
    """The compiled linearisation of a batch in some leaves of its state.

    Args:
        simulator: The batch.
        fields: Names of float leaves; None for the coordinates that the environment names.

    Attributes:
        fields: Columns of each leaf, by name.

    Raises:
        ArgumentError: A name is unknown, twice there, or not of a float leaf, or the environment
            names no coordinates.
        EnvContractError: Actions are not floats.
    """

    def __init__(self, simulator: FunctionalSimulator, fields: tuple[str, ...] | None) -> None:
        check_float_actions("linearize", simulator.single_action_space)
        names, write = _choose_coordinates(simulator, fields)
        places = [simulator.leaf_names().index(name) for name in names]
        shapes = jax.tree.leaves(simulator.shapes)
        ends = [0]
        for place in places:
            ends.append(ends[-1] + shapes[place].size)
        self.fields = {
            name: slice(start, end) for name, start, end in zip(names, ends, ends[1:], strict=False)
        }
        row = _make_row(simulator.step_row, _make_read(places), write or _make_write(places))

        def run(carry: Carry, actions: Any) -> dict[str, jax.Array]:
            log_compilation("linearize", simulator)
            return jax.vmap(row)(simulator.env_state(carry.state), actions)

        place, self._name = simulator.device, simulator.env.facts.name
        self._run = jax.jit(spread(run, place), out_shardings=find_sharding(place))

    def __call__(self, carry: Carry, actions: Any) -> dict[str, jax.Array]:
        """Return A, B and x by name, each (num_envs, ...).

        Raises:
            SimulationError: Forward mode cannot pass the step.
        """
        try:
            return self._run(carry, actions)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise SimulationError(
                f"`linearize` cannot pass the step of {self._name} in forward mode. "
                f"{type(error).__name__}: {error}"
            ) from error


def find_linearizer(rule: EpisodeRule[FunctionalSimulator], fields: Any) -> Linearizer:
    """Return what linearises the batches of a rule; it is compiled once for each `fields`.

    Raises:
        ArgumentTypeError: `fields` is neither None nor a list of names.
        ArgumentError, EnvContractError: See `Linearizer`.
    """
    if fields is not None and not _are_names(fields):
        raise ArgumentTypeError(f"`fields` must be a list of names or None, got {fields!r}.")
    found, key = _FOUND.setdefault(rule, {}), fields and tuple(fields)
    if key not in found:
        found[key] = Linearizer(rule.simulator, key)
    return found[key]


def _are_names(fields: Any) -> bool:
    is_list = isinstance(fields, list | tuple) and len(fields) > 0
    return is_list and all(isinstance(name, str) for name in fields)


def _make_row(
    step: Callable[..., Any], read: Callable[[Any], Any], write: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], dict[str, jax.Array]]:
    """Return the linearisation of one environment's step: (state, action) -> A, B and x."""

    def linearize(state: Any, action: Any) -> dict[str, jax.Array]:
        x, to_leaves = ravel_pytree(read(state))
        u, to_action = ravel_pytree(action)

        def advance(x: jax.Array, u: jax.Array) -> jax.Array:
            return ravel_pytree(read(step(write(state, to_leaves(x)), to_action(u))))[0]

        by_state, by_action = jax.jacfwd(advance, (0, 1))(x, u)
        return {"A": by_state, "B": by_action, "x": x}

    return linearize


def _make_read(places: list[int]) -> Callable[[Any], list[Any]]:
    def read(state: Any) -> list[Any]:
        leaves = jax.tree.leaves(state)
        return [leaves[place] for place in places]

    return read


def _make_write(places: list[int]) -> Callable[[Any, Sequence[Any]], Any]:
    """Return what replaces the leaves alone."""

    def write(state: Any, values: Sequence[Any]) -> Any:
        leaves, structure = jax.tree.flatten(state)
        for place, value in zip(places, values, strict=True):
            leaves[place] = value
        return jax.tree.unflatten(structure, leaves)

    return write


def _choose_coordinates(
    simulator: FunctionalSimulator, fields: tuple[str, ...] | None
) -> tuple[Sequence[str], Callable[[Any, Any], Any] | None]:
    """Return the names of the leaves, and what writes them; None for the leaves alone."""
    leaves = zip(simulator.leaf_names(), jax.tree.leaves(simulator.shapes), strict=True)
    floats = [
        name for name, leaf in leaves if leaf.size and jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    if fields is None:
        coordinates: Coordinates | None = simulator.env.facts.coordinates
        if coordinates is None:
            raise ArgumentError(
                f"`fields` must name the leaves in which {simulator.env.facts.name} is "
                "linearised, since gymbridge does not know its positions and velocities; its "
                f"float leaves are {floats}."
            )
        return coordinates
    for name in fields:
        if name not in floats:
            raise ArgumentError(
                f"`fields` must name float leaves of the state, got {name!r}; "
                f"{nearest(name, floats)}"
            )
    if len({*fields}) < len(fields):
        raise ArgumentError(f"`fields` must name each leaf once, got {list(fields)}.")
    return fields, None
