"""All benchmarks: measure sets of cases, and keep every round.

    python examples/benchmarks/run.py brax envpool       # some sets; all for a CPU without names
    python examples/benchmarks/run.py --device cuda --minutes 9
    python examples/benchmarks/run.py --quick            # tries everything out, in tiny sizes
    python examples/benchmarks/tables.py                 # writes tables and pictures of the docs

`cases.py` has the cases as data: what is timed, over what, at which sizes, and the bar. `job.py`
measures each case, at each of its sizes, in a process of its own with a limit of its own. A case
that fails is noted with its reason, and the next one begins. Functions are timed in turn, as in
`gymbridge bench`, whose code this is; routes have a process each, since libraries disturb each
other. A set's results are in `<page>/<set>.json` below `--out`, written after each case. The same
command again measures what is missing. docs/reference/benchmarks/method.md describes all options.
"""

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cases import QUICK, SETS, SHORT, Case
from rich.console import Console
from rich.markdown import Markdown
from tables import make_table, read_results
from tqdm import tqdm

from gymbridge.command_line.options import at_least
from gymbridge.command_line.timing import name_processor

BAR_SIZE = 4096
"""Environments on a GPU for which its bars are meant; they come first."""

ON_GPU = (
    *("variants", "gpu", "gpu_training", "brax", "physics", "snapshots", "gradients"),
    *("torch_views", "envpool", "sb3", "cleanrl", "async_pool"),
)
"""Sets that are measured on a GPU if none is named, in order."""

PROBE = "import jax, torch; assert jax.default_backend() == 'gpu' and torch.cuda.is_available()"


class Job(NamedTuple):
    """What one process measures."""

    name: str  # of the set
    case: Case
    value: int
    number: int  # of the process, from 1

    def __str__(self) -> str:
        return f"{self.name}: {self.case.name} ({self.value:,} {self.case.axis}, {self.number})"

    @property
    def file(self) -> str:
        """Where its result belongs, in the folder of all."""
        return f"{SETS[self.name].page}/{self.name}.json"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("sets", nargs="*", choices=SETS, metavar="SET", help="of %(choices)s")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cpu", help="where")
    parser.add_argument("--minutes", type=float, default=math.inf, help="limit of this command")
    parser.add_argument("--only", default="", help="regular expression of the cases' names")
    parser.add_argument("--sizes", type=at_least(0), nargs="+", help="in place of a case's own")
    parser.add_argument("--rounds", type=at_least(2), help="in place of a case's own")
    parser.add_argument("--processes", type=at_least(1), help="in place of a case's own")
    parser.add_argument("--out", type=Path, default=Path("runs/measured"), help="for results")
    parser.add_argument("--again", choices=("failed", "all"), help="what is measured once more")
    parser.add_argument("--compile", type=int, default=0, help="cases compiled at a time, at first")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, which try it out")
    parser.add_argument("--list", action="store_true", help="list the cases and run nothing")
    args = parser.parse_args()
    on_cpu = [name for name, one in SETS.items() if one.page != "gpu" or args.quick]
    args.sets = args.sets or (ON_GPU if args.device == "cuda" else on_cpu)
    return args


def make_jobs(args: argparse.Namespace) -> list[Job]:
    """Return what is to be measured, in order."""
    cases = [(name, case) for name in args.sets for case in SETS[name].cases]
    jobs = [
        Job(name, case, value, number)
        for name, case in cases
        if re.search(args.only, case.name)
        for value in choose_values(case, args)
        for number in range(1, 2 if args.quick else 1 + (args.processes or case.processes))
    ]
    if args.device == "cuda":
        jobs.sort(key=lambda job: job.value != BAR_SIZE)
    return sorted(jobs, key=lambda job: job.number)


def choose_values(case: Case, args: argparse.Namespace) -> tuple[int, ...]:
    """Return at which values a case is measured; given sizes are at most its largest."""
    if args.quick:
        return (2,) if case.axis == "environments" else case.values[:1]
    if args.sizes and case.axis == "environments":
        return tuple(size for size in args.sizes if size <= max(case.values))
    return case.values


def make_environ(args: argparse.Namespace) -> dict[str, str]:
    """Return the environment of the processes."""
    environ = {**os.environ, "JAX_TRACEBACK_FILTERING": "off"}
    environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # torch and JAX share the memory of a GPU
    environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(args.out.resolve() / "jax"))
    return environ | ({"JAX_PLATFORMS": "cpu"} if args.device == "cpu" else {})


def write_results(path: Path, results: list[dict[str, Any]]) -> None:
    """Replace the file at once, so that it is always complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"results": results}, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def run(job: Job, args: argparse.Namespace, seconds: float, rounds: int) -> dict[str, Any]:
    """Return what a process found, or why it failed; what it says goes to a file beside."""
    log = args.out / "logs" / f"{re.sub(r'[^A-Za-z0-9]+', '_', str(job)).strip('_')}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, log.open("w", encoding="utf-8") as said:
        out, script = Path(folder) / "result.json", Path(__file__).with_name("job.py")
        given = {"set": job.name, "case": job.case.name, "value": job.value, "out": str(out)}
        smaller = QUICK if args.quick else SHORT if rounds == 1 else {}
        given |= {"device": args.device, "rounds": rounds, "smaller": smaller}
        command = [sys.executable, str(script), json.dumps(given)]
        status = wait_for(command, make_environ(args), said, seconds)
        if status == 0:
            return json.loads(out.read_text(encoding="utf-8"))
    return {"failed": read_reason(status, log.read_text(encoding="utf-8"), seconds)}


def wait_for(command: list[str], environ: dict[str, str], said: Any, seconds: float) -> int | None:
    """Return the exit status of a process; None if it took longer and was killed."""
    # However `run.py` ends, the process's stdin then ends, too, and `job.py` kills itself.
    pipes = {"stdin": subprocess.PIPE, "stdout": said, "stderr": said}
    process = subprocess.Popen(command, env=environ, start_new_session=True, **pipes)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and its own processes, which may outlive it
        process.wait()


def read_reason(status: int | None, said: str, seconds: float) -> str:
    """Return in one line why a process failed."""
    if status is None:
        return f"more than {seconds:.0f} s"
    if status < 0:
        killed = ", as when memory runs out" if status == -signal.SIGKILL else ""
        return f"ended by {signal.Signals(-status).name}{killed}"
    lines = said.strip().splitlines() or [f"exit status {status}"]
    exceptions = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(: |$)", line)]
    return (exceptions or lines)[-1][:300]


def compile_all(jobs: list[Job], args: argparse.Namespace, end: float) -> None:
    """Run cases in one round that is not kept, several at a time."""

    def build(job: Job) -> None:
        if (seconds := end - time.monotonic()) > 0:
            run(job, args, min(job.case.limit, seconds), 1)

    with ThreadPoolExecutor(args.compile) as pool:
        list(tqdm(pool.map(build, jobs), "compiling", len(jobs), unit=" cases"))


def run_jobs(jobs: list[Job], args: argparse.Namespace, deadline: float) -> list[Job]:
    """Run what is not in the results yet, one after the other; return what did not fit."""
    files = {job.file: read_results(args.out / job.file) for job in jobs}
    chosen = {(job.file, job.case.name, job.value) for job in jobs}
    for file, results in files.items():
        if {result["machine"].split(",")[0] for result in results} - {name_processor()}:
            raise SystemExit(f"{args.out / file} has results of another machine; give other --out.")
        results[:] = [
            result
            for result in results
            if args.again is None
            or (file, result["case"], result["value"]) not in chosen
            or (args.again == "failed" and "failed" not in result)
        ]
    measured = Counter(
        (file, one["case"], one["value"]) for file, results in files.items() for one in results
    )
    missing = [job for job in jobs if job.number > measured[job.file, job.case.name, job.value]]
    if args.compile:
        compile_all(missing, args, (time.monotonic() + deadline) / 2)
    progress = tqdm(missing, unit=" cases")
    for number, job in enumerate(progress):
        if (left := deadline - time.monotonic()) <= 0:
            return missing[number:]
        progress.set_description(str(job))
        rounds = 2 if args.quick else args.rounds or job.case.rounds
        found = run(job, args, min(job.case.limit, left), rounds)
        if "failed" in found:
            if left < job.case.limit and time.monotonic() >= deadline:
                return missing[number:]  # this case had less than its own limit
            progress.write(f"{job}: {found['failed']}", sys.stderr)
            found |= {"case": job.case.name, "value": job.value, "machine": name_processor()}
        files[job.file].append(found)
        write_results(args.out / job.file, files[job.file])
    return []


def main() -> None:
    begin, args = time.monotonic(), parse_args()
    jobs = make_jobs(args)
    if args.list:
        print("\n".join(f"{job}, at most {job.case.limit} s" for job in jobs))
        return
    if not jobs:
        raise SystemExit(f"No case matches {args.only!r}; --list shows all.")
    if args.device == "cuda":
        command = [sys.executable, "-c", PROBE]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            raise SystemExit("There is no CUDA device for JAX and torch.")
    left = run_jobs(jobs, args, begin + args.minutes * 60)
    for name in dict.fromkeys(job.name for job in jobs):
        Console().print(f"\n{name}", Markdown(make_table(name, args.out)))
    print("\n".join(["", "Not run yet:", *(f"- {job}" for job in left)] if left else []))


if __name__ == "__main__":
    main()
