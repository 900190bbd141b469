"""One `torch.autograd.Function` around any pure function of jax, not only of environments.

The vjp of a jax function is a pytree of arrays, so the function that makes it is compiled once and
the function that applies it once more: a call is one compiled function forward, one backward, and
one node in torch's graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import torch

from gymbridge.core.arrays.torch import torch_to_jax
from gymbridge.core.processes import check_not_forked
from gymbridge.functional.compilation import announce

__all__ = ["JaxFunction", "Pure", "Traced"]

Pure = Callable[[tuple[Any, ...], Any], tuple[tuple[Any, ...], Any]]
"""(float arrays, anything else) -> (float arrays, anything else)."""


class Traced(NamedTuple):
    """What a call with a graph returns."""

    values: tuple[jax.Array, ...]  # the float outputs
    tensors: tuple[torch.Tensor, ...]  # the same in torch's graph
    aux: Any  # what has no gradient


class JaxFunction:
    """A pure function of jax that can be a node in torch's graph.

    Args:
        function: (inputs, rest) -> (outputs, aux), where inputs and outputs are tuples of float
            arrays, and rest and aux are any pytrees, through which no gradient passes.
        to_torch: Conversion of an output to a tensor; the default shares memory.
        recompute: Whether the backward pass computes the forward pass again instead of keeping
            what it needs of it.
    """

    def __init__(
        self,
        function: Pure,
        *,
        to_torch: Callable[[Any], torch.Tensor] = torch.from_dlpack,
        recompute: bool = False,
    ) -> None:
        self.to_torch, self._recompute = to_torch, recompute

        # Functions, since bound methods would be a circle that keeps what was compiled alive.
        def differentiate(inputs: tuple[Any, ...], rest: Any) -> Any:
            """Return the outputs, their vjp and the aux."""
            return jax.vjp(lambda *given: function(given, rest), *inputs, has_aux=True)

        def apply(kept: Any, cotangents: tuple[Any, ...]) -> Any:
            """Return what the vjp makes of the cotangents."""
            announce("a backward pass", "minutes")
            return (differentiate(*kept)[1] if recompute else kept)(cotangents)

        self.plain = jax.jit(function)
        self._record, self._pull = jax.jit(differentiate), jax.jit(apply)

    def __call__(
        self, values: tuple[Any, ...], tensors: tuple[torch.Tensor | None, ...], rest: Any
    ) -> Traced:
        """Return the outputs as tensors that lead back to the inputs.

        Args:
            values: The inputs, as arrays that nobody writes into later.
            tensors: The same inputs in torch's graph, or None where no gradient is asked for.
            rest: What has no gradient.
        """
        found: list[Any] = []
        outputs = _Node.apply(self, values, rest, found, *tensors)
        return Traced(found[0], outputs, found[1])

    def record(self, values: tuple[Any, ...], rest: Any) -> tuple[tuple[jax.Array, ...], Any, Any]:
        """Return the outputs, the aux and what the backward pass needs."""
        if self._recompute:
            outputs, aux = self.plain(values, rest)
            return outputs, aux, (values, rest)
        outputs, kept, aux = self._record(values, rest)
        return outputs, aux, kept

    def pull(self, kept: Any, gradients: tuple[Any, ...]) -> tuple[jax.Array, ...]:
        """Return the gradient of each input, given those of the outputs."""
        return self._pull(kept, gradients)


_KEPT_BYTES = 1 << 16


def _zeros(shape: tuple[int, ...], dtype: Any, place: Any) -> jax.Array:
    """Return zeros on a device; small ones are kept, 4 MiB of them at most."""
    is_small = math.prod(shape) * dtype.itemsize <= _KEPT_BYTES
    return (_keep_zeros if is_small else _make_zeros)(shape, dtype, place)


def _make_zeros(shape: tuple[int, ...], dtype: Any, place: Any) -> jax.Array:
    return _zeros_maker(place)(shape, dtype)


@cache
def _zeros_maker(place: Any) -> Callable[..., jax.Array]:
    """Return `jnp.zeros` on a device; compiled, it is quicker than the plain call."""
    return jax.jit(jnp.zeros, static_argnums=(0, 1), out_shardings=place)


@lru_cache(maxsize=64)
def _keep_zeros(shape: tuple[int, ...], dtype: Any, place: Any) -> jax.Array:
    return _make_zeros(shape, dtype, place)


def _describe(outputs: tuple[jax.Array, ...]) -> list[Any]:
    """Return shape, dtype and place of each output, as `_zeros` takes them."""
    return [(output.shape, output.dtype, output.sharding) for output in outputs]


class _Node(torch.autograd.Function):
    """One call in torch's graph."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, call: JaxFunction, values: Any, rest: Any, found: list[Any], *tensors: Any
    ) -> tuple[torch.Tensor, ...]:
        outputs, aux, kept = call.record(values, rest)
        found += (outputs, aux)
        # Torch frees what `save_for_backward` holds as soon as a backward pass is over, and says
        # so if there is a second one; what jax keeps hangs on a tensor that is saved there.
        token = torch.empty(0, device="cpu")
        inputs = [tensor for tensor in tensors if tensor is not None and tensor.requires_grad]
        token.kept = (kept, inputs)  # pyright: ignore[reportAttributeAccessIssue]
        ctx.save_for_backward(token)
        ctx.set_materialize_grads(False)
        ctx.call, ctx.like = call, _describe(outputs)
        return tuple(map(call.to_torch, outputs))

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *gradients: torch.Tensor | None
    ) -> tuple[Any, ...]:
        # In a forked child, the parent's graph would wait for threads that are not there.
        check_not_forked()
        (token,) = ctx.saved_tensors
        if not hasattr(token, "kept"):
            raise RuntimeError(
                "`saved_tensors_hooks` cannot move what a function of jax keeps for its backward "
                "pass. Call the function, or step the batch, outside of the hooks."
            )
        kept, inputs = token.kept
        cotangents = tuple(
            _zeros(*like) if gradient is None else torch_to_jax(gradient)
            for gradient, like in zip(gradients, ctx.like, strict=True)
        )
        found = ctx.call.pull(kept, cotangents)
        tensors = [ctx.call.to_torch(gradient) for gradient in found]
        # With `create_graph=True` the gradients themselves have to lead somewhere.
        if torch.is_grad_enabled():
            sources = (*inputs, *(gradient for gradient in gradients if gradient is not None))
            tensors = _Once.apply(len(tensors), *tensors, *sources)
        needed = zip(tensors, ctx.needs_input_grad[4:], strict=True)
        return None, None, None, None, *(grad if is_needed else None for grad, is_needed in needed)


class _Once(torch.autograd.Function):
    """Gradients that have no gradient themselves, and say so instead of passing for constants.

    They hang on all that they are computed from, so that torch finds them on its way to any of it.
    """

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, count: int, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(
            "A function of jax has no second derivatives in torch's graph: its gradient cannot be "
            "differentiated. Detach the gradient, or differentiate twice in jax."
        )
