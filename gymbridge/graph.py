"""A pure simulator whose compiled rules are nodes in torch's graph.

The float leaves of the carry are packed into one array, so that a step has two inputs with a
gradient (packed state, actions) and few such outputs (packed state, observations, reward).
Integers, flags and keys stay on the jax side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.autograd.forward_ad as forward_ad
from gymnasium import Space, spaces

from gymbridge.arrays.torch import jax_to_torch, torch_to_jax
from gymbridge.autograd import JaxFunction
from gymbridge.backends.brax import BraxSimulator
from gymbridge.backends.brax_contract import Contract
from gymbridge.backends.brax_gradients import (
    check_float_actions,
    check_real_state,
    check_reverse_mode,
)
from gymbridge.episode import Arrange, AutoresetRule, Carry, Outcome, ResetRule, Seeds, Tick
from gymbridge.errors import ArgumentError, ArgumentTypeError, SimulationError
from gymbridge.packing import Packing, is_float

__all__ = ["GraphCarry", "GraphSimulator"]


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


class GraphSimulator(BraxSimulator):
    """A Brax batch whose compiled rules take and give tensors with a graph.

    Args:
        contract: The environment.
        num_envs: Size of the batch.
        recompute: Whether a backward pass computes each step again instead of keeping what it
            needs of it.
        **kwargs: Of `BraxSimulator`.

    Raises:
        EnvContractError: Actions are no floats, the state has complex numbers, or reverse mode
            cannot pass the environment's step.
    """

    native = "torch"

    def __init__(
        self, contract: Contract, num_envs: int, *, recompute: bool, **kwargs: Any
    ) -> None:
        super().__init__(contract, num_envs, **kwargs)
        check_float_actions(contract.action_space)
        check_real_state(contract)
        check_reverse_mode(contract)
        self._recompute = recompute
        self._actions = jax.tree.structure(_nest(self.single_action_space))
        self.packing = self._make_packing()
        self._copy = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree))
        self._read_obs = jax.jit(
            lambda packed, rest: self.env_state(self.packing.unpack(packed, rest).state).obs
        )

    def compile(self, rule: Any, arrange: Arrange | None) -> Callable[..., Outcome]:
        """Return the rule on a `GraphCarry` and tensors, with a graph where one is asked for."""
        assert arrange is not None, "tensors have dense infos"
        graph = JaxFunction(self._pure(rule, arrange), recompute=self._recompute)
        if isinstance(rule, AutoresetRule):
            return lambda carry, actions: self._run(graph, carry, actions, None)
        first = super().compile(rule, lambda *args: self._pack_outcome(arrange(*args)))

        def begin(carry: GraphCarry | None, mask: np.ndarray, seeds: Seeds) -> Outcome:
            if carry is None:
                outcome = first(None, mask, seeds)
                return Outcome(
                    GraphCarry(outcome.carry[0], outcome.carry[1], None),
                    jax_to_torch(outcome.tick),
                    None,
                )
            if mask.all():
                carry = carry._replace(tensor=None)
            return self._run(graph, carry, (), (mask, seeds))

        return begin

    def compile_unroll(self, rule: Any, arrange: Arrange | None) -> Callable[..., Outcome]:
        """Return (carry, actions leading with T) -> the outcome of T steps, as one node.

        Its tick leads with T.
        """
        assert arrange is not None, "tensors have dense infos"
        graph = JaxFunction(self._pure_unroll(rule, arrange))
        return lambda carry, actions: self._run(graph, carry, actions, None)

    @_eager
    def observe(self, carry: GraphCarry) -> Any:
        """Return the current observation as tensors of their own, without a graph."""
        return jax_to_torch(self._read_obs(carry.packed, carry.rest))

    @_eager
    def share(self, carry: GraphCarry) -> tuple[torch.Tensor, GraphCarry]:
        """Return the packed leaves as a tensor of the user's own, and the carry behind it.

        The carry's graph goes through the tensor, so that gradients and hooks on it see what flows
        through the state; its values do not, so that writing into it changes nothing. Where torch
        keeps no graph the tensor has none, and that of the carry stays.
        """
        tensor = carry.tensor if torch.is_grad_enabled() else None
        with torch.inference_mode(False), torch.enable_grad():
            if tensor is None:
                return torch.from_dlpack(carry.packed).clone(), carry
            shown = tensor.clone()
            return shown, carry._replace(tensor=shown.clone())

    @_eager
    def take(self, carry: GraphCarry, state: Any) -> GraphCarry:
        """Return the carry with other packed leaves, (num_envs, size), which keep their graph.

        Raises:
            ArgumentTypeError: No dense tensor, or one of another dtype.
            ArgumentError: One of another shape or on another device.
        """
        like = torch.from_dlpack(carry.packed)
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
        packed = jax.device_put(torch_to_jax(state), self.device)
        with torch.inference_mode(False), torch.enable_grad():
            tensor = state.clone() if state.requires_grad else None  # writing would change `state`
        return carry._replace(packed=packed, tensor=tensor)

    def copy(self, carry: GraphCarry) -> GraphCarry:
        """Return the carry in buffers of its own on the batch's device, without a graph."""
        packed, rest = jax.device_put(self._copy((carry.packed, carry.rest)), self.device)
        return GraphCarry(packed, rest, None)

    def check_carry(self, carry: GraphCarry) -> None:
        """Raise unless a carry is of a batch like this one.

        Raises:
            ArgumentError: Its shapes differ.
        """
        wanted = jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), self._shapes_of_carry)
        found = jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), (carry.packed, carry.rest))
        if wanted != found:
            raise ArgumentError(
                f"`state` must be of a batch like this one, with {self.num_envs} environments of "
                f"{self.packing.size} floats, got {carry.packed.shape}."
            )

    def _make_packing(self) -> Packing:
        seeds = Seeds(np.zeros(self.num_envs, np.uint32), np.ones(self.num_envs, np.bool_))
        begin: ResetRule[Any] = ResetRule(self)
        carry = jax.eval_shape(lambda: begin(None, jnp.asarray(seeds.given), seeds).carry)
        named = zip(self.leaf_names(), carry.state.leaves, strict=True)
        packing = Packing(carry, [name for name, leaf in named if is_float(leaf)])
        self._shapes_of_carry = jax.eval_shape(packing.pack, carry)
        return packing

    def _pack_outcome(self, outcome: Outcome) -> Any:
        return outcome._replace(carry=self.packing.pack(outcome.carry))

    def _pure(self, rule: Any, arrange: Arrange) -> Any:
        """Return the rule as a function of float arrays and the rest; see `JaxFunction`."""

        def pure(inputs: tuple[Any, ...], rest: Any) -> Any:
            (packed, *leaves), (others, given) = inputs, rest
            carry = self.packing.unpack(packed, others)
            args = (jax.tree.unflatten(self._actions, leaves),) if given is None else given
            outcome = arrange(rule(carry, *args), carry, *args)
            after, others = self.packing.pack(outcome.carry)
            floats, tick = _split(outcome.tick)
            return (after, *floats), (others, tick)

        return pure

    def _pure_unroll(self, rule: Any, arrange: Arrange) -> Any:
        def step(carry: Carry, actions: Any) -> tuple[Carry, Tick]:
            outcome = arrange(rule(carry, actions), carry, actions)
            return outcome.carry, outcome.tick

        body = jax.checkpoint(step) if self._recompute else step

        def pure(inputs: tuple[Any, ...], rest: Any) -> Any:
            (packed, *leaves), (others, _) = inputs, rest
            carry = self.packing.unpack(packed, others)
            carry, ticks = jax.lax.scan(body, carry, jax.tree.unflatten(self._actions, leaves))
            after, others = self.packing.pack(carry)
            floats, ticks = _split(ticks)
            return (after, *floats), (others, ticks)

        return pure

    @_eager
    def _run(self, graph: JaxFunction, carry: GraphCarry, actions: Any, given: Any) -> Outcome:
        """Call a rule on what has a gradient (packed state, actions) and what has none."""
        leaves = jax.tree.leaves(actions)
        _check_context(leaves)
        values, rest = (carry.packed, *map(torch_to_jax, leaves)), (carry.rest, given)
        tensors = (carry.tensor, *leaves)
        wanted = [tensor is not None and tensor.requires_grad for tensor in tensors]
        if not (any(wanted) and torch.is_grad_enabled()):
            (packed, *floats), (others, tick) = graph.plain(values, rest)
            after = GraphCarry(packed, others, None)
            return Outcome(after, _join(map(torch.from_dlpack, floats), tick), None)
        traced = graph(values, tensors, rest)
        others, tick = traced.aux
        after = GraphCarry(traced.values[0], others, traced.tensors[0])
        return Outcome(after, _join(iter(traced.tensors[1:]), tick), None)


def _check_context(leaves: list[torch.Tensor]) -> None:
    """Raise where torch would take a step for a function without effects."""
    if torch._C._current_graph_task_id() != -1:
        raise SimulationError(
            "A simulator cannot step inside a backward pass, where `torch.utils.checkpoint` would "
            "step it a second time, from another state; use `residuals='recompute'`."
        )
    if forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(leaf).tangent is not None for leaf in leaves
    ):
        raise SimulationError(
            "A step has no forward-mode derivatives; use a backward pass, or jax itself."
        )


def _split(tick: Tick) -> tuple[tuple[Any, ...], Tick]:
    """Return what has a gradient, and the tick with None in its place."""

    def mark(tree: Any, wanted: bool) -> Any:
        return jax.tree.map(lambda leaf: wanted and is_float(leaf), tree)

    info = {key: mark(value, key == "final_obs") for key, value in tick.info.items()}
    marks = Tick(mark(tick.obs, True), mark(tick.reward, True), False, False, info)
    pairs = zip(jax.tree.leaves(tick), jax.tree.leaves(marks), strict=True)
    floats = tuple(leaf for leaf, is_marked in pairs if is_marked)
    return floats, jax.tree.map(lambda leaf, is_marked: None if is_marked else leaf, tick, marks)


def _join(tensors: Iterator[torch.Tensor], tick: Tick) -> Tick:
    """Return the tick of tensors with those that have a gradient in their place."""
    leaves, structure = jax.tree.flatten(tick, is_leaf=lambda leaf: leaf is None)
    return jax.tree.unflatten(
        structure, [next(tensors) if leaf is None else torch.from_dlpack(leaf) for leaf in leaves]
    )


def _nest(space: Space[Any]) -> Any:
    """Return a tree of the form of an action."""
    if isinstance(space, spaces.Dict):
        return {key: _nest(sub) for key, sub in space.spaces.items()}
    return 0
