"""What ``device="cpu:all"`` gains: Brax and Playground on every core, beside one device.

    python examples/benchmarks/all_cores.py [--only ant] [--processes 3]
    python examples/benchmarks/all_cores.py --curve [--only ant]
    python examples/benchmarks/all_cores.py --views
    python examples/benchmarks/all_cores.py --limit
    python examples/benchmarks/all_cores.py --parts

The reference is the bare jitted ``vmap(env.step)`` on one CPU device, as other wrappers run it. It
fetches observation, reward and done as numpy arrays, and never restarts an episode. For gradients
it is one jitted scan, and for the views of trainers the same view on one device. Each process times
all routes of a case in turn; a row is the median process.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import jax

from gymbridge.core.cores import count_cores
from gymbridge.private.jax import count_threads

jax.config.update("jax_num_cpu_devices", count_cores())  # for the reference, which comes first

import json

import numpy as np
from bare import bare_step
from gradients import Window
from timing import Ratio, Row, compare, fitting_count, interleave, print_table, wait

from gymbridge import BraxVectorEnv, PlaygroundVectorEnv

warnings.filterwarnings("ignore", message="Brax System")

Step = Callable[[int], Any]
PLACES = ("cpu", "cpu:all")

BARS: dict[tuple[Any, ...], float | None] = {
    # task, environments, mode, arrays; the bar is for all cores
    ("ant", 1024, "NextStep", "numpy"): 0.65,
    ("ant", 1024, "SameStep", "numpy"): 0.65,
    ("ant", 1024, "NextStep", "torch"): 0.70,
    ("ant", 1024, "SameStep", "torch"): 0.70,
    ("humanoid", 256, "NextStep", "numpy"): 0.65,
    ("humanoid", 256, "SameStep", "numpy"): 0.65,
    ("humanoid", 256, "NextStep", "torch"): 0.70,
    ("humanoid", 256, "SameStep", "torch"): 0.70,
    ("ant", 128, "NextStep", "numpy"): 0.85,
    ("inverted_pendulum", 256, "NextStep", "numpy"): None,
    ("CartpoleBalance", 1024, "NextStep", "numpy"): 1.10,
    ("window of 8, ant", 256, "", "torch"): 0.85,
    ("Go1JoystickFlatTerrain", 64, "NextStep", "numpy"): None,
    ("Go1JoystickFlatTerrain", 256, "NextStep", "numpy"): 0.75,
}

VIEWS: list[tuple[Any, ...]] = [
    (f"view of {trainer}, ant", 1024, "SameStep", arrays)
    for trainer, arrays in (
        ("Stable-Baselines3", "numpy"),
        ("CleanRL", "numpy"),
        ("TorchRL", "torch"),
        ("rsl_rl", "torch"),
    )
]

CURVE = [
    (name, size, "NextStep", "numpy")
    for name in ("ant", "humanoid", "inverted_pendulum", "fast", "CartpoleBalance")
    for size in (1, 4, 16, 64, 256, 1024, 4096)
]


def batch_class(name: str) -> Any:
    """Return the class of a task's batches: Playground's names are in capitals."""
    if name[0].isupper():
        return partial(PlaygroundVectorEnv, name)
    return partial(BraxVectorEnv, name, backend="spring")


def step_routes(name: str, num_envs: int, mode: str, arrays: str) -> dict[str, Step]:
    """Return the steps of the reference and of batches on one device and on all."""
    routes: dict[str, Step] = {}
    for place in PLACES if num_envs > 1 else PLACES[:1]:
        options = {"autoreset_mode": mode, "arrays": arrays, "device": place}
        envs = batch_class(name)(num_envs=num_envs, **options)
        envs.reset(seed=0)
        rng = np.random.default_rng(0)
        shape = (64, *envs.action_space.shape)
        actions = list(rng.uniform(-1, 1, shape).astype(np.float32))
        given = actions
        if arrays == "torch":
            import torch

            given = [torch.from_numpy(action) for action in actions]
        if not routes:
            routes["bare"] = bare_step(envs._simulator.engine, num_envs, actions)
        routes[place] = lambda index, envs=envs, given=given: envs.step(given[index % 64])
    return routes


def view_step(name: str, num_envs: int, place: str) -> Step:
    """Return the step of a trainer's view of ants; for TorchRL a rollout of eight steps."""
    import torch

    options: dict[str, Any] = {"backend": "spring", "device": place}
    actions = np.random.default_rng(0).uniform(-1, 1, (64, num_envs, 8)).astype(np.float32)
    if "TorchRL" in name:
        from gymbridge.trainers.torchrl import make_torchrl

        env = make_torchrl("Brax/ant-v0", num_envs, **options)
        return lambda _: env.rollout(8, break_when_any_done=False)
    if "rsl_rl" in name:
        from gymbridge.trainers.rsl_rl import make_rsl_rl

        view = make_rsl_rl("Brax/ant-v0", num_envs, **options)
        return lambda index: view.step(torch.from_numpy(actions[index % 64]))
    if "CleanRL" in name:
        from gymbridge.trainers.cleanrl import make_cleanrl

        envs: Any = make_cleanrl("Brax/ant-v0", num_envs, **options)
    else:
        from gymbridge.trainers.sb3 import make_vec_env

        envs = make_vec_env("Brax/ant-v0", num_envs, env_kwargs=options)
    envs.reset()
    return lambda index: envs.step(actions[index % 64])


def window_routes(num_envs: int) -> dict[str, Step]:
    """Return the gradient of a window by its actions, in plain JAX and by `unroll`."""
    routes: dict[str, Step] = {}
    for place in PLACES:
        window = Window("ant", num_envs, 8, place)
        if not routes:
            plain = window.jax_actions()
            routes["bare"] = lambda _, plain=plain: wait(plain())
        routes[place] = lambda _, window=window: window.torch_actions()
    return routes


def measure(case: tuple[Any, ...], rounds: int, seconds: float) -> dict[str, Any]:
    """Return what the routes of one case take in this process, in microseconds and as ratios."""
    name, num_envs, mode, arrays = case
    if name.startswith("window"):
        routes = window_routes(num_envs)
    elif name.startswith("view"):
        places = {"bare": "cpu", "cpu:all": "cpu:all"}
        routes = {route: view_step(name, num_envs, place) for route, place in places.items()}
    else:
        routes = step_routes(name, num_envs, mode, arrays)
    counts = {route: fitting_count(step, seconds) for route, step in routes.items()}
    times = interleave(routes, count=counts, rounds=rounds)
    return {route: compare(times, route, "bare") for route in routes}


def serve_bare(name: str, num_envs: int, pipe: Connection) -> None:
    """Step the bare engine in this process for each length of a turn; answer with the median."""
    engine = batch_class(name)(num_envs=1)._simulator.engine
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (64, num_envs, engine.action_size)).astype(np.float32)
    step = bare_step(engine, num_envs, list(actions))
    pipe.send(step(0))
    while True:
        times, end = [], pipe.recv() + time.perf_counter()
        while (start := time.perf_counter()) < end:
            step(len(times))
            times.append(time.perf_counter() - start)
        pipe.send(median(times))


def limit_of(name: str, num_envs: int, options: argparse.Namespace) -> Ratio:
    """Return what the machine gives: a process per core at once, over one with the whole batch."""
    context, pipes, cores = get_context("spawn"), [], count_cores()
    for size in (num_envs, *[num_envs // cores] * cores):
        pipe, other = context.Pipe()
        context.Process(target=serve_bare, args=(name, size, other), daemon=True).start()
        pipe.recv()
        pipes.append(pipe)
    ratios = []
    for _ in range(options.rounds):
        medians = []
        for turn in (pipes[:1], pipes[1:]):
            for pipe in turn:
                pipe.send(options.seconds)
            medians.append(max(pipe.recv() for pipe in turn))
        ratios.append(medians[1] / medians[0])
    ratios.sort()
    return Ratio(median(ratios), ratios[0], ratios[-1])


def parts_of_step(envs: Any, action: np.ndarray) -> list[float]:
    """Step a batch; return the microseconds of the call, of waiting, and of handing over."""
    given, begun = envs._read_actions(action), time.perf_counter()
    outcome = envs._runner.step(envs._carry, given)
    called = time.perf_counter()
    jax.block_until_ready(outcome.time_step)
    waited = time.perf_counter()
    envs._infos.to_gymnasium(outcome)
    handed = time.perf_counter()
    envs._carry = outcome.carry
    return [1e6 * seconds for seconds in (called - begun, waited - called, handed - waited)]


def print_parts(rounds: int) -> None:
    """Print what a step without physics spends its time on, on one device and on all."""
    batches = {place: batch_class("fast")(num_envs=256, device=place) for place in PLACES}
    action, found = np.zeros((256, 1), np.float32), {place: [] for place in PLACES}
    for envs in batches.values():
        envs.reset(seed=0)
    for _ in range(rounds):
        for place, envs in batches.items():
            times = [parts_of_step(envs, action) for _ in range(700)][200:]
            found[place].append([median(part) for part in zip(*times, strict=True)])
    for place, rows in found.items():
        call, wait_for, hand = (round(median(part)) for part in zip(*rows, strict=True))
        print(f"fast, 256 envs, {place}: call {call} us, wait {wait_for} us, hand over {hand} us")


def in_processes(case: tuple[Any, ...], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what several processes measured, one after the other."""
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    command += ["--rounds", str(options.rounds), "--seconds", str(options.seconds)]
    found = []
    for _ in range(options.processes):
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        found.append(json.loads(printed.splitlines()[-1]))
    return found


def rows_of(case: tuple[Any, ...], options: argparse.Namespace) -> list[Row]:
    """Measure a case and return a row for each place."""
    name, num_envs, mode, arrays = case
    runs, rows = in_processes(case, options), []
    for place in runs[0].keys() & {*PLACES}:
        ratios = sorted(run[place][1][0] for run in runs)
        middle = min(runs, key=lambda run: abs(run[place][1][0] - median(ratios)))[place]
        label = ", ".join(filter(None, (f"{name}, {num_envs} envs", mode, arrays, place)))
        note = "all processes: " + ", ".join(f"{ratio:.2f}" for ratio in ratios)
        bar = BARS.get(case) if place == "cpu:all" else None
        rows.append(Row(label, middle[0], Ratio(*middle[1]), bar, note))
    return sorted(rows, key=lambda row: row.case)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="regular expression for the cases")
    parser.add_argument("--curve", action="store_true", help="five tasks over the batch size")
    parser.add_argument("--views", action="store_true", help="views of four trainers")
    parser.add_argument("--processes", type=int, default=3, help="processes of a case")
    parser.add_argument("--rounds", type=int, default=9, help="rounds in a process")
    parser.add_argument("--seconds", type=float, default=0.4, help="of a route in a round")
    parser.add_argument("--limit", action="store_true", help="a bare process for each core")
    parser.add_argument("--parts", action="store_true", help="what a cheap step consists of")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        case = tuple(json.loads(options.case))
        if case[0][0].isupper():  # Playground's steps need the threads that "cpu:all" adds.
            os.environ.setdefault("NPROC", str(count_threads(count_cores(), count_cores())))
        print(json.dumps(measure(case, options.rounds, options.seconds)))
        return
    if options.limit:
        for name, size in (("ant", 1024), ("humanoid", 256)):
            print(name, size, limit_of(name, size, options))
        return
    if options.parts:
        print_parts(options.rounds)
        return
    cases = CURVE if options.curve else VIEWS if options.views else list(BARS)
    rows: list[Row] = []
    for case in cases:
        if re.search(options.only, ", ".join(map(str, case))):
            rows += rows_of(case, options)
            print(*rows[-2:], sep="\n", file=sys.stderr)
    if options.curve:
        sys.argv[0] = str(Path(__file__).with_stem("all_cores_curve"))
    print_table(rows)


if __name__ == "__main__":
    main()
