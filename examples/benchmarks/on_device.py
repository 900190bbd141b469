"""Time one of the contests of `contests.py` on a device; `run_all.py` runs them all.

python examples/benchmarks/on_device.py step --device cuda --size 4096 --out runs/step.json
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path

import torch
from contests import CONTESTS
from timing import fitting_count, interleave, machine


def main() -> None:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("contest", choices=CONTESTS, help="what is timed")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--size", type=int, default=256, help="environments")
    parser.add_argument("--rounds", type=int, default=7, help="0 compiles and measures nothing")
    parser.add_argument("--seconds", type=float, default=0.3, help="of each function in a round")
    parser.add_argument("--out", type=Path, required=True, help="file for the result")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")  # of other libraries, about themselves
    torch.set_num_threads(1)  # fastest for small networks
    contest = CONTESTS[args.contest](args.size, args.device)
    counts = {name: fitting_count(run, args.seconds) for name, run in contest.steps.items()}
    if not args.rounds:
        return
    times = interleave(contest.steps, count=counts, rounds=args.rounds)
    steps = args.size * contest.num_steps
    speeds = {name: [steps * 1e6 / taken for taken in rounds] for name, rounds in times.items()}
    result = {
        "axis": "environments",
        "value": args.size,
        "steps_per_second": speeds,
        "reference": contest.reference,
        "bars": dict(contest.bars),
        "num_steps": contest.num_steps,
        "note": contest.note,
        "peers": dict(contest.peers),
        "machine": machine(),
    }
    args.out.write_text(json.dumps(result), encoding="utf-8")
    os._exit(0)  # engines with threads take their time to end


if __name__ == "__main__":
    main()
