"""Measure one case in this process; `run.py` starts one for each, with a dict as JSON."""

import json
import os
import platform
import signal
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from inspect import signature
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any

from cases import Case, find_case

from gymbridge.command_line.timing import (
    fitting_count,
    measure_rates,
    name_processor,
    seconds_per_call,
)
from gymbridge.core.extras import find_version

SECONDS = 0.3
"""Of a turn of a function."""

LIBRARIES = ("gymnasium", "numpy", "jax", "brax", "playground", "envpool", "torch", "torchrl")


def find_function(case: Case) -> Any:
    """Return what builds the contest of a case, or measures it by itself."""
    module, _, name = case.make.partition(":")
    return getattr(import_module(module), name)


def shrink(case: Case, smaller: Mapping[str, Any]) -> Case:
    """Return the case with those of the keywords that its function has."""
    names = signature(find_function(case)).parameters.keys() & smaller.keys()
    return case._replace(options={**case.options, **{name: smaller[name] for name in names}})


def measure(case: Case, value: int, device: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Return the steps per second of each function in each round, or what the case found itself."""
    contest = find_function(case)(value, device, **case.options)
    if isinstance(contest, Mapping):
        return dict(contest)
    if contest.apart:
        make = partial(serve, case, value, device)
        rates = measure_apart(make, list(contest.steps), rounds, seconds)
    else:
        rates = measure_rates(contest.steps, seconds * rounds * len(contest.steps), rounds)
    batch = case.batch or value
    speeds = {
        name: [batch * contest.num_steps * rate for rate in found] for name, found in rates.items()
    }
    over = [[*pair, bar] for pair, bar in contest.over.items() if {*pair} <= speeds.keys()]
    return {"batch": batch, "steps_per_second": speeds, "over": over, "note": contest.note}


def serve(case: Case, value: int, device: str, name: str, seconds: float, pipe: Connection) -> None:
    """Build one function in a process of its own; answer each message with its calls per second."""
    warnings.filterwarnings("ignore")  # of other libraries, about themselves
    step = find_function(case)(value, device, **case.options).steps[name]()
    count = fitting_count(step, seconds)
    pipe.send("ready")
    while True:
        pipe.recv()
        seconds_per_call(step, 1)  # wakes its threads
        pipe.send(1 / seconds_per_call(step, count))


def measure_apart(
    make: Any, names: list[str], rounds: int, seconds: float
) -> dict[str, list[float]]:
    """Return the calls per second of functions that take turns in processes of their own."""
    context, pipes, processes = get_context("spawn"), {}, []
    try:
        for name in names:
            pipe, other = context.Pipe()
            # No daemons: some functions have processes of their own.
            processes.append(context.Process(target=make, args=(name, seconds, other)))
            processes[-1].start()
            other.close()
            with suppress(EOFError):  # it cannot be built, and its process says why
                pipe.recv()
                pipes[name] = pipe
        rates: dict[str, list[float]] = {name: [] for name in pipes}
        for _ in range(rounds):
            for name, pipe in pipes.items():
                pipe.send(None)
                rates[name].append(pipe.recv())
    finally:
        for process in processes:
            process.kill()
    return rates


def machine() -> str:
    """Return processor, cores, GPU and the versions of what is installed, in one line."""
    found = {name: find_version(name) for name in (*LIBRARIES, "stable-baselines3")}
    versions = ", ".join(f"{name} {number}" for name, number in found.items() if number)
    jax = sys.modules.get("jax")
    is_gpu = jax and jax.default_backend() == "gpu"
    place = f"{os.cpu_count()} cores" + (f", {jax.devices()[0].device_kind}" if is_gpu else "")
    return f"{name_processor()}, {place}, Python {platform.python_version()}, {versions}"


def end_with_stdin() -> None:
    """Kill this process and those it started when stdin ends, as it does once `run.py` is gone."""
    os.read(sys.stdin.fileno(), 1)
    os.killpg(os.getpid(), signal.SIGKILL)


def main() -> None:
    Thread(target=end_with_stdin, daemon=True).start()
    given = json.loads(sys.argv[1])
    warnings.filterwarnings("ignore")  # of other libraries, about themselves
    with suppress(ImportError):
        import_module("torch").set_num_threads(1)  # fastest for small networks
    case = shrink(find_case(given["set"], given["case"]), given["smaller"])
    seconds = 0.001 if given["smaller"] else SECONDS
    found = measure(case, given["value"], given["device"], given["rounds"], seconds)
    result = {"case": case.name, "value": given["value"], "axis": case.axis, **found}
    Path(given["out"]).write_text(json.dumps(result | {"machine": machine()}), encoding="utf-8")
    os._exit(0)  # engines with threads take their time to end


if __name__ == "__main__":
    main()
