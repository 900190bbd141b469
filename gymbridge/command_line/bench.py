"""``gymbridge bench``: steps per second of a batch, and of its engine."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import closing
from functools import partial
from importlib import import_module
from operator import truediv
from typing import Any

from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.command_line.batches import make_batch
from gymbridge.command_line.options import add_environment, positive, read_keywords
from gymbridge.command_line.output import LOG, count, show
from gymbridge.command_line.timing import ROUNDS, measure_rates, spread
from gymbridge.core.arrays.adapter import map_arrays
from gymbridge.core.devices import read_device
from gymbridge.engines import ENGINES, find_engine
from gymbridge.errors import ArgumentError

__all__ = ["add_to", "draw_actions", "make_bare_step", "make_step", "run"]

_NUM_ACTIONS = 64


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "bench",
        help="measure this machine's steps per second",
        description="Measure the steps per second of a gymbridge batch and of the bare engine. "
        f"They are timed in turn, in {ROUNDS} rounds, with the same random actions. A step of a "
        "batch counts once for each environment. `gymbridge info` shows versions and processor.",
    )
    parser.set_defaults(run=run)
    add_environment(parser, 64)
    text = "seconds of all rounds together, after compiling and warming up (default: %(default)s)"
    parser.add_argument("--seconds", type=positive, default=10, metavar="S", help=text)


def run(given: argparse.Namespace) -> int:
    """Measure and print; raise `ArgumentError` for an id of another package."""
    if find_engine(given.id) is None:
        raise ArgumentError(
            f"`bench` needs an id of gymbridge, which begins with one of {', '.join(ENGINES)}, got "
            f"{given.id!r}; `gymbridge list` shows the ids."
        )
    kwargs = read_keywords(given)
    LOG.info("Building %s with %s.", given.id, count(given.num_envs, "environment"))
    with closing(make_batch(given.id, num_envs=given.num_envs, **kwargs)) as envs:
        found = _measure(envs, given.seconds)
    show(found if given.json else _text(found))
    return 0


def _measure(envs: VectorEnv[Any, Any, Any], seconds: float) -> dict[str, Any]:
    """Return what was measured, and how, as JSON can hold it."""
    actions = draw_actions(envs)
    steps = {"gymbridge": make_step(envs, actions), "engine": make_bare_step(envs, actions)}
    rates = measure_rates(steps, seconds)
    batch: Any = envs.unwrapped
    return {
        "id": batch.spec.id,
        "num_envs": envs.num_envs,
        "mode": envs.metadata["autoreset_mode"].value,
        "arrays": batch.arrays,
        "device": _name_device(batch),
        "seconds": seconds,
        "rounds": ROUNDS,
        "steps_per_second": {
            name: spread([envs.num_envs * rate for rate in rates[name]]) for name in steps
        },
        "share_of_engine": {
            name: spread([*map(truediv, rates[name], rates["engine"])]) for name in steps
        },
    }


def draw_actions(envs: VectorEnv[Any, Any, Any]) -> list[Any]:
    """Return numpy actions for a batch, the same ones each time."""
    envs.action_space.seed(0)
    return [envs.action_space.sample() for _ in range(_NUM_ACTIONS)]


def make_step(envs: VectorEnv[Any, Any, Any], actions: list[Any]) -> Callable[[int], Any]:
    """Reset a batch; return its step by number, which plays numpy actions as its arrays.

    With Disabled, it resets the environments that end.
    """
    actions = [_convert(action, envs.unwrapped) for action in actions]
    is_disabled = envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED
    envs.reset(seed=0)

    def step(index: int) -> Any:
        _, rewards, terminations, truncations, _ = envs.step(actions[index % len(actions)])
        if is_disabled and (ended := terminations | truncations).any():
            envs.reset(options={"reset_mask": ended})
        return rewards

    return step


def _convert(action: Any, batch: Any) -> Any:
    if batch.arrays == "numpy":
        return action
    module = import_module({"torch": "torch", "jax": "jax.numpy"}[batch.arrays])
    return map_arrays(partial(module.asarray, device=batch.device), action)


def make_bare_step(envs: VectorEnv[Any, Any, Any], actions: list[Any]) -> Callable[[int], Any]:
    """Return the engine's own step by number, beside the batch; `actions` are numpy."""
    engine = find_engine(envs.spec.id) if envs.spec is not None else None
    assert engine is not None, "make_vec sets the spec"
    make: Any = load_env_creator(engine.bare_step)
    return make(envs.unwrapped, actions)


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
        "medians of {rounds} interleaved rounds in {seconds:g} s, ".format(**found)
        + "and their 10th and 90th percentiles",
        "",
        *("{:9} {:>11} {:>22} {:>12} {:>14}".format(*row) for row in rows),
    ]
    return "\n".join(lines)


def _cells(spread: dict[str, float], style: str) -> tuple[str, str]:
    low, high = format(spread["low"], style), format(spread["high"], style)
    return format(spread["median"], style), f"{low} to {high}"
