"""What a snapshot to disk and back costs over numpy's `savez` and `load` of the same arrays.

    python examples/benchmarks/snapshots.py [--rounds 9]

Files lie in a temporary folder. A round writes and reads one of each.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
from timing import Row, compare, interleave, print_table

from gymbridge import BraxVectorEnv

warnings.filterwarnings("ignore", message="Brax System")


def snapshot_row(name: str, num_envs: int, folder: Path, rounds: int, **kwargs: Any) -> Row:
    envs = BraxVectorEnv(name, num_envs, arrays="jax", **kwargs)
    envs.reset(seed=0)
    leaves = envs.get_state().leaves
    size = sum(leaf.nbytes for leaf in leaves.values()) / 1e6

    def ours(_: int) -> None:
        envs.save_state(folder / "ours")
        jax.block_until_ready(envs.load_state(folder / "ours"))

    def numpys(_: int) -> None:
        with (folder / "numpys").open("wb") as file:
            np.savez(
                file, **{name.replace("/", "."): np.asarray(leaf) for name, leaf in leaves.items()}
            )
        with np.load(folder / "numpys") as entries:
            for name in entries:
                entries[name]

    times = interleave({"ours": ours, "numpys": numpys}, count=1, rounds=rounds)
    taken = compare(times, "ours", "numpys")
    case = (
        f"snapshot of {name}, {num_envs} environments, to disk and back, over `np.savez`, `np.load`"
    )
    return Row(case, taken.microseconds, taken.ratio, 2.0, f"{size:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each measurement")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        print_table([snapshot_row("ant", 4096, Path(folder), rounds, backend="spring")])


if __name__ == "__main__":
    main()
