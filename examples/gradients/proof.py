"""Are the gradients of every differentiable environment of Brax and Playground right?

    python examples/gradients/proof.py [--pairs ant/spring,reacher/spring] [--out runs/gradients]
    python examples/gradients/proof.py --table

Each pair of environment and backend (that of Playground is "playground") is measured in 32 and in
64 bit floats, each in a process of its own; pairs on MJX, which compile longest, in 64 bit floats
alone. Each pair has one result file; results that are in it are not measured again. If a process
runs out of processor time or memory, this is its result (`--again` measures such pairs again).

64 bit programs are compiled quickly: without LLVM's optimisations, which does not change the
arithmetic, and as one module, since each module costs more than its code. 32 bit programs are
compiled as usual. Robots on height fields run so slowly without optimisations that they are quicker
with ``JAX_DISABLE_MOST_OPTIMIZATIONS=0``.
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
from pathlib import Path
from textwrap import shorten
from typing import Any

from table import make_table

from gymbridge.engines import ENGINES

HERE = Path(__file__).parent
BACKENDS = ("generalized", "spring", "positional", "mjx")
NAMES = (
    "reacher",
    "inverted_pendulum",
    "inverted_double_pendulum",
    "fast",
    "hopper",
    "halfcheetah",
    "walker2d",
    "pusher",
    "ant",
    "humanoid",
    "humanoidstandup",
)  # cheap ones first
CI_PAIRS = ("inverted_pendulum/generalized", "reacher/spring", "hopper/spring", "ant/spring")
BRAX_PAIRS = (*CI_PAIRS, *(f"{name}/{backend}" for name in NAMES for backend in BACKENDS))
PAIRS = (*BRAX_PAIRS, *(f"{name}/playground" for name in ENGINES["Playground"].load_tasks()))
FLOATS = ("float32", "float64")
QUICKLY = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
MARK = "<!-- table -->"
RAISED = re.compile(r"[\w.]+(Error|Exception)\b")
"""Beginning of the line of a traceback that has the error, whose message may go on below."""


def result_path(folder: Path, pair: str) -> Path:
    """Return the path of a pair's result."""
    return folder / f"{pair.replace('/', '-')}.json"


def read_result(folder: Path, pair: str) -> dict[str, Any]:
    """Return the result of a pair, as far as it is measured."""
    path = result_path(folder, pair)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"pair": pair}


def write_result(folder: Path, pair: str, result: dict[str, Any]) -> None:
    """Replace the result of a pair at once, so that the file is always complete."""
    folder.mkdir(parents=True, exist_ok=True)
    path = result_path(folder, pair)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def by_engine(pair: str) -> tuple[bool, str]:
    """Return the place of a pair in the table: Brax's first, then by name."""
    return pair.endswith("/playground"), pair


def missing_floats(result: dict[str, Any], *, again: bool) -> list[str]:
    """Return the float types that are still to be measured."""
    if any("refused" in result.get(floats, {}) for floats in FLOATS):
        return []
    on_mjx = result["pair"].endswith(("/mjx", "/playground"))
    return [
        floats
        for floats in (FLOATS[1:] if on_mjx else FLOATS)
        if floats not in result or (again and "failed" in result[floats])
    ]


def measure(pair: str, floats: str, seconds: int, *, unroll: bool = False) -> dict[str, Any]:
    """Measure a pair in a process of its own, with at most `seconds` of processor time."""
    environ = {"JAX_PLATFORMS": "cpu", **os.environ, "JAX_ENABLE_X64": "0"}
    environ["JAX_TRACEBACK_FILTERING"] = "off"  # so that an error is the last line
    if floats == "float64":
        flags = f"{environ.get('XLA_FLAGS', '')} {QUICKLY}"
        environ |= {"JAX_ENABLE_X64": "1", "XLA_FLAGS": flags}
        environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        command = [sys.executable, str(HERE / "measure.py"), *pair.split("/"), str(out)]
        command += [f"--seconds={seconds}"] + ["--unroll"] * unroll
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return json.loads(out.read_text(encoding="utf-8"))
    if done.returncode == -signal.SIGXCPU:
        return {"failed": f"more than {seconds} s of processor time"}
    if done.returncode == -signal.SIGKILL:
        return {"failed": "killed, as when memory runs out"}
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    raised = [line for line in lines if RAISED.match(line)]
    return {"failed": shorten((raised or lines)[-1], 300, placeholder=" …")}


def run(pairs: list[str], folder: Path, seconds: int, *, again: bool) -> None:
    """Measure what is missing, one after the other."""
    for number, pair in enumerate(pairs, 1):
        for floats in missing_floats(read_result(folder, pair), again=again):
            known = read_result(folder, pair)
            if any("refused" in known.get(other, {}) for other in FLOATS):
                break
            print(f"[{number}/{len(pairs)}] {pair} {floats}", end=": ", file=sys.stderr, flush=True)
            unroll = floats == "float64" and pair in CI_PAIRS
            figures = measure(pair, floats, seconds, unroll=unroll)
            write_result(folder, pair, known | {floats: figures})
            print(figures.get("failed") or figures.get("equality") or "refused", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", help="pairs such as ant/spring,reacher/spring; all if not given")
    parser.add_argument("--out", type=Path, default=Path("runs/gradients"))
    parser.add_argument(
        "--seconds", type=int, default=1800, help="processor time of each process, in seconds"
    )
    parser.add_argument("--again", action="store_true", help="measure again what failed")
    parser.add_argument("--table", action="store_true", help="print the table and measure nothing")
    parser.add_argument("--page", type=Path, help=f"page to write the table to, after {MARK!r}")
    options = parser.parse_args()
    pairs = options.pairs.split(",") if options.pairs else list(dict.fromkeys(PAIRS))
    unknown = [pair for pair in pairs if pair not in PAIRS]
    if unknown:
        parser.error(f"no such pairs: {unknown}")
    if not options.table:
        run(pairs, options.out, options.seconds, again=options.again)
    table = make_table([read_result(options.out, pair) for pair in sorted(pairs, key=by_engine)])
    print(table)
    if options.page:
        before = options.page.read_text(encoding="utf-8").split(MARK)[0]
        options.page.write_text(f"{before}{MARK}\n{table}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
