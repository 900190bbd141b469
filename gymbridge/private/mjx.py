"""Reverse mode through MJX's constraint solver, by private names of MJX as of mujoco-mjx 3.17.

MJX iterates its solver in a `jax.lax.while_loop`, which reverse mode cannot pass. While a
differentiable step is traced, and in that thread alone, a call of `solver.solve` goes one of two
ways. "unroll" runs MJX's own function, in which that loop is a scan over `opt.iterations`: its
derivative is that of what is computed. "implicit" differentiates the optimum that the solver looks
for: its derivative is that of what is computed where the solver reaches the optimum. Both return
what MJX's own function returns.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache, partial, wraps
from importlib.metadata import version
from operator import attrgetter
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp

from gymbridge.errors import ArgumentError, EnvContractError

__all__ = ["SolverGradient", "read_solver_gradient"]

_MODES = ("auto", "unroll", "implicit")

_MOST_UNROLLED = 10
"""Iterations up to which "auto" unrolls."""

_NAMES = ("solve.__code__", "Context.create", "ConeType.ELLIPTIC")
"""What is used of MJX's module `solver`, besides that `solve` calls `jax.lax.while_loop`."""

_lock = threading.Lock()

_active: ContextVar[SolverGradient | None] = ContextVar("mjx_solver_gradient", default=None)


def read_solver_gradient(mode: Any, *, differentiable: bool) -> str | None:
    """Return `mjx_solver_gradient` as the user gave it; None for a batch without gradients."""
    if mode not in _MODES:
        raise ArgumentError(f"`mjx_solver_gradient` must be one of {_MODES}, got {mode!r}.")
    if differentiable:
        return mode
    if mode != "auto":
        raise ArgumentError(
            f"`mjx_solver_gradient={mode!r}` needs `differentiable=True`, got {differentiable!r}; "
            "only a differentiable step has a backward pass."
        )
    return None


class SolverGradient:
    """How gradients pass MJX's solver in the functions that are traced with it.

    Attributes:
        mode: The same.
        unsupported_reason: Why gradients cannot pass this version's solver; None if they can.
        is_used: Whether the solver was run in a trace so far.
    """

    def __init__(self, mode: str) -> None:
        with _lock:
            self.unsupported_reason = _install()
        self.mode, self.is_used = mode, False
        if self.unsupported_reason and mode != "auto":
            raise EnvContractError(
                f"`mjx_solver_gradient={mode!r}` is not possible: {self.unsupported_reason}"
            )

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, in whose traces gradients pass the solver."""

        def traced(*args: Any) -> Any:
            token = _active.set(self)
            try:
                return function(*args)
            finally:
                _active.reset(token)

        return traced

    def solve(self, solve: Callable[..., Any], model: Any, data: Any) -> Any:
        """Return what MJX's `solve` returns, with a derivative for reverse mode."""
        self.is_used, options = True, model.opt
        is_elliptic = options.cone == _solver().ConeType.ELLIPTIC
        if is_elliptic and self.mode == "unroll":
            raise ArgumentError(
                "`mjx_solver_gradient='unroll'` is not possible with elliptic friction cones, "
                "through which reverse mode gives NaN; use 'implicit', or a model with "
                "`opt.cone` pyramidal."
            )
        is_long = is_elliptic or options.iterations > _MOST_UNROLLED
        if self.mode == "implicit" or (self.mode == "auto" and is_long):
            return _solve_implicitly(solve, model, data)
        return _unrolled(solve, options.iterations)(model, data)


def _solver() -> Any:
    return importlib.import_module("mujoco.mjx._src.solver")


@cache
def _install() -> str | None:
    """Let `solver.solve` ask which way to go, or return what this version of MJX lacks."""
    solver = _solver()
    missing = [name for name in _NAMES if not _has(solver, name)]
    if not missing and not {"jax", "while_loop"} <= set(solver.solve.__code__.co_names):
        missing = ["solve with `jax.lax.while_loop`"]
    if missing:
        return (
            "MJX's solver iterates in a loop, and gymbridge knows that of mujoco-mjx 3.17; "
            f"mujoco-mjx {version('mujoco-mjx')} has no `solver.{missing[0]}`. Install "
            "'mujoco-mjx>=3.17,<3.18'."
        )
    solver.solve = _dispatched(solver.solve)
    return None


def _has(module: Any, path: str) -> bool:
    try:
        attrgetter(path)(module)
    except AttributeError:
        return False
    return True


def _dispatched(solve: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(solve)
    def dispatch(m: Any, d: Any) -> Any:
        gradient = _active.get()
        return solve(m, d) if gradient is None else gradient.solve(solve, m, d)

    return dispatch


class _Overlay:
    """A module with other attributes, for one function that reads it."""

    def __init__(self, module: Any, **others: Any) -> None:
        self._module = module
        vars(self).update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _unrolled(solve: Any, iterations: int) -> Callable[..., Any]:
    """Return MJX's own function with a scan in the place of its `jax.lax.while_loop`."""
    loop = partial(_scan_while, iterations)
    names = {"jax": _Overlay(jax, lax=_Overlay(jax.lax, while_loop=loop))}
    return FunctionType(solve.__code__, {**solve.__globals__, **names}, solve.__name__)


def _scan_while(iterations: int, cond: Any, body: Any, first: Any) -> Any:
    """Return what `jax.lax.while_loop` returns if it ends within so many iterations.

    The backward pass computes each iteration again from its beginning.
    """

    @partial(jax.checkpoint, prevent_cse=False)
    def iterate(now: Any, _: None) -> tuple[Any, None]:
        goes_on = cond(now)
        return jax.tree.map(partial(jnp.where, goes_on), body(now), now), None

    return jax.lax.scan(iterate, first, None, iterations)[0]


def _solve_implicitly(solve: Callable[..., Any], model: Any, data: Any) -> Any:
    """Return what MJX's function returns, with the derivative of the optimum.

    At the optimum the gradient of the cost is 0. MJX computes it so: `solver._update_gradient`.
    """

    def evaluate(qacc: jax.Array) -> Any:
        return _solver().Context.create(model, data.replace(qacc=qacc), grad=False)

    def slope(qacc: jax.Array) -> jax.Array:
        context = evaluate(qacc)
        return context.Ma - data.qfrc_smooth - context.qfrc_constraint

    def find(_: Any, __: Any) -> Any:
        solved = solve(model, data)
        return solved.qacc, (solved.qfrc_constraint, solved._impl.efc_force)

    qacc, forces = jax.lax.custom_root(slope, data.qacc_smooth, find, _solve_linear, has_aux=True)
    there = evaluate(qacc)
    forces = _with_derivative(forces, (there.qfrc_constraint, there.efc_force))
    names = ("qacc", "qfrc_constraint", "_impl.efc_force")
    return data.tree_replace(dict(zip(names, (qacc, *forces), strict=True)))


def _solve_linear(linear: Callable[[jax.Array], jax.Array], right: jax.Array) -> jax.Array:
    """Return x where ``linear(x) == right``; the matrix is symmetric and positive definite."""
    matrix = jax.vmap(linear)(jnp.eye(len(right), dtype=right.dtype))
    return jax.scipy.linalg.solve((matrix + matrix.T) / 2, right, assume_a="pos")


@jax.custom_jvp
def _with_derivative(values: Any, like: Any) -> Any:
    """Return the values, with the derivative of others that differ by rounding."""
    del like
    return values


@_with_derivative.defjvp
def _differentiate(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    return primals[0], tangents[1]
