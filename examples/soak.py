"""Step batches a million times, and check memory, compilations and repeated results.

    python examples/soak.py                                  # all 18 cases: an hour or more
    python examples/soak.py --modes SameStep --arrays torch --steps 10000

A case is an environment, an autoreset mode and a kind of arrays; every engine has all of them. It
runs twice with the same seeds and actions, each time in a process of its own. A case passes if

- resident memory grows by less than one percent in both runs, from the median over the second tenth
  of the steps to the median over the last tenth: in the first tenth, allocators fill their pools;
- JAX compiles nothing once `reset`, `step` and a partial reset have been called;
- both runs return the same observations, rewards and flags, bit for bit.

The results are written after each case. The next start skips the cases that are in the file. The
exit code is 1 if a case fails.

Needs: pip install '.[all]'.
"""

import hashlib
import itertools
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import tyro
from gymnasium.vector import AutoresetMode, VectorEnv
from tqdm import tqdm

import gymbridge  # noqa: F401 (registers the ids)

SIZES = {"EnvPool/CartPole-v1": (64, 1_000_000), "Brax/fast-v0": (256, 200_000)}
"""Number of environments and of steps, by id."""

GROWTH = 1.0
"""Percent by which resident memory may grow; a case passes below it."""

NUM_SAMPLES = 1000
PARTIAL_RESET = 100
"""Steps from one partial reset of running environments to the next, in every mode."""

GROUPS = 31
"""Groups of environments that these resets restart in turn, so that limits end them in turn."""


@dataclass
class Args:
    """Soak every combination of id, autoreset mode and kind of arrays."""

    env_ids: tuple[str, ...] = tuple(SIZES)
    """Ids whose observations are a Box."""
    modes: tuple[str, ...] = ("NextStep", "SameStep", "Disabled")
    """Autoreset modes."""
    arrays: tuple[str, ...] = ("numpy", "torch", "jax")
    """Kinds of arrays."""
    steps: int | None = None
    """Steps of the batch; None for those in SIZES."""
    num_envs: int | None = None
    """Environments; None for those in SIZES."""
    out: Path = Path("runs/soak.json")
    """File of results."""


class Case(NamedTuple):
    """An environment, a mode, a kind of arrays, and how long to run them."""

    env_id: str
    mode: str
    arrays: str
    num_envs: int
    steps: int  # of the batch


def make_cases(args: Args) -> list[Case]:
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
        final = ()
        if "final_obs" in infos:  # of SameStep: an array of objects in numpy
            final = np.asarray(infos["final_obs"])[np.asarray(infos["_final_obs"])]
        yield obs, rewards, terminated, truncated, *final
        mask = (terminated | truncated) & is_disabled
        if step % PARTIAL_RESET == 0:
            mask |= rows % GROUPS == step // PARTIAL_RESET % GROUPS
        if mask.any():
            yield (np.asarray(envs.reset(options={"reset_mask": to_kind(mask, arrays)})[0]),)


def soak(case: Case) -> dict[str, Any]:
    """Return the measurements of a case in this process, which has run none before."""
    warnings.filterwarnings("ignore")  # of engines, about their own
    envs = gym.make_vec(
        case.env_id, num_envs=case.num_envs, autoreset_mode=case.mode, arrays=case.arrays
    )
    for _ in play(envs, case.arrays, steps=2):
        pass  # each kind of call once, which compiles
    compiled, digest = note_compilations(), hashlib.sha256()
    samples, taken, episodes, start = [], 0, 0, time.perf_counter()
    pause = max(1, case.steps // NUM_SAMPLES)
    with tqdm(total=case.steps, desc=" ".join(case[:3]), unit=" steps", unit_scale=True) as bar:
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
    return {
        "steps_per_second": round(case.steps / seconds),  # of the batch
        "megabytes": round(before / 1e6),  # resident after warm-up
        "growth": (after / before - 1) * 100,  # percent of that
        "compilations": len(compiled),  # after the first call of each kind
        "episodes": episodes,  # that ended
        "digest": digest.hexdigest(),  # of all that was returned
    }


def judge(case: Case) -> dict[str, Any]:
    """Run a case twice, each time in a process of its own, and return its entry of the results."""
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        runs = list(processes.map(soak, [case, case]))
    entry = case._asdict() | max(runs, key=lambda run: run["growth"])
    entry["compilations"] = max(run["compilations"] for run in runs)
    entry["is_equal"] = runs[0]["digest"] == runs[1]["digest"]
    is_steady = entry["growth"] < GROWTH and not entry["compilations"]
    return entry | {"passed": is_steady and entry["is_equal"]}


def main(args: Args) -> None:
    entries = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else []
    results = {Case(*(entry[name] for name in Case._fields)): entry for entry in entries}
    cases = make_cases(args)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for case in cases:
        if case not in results:
            results[case] = judge(case)
            args.out.write_text(json.dumps([*results.values()], indent=1), encoding="utf-8")
        entry = results[case]
        print(
            "{env_id}, {num_envs} environments, {mode}, {arrays}: {steps:,} steps, "
            "{steps_per_second:,} steps/s, {episodes:,} episodes, {megabytes} MB, "
            "{growth:+.2f} %, {compilations} compilations, equal: {is_equal}, "
            "passed: {passed}".format(**entry),
            flush=True,
        )
    sys.exit(not all(results[case]["passed"] for case in cases))


if __name__ == "__main__":
    main(tyro.cli(Args))
