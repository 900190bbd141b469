"""``gymbridge bench``: steps per second of a batch, of its engine, and of `SyncVectorEnv`."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterable
from contextlib import ExitStack, closing
from operator import truediv
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

from gymbridge.command_line.batches import make_batch
from gymbridge.command_line.contenders import draw_actions, make_bare_step, make_step, make_sync
from gymbridge.command_line.options import add_environment, positive, read_keywords
from gymbridge.command_line.output import LOG, count, show
from gymbridge.command_line.timing import ROUNDS, Spread, measure_rates, name_processor
from gymbridge.core.devices import read_device
from gymbridge.core.extras import EXTRAS, REQUIRED, find_version
from gymbridge.engines import ENGINES, find_engine
from gymbridge.errors import ArgumentError

__all__ = ["add_to", "run"]


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "bench",
        help="measure this machine's steps per second",
        description="Measure the steps per second of a gymbridge batch, of the bare engine, and of "
        "Gymnasium's SyncVectorEnv where Gymnasium has the task under the same name. They are "
        f"timed in turn, in {ROUNDS} rounds, with the same random actions. A step of a batch "
        "counts once for each environment.",
    )
    parser.set_defaults(run=run)
    add_environment(parser, 64)
    text = "kind of arrays that the batch takes and returns (default: %(default)s)"
    parser.add_argument("--arrays", choices=("numpy", "torch", "jax"), default="numpy", help=text)
    text = "seconds of all rounds together, after compiling and warming up (default: %(default)s)"
    parser.add_argument("--seconds", type=positive, default=10, metavar="S", help=text)


def run(given: argparse.Namespace) -> int:
    """Measure and print; raise `ArgumentError` for an id of another package."""
    if find_engine(given.id) is None:
        raise ArgumentError(
            f"`bench` needs an id of gymbridge, which begins with one of {', '.join(ENGINES)}, got "
            f"{given.id!r}; `gymbridge list` shows the ids."
        )
    mode = {} if given.mode is None else {"autoreset_mode": given.mode}
    kwargs = {"arrays": given.arrays, **mode, **read_keywords(given)}
    LOG.info("Building %s with %s.", given.id, count(given.num_envs, "environment"))
    with closing(make_batch(given.id, num_envs=given.num_envs, **kwargs)) as envs:
        found = _measure(envs, kwargs, given.seconds)
    show(found if given.json else _text(found))
    return 0


def _measure(
    envs: VectorEnv[Any, Any, Any], keywords: Iterable[str], seconds: float
) -> dict[str, Any]:
    """Return what was measured, and how, as JSON can hold it."""
    actions = draw_actions(envs)
    steps = {"gymbridge": make_step(envs, actions), "engine": make_bare_step(envs, actions)}
    with ExitStack() as stack:
        try:
            sync = stack.enter_context(closing(make_sync(envs, keywords)))
            steps["SyncVectorEnv"], missing = make_step(sync, actions), {}
        except (ArgumentError, gym.error.Error) as error:
            missing = {"SyncVectorEnv": " ".join(str(error).split())}
        rates = measure_rates(steps, seconds)
    return {
        **_describe(envs),
        "seconds": seconds,
        "rounds": ROUNDS,
        "steps_per_second": {
            name: Spread.of([envs.num_envs * rate for rate in rates[name]])._asdict()
            for name in steps
        },
        "share_of_engine": {
            name: Spread.of([*map(truediv, rates[name], rates["engine"])])._asdict()
            for name in steps
        },
        "not_measured": missing,
    }


def _describe(envs: VectorEnv[Any, Any, Any]) -> dict[str, Any]:
    batch: Any = envs.unwrapped
    assert envs.spec is not None, "make_vec sets it"
    engine = ENGINES[str(envs.spec.namespace)]
    names = dict.fromkeys((*REQUIRED, *EXTRAS[engine.extra], *{batch.arrays} - {"numpy"}))
    return {
        "id": envs.spec.id,
        "num_envs": envs.num_envs,
        "mode": envs.metadata["autoreset_mode"].value,
        "arrays": batch.arrays,
        "device": _name_device(batch),
        "processor": name_processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: find_version(name) for name in names},
    }


def _name_device(batch: Any) -> str:
    """Return where the batch is: numpy arrays are fetched from the device of the simulator."""
    place = read_device(batch.device or getattr(batch._simulator, "device", "cpu"))
    return ", ".join(map(str, place)) if isinstance(place, tuple) else str(place)


def _text(found: dict[str, Any]) -> str:
    envs = count(found["num_envs"], "environment")
    rows = [("", "steps/s", "low to high", "over engine", "low to high")]
    for name, rate in found["steps_per_second"].items():
        share = found["share_of_engine"][name]
        rows.append((name, *_cells(rate, ",.0f"), *_cells(share, ".2f")))
    lines = [
        f"{found['id']}: {envs}, " + "{mode}, {arrays} arrays on {device}".format(**found),
        "{processor}, {cores} cores, Python {python}".format(**found),
        ", ".join(f"{name} {number}" for name, number in found["versions"].items()),
        "medians of {rounds} interleaved rounds in {seconds:g} s, ".format(**found)
        + "and their 10th and 90th percentiles",
        "",
        *("{:13} {:>11} {:>22} {:>12} {:>14}".format(*row) for row in rows),
        *(f"{name} was not measured: {why}" for name, why in found["not_measured"].items()),
    ]
    return "\n".join(lines)


def _cells(spread: dict[str, float], style: str) -> tuple[str, str]:
    low, high = format(spread["low"], style), format(spread["high"], style)
    return format(spread["median"], style), f"{low} to {high}"
