"""``gymbridge check``: a vector environment against Gymnasium's rules."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from gymbridge.command_line.batches import make_batch
from gymbridge.command_line.options import add_environment, add_int, read_keywords
from gymbridge.command_line.output import LOG, count, show

__all__ = ["add_to", "run"]


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "check",
        help="check a vector environment against Gymnasium's rules",
        description="Check a vector environment against Gymnasium's rules, and print a table. The "
        "exit code is 1 if a rule of Gymnasium is broken. A small time limit, such as "
        "`--kwarg max_episode_steps=10`, lets the check see truncations.",
    )
    parser.set_defaults(run=run)
    add_environment(parser, 4)
    add_int(parser, "--steps", "steps of the longest run", 1, 1000)
    add_int(parser, "--seed", "first seed", 0, 0)


def run(given: argparse.Namespace) -> int:
    """Check, print, and return 1 if a rule of Gymnasium is broken."""
    from gymbridge.testing import check_vector_env

    kwargs = {"num_envs": given.num_envs, **read_keywords(given)}
    size, most = count(given.num_envs, "environment"), count(given.steps, "step")
    LOG.info("Checking %s, %s, in runs of at most %s.", given.id, size, most)
    make = partial(make_batch, given.id, **kwargs)
    make().close()  # Errors while it is built are the user's, not the environment's.
    report = check_vector_env(make, steps=given.steps, seed=given.seed)
    show(report.to_dict() if given.json else str(report))
    return 1 if report.broken else 0
