"""A runner whose compiled functions are nodes in torch's graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import torch

from gymbridge.core.arrays.adapter import map_arrays
from gymbridge.core.arrays.torch import choose_to_torch, torch_to_jax
from gymbridge.core.episode import Carry, EpisodeRule, ResetRequest, StepResult
from gymbridge.core.infos import InfoLayout
from gymbridge.errors import ArgumentError, ArgumentTypeError, EnvContractError
from gymbridge.gradients.autograd import JaxFunction
from gymbridge.gradients.packed_rule import PackedRule, join
from gymbridge.jax_env.checks import check_float_actions
from gymbridge.jax_env.runners import JaxRule, JaxRunner
from gymbridge.jax_env.simulator import JaxSimulator
from gymbridge.jax_env.spreading import find_sharding, spread
from gymbridge.jax_env.tracing import action_struct
from gymbridge.private.torch import check_context

__all__ = ["GraphCarry", "GraphRunner"]

_MethodT = TypeVar("_MethodT", bound=Callable[..., Any])


def _eager(method: _MethodT) -> _MethodT:
    """Return the method as one that `torch.compile` does not look into: it would meet jax there."""
    disabled: Any = torch.compiler.disable(method)
    return disabled


class GraphCarry(NamedTuple):
    """The batch between two calls."""

    packed: jax.Array  # (num_envs, S) float; nobody else can write into it
    rest: tuple[Any, ...]  # the leaves that are not packed
    tensor: torch.Tensor | None  # `packed` in torch's graph, and never a tensor that the user has


class GraphRunner(JaxRunner):
    """Runs the rule over tensors, with a graph if an input requires grad.

    Args:
        rule: Episode rule of the batch.
        infos: The layout of its infos.
        recompute: Whether a backward pass computes each step again instead of keeping what it needs
            of it.

    Raises:
        EnvContractError: Actions are not floats, the state has complex numbers, or reverse mode
            cannot pass the environment's step.
    """

    def __init__(
        self, rule: EpisodeRule[JaxSimulator], infos: InfoLayout, *, recompute: bool = False
    ) -> None:
        simulator, place = rule.simulator, rule.simulator.device
        _check_differentiable(simulator)
        self.rule, self._to_torch = JaxRule(rule), choose_to_torch(place)
        self._sharding = sharding = find_sharding(place)
        pure = PackedRule(rule, infos, recompute)
        self.packing = packing = pure.packing
        make = partial(JaxFunction, to_torch=self._to_torch, joins=simulator.num_devices == 1)
        window = {"in_axes": ((0, 1), 0), "out_axes": ((0, 1), (0, 1))}
        self._first_reset = jax.jit(spread(pure.first_reset, place), out_shardings=sharding)
        self._reset_graph = make(spread(pure.reset, place), recompute=recompute)
        self._step_graph = make(spread(pure.step, place), recompute=recompute)
        self._unroll_graph = make(spread(pure.unroll, place, **window))
        self._pack_carry = jax.jit(spread(packing.pack, place))
        self._unpack_carry = jax.jit(spread(packing.unpack, place))
        self._read_obs = jax.jit(spread(pure.read_obs, place))

    def reset(self, carry: GraphCarry | None, mask: np.ndarray, seeds: ResetRequest) -> StepResult:
        """Begin new episodes; see `Runner.reset`."""
        if carry is None:
            packed, rest, result = self._first_reset(mask, seeds)
            result = map_arrays(self._to_torch, result)
            return result._replace(carry=GraphCarry(packed, rest, None))
        if mask.all():
            carry = carry._replace(tensor=None)
        return self._run(self._reset_graph, carry, (carry.rest, mask, seeds))

    def step(self, carry: GraphCarry, actions: Any) -> StepResult:
        """Take one step; see `Runner.step`."""
        return self._run(self._step_graph, carry, carry.rest, actions)

    def freeze(self, carry: GraphCarry, rows: np.ndarray) -> GraphCarry:
        """Return the carry whose next step leaves some rows as they are; see `Runner.freeze`."""
        *before, ended = carry.rest  # `Carry.ended` is the last leaf
        return carry._replace(rest=(*before, ended | rows))

    def unroll(self, carry: GraphCarry, actions: Any) -> StepResult:
        """Take T steps as one node, with actions and a time step that lead with T."""
        return self._run(self._unroll_graph, carry, carry.rest, actions)

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
        """Return what a function returns, without a graph; see `JaxRunner.apply`."""
        found = function(self.unpack(carry), jax.tree.map(torch_to_jax, actions))
        return map_arrays(self._to_torch, found)

    def pack(self, carry: Carry) -> GraphCarry:
        """Return one of the rule's carries as this runner keeps it."""
        packed, rest = self._pack_carry(carry)
        return GraphCarry(packed, rest, None)

    @_eager
    def _run(self, graph: JaxFunction, carry: GraphCarry, rest: Any, *actions: Any) -> StepResult:
        """Call a function on what has a gradient (packed state, actions) and what has none."""
        leaves = jax.tree.leaves(actions)
        check_context(leaves)
        values = (carry.packed, *jax.tree.map(torch_to_jax, actions))
        tensors = (carry.tensor, *leaves)
        wanted = [tensor is not None and tensor.requires_grad for tensor in tensors]
        if any(wanted) and torch.is_grad_enabled():
            (packed, *_), (tensor, *floats), (rest, result) = graph(values, tensors, rest)
        else:
            (packed, *arrays), (rest, result) = graph.plain(values, rest)
            tensor, floats = None, map(self._to_torch, arrays)
        joined = join(result, iter(floats), self._to_torch)
        return joined._replace(carry=GraphCarry(packed, rest, tensor))


def _check_differentiable(simulator: JaxSimulator) -> None:
    """Raise unless a step of an environment has gradients.

    Raises:
        EnvContractError: Actions are not floats, the state has complex numbers, or reverse mode
            cannot pass the step.
    """
    check_float_actions("differentiable=True", simulator.single_action_space)
    for leaf in simulator.row.leaves:
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            raise EnvContractError(
                f"`differentiable=True` needs a state of real numbers, got {leaf.dtype} of shape "
                f"{leaf.shape}."
            )
    _check_reverse_mode(simulator)


def _check_reverse_mode(simulator: JaxSimulator) -> None:
    """Trace the gradient of one step; nothing is run."""

    def total(row: Any, action: Any) -> Any:
        leaves = jax.tree.leaves(simulator.step_row(row, action))
        return sum(jnp.sum(leaf) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating))

    try:
        pull = jax.grad(total, argnums=(0, 1), allow_int=True)
        jax.eval_shape(pull, simulator.row, action_struct(simulator.single_action_space))
    except Exception as error:
        metadata, reason = simulator.env.metadata, f"{type(error).__name__}: {error}"
        if "Reverse-mode differentiation does not work" in str(error):
            reason = (
                "it iterates in a `lax.while_loop`, which reverse mode cannot pass. "
                f"{metadata.loop_advice}"
            )
        raise EnvContractError(
            f"`differentiable=True` cannot pass the step of {metadata.name}: {reason}"
        ) from error
