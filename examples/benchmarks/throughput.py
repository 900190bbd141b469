"""Steps per second of every route to a task, in one file of results and two charts.

    python examples/benchmarks/throughput.py --tasks ^CartPole                     # dots
    python examples/benchmarks/throughput.py --tasks ^CartPole --values 1 16 256   # curves
    python examples/benchmarks/throughput.py --tasks restarts                      # two tasks

Each route runs in a process of its own, and all of them stay alive: in every round each takes its
turn for a fraction of a second, so that a slow moment of the machine meets all of them. The file
keeps the rounds; `charts.py` draws it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
import warnings
from multiprocessing import active_children, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from routes import LARGEST, Route, Step
from sweeps import TASKS
from timing import machine, wait
from tqdm import tqdm

from gymbridge.command_line.options import at_least, positive

SECONDS = 0.5
"""Length of a turn."""


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--tasks", type=pattern, default="", help="regular expression of names")
    parser.add_argument("--routes", type=pattern, default="", help="regular expression of names")
    text = "batch sizes, or what else varies in the task"
    parser.add_argument("--values", type=at_least(0), nargs="+", help=text)
    parser.add_argument("--rounds", type=at_least(1), default=9, help="turns of each route")
    parser.add_argument("--seconds", type=positive, default=SECONDS, help="length of a turn")
    parser.add_argument("--out", type=Path, default=Path("runs/throughput.json"), help="results")
    return parser.parse_args()


def pattern(text: str) -> re.Pattern[str]:
    """Return a regular expression, for `type=` of a flag."""
    try:
        return re.compile(text)
    except re.error as error:
        message = f"{text!r} is not a regular expression: {error}"
        raise argparse.ArgumentTypeError(message) from None


def serve(task: str, name: str, value: int, pipe: Connection) -> None:
    """Build a route, then answer each length of a turn with the steps/s of the environments."""
    warnings.filterwarnings("ignore")  # of other libraries, about themselves
    route: Route = TASKS[task].routes[name]
    step = route(value)
    take(step, 0.2)  # compiles, wakes threads
    pipe.send("ready")
    num_steps = TASKS[task].num_steps or value
    while (seconds := pipe.recv()) is not None:
        pipe.send(take(step, seconds) * num_steps)
    for child in active_children():  # of `AsyncVectorEnv` and `SubprocVecEnv`
        child.kill()
    os._exit(0)  # engines with threads take their time to end


def take(step: Step, seconds: float) -> float:
    """Return steps of the batch per second; the last one is waited for."""
    step()
    wait(step())
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds or not count:
        returned = step()
        count += 1
    wait(returned)
    return count / (time.perf_counter() - start)


def measure(task: str, value: int, args: argparse.Namespace) -> dict[str, Any]:
    """Return the rounds of each route."""
    context, pipes, processes = get_context("spawn"), {}, []
    axis = TASKS[task].axis
    names = [name for name in TASKS[task].routes if args.routes.search(name)]
    if axis == "environments":
        names = [name for name in names if value <= LARGEST.get(name, value)]
    for name in tqdm(names, desc=f"{task}, {value} {axis}", unit=" routes", leave=False):
        pipe, other = context.Pipe()
        # No daemons: some routes have processes of their own.
        process = context.Process(target=serve, args=(task, name, value, other))
        process.start()
        other.close()
        processes.append(process)
        try:
            pipe.recv()
            pipes[name] = pipe
        except EOFError:
            print(f"{name} cannot be built with {value} {axis}")
    rounds: dict[str, list[float]] = {name: [] for name in pipes}
    try:
        for _ in range(args.rounds):
            for name, pipe in pipes.items():
                pipe.send(args.seconds)
                rounds[name].append(pipe.recv())
        for pipe in pipes.values():
            pipe.send(None)
        for process in processes:
            process.join()
    finally:
        for process in processes:
            process.kill()
    return {"task": task, "axis": axis, "value": value, "steps_per_second": rounds}


def main() -> None:
    args = parse_args()
    tasks = [task for task in TASKS if args.tasks.search(task)]
    if not tasks:
        given = args.tasks.pattern
        raise SystemExit(f"No task matches {given!r}; there are {', '.join(TASKS)}.")
    tasks = [task for task in tasks if any(map(args.routes.search, TASKS[task].routes))]
    results: dict[str, Any] = {"machine": machine(), "results": []}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        for value in args.values or TASKS[task].values:
            if (result := measure(task, value, args))["steps_per_second"]:
                results["results"].append(result)
                args.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if not results["results"]:
        raise SystemExit(
            f"No route was measured: {args.routes.pattern!r} matches none, or none runs."
        )
    print(f"\n{results['machine']}\n\n| task | value | route | steps/s (spread) |")
    print("|---|---:|---|---:|")
    for result in results["results"]:
        for name, rounds in result["steps_per_second"].items():
            middle, low, high = (f"{value:,.0f}" for value in (median(rounds), *spread(rounds)))
            task, value = result["task"], f"{result['value']:,} {result['axis']}"
            print(f"| {task} | {value} | {name} | {middle} ({low} to {high}) |")


def spread(rounds: list[float]) -> tuple[float, float]:
    """Return the second lowest and the second highest round; of fewer than five, the extremes."""
    ordered = sorted(rounds)
    inner = ordered[1:-1] if len(ordered) > 4 else ordered
    return inner[0], inner[-1]


if __name__ == "__main__":
    main()
