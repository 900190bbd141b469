"""Checks of what a user gives: seeds, reset options and constructor values.

Each function raises before anything has changed, or returns the value as the package works with it.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from gymnasium.vector import AutoresetMode

from gymbridge.core.episode import ResetRequest
from gymbridge.errors import ArgumentError, ArgumentTypeError, nearest

__all__ = [
    "check_mask",
    "draw_seeds",
    "fold_seeds",
    "merge_seeds",
    "read_array",
    "read_autoreset_mode",
    "read_count",
    "read_flag",
    "read_ids",
    "read_info_keys",
    "read_limit",
    "read_mask",
    "read_number",
    "read_options",
    "read_seed",
    "read_seeds",
]


def read_count(name: str, value: Any, least: int = 1) -> int:
    """Return `value` as an int of at least `least`; `name` is the argument's, for the error."""
    if read_number(name, value) < least:
        raise ArgumentError(f"`{name}` must be at least {least}, got {value}.")
    return int(value)


def read_number(name: str, value: Any) -> int:
    """Return `value` as an int, or raise `ArgumentTypeError`; see `read_count`."""
    if not _is_integer(value):
        raise ArgumentTypeError(f"`{name}` must be an int, got {value!r}.")
    return int(value)


def read_flag(name: str, value: Any) -> bool:
    """Return `value` as a bool, or raise `ArgumentTypeError`; "no" would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise ArgumentTypeError(f"`{name}` must be True or False, got {value!r}.")
    return bool(cast("Any", value))


def read_ids(name: str, ids: Any, num_envs: int) -> np.ndarray:
    """Return ids of different environments, (count,) intp, at least one."""
    array = np.asarray(ids)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ArgumentTypeError(f"{name} must be a list or array of ints, (count,), got {ids!r}.")
    rows = array.astype(np.intp)
    if not _are_different(rows, num_envs):
        raise ArgumentError(
            f"{name} must be distinct environments from 0 to {num_envs - 1}, at least one, got "
            f"{array.tolist()}."
        )
    return rows


def read_limit(max_episode_steps: Any, task_limit: int | None) -> int | None:
    """Return the time limit in steps: the task's own for None, and None for -1 (no limit).

    Steps are counted in int32, so a limit above 2**31 - 1 is no limit.
    """
    if max_episode_steps is None:
        return task_limit if task_limit is None or task_limit < 2**31 else None
    limit = read_number("max_episode_steps", max_episode_steps)
    if limit < 1 and limit != -1:
        raise ArgumentError(
            "`max_episode_steps` must be at least 1, None for the task's own limit or -1 for no "
            f"limit, got {max_episode_steps}."
        )
    return limit if 0 < limit < 2**31 else None


def read_info_keys(
    info_keys: Iterable[Any] | str | None, known: Collection[str]
) -> frozenset[str] | None:
    """Return the names of the infos that a user wants, or None for the engine's default."""
    if info_keys is None:
        return None
    if isinstance(info_keys, str):
        if info_keys == "all":
            return frozenset(known)
        raise ArgumentError(f"`info_keys` must be None, 'all' or a list, got {info_keys!r}.")
    if not isinstance(info_keys, Collection):
        raise ArgumentTypeError(f"`info_keys` must be None, 'all' or a list, got {info_keys!r}.")
    for name in info_keys:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"`info_keys` must hold names, got {name!r}.")
        if name not in known:
            raise ArgumentError(
                f"`info_keys` has {name!r}, which is not an info of the task (PRNG keys are never "
                f"infos); {nearest(name, known)}"
            )
    return frozenset(info_keys)


def read_autoreset_mode(autoreset_mode: Any) -> AutoresetMode:
    """Return the enum member of a mode or of its value ("NextStep", "SameStep", "Disabled")."""
    try:
        return AutoresetMode(autoreset_mode)
    except ValueError as error:
        modes = ", ".join(repr(mode.value) for mode in AutoresetMode)
        raise ArgumentError(
            f"`autoreset_mode` must be an AutoresetMode or one of {modes}, got {autoreset_mode!r}."
        ) from error


def read_seed(seed: Any) -> int | None:
    """Return the seed of one environment as a Python int; None stays None."""
    if seed is None:
        return None
    if not _is_integer(seed):
        raise ArgumentTypeError(f"`seed` must be None or an int, got {seed!r}.")
    if seed < 0:  # Python does not write out an int of more than 4300 digits
        shown = seed if seed >= -(2**99) else "less than -2**99"
        raise ArgumentError(f"`seed` must be 0 or more, got {shown}.")
    return int(seed)


def read_seeds(seed: Any, num_envs: int) -> list[int | None]:
    """Return the seed of each environment as a Python int, or None where none was given.

    From an int s, environment i gets s + i.
    """
    if seed is None or _is_integer(seed):
        first = read_seed(seed)
        return [None if first is None else first + index for index in range(num_envs)]
    if not _is_list(seed):
        raise ArgumentTypeError(
            f"`seed` must be None, an int or a list of ints and Nones, got {type(seed).__name__}."
        )
    if len(seed) != num_envs:
        raise ArgumentError(
            f"`seed` as a list must have one entry for each of the {num_envs} environments, got "
            f"{len(seed)}."
        )
    return [read_seed(entry) for entry in seed]


def draw_seeds(num_envs: int, seed_range: int) -> tuple[int, ...]:
    """Return consecutive seeds within the range; the operating system draws the first."""
    first = np.random.SeedSequence().generate_state(1)[0]
    last = seed_range - num_envs + 1
    return tuple(int(first % last) + index for index in range(num_envs))


def merge_seeds(
    given: Sequence[int | None], mask: np.ndarray, known: tuple[int, ...]
) -> tuple[int, ...]:
    """Return given seeds where `mask`, (num_envs,) bool, is True, and the known ones elsewhere."""
    rows = zip(given, mask.tolist(), known, strict=True)
    return tuple(old if new is None or not at else new for new, at, old in rows)


def fold_seeds(seeds: Sequence[int | None], seed_range: int) -> ResetRequest:
    """Return the seeds, an int of 0 or more or None for each environment, as an engine takes them.

    `numpy.random.SeedSequence` hashes a seed above `seed_range` into 0 to `seed_range`, always to
    the same number. Where no seed was given, the value is 0.
    """
    given = np.array([seed is not None for seed in seeds], np.bool_)
    values = [_fold(seed, seed_range) if seed else 0 for seed in seeds]
    return ResetRequest(np.array(values, np.uint32), given)


def _fold(seed: int, seed_range: int) -> int:
    if seed <= seed_range:
        return seed
    return int(np.random.SeedSequence(seed).generate_state(1)[0]) % (seed_range + 1)


def read_options(
    options: Any,
    num_envs: int,
    to_numpy: Callable[[str, Any], Any] = lambda name, mask: mask,
    readers: Mapping[str, Callable[[Any, np.ndarray], Any]] = {},
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the reset mask, (num_envs,) bool, all True for none, and other options by name.

    `to_numpy` is (name, mask in the user's kind of arrays) -> numpy mask, which is copied.
    `readers` are those of `Simulator.reset_options`.
    """
    mask = np.ones(num_envs, np.bool_)
    if options is None:
        return mask, {}
    if not isinstance(options, Mapping):
        raise ArgumentTypeError(f"`options` must be a dict, got {type(options).__name__}.")
    options, known = cast("Mapping[Any, Any]", options), {"reset_mask", *readers}
    for key in options:
        if key not in known:
            raise ArgumentError(
                f"`options` has the unknown key {key!r}; {nearest(str(key), known)}"
            )
    if "reset_mask" in options:
        name = "`options['reset_mask']`"
        mask = read_mask(name, to_numpy(name, options["reset_mask"]), num_envs, "reset_mask")
    return mask, {key: readers[key](options[key], mask) for key in options if key in readers}


def read_array(label: str, value: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return numbers of any array library as a new numpy array; `label` is what errors call it.

    Casts follow numpy's ``same_kind`` rule, and integers also become floats.
    """
    try:
        array = np.asarray(value.cpu() if hasattr(value, "cpu") else value)
    except Exception as error:
        raise ArgumentTypeError(f"{label} must be an array, got {value!r}: {error}") from error
    kinds = "iuf" if np.dtype(dtype).kind == "f" else "biu"
    if array.dtype.kind not in kinds or not np.can_cast(array.dtype, dtype, "same_kind"):
        raise ArgumentTypeError(f"{label} must be castable to {dtype}, got {array.dtype}.")
    if array.shape != shape:
        raise ArgumentError(f"{label} must have shape {shape}, got {array.shape}.")
    with np.errstate(over="ignore"):  # a number that is too large becomes Inf
        return array.astype(dtype)


def read_mask(name: str, mask: Any, num_envs: int, short: str = "mask") -> np.ndarray:
    """Return a copy of a mask of environments, (num_envs,) bool; errors have Gymnasium's words."""
    if not isinstance(mask, np.ndarray):
        raise ArgumentTypeError(f"{name} must be a numpy array, got {type(mask)}")
    mask = np.asarray(cast("np.ndarray", mask))  # a masked array computes differently
    check_mask(name, mask, num_envs)
    if not mask.any():
        raise ArgumentError(
            f"{name} must contain a boolean array with at least one True value, got {short}={mask}"
        )
    return mask.copy()


def check_mask(name: str, mask: Any, num_envs: int) -> None:
    """Raise unless a mask, or whatever has the shape and dtype of one, is (num_envs,) bool."""
    if mask.shape != (num_envs,):
        raise ArgumentError(f"{name} must have shape `({num_envs},)`, got {mask.shape}")
    if mask.dtype != np.bool_:
        raise ArgumentTypeError(f"{name} must have `dtype=np.bool_`, got {mask.dtype}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)


def _is_list(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _are_different(rows: np.ndarray, num_envs: int) -> bool:
    """Whether some rows are named, each once and within the batch."""
    if not len(rows) or rows[rows.argmin()] < 0:  # Quicker than `min`.
        return False
    named = np.zeros(num_envs, np.bool_)
    try:
        named[rows] = True
    except IndexError:
        return False
    return np.count_nonzero(named) == len(rows)
