"""Step batches a million times, and check memory, compilations and repeated results.

    python -m tests.support.soak                             # all 18 cases: an hour or more
    python -m tests.support.soak --modes SameStep --arrays torch --steps 10000

A case is an environment, an autoreset mode and a kind of arrays. It runs twice with the same seeds
and actions, each time in a process of its own. It passes if

- resident memory grows by less than one percent in both runs, from the median over the second tenth
  of the steps to the median over the last tenth: in the first tenth, allocators fill their pools;
- JAX compiles nothing once `reset`, `step` and a partial reset have been called;
- both runs return the same observations, rewards and flags, bit for bit.

The exit code is 1 if a case fails.
"""

import hashlib
import itertools
import os
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

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


def soak(env_id: str, mode: str, arrays: str, num_envs: int, steps: int) -> dict[str, Any]:
    """Return the measurements of a case in this process, which has run none before."""
    warnings.filterwarnings("ignore")  # of engines, about their own
    envs = gym.make_vec(env_id, num_envs=num_envs, autoreset_mode=mode, arrays=arrays)
    for _ in play(envs, arrays, steps=2):
        pass  # each kind of call once, which compiles
    compiled, digest = note_compilations(), hashlib.sha256()
    samples, taken, episodes = [], 0, 0
    for returned in tqdm(play(envs, arrays, steps), f"{env_id} {mode} {arrays}", unit=" calls"):
        for array in returned:
            digest.update(np.ascontiguousarray(array))
        if len(returned) > 1:  # a step, and no reset
            taken += 1
            episodes += int((returned[2] | returned[3]).sum())
            if taken % max(1, steps // NUM_SAMPLES) == 0:
                samples.append(resident_bytes())
    envs.close()
    tenth = len(samples) // 10
    before, after = median(samples[tenth : 2 * tenth]), median(samples[-tenth:])
    return {
        "megabytes": round(before / 1e6),  # resident after warm-up
        "growth": (after / before - 1) * 100,  # percent of that
        "compilations": len(compiled),  # after the first call of each kind
        "episodes": episodes,  # that ended
        "digest": digest.hexdigest(),  # of all that was returned
    }


def passes(*case: Any) -> bool:
    """Run a case twice, each time in a process of its own; print what was found."""
    env_id, mode, arrays, num_envs, steps = case
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        runs = [processes.submit(soak, *case).result() for _ in range(2)]
    growth = max(run["growth"] for run in runs)
    compilations = max(run["compilations"] for run in runs)
    is_equal = runs[0]["digest"] == runs[1]["digest"]
    passed = growth < GROWTH and not compilations and is_equal
    print(
        f"{env_id}, {num_envs} environments, {mode}, {arrays}: {steps:,} steps, "
        f"{runs[0]['episodes']:,} episodes, {runs[0]['megabytes']} MB, {growth:+.2f} %, "
        f"{compilations} compilations, equal: {is_equal}, passed: {passed}",
        flush=True,
    )
    return passed


def main(args: Args) -> None:
    passed = []
    for arrays, mode, env_id in itertools.product(args.arrays, args.modes, args.env_ids):
        num_envs, steps = SIZES.get(env_id, (16, 10_000))
        passed.append(passes(env_id, mode, arrays, num_envs, args.steps or steps))
    sys.exit(not all(passed))


if __name__ == "__main__":
    main(tyro.cli(Args))
