"""The command line, ``python -m gymbridge``.

``check ID`` checks a vector environment against Gymnasium's rules; see
`gymbridge.testing.check_vector_env`. Exit codes: 0 where no rule of Gymnasium is broken, 1 where
one is, 2 where the environment cannot be built.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from gymbridge.testing import check_vector_env

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m gymbridge", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_check(commands)
    given = parser.parse_args(arguments)
    return given.run(given)


def _add_check(commands: Any) -> None:
    check = commands.add_parser(
        "check",
        help="check a vector environment against Gymnasium's rules",
        description="Check a vector environment against Gymnasium's rules, and print a table.",
    )
    check.set_defaults(run=_check)
    check.add_argument("id", help="id for gymnasium.make_vec, such as EnvPool/CartPole-v1")
    check.add_argument("--num-envs", type=int, default=4, metavar="N", help="size of the batch")
    modes = [mode.value for mode in AutoresetMode]
    check.add_argument("--mode", choices=modes, help="autoreset mode; the default is the id's own")
    check.add_argument("--steps", type=int, default=1000, metavar="N", help="of the longest run")
    check.add_argument("--seed", type=int, default=0, metavar="N", help="first seed")
    check.add_argument(
        "--kwarg",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a keyword for make_vec, its value in JSON or a text; may be given more than once. A "
        "small max_episode_steps=10 lets the check see truncations",
    )
    check.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _check(given: argparse.Namespace) -> int:
    try:
        kwargs = dict(map(_read_keyword, given.kwarg))
        if given.mode is not None:
            kwargs |= _mode_keyword(given.id, given.mode)
        make = partial(gym.make_vec, given.id, num_envs=given.num_envs, **kwargs)
        make().close()
    except Exception as error:  # whatever an engine or a keyword's value leads to
        print(f"{given.id} cannot be built: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    report = check_vector_env(make, steps=given.steps, seed=given.seed)
    print(json.dumps(report.to_dict(), indent=2) if given.json else report)
    return 1 if report.broken else 0


def _read_keyword(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator:
        raise ValueError(f"`--kwarg` needs KEY=VALUE, got {text!r}.")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value


def _mode_keyword(env_id: str, mode: str) -> dict[str, Any]:
    """Return the keyword that gives a mode: `SyncVectorEnv` takes it inside another one."""
    is_own = gym.spec(env_id).vector_entry_point is not None
    return {"autoreset_mode": mode} if is_own else {"vector_kwargs": {"autoreset_mode": mode}}


if __name__ == "__main__":
    sys.exit(main())
