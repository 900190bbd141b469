"""Flags that several commands have, and how they are read."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from gymbridge.errors import ArgumentError

__all__ = ["add_environment", "add_int", "add_json", "at_least", "positive", "read_keywords"]

_PLACES = {"num_envs": "`--num-envs`", "env_id": "the first argument", "id": "the first argument"}


def add_environment(parser: argparse.ArgumentParser, num_envs: int | None) -> None:
    """Add the id, ``--kwarg``, ``--json``, and ``--num-envs`` if it has a default."""
    parser.add_argument(
        "id", metavar="ID", help="id for gymnasium.make_vec, such as EnvPool/CartPole-v1"
    )
    if num_envs is not None:
        add_int(parser, "--num-envs", "size of the batch", 1, num_envs)
    parser.add_argument(
        "--kwarg",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="keyword for gymnasium.make_vec, its value as JSON or text, such as backend=spring, "
        "autoreset_mode=SameStep or device=cuda; may be given more than once",
    )
    add_json(parser)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_int(parser: argparse.ArgumentParser, flag: str, text: str, low: int, default: int) -> None:
    """Add a flag for an int that is at least `low`."""
    text += " (default: %(default)s)"
    parser.add_argument(flag, type=at_least(low), default=default, metavar="N", help=text)


def at_least(least: int) -> Callable[[str], int]:
    """Return a function that reads an int which is not smaller, for `type=` of a flag."""
    return partial(_read_number, int, "an int", lambda number: number >= least, f"at least {least}")


def positive(text: str) -> float:
    """Return a positive, finite number, for `type=` of a flag."""
    rule = "positive and finite"
    return _read_number(float, "a number", lambda number: 0 < number < math.inf, rule, text)


def _read_number(
    make: Callable[[str], Any], kind: str, holds: Callable[[Any], bool], rule: str, text: str
) -> Any:
    try:
        number = make(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {kind}, got {text!r}") from None
    if not holds(number):
        raise argparse.ArgumentTypeError(f"must be {rule}, got {text}")
    return number


def read_keywords(given: argparse.Namespace) -> dict[str, Any]:
    """Return the keywords that ``--kwarg`` gave.

    Raises:
        ArgumentError: One is not of the form KEY=VALUE, or the command has another argument for it.
    """
    keywords = dict(map(_read_keyword, given.kwarg))
    for name, place in _PLACES.items():
        if name in keywords:
            raise ArgumentError(f"`--kwarg {name}=…` is not allowed; use {place} instead.")
    return keywords


def _read_keyword(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator:
        raise ArgumentError(f"`--kwarg` needs KEY=VALUE, got {text!r}.")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value
