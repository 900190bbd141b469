"""Print the table of backends: what compiling and stepping cost, in seconds of a CPU core.

Each case runs in a process of its own, without JAX's compilation cache. CPU time depends less than
elapsed time on what else the machine does::

    python docs/scripts/backends.py
"""

from __future__ import annotations

import argparse
import copy
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence

NAMES = ("inverted_pendulum", "ant")
BACKENDS = ("spring", "positional", "generalized", "mjx")


def measure(name: str, backend: str, num_envs: int, steps: int) -> str:
    """Return a row of the table."""
    from gymbridge import BraxVectorEnv

    envs, seconds = None, []
    for _ in range(2):
        started = time.process_time()
        envs = copy.copy(envs) or BraxVectorEnv(name, num_envs=num_envs, backend=backend)
        envs.reset(seed=0)
        actions = envs.action_space.sample()
        envs.step(actions)
        seconds.append(time.process_time() - started)
    started = time.process_time()
    for _ in range(steps):
        envs.step(actions)
    step = (time.process_time() - started) / steps / num_envs * 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    first, second = seconds
    return f"| {name} | {backend} | {first:.0f} | {second:.2f} | {peak:,.0f} MB | {step:.1f} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every case, or the one that is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", nargs="*", help="name and backend of the only case")
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--steps", type=int, default=10)
    given = parser.parse_args(arguments)
    if given.case:
        print(measure(*given.case, given.num_envs, given.steps), flush=True)
        return
    print(
        "| task | backend | CPU s to the first step | of a copy "
        "| peak memory | CPU us per env step |"
    )
    print("|---|---|---:|---:|---:|---:|", flush=True)
    environ = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    sizes = [f"--num-envs={given.num_envs}", f"--steps={given.steps}"]
    for name in NAMES:
        for backend in BACKENDS:
            command = [sys.executable, __file__, name, backend, *sizes]
            subprocess.run(command, env=environ, check=True)


if __name__ == "__main__":
    main()
