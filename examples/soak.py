"""Step batches a million times, and check memory, compilations and repeated results.

    python examples/soak.py                                  # all 18 cases: an hour or more
    python examples/soak.py --modes SameStep --arrays torch --steps 10000

A case is an environment, an autoreset mode and a kind of arrays; every engine has all of them. It
runs twice with the same seeds and actions, each time in a process of its own. A case passes if

- resident memory grows by less than one percent in both runs, from the median over the second tenth
  of the steps to the median over the last tenth: in the first tenth, allocators fill their pools;
- JAX compiles nothing once `reset`, `step` and a partial reset have been called;
- both runs return the same observations, rewards and flags, bit for bit.

The file of results is written after each case. The next start skips the cases that are in it. The
exit code is 1 if a case fails. To copy this script, copy `benchmarks/timing.py` as well.
"""

import argparse
import hashlib
import itertools
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

SIZES = {"EnvPool/CartPole-v1": (64, 1_000_000), "Brax/fast-v0": (256, 200_000)}
"""Number of environments and of steps, by id."""

MODES = ("NextStep", "SameStep", "Disabled")
KINDS = ("numpy", "torch", "jax")

GROWTH = 1.0
"""Percent by which resident memory may grow; a case passes below it."""

NUM_SAMPLES = 1000
PARTIAL_RESET = 100
"""Steps from one partial reset of running environments to the next, in every mode."""

GROUPS = 31
"""Groups of environments that these resets restart in turn, so that limits end them in turn."""


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument(
        "--env-ids", nargs="+", default=[*SIZES], help="ids whose observations are a Box"
    )
    parser.add_argument(
        "--modes", nargs="+", choices=MODES, default=[*MODES], help="autoreset modes"
    )
    parser.add_argument(
        "--arrays", nargs="+", choices=KINDS, default=[*KINDS], help="kinds of arrays"
    )
    parser.add_argument("--steps", type=int, help="steps of the batch; None for those in SIZES")
    parser.add_argument("--num-envs", type=int, help="environments; None for those in SIZES")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/soak/soak.json"), help="results file"
    )
    return parser.parse_args()


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import gymnasium as gym
    import numpy as np
    from benchmarks.timing import machine
    from gymnasium.vector import AutoresetMode, VectorEnv
    from tqdm import tqdm

    import gymbridge  # noqa: F401 (registers the ids)
    from gymbridge.errors import GymbridgeError
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[all]'"
    raise SystemExit(f"{error}; {install}") from None


class Case(NamedTuple):
    """An environment, a mode, a kind of arrays, and how long to run them."""

    env_id: str
    mode: str
    arrays: str
    num_envs: int
    steps: int  # of the batch

    def __str__(self) -> str:
        return f"{self.env_id}, {self.num_envs} environments, {self.mode}, {self.arrays}"


class Run(NamedTuple):
    """The measurements of one run of a case."""

    steps_per_second: float  # of the batch
    megabytes: float  # resident after warm-up
    growth: float  # percent of that
    compilations: int  # after the first call of each kind
    episodes: int  # that ended
    digest: str  # of all that was returned


def make_cases(args: argparse.Namespace) -> list[Case]:
    """Return the cases; successive ones have different environments."""
    cases = []
    for arrays, mode, env_id in itertools.product(args.arrays, args.modes, args.env_ids):
        num_envs, steps = SIZES.get(env_id, (16, 10_000))
        cases.append(Case(env_id, mode, arrays, args.num_envs or num_envs, args.steps or steps))
    return cases


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def note_compilations() -> list[str]:
    """Return a list that grows by an entry with each function that JAX compiles from now on."""
    compiled: list[str] = []

    def listen(event: str, *_: Any, **__: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    if jax := sys.modules.get("jax"):  # batches of numpy arrays need no JAX on EnvPool
        jax.monitoring.register_event_duration_secs_listener(listen)
    return compiled


def to_kind(array: np.ndarray, arrays: str) -> Any:
    """Return a numpy array as one of that kind."""
    if arrays == "torch":
        import torch

        return torch.from_numpy(array)
    if arrays == "jax":
        import jax

        return jax.numpy.asarray(array)
    return array


def play(envs: VectorEnv, arrays: str, steps: int) -> Iterator[tuple[Any, ...]]:
    """Yield what each call returns, in numpy; ended environments are reset if the mode does not."""
    is_disabled = envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED
    rows = np.arange(envs.num_envs)
    envs.action_space.seed(0)
    actions = [to_kind(np.asarray(envs.action_space.sample()), arrays) for _ in range(251)]
    yield (np.asarray(envs.reset(seed=0)[0]),)
    for step in range(steps):
        *returned, infos = envs.step(actions[step % len(actions)])
        obs, rewards, terminated, truncated = (np.asarray(part) for part in returned)
        yield obs, rewards, terminated, truncated, *final_obs(infos)
        mask = (terminated | truncated) & is_disabled
        if step % PARTIAL_RESET == 0:
            mask |= rows % GROUPS == step // PARTIAL_RESET % GROUPS
        if mask.any():
            yield (np.asarray(envs.reset(options={"reset_mask": to_kind(mask, arrays)})[0]),)


def final_obs(infos: dict[str, Any]) -> Iterator[np.ndarray]:
    """Yield the final observations that SameStep has in its infos: arrays of objects in numpy."""
    if "final_obs" in infos:
        ended = np.asarray(infos["_final_obs"])
        yield from np.asarray(infos["final_obs"])[ended]


def soak(case: Case) -> Run:
    """Run a case in this process, which has run none before."""
    warnings.filterwarnings("ignore")  # of engines, about their own
    envs = gym.make_vec(
        case.env_id, num_envs=case.num_envs, autoreset_mode=case.mode, arrays=case.arrays
    )
    for _ in play(envs, case.arrays, steps=2):
        pass  # each kind of call once, which compiles
    compiled, digest = note_compilations(), hashlib.sha256()
    samples, taken, episodes, start = [], 0, 0, time.perf_counter()
    pause = max(1, case.steps // NUM_SAMPLES)
    with tqdm(total=case.steps, desc=str(case), unit=" steps", unit_scale=True) as bar:
        for returned in play(envs, case.arrays, case.steps):
            for array in returned:
                digest.update(np.ascontiguousarray(array))
            if len(returned) > 1:  # a step, and no reset
                taken += 1
                episodes += int((returned[2] | returned[3]).sum())
                if taken % pause == 0:
                    samples.append(resident_bytes())
                    bar.update(taken - bar.n)
    seconds = time.perf_counter() - start
    envs.close()
    tenth = len(samples) // 10
    before, after = median(samples[tenth : 2 * tenth]), median(samples[-tenth:])
    growth = (after / before - 1) * 100
    speed, megabytes = case.steps / seconds, before / 1e6
    return Run(speed, megabytes, growth, len(compiled), episodes, digest.hexdigest())


def judge(case: Case) -> dict[str, Any]:
    """Run a case twice, each time in a process of its own, and return its entry of the results."""
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        one, other = processes.map(soak, [case, case])
    worst = one if one.growth > other.growth else other
    compilations = max(one.compilations, other.compilations)
    is_equal = one.digest == other.digest
    return {
        **case._asdict(),
        **worst._asdict(),
        "compilations": compilations,
        "digests_equal": is_equal,
        "passed": worst.growth < GROWTH and not compilations and is_equal,
    }


def read_results(path: Path) -> dict[Case, dict[str, Any]]:
    if not path.exists():
        return {}
    entries = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return {Case(*(entry[name] for name in Case._fields)): entry for entry in entries}


def write_results(path: Path, results: dict[Case, dict[str, Any]]) -> None:
    """Replace the file at once, so that a killed process leaves a complete file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".tmp")
    text = json.dumps({"machine": machine(), "cases": [*results.values()]}, indent=1)
    beside.write_text(text + "\n", encoding="utf-8")
    os.replace(beside, path)


def print_table(results: dict[Case, dict[str, Any]]) -> None:
    """Print the results as a Markdown table under a line that names the machine."""
    print(f"\n{machine()}\n")
    print(
        "| case | steps | steps/s | episodes | MB after warm-up | growth "
        "| compilations after warm-up | digests equal | passed |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---|---|")
    for case, entry in results.items():
        equal, passed = ("yes" if entry[key] else "no" for key in ("digests_equal", "passed"))
        print(
            f"| {case} | {case.steps:,} | {entry['steps_per_second']:,.0f} "
            f"| {entry['episodes']:,} | {entry['megabytes']:.0f} | {entry['growth']:+.2f} % "
            f"| {entry['compilations']} | {equal} | {passed} |"
        )


def main() -> None:
    args = parse_args()
    results = read_results(args.out)
    cases = make_cases(args)
    for case in tqdm(cases, desc="cases", unit=" cases", delay=1):
        if case not in results:
            results[case] = judge(case)
            write_results(args.out, results)
    asked = {case: results[case] for case in cases}
    print_table(asked)
    if not all(entry["passed"] for entry in asked.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None
