"""Uses of private names of JAX, as of 0.10.2 to 0.12.0.1; importing this does not import jax."""

from __future__ import annotations

import functools
import itertools
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import numpy as np

__all__ = [
    "apart",
    "count_threads",
    "current_trace",
    "default_generator",
    "default_promotion",
    "factorizes",
    "fixes_draws",
    "jax_has_started",
    "keep_constants",
    "keeps_old_traces",
    "listen_to_compilations",
    "pool_of",
    "read_threads",
    "used_inputs",
    "with_transfers",
]

_TRACES = itertools.count()

_GENERATOR = {
    "default_prng_impl": "threefry2x32",
    "enable_custom_prng": False,
    "legacy_prng_key": "allow",
    "random_seed_offset": 0,
    "threefry_partitionable": True,
    "use_high_dynamic_range_gumbel": False,
}
"""JAX's defaults of all settings that change what `jax.random` draws or takes."""

_FACTORIZATIONS = frozenset(
    (
        *("cholesky", "eig", "eigh", "geqp3", "geqrf", "hessenberg", "householder_product", "lu"),
        *("ormqr", "qr", "schur", "svd", "triangular_solve", "tridiagonal", "tridiagonal_solve"),
    )
)
"""JAX's operations that call LAPACK."""


def jax_has_started() -> bool:
    """Return whether JAX has started its threads in this process.

    Where a version of JAX lacks the name, an imported JAX counts as started: a fork would hang.
    """
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is None:
        return False
    are_initialized = getattr(bridge, "backends_are_initialized", None)
    return are_initialized is None or are_initialized()


def count_threads(cores: int, devices: int, calls: int = 2) -> int:
    """Return the size of XLA's pool with which no step waits for ever; at least `cores`.

    In jaxlib 0.10.2 a LAPACK call on many matrices keeps a thread of XLA's pool and waits for
    other threads of the pool, which has one for each core or CPU device. If every thread is in such
    a call, XLA deadlocks. In a pool of one thread, a call does all of its work itself. `calls` are
    those that a device may be in at the same time. A step of MJX has two: it factorizes the mass
    matrix, and the mass matrix with damping.
    """
    size = max(cores, devices)
    return max(size, calls * devices + 1) if calls and size > 1 else size


@contextmanager
def pool_of(threads: int) -> Generator[None]:
    """Let JAX start with so many threads in XLA's pool, unless the user has set a number.

    XLA reads the size of the pool from the environment variable ``NPROC`` when it starts. One
    thread may be in this block at a time.
    """
    is_chosen = "NPROC" in os.environ
    os.environ.setdefault("NPROC", str(threads))
    try:
        yield
    finally:
        if not is_chosen:
            os.environ.pop("NPROC", None)


def read_threads() -> int | None:
    """Return the size of XLA's pool that the user has set for JAX's start, None for a default."""
    for name in ("PJRT_NPROC", "NPROC"):  # XLA reads the second where there is no first
        try:
            return int(os.environ[name]) or None
        except (KeyError, ValueError):
            continue
    return None


def listen_to_compilations(listener: Callable[[float], None]) -> None:
    """Let JAX call `listener` with the seconds of each compilation, in the thread that compiled.

    Where a version of JAX lacks the event, `listener` is never called.
    """
    import jax.monitoring

    def hear(event: str, duration_secs: float, **_: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            listener(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(hear)


@contextmanager
def default_generator() -> Generator[None]:
    """Let `jax.random` draw as it does by default, in this thread and in what it traces.

    Under another generator an episode would have another key, rows with equal seeds could begin
    differently, and an environment that splits its key would read it in another format. A setting
    that a version of JAX lacks is left out.
    """
    from jax._src import config

    with ExitStack() as stack:
        for name, value in _GENERATOR.items():
            setting = getattr(config, name, None)
            if setting is not None and setting.value != value:
                stack.enter_context(setting(value))
        yield


def current_trace() -> Any:
    """Return what JAX traces in this thread now; None where a version of JAX lacks the name."""
    from jax._src import core

    return getattr(getattr(core, "trace_ctx", None), "trace", None)


@contextmanager
def default_promotion() -> Generator[None]:
    """Let `jax.numpy` mix dtypes and ranks as by default, for engines whose code does so."""
    import jax

    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@contextmanager
def apart() -> Generator[None]:
    """Compute with values, also inside a function that JAX traces, and with `default_generator`.

    What is built in it has no part in the trace, so it outlives it. Transfers between host and
    device are allowed.
    """
    import jax
    from jax._src import core

    leave = getattr(core, "eval_context", jax.ensure_compile_time_eval)
    with leave(), default_generator(), jax.transfer_guard("allow"):
        yield


def with_transfers(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a batch that transfers what it must under any guard of JAX.

    Numpy arrays have to be transferred. To lift the guard around each call would take some 5 us, so
    it is lifted where it has stopped one. The method is called again then, so it has to leave the
    batch as it was until all is transferred, and may not donate what it is given.
    """

    @functools.wraps(method)
    def call(*args: Any) -> Any:
        try:
            return method(*args)
        except RuntimeError as error:
            if not re.search("Disallowed .*transfer", str(error)):
                raise
        import jax

        with jax.transfer_guard("allow"):
            return method(*args)

    return call


def factorizes(function: Callable[..., Any], *args: Any) -> bool:
    """Return whether a pure function calls LAPACK; `args` are the shapes of its arguments."""
    names = (one.primitive.name for part in _parts(_trace(function, args)) for one in part.eqns)
    return not _FACTORIZATIONS.isdisjoint(names)


def used_inputs(function: Callable[..., Any], *args: Any) -> Any:
    """Return the arguments' trees with True for each leaf that some output depends on.

    Where a version of JAX lacks the name, every leaf counts as used.
    """
    import jax
    from jax.interpreters import partial_eval

    closed = _trace(function, args)
    eliminate: Any = getattr(partial_eval, "dce_jaxpr", None)
    used = [True] * len(closed.jaxpr.invars)
    if eliminate is not None:
        used = eliminate(closed.jaxpr, [True] * len(closed.jaxpr.outvars))[1]
    # jax does not say what a structure is
    structure: Any = jax.tree.structure(args)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return jax.tree.unflatten(structure, used)  # pyright: ignore[reportUnknownMemberType]


def keeps_old_traces(function: Callable[..., Any], *args: Any) -> bool:
    """Return whether functions that `function` compiles keep what they read in an older trace.

    `jax.jit` keeps its trace of a function, and with it the attributes that the function read then.
    The answer is whether a trace and a new one differ in the number of values that are read. Where
    a version of JAX lacks metadata, it is False.
    """
    traces = _trace_twice(function, args)
    before, now = (sum(len(_values(part)) for part in _parts(trace)) for trace in traces)
    return before != now


def fixes_draws(function: Callable[..., Any], *args: Any) -> bool:
    """Return whether two traces of a function hold different constants.

    They do if it draws with numpy: what it draws while it is traced is a constant of the trace.
    Where a version of JAX lacks metadata, the answer is False; see `keeps_old_traces`.
    """
    before, now = (_constants(trace) for trace in _trace_twice(function, args))
    return len(before) != len(now) or not all(map(_is_same, before, now))


def keep_constants(closed: Any) -> None:
    """Give a trace copies of its numpy arrays, so that writing into the originals changes nothing.

    JAX keeps them as they are until it compiles, those of inner functions and literals too.
    """
    for part in _parts(closed):
        kept = getattr(part, "consts", [])
        kept[:] = map(_copied, kept)
        for value in _literals(part):
            value.val = _copied(value.val)


def _copied(constant: Any) -> Any:
    # An array of JAX's own class for numpy arrays is a view until it was copied here.
    if not isinstance(constant, np.ndarray):
        return constant
    array = cast("Any", constant)
    return array.copy() if type(array) is np.ndarray or array.base is not None else array


def _trace_twice(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return a trace and one of the function run anew, since JAX does so if metadata differ."""
    before = _trace(function, args)
    try:
        # jax does not say what metadata may be
        from jax.experimental.xla_metadata import set_xla_metadata  # pyright: ignore[reportUnknownVariableType]
    except ImportError:
        return before, before
    with set_xla_metadata(gymbridge=str(next(_TRACES))):
        return before, _trace(function, args)


def _parts(trace: Any) -> Iterator[Any]:
    """Yield a trace and those inside its equations, such as a condition's tuple of branches."""
    yield trace
    for equation in trace.eqns:
        for value in equation.params.values():
            inner = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
            for one in inner:
                if hasattr(one, "eqns"):
                    yield from _parts(one)


def _values(part: Any) -> list[Any]:
    """Return what the equations of a trace take, and what it returns."""
    taken = [value for equation in part.eqns for value in equation.invars]
    return [*taken, *getattr(part, "jaxpr", part).outvars]


def _literals(part: Any) -> list[Any]:
    return [value for value in _values(part) if hasattr(value, "val")]


def _constants(trace: Any) -> list[Any]:
    """Return what a trace has of constants and of literals, in order, inner functions included."""
    return [
        constant
        for part in _parts(trace)
        for constant in (*getattr(part, "consts", ()), *(one.val for one in _literals(part)))
    ]


def _is_same(before: Any, now: Any) -> bool:
    if before is now:
        return True
    try:
        return np.array_equal(before, now, equal_nan=True)
    except TypeError:  # Numpy cannot hold keys of `jax.random`.
        return True


def _trace(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Return the jaxpr of a call, closed over its constants."""
    import jax

    # jax leaves open what the function returns
    return jax.make_jaxpr(function)(*args)  # pyright: ignore[reportUnknownMemberType]
