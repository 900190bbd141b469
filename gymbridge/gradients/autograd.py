"""One `torch.autograd.Function` around any pure function of jax, not only of environments.

The vjp of a jax function is a pytree of arrays, so the function that makes it is compiled once and
the function that applies it once more: a call is one compiled function forward, one backward, and
one node in torch's graph. With ``create_graph=True`` the backward pass is a node too, since it is a
pure function of the inputs and of the gradients that come in; and so on upwards.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import jax
import torch

from gymbridge.core.arrays.jax import pack_tree, unpack_tree
from gymbridge.core.arrays.torch import torch_to_jax
from gymbridge.core.processes import check_not_forked
from gymbridge.errors import ArgumentTypeError
from gymbridge.jax_env.compilation import announce
from gymbridge.private.torch import check_not_freed

__all__ = ["JaxFunction", "Traced"]

_Tensors = tuple[torch.Tensor | None, ...]


class Traced(NamedTuple):
    """What a call with a graph returns."""

    values: tuple[Any, ...]  # the outputs, trees of float arrays
    tensors: tuple[torch.Tensor, ...]  # their leaves in torch's graph
    aux: Any  # what has no gradient


class JaxFunction:
    """A pure function of jax that can be a node in torch's graph.

    Args:
        function: (inputs, rest) -> (outputs, aux), where inputs and outputs are tuples of trees
            of float arrays, and rest and aux are any pytrees, through which no gradient passes.
        to_torch: Conversion of an output to a tensor; the default shares memory.
        recompute: Whether the backward pass computes the forward pass again instead of keeping
            what it needs of it.
        joins: Whether what it keeps crosses to the backward pass packed. The vjp of a physics step
            holds some hundreds to a thousand arrays. It is for one device: arrays of several would
            be gathered on one.
    """

    def __init__(
        self,
        function: Callable[[tuple[Any, ...], Any], tuple[tuple[Any, ...], Any]],
        *,
        to_torch: Callable[[Any], torch.Tensor] = torch.from_dlpack,
        recompute: bool = False,
        joins: bool = False,
    ) -> None:
        self.to_torch, self._recompute = to_torch, recompute

        # Functions, since bound methods would be a circle that keeps what was compiled alive.
        def differentiate(inputs: tuple[Any, ...], rest: Any) -> Any:
            """Return the outputs, their vjp and the aux."""
            return jax.vjp(lambda *given: function(given, rest), *inputs, has_aux=True)

        def record(inputs: tuple[Any, ...], rest: Any) -> Any:
            outputs, vjp, aux = differentiate(inputs, rest)
            return outputs, aux, pack_tree(vjp) if joins else vjp

        def apply(kept: Any, cotangents: tuple[Any, ...]) -> Any:
            announce("a backward pass", "minutes")
            vjp = differentiate(*kept)[1] if recompute else unpack_tree(kept)
            return vjp(cotangents)

        self.plain, self._differentiate = jax.jit(function), differentiate
        self._record, self._pull = jax.jit(record), jax.jit(apply)

    def __call__(self, values: tuple[Any, ...], tensors: _Tensors, rest: Any) -> Traced:
        """Return the outputs as tensors that lead back to the inputs.

        Args:
            values: The inputs, as arrays that nobody writes into later.
            tensors: Their leaves in torch's graph, or None where no gradient is asked for.
            rest: What has no gradient.
        """
        return _make_node(self, values, tensors, rest)

    def record(self, values: tuple[Any, ...], rest: Any) -> tuple[tuple[Any, ...], Any, Any]:
        """Return the outputs, the aux and what the backward pass needs."""
        if self._recompute:
            outputs, aux = self.plain(values, rest)
            return outputs, aux, (values, rest)
        return self._record(values, rest)

    def pull(self, kept: Any, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradient of each input, given those of the outputs."""
        return self._pull(kept, gradients)

    def pull_traced(self, kept: _Kept, gradients: tuple[Any, ...], sources: _Tensors) -> Traced:
        """Return the same as tensors that lead back to the inputs and the given gradients.

        Args:
            kept: What the node keeps.
            gradients: Those of the outputs.
            sources: The inputs and these gradients in torch's graph.
        """
        given = (kept.values, gradients)
        return _make_node(self._gradient, given, sources, (kept.residuals, kept.rest))

    @cached_property
    def _gradient(self) -> _Gradient:
        return _Gradient(self._differentiate, self._pull, self.to_torch)


class _Gradient:
    """The backward pass of a function of jax, as a function that has a backward pass itself.

    `differentiate` is (inputs, rest) -> (outputs, vjp, aux), and `pull` is compiled, (residuals,
    cotangents) -> gradients.

    The gradient g(x, c) of f at x is the vjp, linear in c. Given a gradient v of g, that of x is
    the derivative of g along v, since second derivatives are symmetric, and that of c is the
    derivative of f along v. One pass in forward mode over the vjp gives both, as ``jax.jvp`` of
    ``jax.grad`` does. It passes loops, and where a gradient is cut it selects zeros, while reverse
    mode would multiply a NaN by them.
    """

    def __init__(
        self,
        differentiate: Callable[..., Any],
        pull: Callable[..., Any],
        to_torch: Callable[[Any], torch.Tensor],
    ) -> None:
        self.to_torch, self._pull = to_torch, pull

        def push(given: tuple[Any, ...], rest: Any) -> tuple[tuple[Any, ...], None]:
            """Return the gradients of the inputs and the cotangents along directions of inputs."""
            announce("a second backward pass", "minutes")
            inputs, cotangents, directions = given

            def run(*inputs: Any) -> Any:
                outputs, vjp, _ = differentiate(inputs, rest)
                return vjp(cotangents), outputs

            along = jax.tree.unflatten(jax.tree.structure(inputs), directions)
            return tuple(jax.tree.leaves(jax.jvp(run, inputs, along)[1])), None

        self._push = JaxFunction(push, to_torch=to_torch, recompute=True)

    def record(self, given: tuple[Any, ...], rest: Any) -> tuple[tuple[jax.Array, ...], None, Any]:
        """Return the gradients of the inputs, and what their backward pass needs."""
        residuals, others = rest
        found = self._pull(residuals, given[1])
        return tuple(jax.tree.leaves(found)), None, (given, others)

    def pull(self, kept: Any, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients of inputs and cotangents, given those of the first gradients."""
        given, rest = kept
        return self._push.plain((*given, gradients), rest)[0]

    def pull_traced(self, kept: _Kept, gradients: tuple[Any, ...], sources: _Tensors) -> Traced:
        """Return the same as tensors, for third derivatives; see `JaxFunction.pull_traced`."""
        given, rest = kept.residuals
        return self._push((*given, gradients), sources, rest)


class _Kept(NamedTuple):
    """What a node keeps for its backward pass."""

    residuals: Any  # what `record` returned for it
    values: tuple[Any, ...]
    rest: Any
    tensors: _Tensors  # the inputs that have a gradient
    origins: list[Any]  # their nodes, since a write in place gives a tensor another one


def _make_node(
    call: JaxFunction | _Gradient, values: tuple[Any, ...], tensors: _Tensors, rest: Any
) -> Traced:
    found: list[Any] = []
    outputs = _Node.apply(call, values, rest, found, *tensors)
    return Traced(found[0], outputs, found[1])


class _Node(torch.autograd.Function):
    """One call in torch's graph."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        call: JaxFunction | _Gradient,
        values: Any,
        rest: Any,
        found: list[Any],
        *tensors: Any,
    ) -> tuple[torch.Tensor, ...]:
        outputs, aux, residuals = call.record(values, rest)
        found += (outputs, aux)
        # Torch frees what `save_for_backward` holds as soon as a backward pass is over, and says
        # so if there is a second one; what jax keeps hangs on a tensor that is saved there.
        token = torch.empty(0, device="cpu")
        inputs = tuple(
            tensor if tensor is not None and tensor.requires_grad else None for tensor in tensors
        )
        kept = _Kept(residuals, values, rest, inputs, _find_origins(inputs))
        token.kept = kept  # pyright: ignore[reportAttributeAccessIssue]
        ctx.save_for_backward(token)
        leaves, ctx.structure = jax.tree.flatten(outputs)
        ctx.call = call
        return tuple(map(call.to_torch, leaves))

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[Any, ...]:
        # In a forked child, the parent's graph would wait for threads that are not there.
        check_not_forked()
        try:
            (token,) = ctx.saved_tensors
        except RuntimeError as error:
            check_not_freed(error)
            raise
        if not hasattr(token, "kept"):
            raise RuntimeError(
                "`saved_tensors_hooks` cannot move what a function of jax keeps for its backward "
                "pass. Call the function, or step the batch, outside of the hooks."
            )
        kept: _Kept = token.kept
        cotangents = jax.tree.unflatten(ctx.structure, _read_gradients(gradients))
        if torch.is_grad_enabled():  # Torch sets it for `create_graph=True`.
            _check_origins(kept)
            sources = (*kept.tensors, *gradients)
            tensors = ctx.call.pull_traced(kept, cotangents, sources).tensors
        else:
            found = jax.tree.leaves(ctx.call.pull(kept.residuals, cotangents))
            tensors = map(ctx.call.to_torch, found)
        needed = zip(tensors, ctx.needs_input_grad[4:], strict=True)
        return None, None, None, None, *(grad if is_needed else None for grad, is_needed in needed)


def _read_gradients(gradients: tuple[torch.Tensor, ...]) -> list[Any]:
    """Return the gradients of the outputs as arrays."""
    try:
        return list(map(torch_to_jax, gradients))
    except ArgumentTypeError as error:
        raise RuntimeError(
            "A function of jax takes one gradient at a time in its backward pass. "
            "`is_grads_batched=True` and `vectorize=True` take many by torch.func; leave them out."
        ) from error


def _find_origins(tensors: _Tensors) -> list[Any]:
    return [None if tensor is None else tensor.grad_fn for tensor in tensors]


def _check_origins(kept: _Kept) -> None:
    """Raise where second derivatives would flow into what was written into an input later."""
    pairs = zip(kept.origins, _find_origins(kept.tensors), strict=True)
    if any(before is not now for before, now in pairs):
        raise RuntimeError(
            "A tensor that a function of jax needs for second derivatives, such as the actions of "
            "a step, was modified by an operation in place. Give the function a copy of it."
        )
