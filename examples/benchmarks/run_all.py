"""All benchmarks of one device in one command, within a number of minutes.

    python examples/benchmarks/run_all.py --device cuda --minutes 9
    python examples/benchmarks/run_all.py --device cpu --sizes 4 16 --minutes 3   # tries it out

Each case runs in a process of its own with its own limit, the most important first: the cases with
a bar at 4,096 environments, then those at other sizes, then the rest. The result file is written
after each case. The same command again runs what is not in the file yet. At the end the tables and
charts of all that is in the file are made.

`--compile N` first compiles the cases in N processes at a time, which fills JAX's cache on disk.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from cases import BAR_SIZE, Case, cases
from report import print_report

from gymbridge.command_line.timing import name_processor

FOLDER = Path(__file__).parent
RESERVE = 15.0
"""Seconds that are kept for the tables and charts; with as few left no case is begun."""

PROBE = "import jax, torch; print(jax.devices()[0].device_kind, '|', torch.cuda.is_available())"


class Job(NamedTuple):
    """A case at one size."""

    case: Case
    size: int | None

    def __str__(self) -> str:
        return self.case.name if self.size is None else f"{self.case.name}, {self.size:,} envs"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="where")
    parser.add_argument("--minutes", type=float, default=9, help="limit of this command")
    parser.add_argument("--sizes", type=int, nargs="+", help="environments, up to each case's most")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each measurement")
    parser.add_argument("--only", default="", help="regular expression of the cases' names")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu/results.json"), help="results")
    parser.add_argument("--again", action="store_true", help="run again what failed")
    parser.add_argument("--compile", type=int, default=0, help="cases compiled at a time, at first")
    parser.add_argument("--list", action="store_true", help="list the cases and run nothing")
    return parser.parse_args()


def make_jobs(args: argparse.Namespace) -> list[Job]:
    """Return what is to be run, in order."""
    jobs = []
    for case in cases(args.device):
        if re.search(args.only, case.name):
            sizes = [
                size for size in args.sizes or case.sizes if size <= max(case.sizes, default=0)
            ]
            jobs += [Job(case, size) for size in (sizes if case.sizes else [None])]
    first = BAR_SIZE if BAR_SIZE in (args.sizes or [BAR_SIZE]) else args.sizes[0]
    return sorted(jobs, key=lambda job: (not job.case.is_bar, job.size not in (None, first)))


def make_environ(args: argparse.Namespace) -> dict[str, str]:
    """Return the environment of the processes."""
    environ = {**os.environ, "JAX_TRACEBACK_FILTERING": "off"}
    environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # torch and JAX share the memory of a GPU
    environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(args.out.parent.resolve() / "jax"))
    return environ | ({"JAX_PLATFORMS": "cpu"} if args.device == "cpu" else {})


def find_device(args: argparse.Namespace) -> str:
    """Return the name of the device.

    Raises:
        SystemExit: There is none of that kind.
    """
    command = [sys.executable, "-c", PROBE]
    done = subprocess.run(
        command, env=make_environ(args), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"JAX and torch do not start: {read_reason(done.returncode, done.stderr)}")
    kind, has_torch = done.stdout.strip().splitlines()[-1].split(" | ")
    if args.device == "cpu":
        return name_processor()
    if kind == "cpu":
        given = os.environ.get("JAX_PLATFORMS")
        why = f" (JAX_PLATFORMS={given})" if given else ""
        raise SystemExit(f"There is no CUDA device: JAX sees {kind}{why}.")
    if has_torch != "True":
        raise SystemExit(f"There is no CUDA device for torch: JAX sees {kind}, torch has no CUDA.")
    return kind


def read_results(path: Path, device: str) -> dict[str, Any]:
    """Return what the file has so far, of the same device."""
    results = {"device": device, "results": []}
    if path.exists():
        results = json.loads(path.read_text(encoding="utf-8"))
    if results["device"] != device:
        raise SystemExit(f"{path} has results of {results['device']}; give another --out.")
    return results


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Replace the file at once, so that it is always complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def run(job: Job, args: argparse.Namespace, seconds: float, rounds: int) -> dict[str, Any]:
    """Return what a case found, or why it failed; its output goes to a file beside the results."""
    logs = args.out.parent / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{re.sub(r'[^A-Za-z0-9]+', '_', str(job)).strip('_')}.txt"
    with tempfile.TemporaryDirectory() as folder, log.open("w", encoding="utf-8") as errors:
        out, shown = Path(folder) / "result.json", Path(folder) / "shown.txt"
        given = {"device": args.device, "size": job.size, "rounds": rounds, "out": out}
        flags = [argument.format(**given) for argument in job.case.arguments]
        command = [sys.executable, str(FOLDER / job.case.script), *flags]
        with shown.open("w", encoding="utf-8") as prints:
            status = wait_for(command, make_environ(args), prints, errors, seconds)
        told, text = log.read_text(encoding="utf-8"), shown.read_text(encoding="utf-8")
        errors.write(f"\n{text}")
        if status is None:
            return {"failed": f"more than {seconds:.0f} s"}
        if status:
            return {"failed": read_reason(status, told)}
        return json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"printed": text}


def wait_for(
    command: list[str], environ: dict[str, str], prints: Any, errors: Any, seconds: float
) -> int | None:
    """Return the exit status of a process; None if it took longer and was killed."""
    process = subprocess.Popen(
        command, env=environ, stdout=prints, stderr=errors, start_new_session=True
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with its own processes
            process.wait()


def read_reason(status: int, errors: str) -> str:
    """Return in one line why a process failed."""
    if status < 0:
        killed = ", as when memory runs out" if status == -signal.SIGKILL else ""
        return f"ended by {signal.Signals(-status).name}{killed}"
    lines = errors.strip().splitlines() or [f"exit status {status}"]
    exceptions = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(: |$)", line)]
    return (exceptions or lines)[-1][:300]


def compile_all(jobs: list[Job], args: argparse.Namespace, deadline: float) -> None:
    """Run the timed cases without measuring, several at a time, for at most half of the minutes."""
    timed = [job for job in jobs if job.size is not None]
    end = (time.monotonic() + deadline) / 2

    def build(job: Job) -> None:
        if (seconds := end - time.monotonic()) > 0:
            found = run(job, args, min(job.case.seconds, seconds), 0)
            print(f"compiled {job} {found.get('failed', '')}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(args.compile) as pool:
        list(pool.map(build, timed))


def run_jobs(
    jobs: list[Job], args: argparse.Namespace, results: dict[str, Any], deadline: float
) -> list[Job]:
    """Run what is not in the results yet, one after the other; return what did not fit."""
    chosen = {(job.case.name, job.size): job for job in jobs}
    results["results"] = [
        result
        for result in results["results"]
        if not (args.again and "failed" in result and (result["task"], result["size"]) in chosen)
    ]
    known = {(result["task"], result["size"]) for result in results["results"]}
    missing = [job for key, job in chosen.items() if key not in known]
    if args.compile:
        compile_all(missing, args, deadline)
    for number, job in enumerate(missing, 1):
        begin = time.monotonic()
        left = deadline - begin
        if left <= 0:
            return missing[number - 1 :]
        print(f"[{number}/{len(missing)}] {job}", end=": ", file=sys.stderr, flush=True)
        found = run(job, args, min(job.case.seconds, left), args.rounds)
        took = round(time.monotonic() - begin)
        print(found.get("failed", f"{took} s"), file=sys.stderr, flush=True)
        if "failed" in found and left < job.case.seconds and time.monotonic() >= deadline:
            return missing[number - 1 :]  # this case had less than its own limit
        entry = {"task": job.case.name, "size": job.size, "took": took, **found}
        results["results"].append(entry)
        write_results(args.out, results)
    return []


def main() -> None:
    begin, args = time.monotonic(), parse_args()
    jobs = make_jobs(args)
    if args.list:
        print("\n".join(f"{job} (at most {job.case.seconds} s)" for job in jobs))
        return
    if not jobs:
        raise SystemExit(f"No case matches {args.only!r}; --list shows all.")
    results = read_results(args.out, find_device(args))
    left = run_jobs(jobs, args, results, begin + args.minutes * 60 - RESERVE)
    print_report(results)
    print("\n".join(["", "Not run yet:", *(f"- {job}" for job in left)] if left else []))
    if any("printed" not in result for result in results["results"]):
        charts = [sys.executable, str(FOLDER / "charts.py"), str(args.out)]
        subprocess.run([*charts, f"--out={args.out.parent}"], check=False)


if __name__ == "__main__":
    main()
