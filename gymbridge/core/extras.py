"""The libraries that gymbridge works with, what installs them, and the error if one is missing."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version

from gymbridge.errors import NotInstalledError

__all__ = ["REQUIRED", "find_version", "install_command", "needs", "read_extras"]

REQUIRED = ("gymnasium", "numpy")
"""Distributions that every batch rests on."""

_FOR_DEVELOPERS = {"all", "docs", "examples", "test"}
"""Extras that no error and no command is about."""


@cache
def read_extras() -> dict[str, tuple[str, ...]]:
    """Return the distributions by the extra of gymbridge that installs them.

    `setup.cfg` lists them, and they are read from the metadata of the installed package. A checkout
    on PYTHONPATH alone has no metadata, and the result is empty.

    Example:
        >>> read_extras()["brax"]
        ('brax', 'jax')
    """
    try:
        lines = requires("gymbridge") or []
    except PackageNotFoundError:
        return {}
    found = map(re.compile(r"([\w.-]+)(?:\[([\w-]+)\])?.*\bextra == .([\w-]+)").match, lines)
    listed: dict[str, list[tuple[str, str]]] = {}
    for name, part, extra in (match.groups("") for match in found if match):
        listed.setdefault(extra.replace("-", "_"), []).append((name, part.replace("-", "_")))

    def install(extra: str) -> Iterator[str]:
        for name, part in listed.get(extra, ()):
            yield from install(part) if name == "gymbridge" else (name,)

    return {extra: (*install(extra),) for extra in listed if extra not in _FOR_DEVELOPERS}


@contextmanager
def needs(extra: str, user: str) -> Generator[None]:
    """Import libraries of an extra inside the block, or raise an error that says how to install it.

    `user` is what needs the libraries, as the subject of a sentence. The error for a missing module
    of gymbridge passes unchanged, since that is a bug.

    Raises:
        NotInstalledError: An import in the block fails.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").split(".")[0] == "gymbridge":
            raise
        names = read_extras().get(extra, ())
        *others, last = names or ["libraries that are not installed"]
        libraries = f"{', '.join(others)} and {last}" if others else last
        raise NotInstalledError(
            f"{user} needs {libraries}. Install {'it' if len(names) == 1 else 'them'} with "
            f"{install_command(extra)} ({error})."
        ) from error


def find_version(name: str) -> str | None:
    """Return the version of a distribution, or None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def install_command(extra: str) -> str:
    """Return how the distributions of an extra are installed.

    Example:
        >>> install_command("brax")
        "`pip install brax jax`, or `pip install '.[brax]'` in a checkout of gymbridge"
    """
    names = ["'ray[rllib]'" if name == "ray" else name for name in read_extras().get(extra, ())]
    in_checkout = f"`pip install '.[{extra}]'` in a checkout of gymbridge"
    return f"`pip install {' '.join(names)}`, or {in_checkout}" if names else in_checkout
