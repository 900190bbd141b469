"""The command line, ``gymbridge COMMAND`` or ``python -m gymbridge COMMAND``.

Exit codes: 0 where the command did its work; 1 where `check` found a broken rule of Gymnasium, or
`list` found no id; 2 where it could not run, such as for an unknown id or flag, or a library that
is not installed. The message then goes to standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import gymnasium.error

from gymbridge.command_line import bench, check, info, listing, rollout
from gymbridge.errors import GymbridgeError

__all__ = ["main", "make_parser"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        arguments: The command and its flags; None for those of the process.

    Raises:
        SystemExit: With code 2 for flags that the command does not take, 0 after ``--help``.
    """
    given = make_parser().parse_args(arguments)
    try:
        code: int = given.run(given)
        sys.stdout.flush()
    except (GymbridgeError, gymnasium.error.Error) as error:
        print(f"gymbridge {given.command}: error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of every command."""
    parser = argparse.ArgumentParser(
        prog="gymbridge",
        description="Brax, MuJoCo Playground and EnvPool as Gymnasium vector environments.",
        epilog="`gymbridge COMMAND --help` describes a command and its flags.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (listing, info, check, bench, rollout):
        command.add_to(commands)
    return parser
