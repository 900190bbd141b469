"""The derivatives of one step of a batch with respect to state and actions, by forward mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from gymbridge.core.episode import Carry
from gymbridge.errors import ArgumentError, ArgumentTypeError, SimulationError, nearest
from gymbridge.jax_env.checks import check_float_actions
from gymbridge.jax_env.compilation import log_compilation
from gymbridge.jax_env.rows import Row, field_leaves
from gymbridge.jax_env.simulator import JaxSimulator
from gymbridge.jax_env.spreading import find_sharding, spread

__all__ = ["Linearization", "Linearizer", "read_fields"]


class Linearization(NamedTuple):
    """A step near the current state: ``x' + A @ dx + B @ du``, where x' is the next state.

    The arrays are of the batch's kind. A differentiable batch returns them without a graph.
    """

    A: Any  # (num_envs, F, F) float, derivative of the next state with respect to the current one
    B: Any  # (num_envs, F, num_actions) float, derivative with respect to the actions
    x: Any  # (num_envs, F) float, the current state
    fields: dict[str, slice]  # columns of x by the names of the leaves, which are A's and B's rows


class Linearizer:
    """The compiled linearisation of a batch in float leaves, or for None in its coordinates.

    Attributes:
        fields: Columns of each leaf, by name.
    """

    def __init__(self, simulator: JaxSimulator, fields: tuple[str, ...] | None) -> None:
        check_float_actions("linearize", simulator.single_action_space)
        names, write = _choose_coordinates(simulator, fields)
        places = [simulator.field_names().index(name) for name in names]
        shapes = field_leaves(simulator.row)
        ends = accumulate((shapes[place].size for place in places), initial=0)
        self.fields = {name: slice(*ends) for name, ends in zip(names, pairwise(ends), strict=True)}

        def put(leaves: Sequence[Any], values: Sequence[Any]) -> tuple[Any, ...]:
            if write is not None:
                return tuple(jax.tree.leaves(write(simulator.env.unflatten(leaves), values)))
            new = dict(zip(places, values, strict=True))
            return tuple(new.get(place, leaf) for place, leaf in enumerate(leaves))

        row = _make_row(simulator.step_row, places, put)

        def run(carry: Carry, actions: Any) -> dict[str, jax.Array]:
            log_compilation("linearize", simulator)
            return jax.vmap(row)(carry.state.rows, actions)

        place, self._name = simulator.device, simulator.env.metadata.name
        self._run = jax.jit(spread(run, place), out_shardings=find_sharding(place))

    def __call__(self, carry: Carry, actions: Any) -> dict[str, jax.Array]:
        """Return A, B and x by name, each (num_envs, ...)."""
        try:
            return self._run(carry, actions)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise SimulationError(
                f"`linearize` cannot pass the step of {self._name} in forward mode. "
                f"{type(error).__name__}: {error}"
            ) from error


def read_fields(fields: Any) -> tuple[str, ...] | None:
    """Return the names of leaves that a user gives; None stays None."""
    if fields is None:
        return None
    is_list = isinstance(fields, list | tuple) and len(fields) > 0
    if not is_list or not all(isinstance(name, str) for name in fields):
        raise ArgumentTypeError(f"`fields` must be a list of names or None, got {fields!r}.")
    return tuple(fields)


def _make_row(
    step: Callable[[Row, Any], Row], places: list[int], write: Callable[[Any, Any], Any]
) -> Callable[[Row, Any], dict[str, jax.Array]]:
    """Return the linearisation of one environment's step: (row, action) -> A, B and x."""

    def read(row: Row) -> list[jax.Array]:
        leaves = field_leaves(row)
        return [leaves[place] for place in places]

    def linearize(row: Row, action: Any) -> dict[str, jax.Array]:
        x, to_leaves = ravel_pytree(read(row))
        u, to_action = ravel_pytree(action)

        def advance(x: jax.Array, u: jax.Array) -> jax.Array:
            placed = row._replace(leaves=write(row.leaves, to_leaves(x)))
            return ravel_pytree(read(step(placed, to_action(u))))[0]

        by_state, by_action = jax.jacfwd(advance, (0, 1))(x, u)
        return {"A": by_state, "B": by_action, "x": x}

    return linearize


def _choose_coordinates(
    simulator: JaxSimulator, fields: tuple[str, ...] | None
) -> tuple[Sequence[str], Callable[[Any, Any], Any] | None]:
    """Return the names of the leaves, and what writes them; None for the leaves alone."""
    leaves = zip(simulator.field_names(), field_leaves(simulator.row), strict=True)
    floats = [
        name for name, leaf in leaves if leaf.size and jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    write = None
    if fields is None:
        coordinates = simulator.env.metadata.coordinates
        if coordinates is None:
            raise ArgumentError(
                f"`fields` must name the leaves in which {simulator.env.metadata.name} is "
                "linearised, since gymbridge does not know its positions and velocities; its "
                f"float leaves are {floats}."
            )
        fields, write = tuple(coordinates.names), coordinates.write
    for name in fields:
        if name not in floats:
            raise ArgumentError(
                f"`fields` must name float leaves of the state, got {name!r}; "
                f"{nearest(name, floats)}"
            )
    if len({*fields}) < len(fields):
        raise ArgumentError(f"`fields` must name each leaf once, got {list(fields)}.")
    return fields, write
