"""A runner whose compiled functions are nodes in torch's graph.

The floats of the engine's state and of the observation are packed into one array, so that a step
has two inputs with a gradient (packed state, actions) and few such outputs (packed state,
observations, reward). The others, which have none, stay on the jax side.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import numpy as np
import torch

from gymbridge.core.arrays.adapter import map_arrays
from gymbridge.core.arrays.torch import choose_to_torch, torch_to_jax
from gymbridge.core.episode import Carry, EpisodeRule, ResetRequest, StepResult
from gymbridge.core.infos import InfoLayout, Returned
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.gradients.autograd import JaxFunction
from gymbridge.gradients.checks import check_differentiable, check_options_differentiable
from gymbridge.gradients.packing import Packing, is_float
from gymbridge.jax_env.carries import carry_shapes, name_leaves
from gymbridge.jax_env.compilation import log_compilation
from gymbridge.jax_env.runners import JaxRule, JaxRunner
from gymbridge.jax_env.simulator import JaxSimulator
from gymbridge.jax_env.spreading import find_sharding, spread
from gymbridge.jax_env.tracing import action_struct
from gymbridge.private.torch import check_context

__all__ = ["GraphCarry", "GraphRunner"]

_eager: Any = torch.compiler.disable
"""Keeps `torch.compile` out of a method, in which it would meet jax."""


class GraphCarry(NamedTuple):
    """The batch between two calls."""

    packed: jax.Array  # (num_envs, S) float; nobody else can write into it
    rest: tuple[Any, ...]  # the other leaves
    tensor: torch.Tensor | None  # the same in torch's graph, and never a tensor that the user has


class GraphRunner(JaxRunner):
    """Runs the rule over tensors, with a graph if an input requires grad.

    With `recompute`, a backward pass computes each step again instead of keeping what it needs.

    Raises:
        EnvContractError: Actions are not floats, the state has complex numbers, or reverse mode
            cannot pass the environment's step.
    """

    def __init__(
        self, rule: EpisodeRule[JaxSimulator], infos: InfoLayout, *, recompute: bool = False
    ) -> None:
        simulator, place = rule.simulator, rule.simulator.device
        check_differentiable(simulator)
        self.rule, self._to_torch = JaxRule(rule), choose_to_torch(place)
        self._sharding = find_sharding(place)
        # In another object, since bound methods of this one would be a circle that keeps what was
        # compiled alive.
        pure = _PackedRule(rule, infos, recompute)
        self.packing = packing = pure.packing
        is_single = simulator.num_devices == 1
        make = partial(JaxFunction, to_torch=self._to_torch, joins=is_single)
        self._reset_graph = make(spread(pure.reset, place), recompute=recompute)
        self._step_graph = make(spread(pure.step, place), recompute=recompute)
        # Actions and time steps of a window lead with T, and its carries do not.
        window = {"in_axes": ((0, 1), 0), "out_axes": ((0, 1), (0, 1))}
        self._unroll_graph = make(spread(pure.unroll, place, **window))
        self._pack_carry = jax.jit(spread(packing.pack, place))
        self._unpack_carry = jax.jit(spread(packing.unpack, place))

    def link(self, read: Callable[[Any, np.ndarray], Any]) -> Callable[[Any, np.ndarray], Any]:
        """Return a reader with the user's tensor in the place of its values, if it has a graph."""

        def read_linked(given: Any, mask: np.ndarray) -> Any:
            if not (isinstance(given, torch.Tensor) and given.requires_grad):
                return read(given, mask)
            (array, *others), structure = jax.tree.flatten(read(given.detach(), mask))
            return jax.tree.unflatten(structure, [given.to(torch.from_numpy(array).dtype), *others])

        return read_linked

    @_eager
    def reset(self, carry: GraphCarry | None, mask: np.ndarray, seeds: ResetRequest) -> Returned:
        """Begin new episodes, with a graph from options that have one; see `Runner.reset`."""
        tensors = [leaf for leaf in jax.tree.leaves(seeds) if isinstance(leaf, torch.Tensor)]
        if carry is None:
            # Tensors come after it, when there is a carry.
            given = (mask, seeds._replace(options=None) if tensors else seeds)
            given = jax.device_put(given, self._sharding)
            first = self._join(self._reset_graph.plain((None, ()), (None, given)))
            if not tensors:
                return first
            carry = cast("GraphCarry", first.carry)
        if mask.all():
            carry = carry._replace(tensor=None)
        moved = [tensor.to(self._to_torch(carry.packed).device) for tensor in tensors]
        marked = jax.tree.map(lambda x: _FLOAT if isinstance(x, torch.Tensor) else x, seeds)
        return self._run(self._reset_graph, carry, moved, (mask, marked))

    def step(self, carry: GraphCarry, actions: Any) -> Returned:
        """Take one step; see `Runner.step`."""
        return self._run(self._step_graph, carry, actions)

    def freeze(self, carry: GraphCarry, rows: np.ndarray) -> GraphCarry:
        """Return the carry whose next step leaves some rows as they are; see `Runner.freeze`."""
        *others, ended = carry.rest  # `Carry.ended` is the last leaf
        return carry._replace(rest=(*others, ended | rows))

    def unroll(self, carry: GraphCarry, actions: Any) -> Returned:
        """Take T steps as one node, with actions and a time step that lead with T."""
        return self._run(self._unroll_graph, carry, actions)

    @_eager
    def share(self, carry: GraphCarry) -> tuple[torch.Tensor, GraphCarry]:
        """Return a copy of the packed leaves for the user, and the carry that comes after it.

        The carry's graph goes through the copy, so gradients and hooks on it see what flows through
        the state. Its values do not, so writing into it changes nothing. Under `torch.no_grad` the
        copy has no graph, and the carry keeps its own.
        """
        tensor = carry.tensor if torch.is_grad_enabled() else None
        with torch.inference_mode(False), torch.enable_grad():
            if tensor is None:
                return self._to_torch(carry.packed).clone(), carry
            given = tensor.clone()
            return given, carry._replace(tensor=given.clone())

    @_eager
    def take(self, carry: GraphCarry, state: Any) -> GraphCarry:
        """Return the carry with other packed leaves, (num_envs, size), which keep their graph.

        Raises:
            ArgumentTypeError: `state` is not a dense tensor, or has another dtype.
            ArgumentError: `state` has another shape or is on another device.
        """
        like = self._to_torch(carry.packed)
        is_tensor = isinstance(state, torch.Tensor)
        if not is_tensor or (state.dtype, state.layout) != (like.dtype, like.layout):
            got = f"{state.dtype} ({state.layout})" if is_tensor else type(state).__name__
            raise ArgumentTypeError(
                f"`physics_state` must be a dense tensor of {like.dtype}, got {got}."
            )
        if (state.shape, state.device) != (like.shape, like.device):
            raise ArgumentError(
                f"`physics_state` must have shape {tuple(like.shape)} on '{like.device}', got "
                f"{tuple(state.shape)} on '{state.device}'."
            )
        packed = jax.device_put(torch_to_jax(state), self._sharding)
        with torch.inference_mode(False), torch.enable_grad():
            # A copy, since writing into what the user gave would change the state.
            tensor = state.clone() if state.requires_grad else None
        return carry._replace(packed=packed, tensor=tensor)

    def unpack(self, carry: GraphCarry) -> Carry:
        """Return the carry as the rule has it, without a graph."""
        return self._unpack_carry(carry.packed, carry.rest)

    @_eager
    def apply(self, function: Callable[[Carry, Any], Any], carry: GraphCarry, actions: Any) -> Any:
        """Return what a function returns, without a graph; see `JaxRunner.apply`."""
        found = function(self.unpack(carry), jax.tree.map(torch_to_jax, actions))
        return map_arrays(self._to_torch, found)

    def pack(self, carry: Carry) -> GraphCarry:
        """Return one of the rule's carries as this runner keeps it."""
        packed, rest = self._pack_carry(carry)
        return GraphCarry(packed, rest, None)

    @_eager
    def _run(
        self, graph: JaxFunction, carry: GraphCarry, actions: Any, given: Any = None
    ) -> Returned:
        """Call a function on what has a gradient (packed state, actions) and what has none."""
        leaves = jax.tree.leaves(actions)
        check_context(leaves)
        values, rest = (carry.packed, tuple(map(torch_to_jax, leaves))), (carry.rest, given)
        tensors = (carry.tensor, *leaves)
        wanted = [tensor is not None and tensor.requires_grad for tensor in tensors]
        if not (any(wanted) and torch.is_grad_enabled()):
            return self._join(graph.plain(values, rest))
        traced = graph(values, tensors, rest)
        return self._join((traced.values, traced.aux), traced.tensors)

    def _join(self, found: Any, tensors: tuple[torch.Tensor, ...] | None = None) -> Returned:
        """Return the result as tensors, with `tensors` in the place of what has a gradient.

        `found` is what a function of `_PackedRule` returns. Without `tensors` there is no graph.
        """
        (packed, floats), (rest, result) = found
        tensor, *linked = tensors or (None, *map(self._to_torch, floats))
        others = iter(linked)
        joined = map_arrays(lambda x: next(others) if x is _FLOAT else self._to_torch(x), result)
        return joined._replace(carry=GraphCarry(packed, rest, tensor))


class _PackedRule:
    """The rule of the rows of one device, over packed carries: functions for `JaxFunction`.

    They take packed leaves of the carry and leaves of the actions, which have a gradient; then
    other leaves of the carry, and what else is given. They return the new packed leaves and what
    has a gradient of the time step; then the other new leaves, and the rest of the time step. With
    `recompute`, the backward pass of `unroll` computes each step again.
    """

    def __init__(self, rule: EpisodeRule[JaxSimulator], infos: InfoLayout, recompute: bool) -> None:
        self._batch, self._infos, self._recompute = rule.simulator, infos, recompute
        self._rule = part = JaxRule(rule, of_one_device=True)
        # The floats of the engine's state and of the observation.
        carry, wanted = carry_shapes(part), {*part.simulator.field_names()}
        named = zip(name_leaves(part.simulator, carry), jax.tree.leaves(carry), strict=True)
        names = [name if name in wanted and is_float(leaf) else None for name, leaf in named]
        self.packing = Packing(carry, names)
        self._actions = jax.tree.structure(action_struct(rule.simulator.single_action_space))

    def reset(self, inputs: tuple[Any, Any], rest: tuple[Any, tuple[Any, ResetRequest]]) -> Any:
        """Begin new episodes; in every row if there are no packed leaves."""
        log_compilation("reset", self._batch)
        (packed, leaves), (others, (mask, marked)) = inputs, rest
        carry = None if packed is None else self.packing.unpack(packed, others)
        floats = iter(leaves)
        seeds = jax.tree.map(
            lambda x: next(floats) if x is _FLOAT else x, marked, is_leaf=lambda x: x is _FLOAT
        )
        if leaves:
            check_options_differentiable(self._batch, seeds.options)
        return self._pack(*self._collect(self._rule.reset(carry, mask, seeds)))

    def step(self, inputs: tuple[Any, Any], rest: tuple[Any, None]) -> Any:
        log_compilation("step", self._batch)
        return self._pack(*self._advance(*self._read(inputs, rest)))

    def unroll(self, inputs: tuple[Any, Any], rest: tuple[Any, None]) -> Any:
        log_compilation("unroll", self._batch)
        body = jax.checkpoint(self._advance) if self._recompute else self._advance
        return self._pack(*jax.lax.scan(body, *self._read(inputs, rest)))

    def _read(self, inputs: tuple[Any, Any], rest: tuple[Any, None]) -> tuple[Carry, Any]:
        (packed, leaves), (others, _) = inputs, rest
        return self.packing.unpack(packed, others), jax.tree.unflatten(self._actions, leaves)

    def _advance(self, carry: Carry, actions: Any) -> tuple[Carry, Returned]:
        return self._collect(self._rule.step(carry, actions))

    def _collect(self, outcome: StepResult) -> tuple[Carry, Returned]:
        """Return the carry, and the rest of the outcome."""
        found = self._infos.collect_infos(outcome)
        return found.carry, found._replace(carry=None)

    def _pack(self, carry: Carry, result: Returned) -> Any:
        """Return both, with `_FLOAT` in the place of what has a gradient."""
        floats: list[Any] = []

        def take(leaf: Any) -> Any:
            if not is_float(leaf):
                return leaf
            floats.append(leaf)
            return _FLOAT

        obs, reward, final_obs = jax.tree.map(take, result[1:4])
        result = result._replace(obs=obs, reward=reward, final_obs=final_obs)
        packed, others = self.packing.pack(carry)
        return (packed, tuple(floats)), (others, result)


@jax.tree_util.register_static
class _Float:
    """Stands where an array with a gradient is put."""


_FLOAT = _Float()
