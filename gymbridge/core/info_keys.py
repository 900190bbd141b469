"""Which infos a user asks for, checked once for every engine."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gymbridge.errors import ArgumentError, ArgumentTypeError, nearest

__all__ = ["read_info_keys"]


def read_info_keys(
    info_keys: Sequence[str] | str | None, known: Collection[str]
) -> frozenset[str] | None:
    """Return the names that are carried, or None for the engine's default.

    Args:
        info_keys: None, "all", or a collection of names.
        known: Names that the task has.

    Raises:
        ArgumentTypeError: It is neither None, "all" nor a collection of names.
        ArgumentError: Another string, or a name that the task lacks.
    """
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
                f"`info_keys` names {name!r}, which is no info that the task shows (PRNG keys stay "
                f"inside); {nearest(name, known)}"
            )
    return frozenset(info_keys)
