"""The command line, ``gymbridge COMMAND`` or ``python -m gymbridge COMMAND``.

Exit codes: 0 where the command did its work; 1 where `check` found a broken rule of Gymnasium, or
`list` found no id; 2 where it could not run, such as for an unknown id or flag, a library that is
not installed, or results that cannot be written, with a message on standard error; 130 after
Ctrl-C.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import gymnasium.error

from gymbridge.command_line import bench, check, info, listing, rollout
from gymbridge.command_line.output import LOG, note, speaking
from gymbridge.errors import GymbridgeError

__all__ = ["main", "make_parser"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; without a command, print the help and return 2.

    Args:
        arguments: The command and its flags; None for those of the process.

    Raises:
        SystemExit: With code 2 for flags that the command does not take, 0 after ``--help`` and
            when the reader of the results, such as `head`, has seen enough.
    """
    parser = make_parser()
    given = parser.parse_args(arguments)
    if given.command is None:
        parser.print_help()
        return 2
    command = f"gymbridge {given.command}"
    with speaking(command):
        try:
            return given.run(given)
        except (GymbridgeError, gymnasium.error.Error) as error:
            LOG.error("%s", error)
            return 2
        except KeyboardInterrupt:
            note(f"{command}: interrupted")
            return 130


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of every command."""
    parser = argparse.ArgumentParser(
        prog="gymbridge",
        description="Brax, MuJoCo Playground and EnvPool as Gymnasium vector environments.",
        epilog="`gymbridge COMMAND --help` describes a command and its flags.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in (listing, info, check, bench, rollout):
        command.add_to(commands)
    return parser
