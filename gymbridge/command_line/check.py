"""``gymbridge check``: a vector environment against Gymnasium's rules."""

from __future__ import annotations

import argparse
from contextlib import closing
from functools import partial
from typing import Any

from gymbridge.command_line.batches import make_batch
from gymbridge.command_line.options import add_environment, at_least, read_keywords
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
    text = "steps of the longest run (default: %(default)s)"
    parser.add_argument("--steps", type=at_least(1), default=1000, metavar="N", help=text)
    text = "first seed (default: %(default)s)"
    parser.add_argument("--seed", type=at_least(0), default=0, metavar="N", help=text)


def run(given: argparse.Namespace) -> int:
    """Check, print, and return 1 if a rule of Gymnasium is broken."""
    from gymbridge.testing import check_vector_env

    kwargs = {"num_envs": given.num_envs, **read_keywords(given)}
    LOG.info(
        "Checking %s, %s, in runs of at most %s.",
        given.id,
        count(given.num_envs, "environment"),
        count(given.steps, "step"),
    )
    # Errors while it is built are the user's, not the environment's.
    with closing(make_batch(given.id, **kwargs)) as envs:
        # `make_vec` builds a `SyncVectorEnv` for ids without a batch of their own, and takes its
        # mode inside another keyword. An id may be ``module:id`` or have no version, so this is
        # read from a batch.
        is_own = envs.spec is not None and envs.spec.vector_entry_point is not None
    if given.mode is not None:
        mode = {"autoreset_mode": given.mode}
        kwargs |= mode if is_own else {"vector_kwargs": mode}
    make = partial(make_batch, given.id, **kwargs)
    report = check_vector_env(make, steps=given.steps, seed=given.seed)
    show(report.to_dict() if given.json else str(report))
    return 1 if report.broken else 0
