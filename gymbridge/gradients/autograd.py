"""One `torch.autograd.Function` around any pure function of jax, not only of environments.

The vjp of a jax function is a pytree of arrays, so the function that makes it is compiled once and
the function that applies it once more: a call is one compiled function forward, one backward, and
one node in torch's graph. With ``create_graph=True`` the backward pass is a node too, since it is a
pure function of the inputs and of the gradients that come in; and so on upwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch

from gymbridge.core.arrays.torch import torch_to_jax
from gymbridge.core.processes import check_not_forked
from gymbridge.errors import ArgumentTypeError
from gymbridge.jax_env.compilation import announce
from gymbridge.private.torch import check_not_freed

__all__ = ["JaxFunction", "Joined", "Traced"]

_Tensors = tuple[torch.Tensor | None, ...]


class Traced(NamedTuple):
    """What a call with a graph returns."""

    values: tuple[jax.Array, ...]  # the float outputs
    tensors: tuple[torch.Tensor, ...]  # the same in torch's graph
    rest: Any  # what has no gradient


class JaxFunction:
    """A pure function of jax that can be a node in torch's graph.

    Args:
        function: (inputs, rest) -> (outputs, rest), where inputs is a tuple of trees of float
            arrays, outputs is a tree of float arrays, and what is called rest is any tree, through
            which no gradient passes.
        to_torch: Conversion of an output to a tensor; the default shares memory.
        recompute: Whether the backward pass computes the forward pass again instead of keeping
            what it needs of it.
        joins: Whether what it keeps crosses to the backward pass as few arrays. It is for one
            device: arrays of several would be gathered on one.

    Attributes:
        plain: The compiled function, whose outputs are a tuple.
    """

    def __init__(
        self,
        function: Callable[[Any, Any], tuple[Any, Any]],
        *,
        to_torch: Callable[[Any], torch.Tensor] = torch.from_dlpack,
        recompute: bool = False,
        joins: bool = False,
    ) -> None:
        def evaluate(inputs: tuple[Any, ...], rest: Any) -> tuple[tuple[Any, ...], Any]:
            outputs, rest = function(inputs, rest)
            return tuple(jax.tree.leaves(outputs)), rest

        def differentiate(inputs: tuple[Any, ...], rest: Any) -> Any:
            """Return the outputs, their vjp and the rest."""
            return jax.vjp(lambda *inputs: evaluate(inputs, rest), *inputs, has_aux=True)

        def record(inputs: tuple[Any, ...], rest: Any) -> Any:
            """Return the outputs, the rest and the vjp as it is kept."""
            outputs, vjp, rest = differentiate(inputs, rest)
            return outputs, rest, Joined.of(vjp) if joins else vjp

        def pull(residuals: Any, cotangents: tuple[Any, ...]) -> Any:
            """Return what the vjp makes of the cotangents."""
            announce("a backward pass", "minutes")
            if recompute:
                return differentiate(*residuals)[1](cotangents)
            return (residuals.split() if joins else residuals)(cotangents)

        self.plain, self.to_torch, self._recompute = jax.jit(evaluate), to_torch, recompute
        self._differentiate, self._record, self._pull = (
            differentiate,
            jax.jit(record),
            jax.jit(pull),
        )

    def __call__(self, values: tuple[Any, ...], tensors: _Tensors, rest: Any) -> Traced:
        """Return the outputs as tensors that lead back to the inputs.

        Args:
            values: The inputs, as arrays that nobody writes into later.
            tensors: Their leaves in torch's graph, or None where no gradient is asked for.
            rest: What has no gradient.
        """
        values, rest, *outputs = _Node.apply(self, values, rest, *tensors)
        return Traced(values, tuple(outputs), rest)

    def record(self, values: tuple[Any, ...], rest: Any) -> tuple[tuple[jax.Array, ...], Any, Any]:
        """Return the outputs, the rest and what the backward pass needs."""
        if self._recompute:
            return *self.plain(values, rest), (values, rest)
        return self._record(values, rest)

    def pull(self, residuals: Any, gradients: tuple[Any, ...]) -> Any:
        """Return the gradient of each input, given those of the outputs."""
        return self._pull(residuals, gradients)

    @cached_property
    def gradient(self) -> JaxFunction:
        """The backward pass as a function that has a backward pass itself.

        Its inputs are those of this function and the gradients of its outputs. Its rest is what
        this backward pass needs, and the rest of this function.

        The gradient g(x, c) of f at x is the vjp, linear in c. Given a gradient v of g, that of x
        is the derivative of g along v, since second derivatives are symmetric, and that of c is the
        derivative of f along v. One pass in forward mode over the vjp gives both, as ``jax.jvp`` of
        ``jax.grad`` does. It passes loops, and where a gradient is cut it selects zeros, while
        reverse mode would multiply a NaN by them.
        """
        differentiate, pull = self._differentiate, self._pull

        def find(given: tuple[Any, ...], rest: Any) -> tuple[Any, None]:
            residuals, rest = rest

            @jax.custom_vjp
            def gradient(_: tuple[Any, ...], cotangents: tuple[Any, ...]) -> Any:
                return pull(residuals, cotangents)

            def evaluate(inputs: tuple[Any, ...], cotangents: tuple[Any, ...]) -> Any:
                outputs, vjp, _ = differentiate(inputs, rest)
                return vjp(cotangents), outputs

            def forward(inputs: tuple[Any, ...], cotangents: tuple[Any, ...]) -> Any:
                return evaluate(inputs, cotangents)[0], (inputs, cotangents)

            def backward(given: tuple[Any, ...], directions: tuple[Any, ...]) -> Any:
                announce("a second backward pass", "minutes")
                inputs, cotangents = given
                return jax.jvp(lambda *inputs: evaluate(inputs, cotangents), inputs, directions)[1]

            gradient.defvjp(forward, backward)
            return gradient(*given), None

        return JaxFunction(find, to_torch=self.to_torch, recompute=True)


@cache
def _zeros_maker(place: Any) -> Callable[..., jax.Array]:
    """Return `jnp.zeros` on a device; compiled, it is quicker than the plain call."""
    return jax.jit(jnp.zeros, static_argnums=(0, 1), out_shardings=place)


class _Saved(NamedTuple):
    """What a node keeps for its backward pass."""

    residuals: Any  # what `record` returned for it
    values: tuple[Any, ...]
    rest: Any
    tensors: _Tensors  # the inputs that have a gradient
    origins: list[Any]  # their nodes, since a write in place gives a tensor another one


class _Node(torch.autograd.Function):
    """One call in torch's graph."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, call: JaxFunction, values: Any, rest: Any, *tensors: Any
    ) -> tuple[Any, ...]:
        outputs, found, residuals = call.record(values, rest)
        # Torch frees what `save_for_backward` holds as soon as a backward pass is over, and says
        # so if there is a second one; what jax keeps hangs on a tensor that is saved there.
        token = torch.empty(0, device="cpu")
        inputs = tuple(
            tensor if tensor is not None and tensor.requires_grad else None for tensor in tensors
        )
        saved = _Saved(residuals, values, rest, inputs, _find_origins(inputs))
        token.saved = saved  # pyright: ignore[reportAttributeAccessIssue]
        ctx.save_for_backward(token)
        ctx.set_materialize_grads(False)
        ctx.call = call
        ctx.like = [(output.shape, output.dtype, output.sharding) for output in outputs]
        return outputs, found, *map(call.to_torch, outputs)

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, _: None, __: None, *gradients: torch.Tensor | None
    ) -> tuple[Any, ...]:
        # In a forked child, the parent's graph would wait for threads that are not there.
        check_not_forked()
        try:
            (token,) = ctx.saved_tensors
        except RuntimeError as error:
            check_not_freed(error)
            raise
        if not hasattr(token, "saved"):
            raise RuntimeError(
                "`saved_tensors_hooks` cannot move what a function of jax keeps for its backward "
                "pass. Call the function, or step the batch, outside of the hooks."
            )
        saved: _Saved = token.saved
        call, cotangents = ctx.call, _read_gradients(gradients, ctx.like)
        if torch.is_grad_enabled():  # with `create_graph=True`
            _check_origins(saved)
            sources, rest = (*saved.tensors, *gradients), (saved.residuals, saved.rest)
            tensors = call.gradient((saved.values, cotangents), sources, rest).tensors
        else:
            tensors = map(call.to_torch, jax.tree.leaves(call.pull(saved.residuals, cotangents)))
        needed = zip(tensors, ctx.needs_input_grad[3:], strict=True)
        return None, None, None, *(grad if is_needed else None for grad, is_needed in needed)


def _read_gradients(gradients: _Tensors, like: list[Any]) -> tuple[Any, ...]:
    """Return the gradients of the outputs as arrays, zeros for None."""
    try:
        return tuple(
            _zeros_maker(place)(shape, dtype) if gradient is None else torch_to_jax(gradient)
            for gradient, (shape, dtype, place) in zip(gradients, like, strict=True)
        )
    except ArgumentTypeError as error:
        raise RuntimeError(
            "A function of jax takes one gradient at a time in its backward pass. "
            "`is_grads_batched=True` and `vectorize=True` take many by torch.func; leave them out."
        ) from error


def _find_origins(tensors: _Tensors) -> list[Any]:
    return [None if tensor is None else tensor.grad_fn for tensor in tensors]


def _check_origins(saved: _Saved) -> None:
    """Raise where second derivatives would flow into what was written into an input later."""
    pairs = zip(saved.origins, _find_origins(saved.tensors), strict=True)
    if any(before is not now for before, now in pairs):
        raise RuntimeError(
            "A tensor that a function of jax needs for second derivatives, such as the actions of "
            "a step, was modified by an operation in place. Give the function a copy of it."
        )


_SMALL = 1 << 16
"""Bytes up to which an array is joined with others."""


@jax.tree_util.register_pytree_node_class
class Joined:
    """A tree of arrays inside compiled functions, as few arrays between them.

    The vjp of a physics step holds some hundreds to a thousand arrays. Each that leaves a compiled
    function and enters another costs about as long as the arithmetic on a small one. Joined they
    are one for each dtype, at the price of a copy, which only small ones are worth.

    Args:
        arrays: Joined arrays, then the others as they are.
        layout: Structure of the tree, and dtype and shape of each leaf that is joined.
    """

    def __init__(self, arrays: tuple[Any, ...], layout: tuple[Any, ...]) -> None:
        self._arrays, self._layout = arrays, layout

    @classmethod
    def of(cls, tree: Any) -> Joined:
        """Return a tree of arrays of one device, joined."""
        leaves, structure = jax.tree.flatten(tree)
        kinds = tuple((leaf.dtype, leaf.shape) if _is_small(leaf) else None for leaf in leaves)
        groups: dict[Any, list[Any]] = {kind[0]: [] for kind in kinds if kind}
        large: list[Any] = []
        for leaf, kind in zip(leaves, kinds, strict=True):
            if kind:
                groups[leaf.dtype].append(leaf.ravel())
            else:
                large.append(leaf)
        return cls((*map(jnp.concatenate, groups.values()), *large), (structure, kinds))

    def split(self) -> Any:
        """Return the tree."""
        structure, kinds = self._layout
        shapes: dict[Any, list[Any]] = {}
        for dtype, shape in filter(None, kinds):
            shapes.setdefault(dtype, []).append(shape)
        arrays = iter(self._arrays)
        parts = {dtype: _cut(next(arrays), group) for dtype, group in shapes.items()}
        leaves = [next(parts[kind[0]] if kind else arrays) for kind in kinds]
        return jax.tree.unflatten(structure, leaves)

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the arrays and the layout, for jax."""
        return self._arrays, self._layout

    @classmethod
    def tree_unflatten(cls, layout: tuple[Any, ...], arrays: tuple[Any, ...]) -> Joined:
        """Return what `tree_flatten` was called on."""
        return cls(arrays, layout)


def _cut(joined: Any, shapes: list[Any]) -> Iterator[Any]:
    parts = jnp.split(joined, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
    return (part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))


def _is_small(leaf: Any) -> bool:
    is_number = not jnp.issubdtype(leaf.dtype, jax.dtypes.extended)
    return is_number and leaf.size * leaf.dtype.itemsize <= _SMALL
