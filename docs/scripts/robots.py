"""Step every robot of Playground in every mode, beside Playground's own functions.

Each robot has a result file of its own in `docs/measured/robots`, or in its folder `warp` over
MuJoCo Warp, and a process for each part of it: the comparison and the times. A part that is in the
file is not run again, so the command goes on where it stopped. The tables become a part of
`docs/reference/robots.md`::

    python docs/scripts/robots.py [--compare] [NAME ...]
    python docs/scripts/robots.py --compare --impl warp NAME ...
    python docs/scripts/robots.py --table

A batch of 64 is stepped with random actions through episodes of at most 50 steps. The reference is
``jax.jit(jax.vmap(env.step))`` and ``reset``, which begins the same episodes with the same keys.
Both are compiled quickly for the comparison, as one module and without LLVM's optimisations, and as
usual for the times. Robots on height fields and Getup tasks run so slowly without optimisations
that they are quicker with ``JAX_DISABLE_MOST_OPTIMIZATIONS=0``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from os import environ
from pathlib import Path
from statistics import median
from typing import Any

from gymbridge.playground.tasks import PLAYGROUND_SUITES

FOLDER = Path(__file__).parents[1] / "measured" / "robots"
FOLDERS = {"jax": FOLDER, "warp": FOLDER / "warp"}
"""Of the result files, by implementation of MJX."""

PAGE = Path(__file__).parents[1] / "reference" / "robots.md"
MARK = "<!-- table -->\n"
WARP = """
## Robots over MuJoCo Warp

`python docs/scripts/robots.py --compare --impl warp NAME ...` compares robots with `impl="warp"` in
the same way with Playground's own functions over Warp. These were run, on a CPU:

"""
FIRST = (
    "Go1JoystickFlatTerrain",
    "BarkourJoystick",
    "SpotFlatTerrainJoystick",
    "G1JoystickFlatTerrain",
    "PandaPickCube",
    "LeapCubeRotateZAxis",
)
ROBOTS = tuple(
    name for suite in ("locomotion", "manipulation") for name in PLAYGROUND_SUITES[suite]
)
NAMES = tuple(dict.fromkeys((*FIRST, *ROBOTS)))
MODES = ("NextStep", "SameStep", "Disabled")
SIZE, LIMIT, STEPS, TIMED = 64, 50, 110, 10.0
QUICKLY = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
"""Flags with which XLA compiles one module in place of one for each fused operation."""


class Plain:
    """A batch of Playground's own functions, which restarts where it is told.

    Attributes:
        obs, reward, terminated, truncated: Of the last time step, in numpy.
    """

    def __init__(self, env: Any, repeat: int) -> None:
        import jax

        self._jax, self._repeat = jax, repeat
        self._reset, self._step = (
            jax.jit(partial(_run, jax, jax.vmap(verb))) for verb in (env.reset, env.step)
        )
        self._select = jax.jit(partial(_select, jax))

    def begin(self) -> None:
        """Begin all environments' first episodes."""
        import numpy as np

        self._episode, self._elapsed = np.zeros(SIZE, np.uint32), np.zeros(SIZE, int)
        self.state = self._reset(self._keys())
        self._read(np.zeros(SIZE), False)

    def _keys(self) -> Any:
        jax = self._jax
        seeds = jax.numpy.arange(SIZE, dtype="uint32")  # those of `reset(seed=0)`
        return jax.vmap(lambda s, k: jax.random.fold_in(jax.random.PRNGKey(s), k))(
            seeds, self._episode
        )

    def restart(self, mask: Any) -> None:
        """Begin the next episode of the environments under a mask."""
        if not mask.any():
            return
        self._episode = self._episode + mask.astype(self._episode.dtype)
        self._elapsed[mask] = 0
        self.state = self._select(mask, self._reset(self._keys()), self.state)
        self._read(self.reward, mask)

    def step(self, actions: Any, restarting: Any) -> None:
        """Step the environments, but for those under a mask, which begin an episode."""
        import numpy as np

        reward, before = np.zeros(SIZE, np.float32), self.state
        over = restarting
        for _ in range(self._repeat):
            stepped = self._step(self.state, actions)
            reward += np.where(over, 0, np.asarray(stepped.reward))
            self.state = self._select(over, self.state, stepped)
            over = restarting | (np.asarray(self.state.done) > 0)
        self._elapsed += 1
        self.state = self._select(restarting, before, self.state)
        self._read(reward, restarting)
        self.restart(restarting)

    def _read(self, reward: Any, began: Any) -> None:
        import numpy as np

        self.obs = self._jax.tree.map(np.asarray, self.state.obs)
        self.reward = np.where(began, 0, reward)
        self.terminated = (np.asarray(self.state.done) > 0) & ~np.asarray(began)
        self.truncated = (self._elapsed >= LIMIT) & ~self.terminated


def _run(jax: Any, function: Any, *args: Any) -> Any:
    """Return states with strong types, so that `step` is compiled once for those of both verbs."""
    return jax.tree.map(
        lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype), function(*args)
    )


def _select(jax: Any, mask: Any, new: Any, old: Any) -> Any:
    def choose(a: Any, b: Any) -> Any:
        if a.shape[:1] != mask.shape:
            return b  # what all environments over Warp share, which each step overwrites
        return jax.numpy.where(mask.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)


def compare(envs: Any, plain: Plain, mode: str) -> dict[str, Any]:
    """Step a batch and the reference; return the ends, and by how much they differ at most."""
    import numpy as np

    envs.action_space.seed(0)
    obs, _ = envs.reset(seed=0)
    plain.begin()
    worst, never = difference(obs, plain.obs), np.zeros(SIZE, bool)
    over, ends = never, {"terminated": 0, "truncated": 0}
    for _ in range(STEPS):
        if mode == "Disabled" and over.any():
            obs, _ = envs.reset(options={"reset_mask": over})
            plain.restart(over)
            worst = max(worst, difference(obs, plain.obs))
        actions = envs.action_space.sample()
        obs, rewards, *flags, infos = envs.step(actions)
        plain.step(actions, over if mode == "NextStep" else never)
        np.testing.assert_array_equal(flags, [plain.terminated, plain.truncated])
        for name, flag in zip(ends, flags, strict=True):
            ends[name] += int(flag.sum())
        worst = max(worst, difference(rewards, plain.reward))
        over = flags[0] | flags[1]
        if mode == "SameStep" and over.any():
            final = [infos["final_obs"][row] for row in np.flatnonzero(over)]
            rows = plain_rows(plain.obs, over)
            worst = max(worst, *map(difference, final, rows))
            plain.restart(over)
        worst = max(worst, difference(obs, plain.obs))
    return {"ends": ends, "difference": worst}


def plain_rows(obs: Any, mask: Any) -> list[Any]:
    """Return the observation of each environment under a mask."""
    if isinstance(obs, Mapping):
        parts = {key: plain_rows(value, mask) for key, value in obs.items()}
        return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
    return list(obs[mask])


def difference(found: Any, wanted: Any) -> float:
    """Return the largest difference, relative to values above 1; NaN equals NaN."""
    import numpy as np

    if isinstance(wanted, Mapping):
        return max(difference(found[key], value) for key, value in wanted.items())
    gap = np.abs(found - wanted) / np.maximum(1, np.abs(wanted))
    gap[np.isnan(found) & np.isnan(wanted)] = 0
    gap[np.isnan(gap)] = np.inf
    return float(np.max(gap))


def compare_modes(name: str, impl: str) -> dict[str, Any]:
    """Return how a robot compares with the reference in each mode."""
    from gymbridge import PlaygroundVectorEnv
    from gymbridge.command_line.timing import name_processor
    from gymbridge.core.extras import find_version

    result: dict[str, Any] = {"name": name, "processor": name_processor()}
    result["versions"] = {one: find_version(one) for one in ("jax", "mujoco-mjx", "playground")}
    plain = None
    for mode in MODES:
        options = {"impl": impl, "max_episode_steps": LIMIT, "autoreset_mode": mode}
        envs = PlaygroundVectorEnv(name, SIZE, **options)
        if plain is None:
            infos = envs.reset(seed=0)[1]
            result["infos"] = sorted(key for key in infos if not key.startswith("_"))
            plain = make_plain(envs)
        result[mode] = compare(envs, plain, mode)
    return result


def make_plain(envs: Any) -> Plain:
    """Return the reference of a batch."""
    simulator = envs._simulator
    return Plain(simulator.engine.unwrapped, simulator.action_repeat)


def measure_time(name: str, impl: str) -> dict[str, Any]:
    """Return what a robot's compilation costs, and the rates of two modes and of the reference."""
    from gymbridge import PlaygroundVectorEnv
    from gymbridge.command_line.timing import measure_rates

    batches, seconds = {}, []
    for mode in MODES[:2]:
        started = time.process_time()
        options = {"impl": impl, "max_episode_steps": LIMIT, "autoreset_mode": mode}
        envs = PlaygroundVectorEnv(name, SIZE, **options)
        envs.reset(seed=0)
        envs.step(envs.action_space.sample())
        seconds.append(time.process_time() - started)
        batches[mode] = envs
    steps: dict[str, Any] = {mode: make_step(envs) for mode, envs in batches.items()}
    steps["Playground"] = make_plain_step(batches["NextStep"])
    rates = measure_rates(steps, TIMED * len(steps))
    figures = {key: median(values) * SIZE for key, values in rates.items()}
    return {"compile_seconds": seconds[0], "steps_per_second": figures}


PARTS = {"compare": compare_modes, "time": measure_time}


def make_step(envs: Any) -> Any:
    """Return a batch's step by its number."""
    actions = [envs.action_space.sample() for _ in range(16)]
    envs.reset(seed=0)
    return lambda index: envs.step(actions[index % 16])[1]


def make_plain_step(envs: Any) -> Any:
    """Return the reference's step, which fetches what a batch does and never restarts."""
    import numpy as np

    plain, infos = make_plain(envs), envs.reset(seed=0)[1]
    actions = [envs.action_space.sample() for _ in range(16)]
    plain.begin()

    def step(index: int) -> Any:
        for _ in range(plain._repeat):
            plain.state = plain._step(plain.state, actions[index % 16])
        state = plain.state
        info = {key: value for key, value in state.info.items() if key in infos}
        outputs = state.reward, state.obs, state.done, state.metrics, info
        return plain._jax.tree.map(np.asarray, outputs)[0]

    return step


def run(names: Iterable[str], impl: str, seconds: int, parts: Iterable[str]) -> None:
    """Measure what has no result, each part in a process with at most `seconds`."""
    folder = FOLDERS[impl]
    folder.mkdir(exist_ok=True)
    for name, part in itertools.product(names, parts):
        path = folder / f"{name}.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if "failed" in known or (part == "compare" and known) or "steps_per_second" in known:
            continue
        print(name, part, end=": ", flush=True)
        result = known | run_process(name, impl, part, seconds)
        if known and "failed" in result:  # what was compared is kept, and its times stay missing
            print(result["failed"], flush=True)
            continue
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(path)
        print(result.get("failed", "done"), flush=True)


def run_process(name: str, impl: str, part: str, seconds: int) -> dict[str, Any]:
    """Return a part of a robot's result, or how its process failed."""
    variables = {**environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    if part == "compare":
        variables["XLA_FLAGS"] = f"{environ.get('XLA_FLAGS', '')} {QUICKLY}"
        variables.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        command = [sys.executable, __file__, name, f"--impl={impl}"]
        command += [f"--part={part}", f"--result={out}"]
        try:
            done = subprocess.run(
                command, env=variables, stderr=subprocess.PIPE, text=True, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return {"name": name, "failed": f"more than {seconds} s"}
        if done.returncode == 0:
            return json.loads(out.read_text(encoding="utf-8"))
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return {"name": name, "failed": last}


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Return the results of a folder, by name."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def make_table(folder: Path) -> str:
    """Return the table of all robots that have a result, and the names of the others."""
    found = read_results(folder)
    lines = [
        "| robot | CPU s to the first step | steps/s | time over plain: NextStep | SameStep "
        "| ends: terminated | truncated | largest difference |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *(make_row(result) for result in found if "failed" not in result),
    ]
    text = "\n".join(lines) + "\n" + list_failures(found)
    if missing := sorted({*ROBOTS} - {result["name"] for result in found}):
        text += f"\nNot run yet: {', '.join(f'`{name}`' for name in missing)}.\n"
    return text


def list_failures(found: list[dict[str, Any]]) -> str:
    """Return a line for each result that is none."""
    failed = (result for result in found if "failed" in result)
    return "".join(f"\n- `{result['name']}` failed: {result['failed']}\n" for result in failed)


def make_warp_table() -> str:
    """Return the table of the robots that were compared over Warp."""
    found = read_results(FOLDERS["warp"])
    lines = [
        "| robot | ends: terminated | truncated | largest difference |",
        "|---|---:|---:|---:|",
    ]
    for result in found:
        if "failed" not in result:
            cells = (f"`{result['name']}`", *summarise(result))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n" + list_failures(found)


def make_row(result: dict[str, Any]) -> str:
    """Return the row of a robot; ends and difference are those of all modes together."""
    timed = [""] * 4
    if rates := result.get("steps_per_second"):
        ratios = (f"{rates['Playground'] / rates[mode]:.2f}" for mode in MODES[:2])
        timed = [f"{result['compile_seconds']:.0f}", f"{rates['NextStep']:,.0f}", *ratios]
    cells = (f"`{result['name']}`", *timed, *summarise(result))
    return f"| {' | '.join(cells)} |"


def summarise(result: dict[str, Any]) -> list[str]:
    """Return the cells with the ends and the largest difference of all modes together."""
    kinds = ("terminated", "truncated")
    ends = [sum(result[mode]["ends"][kind] for mode in MODES) for kind in kinds]
    worst = max(result[mode]["difference"] for mode in MODES)
    return [*(f"{count:,}" for count in ends), f"{worst:.1e}" if worst else "0"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, or write the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="robots; all if not given")
    parser.add_argument("--seconds", type=int, default=3600, help="at most for each part")
    parser.add_argument("--table", action="store_true", help="write the table, measure nothing")
    parser.add_argument("--compare", action="store_true", help="only compare, without times")
    parser.add_argument("--impl", choices=FOLDERS, default="jax", help="implementation of MJX")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if unknown := sorted({*given.names} - {*NAMES}):
        parser.error(f"no such robots: {unknown}")
    if given.result:
        given.result.write_text(
            json.dumps(PARTS[given.part](given.names[0], given.impl)), encoding="utf-8"
        )
        return
    if not given.table:
        run(given.names or NAMES, given.impl, given.seconds, [*PARTS][: 1 if given.compare else 2])
        return
    before = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    text = make_table(FOLDER) + WARP + make_warp_table()
    PAGE.write_text(before + MARK + text, encoding="utf-8")


if __name__ == "__main__":
    main()
