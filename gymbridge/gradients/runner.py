"""A runner whose compiled functions are nodes in torch's graph.

The float leaves of the carry are packed into one array, so that a step has two inputs with a
gradient (packed state, actions) and few such outputs (packed state, observations, reward).
Integers, flags and keys stay on the jax side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import numpy as np
import torch

from gymbridge.core.arrays.adapter import map_arrays
from gymbridge.core.arrays.torch import choose_to_torch, torch_to_jax
from gymbridge.core.episode import Carry, EpisodeRule, Outcome, Seeds, TimeStep
from gymbridge.core.infos import InfoLayout
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.functional.carries import carry_shapes
from gymbridge.functional.compilation import log_compilation
from gymbridge.functional.protocol import action_struct
from gymbridge.functional.runners import FunctionalRunner
from gymbridge.functional.simulator import FunctionalSimulator
from gymbridge.functional.spreading import find_sharding, split_rule, spread
from gymbridge.gradients.autograd import JaxFunction, Pure
from gymbridge.gradients.checks import check_differentiable
from gymbridge.gradients.packing import Packing, is_float
from gymbridge.gradients.torch_private import check_context

__all__ = ["GraphCarry", "GraphRunner", "RecomputingGraphRunner"]

_MethodT = TypeVar("_MethodT", bound=Callable[..., Any])


def _eager(method: _MethodT) -> _MethodT:
    """Return the method as one that `torch.compile` does not look into: it would meet jax there."""
    disabled: Any = torch.compiler.disable(method)
    return disabled


class GraphCarry(NamedTuple):
    """The batch between two calls."""

    packed: jax.Array  # (num_envs, S) float, the float leaves; nobody else can write into it
    rest: tuple[Any, ...]  # the other leaves
    tensor: torch.Tensor | None  # the same in torch's graph, and never a tensor that the user has


class GraphRunner(FunctionalRunner):
    """Runs the rule over tensors, with a graph if an input requires grad.

    Args:
        rule: Episode rule of the batch, over any functional simulator.
        infos: The layout of its infos.

    Raises:
        EnvContractError: Actions are not floats, the state has complex numbers, or reverse mode
            cannot pass the environment's step.
    """

    native: ClassVar[str] = "torch"
    recompute: ClassVar[bool] = False
    """Whether a backward pass computes each step again instead of keeping what it needs of it."""

    def __init__(self, rule: EpisodeRule[FunctionalSimulator], infos: InfoLayout) -> None:
        simulator, place = rule.simulator, rule.simulator.device
        check_differentiable(simulator.env, simulator.shapes)
        self.rule, self._to_torch = rule, choose_to_torch(place)
        self._sharding = sharding = find_sharding(place)
        # Parts of their own, since bound methods of this one would be a circle that keeps what was
        # compiled alive.
        pure = _PackedRule(rule, infos, self.recompute)
        self.packing = packing = pure.packing
        is_single = simulator.num_devices == 1
        make = partial(JaxFunction, to_torch=self._to_torch, joins=is_single)
        window = {"in_axes": (0, 0, 1, 0), "out_axes": (0, 0, 1, 1)}
        self._first_reset = jax.jit(spread(pure.first_reset, place), out_shardings=sharding)
        self._reset_graph = make(_pair(spread(pure.reset, place)), recompute=self.recompute)
        self._step_graph = make(_pair(spread(pure.step, place)), recompute=self.recompute)
        self._unroll_graph = make(_pair(spread(pure.unroll, place, **window)))
        self._pack_carry = jax.jit(spread(packing.pack, place))
        self._unpack_carry = jax.jit(spread(packing.unpack, place))
        self._read_obs = jax.jit(spread(pure.read_obs, place))

    def reset(self, carry: GraphCarry | None, mask: np.ndarray, seeds: Seeds) -> Outcome:
        """Begin new episodes; see `Runner.reset`."""
        if carry is None:
            packed, rest, time_step = self._first_reset(mask, seeds)
            return Outcome(GraphCarry(packed, rest, None), map_arrays(self._to_torch, time_step))
        if mask.all():
            carry = carry._replace(tensor=None)
        return self._run(self._reset_graph, carry, (), (mask, seeds))

    def step(self, carry: GraphCarry, actions: Any) -> Outcome:
        """Take one step; see `Runner.step`."""
        return self._run(self._step_graph, carry, actions)

    def hold(self, carry: GraphCarry, rows: np.ndarray) -> GraphCarry:
        """Return the carry whose next step leaves some rows as they are; see `Runner.hold`."""
        *others, ended = carry.rest  # `Carry.ended` is the last leaf
        return carry._replace(rest=(*others, ended | rows))

    def unroll(self, carry: GraphCarry, actions: Any) -> Outcome:
        """Take T steps as one node, with actions and a time step that lead with T."""
        return self._run(self._unroll_graph, carry, actions)

    @_eager
    def observe(self, carry: GraphCarry) -> Any:
        """Return the current observation as tensors of their own, without a graph."""
        return map_arrays(self._to_torch, self._read_obs(carry.packed, carry.rest))

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
        """Return what a function returns, without a graph; see `FunctionalRunner.apply`."""
        found = function(self.unpack(carry), jax.tree.map(torch_to_jax, actions))
        return map_arrays(self._to_torch, found)

    def pack(self, carry: Carry) -> GraphCarry:
        """Return one of the rule's carries as this runner keeps it."""
        packed, rest = self._pack_carry(carry)
        return GraphCarry(packed, rest, None)

    @_eager
    def _run(
        self, graph: JaxFunction, carry: GraphCarry, actions: Any, given: Any = None
    ) -> Outcome:
        """Call a function on what has a gradient (packed state, actions) and what has none."""
        leaves = jax.tree.leaves(actions)
        check_context(leaves)
        values, rest = (carry.packed, *map(torch_to_jax, leaves)), (carry.rest, given)
        tensors = (carry.tensor, *leaves)
        wanted = [tensor is not None and tensor.requires_grad for tensor in tensors]
        if not (any(wanted) and torch.is_grad_enabled()):
            (packed, *floats), (others, time_step) = graph.plain(values, rest)
            after = GraphCarry(packed, others, None)
            return Outcome(after, self._join(map(self._to_torch, floats), time_step))
        traced = graph(values, tensors, rest)
        others, time_step = traced.aux
        after = GraphCarry(traced.values[0], others, traced.tensors[0])
        return Outcome(after, self._join(iter(traced.tensors[1:]), time_step))

    def _join(self, tensors: Iterator[torch.Tensor], time_step: TimeStep) -> TimeStep:
        """Return the time step of tensors with those that have a gradient in their place."""
        leaves, structure = jax.tree.flatten(time_step, is_leaf=lambda leaf: leaf is None)
        joined = [next(tensors) if leaf is None else self._to_torch(leaf) for leaf in leaves]
        return jax.tree.unflatten(structure, joined)


class RecomputingGraphRunner(GraphRunner):
    """A `GraphRunner` that computes each step again in the backward pass."""

    recompute = True


class _PackedRule:
    """The rule of the rows of one device, over packed carries: functions to be spread.

    Those for `JaxFunction` take packed and other leaves of the carry, leaves of the actions, and
    what else is given. They return the new leaves, what has a gradient of the time step, and the
    rest of it.

    Args:
        rule: Episode rule of the batch.
        infos: The layout of its infos.
        recompute: Whether the backward pass of `unroll` computes each step again.
    """

    def __init__(
        self, rule: EpisodeRule[FunctionalSimulator], infos: InfoLayout, recompute: bool
    ) -> None:
        self._batch, self._rule, self._infos = rule.simulator, split_rule(rule), infos
        self.packing, self._recompute = _make_packing(self._rule), recompute
        self._actions = jax.tree.structure(action_struct(rule.simulator.single_action_space))

    def first_reset(self, mask: Any, seeds: Seeds) -> tuple[Any, Any, TimeStep]:
        log_compilation("reset", self._batch)
        outcome = self._infos.arrange(self._rule.reset(None, mask, seeds))
        return *self.packing.pack(outcome.carry), outcome.time_step

    def reset(self, packed: Any, others: Any, _: Any, given: tuple[Any, Seeds]) -> Any:
        log_compilation("reset", self._batch)
        carry = self.packing.unpack(packed, others)
        return self._pack(self._infos.arrange(self._rule.reset(carry, *given)))

    def step(self, packed: Any, others: Any, leaves: Any, _: None) -> Any:
        log_compilation("step", self._batch)
        return self._pack(self._advance(*self._read(packed, others, leaves)))

    def unroll(self, packed: Any, others: Any, leaves: Any, _: None) -> Any:
        log_compilation("unroll", self._batch)
        body = jax.checkpoint(self._scanned) if self._recompute else self._scanned
        return self._pack(Outcome(*jax.lax.scan(body, *self._read(packed, others, leaves))))

    def read_obs(self, packed: Any, others: Any) -> Any:
        return self._rule.simulator.read(self.packing.unpack(packed, others).state).obs

    def _read(self, packed: Any, others: Any, leaves: Any) -> tuple[Carry, Any]:
        return self.packing.unpack(packed, others), jax.tree.unflatten(self._actions, leaves)

    def _scanned(self, carry: Carry, actions: Any) -> tuple[Carry, TimeStep]:
        outcome = self._advance(carry, actions)
        return outcome.carry, outcome.time_step

    def _advance(self, carry: Carry, actions: Any) -> Outcome:
        return self._infos.arrange(self._rule.step(carry, actions))

    def _pack(self, outcome: Outcome) -> Any:
        return *self.packing.pack(outcome.carry), *_split(outcome.time_step)


def _pair(function: Callable[..., Any]) -> Pure:
    """Return a function of a `_PackedRule` as `JaxFunction` takes it."""

    def paired(inputs: tuple[Any, ...], rest: Any) -> Any:
        (packed, *leaves), (others, given) = inputs, rest
        packed, others, floats, time_step = function(packed, others, leaves, given)
        return (packed, *floats), (others, time_step)

    return paired


def _make_packing(rule: EpisodeRule[FunctionalSimulator]) -> Packing:
    carry = carry_shapes(rule)
    named = zip(rule.simulator.leaf_names(), carry.state.leaves, strict=True)
    return Packing(carry, [name for name, leaf in named if is_float(leaf)])


def _split(time_step: TimeStep) -> tuple[tuple[Any, ...], TimeStep]:
    """Return what has a gradient, and the time step with None in its place."""

    def mark(tree: Any, wanted: bool) -> Any:
        return jax.tree.map(lambda leaf: wanted and is_float(leaf), tree)

    info = {key: mark(value, key == "final_obs") for key, value in time_step.info.items()}
    obs, reward = mark(time_step.obs, True), mark(time_step.reward, True)
    marks = TimeStep(obs, reward, False, False, info)
    pairs = zip(jax.tree.leaves(time_step), jax.tree.leaves(marks), strict=True)
    floats = tuple(leaf for leaf, is_marked in pairs if is_marked)
    rest = jax.tree.map(lambda leaf, is_marked: None if is_marked else leaf, time_step, marks)
    return floats, rest
