"""Are the gradients of every differentiable environment of Brax and Playground right?

    python examples/gradients/proof.py --pairs ant/spring reacher/spring
    python examples/gradients/proof.py --out docs/measured/gradients-proof --page PAGE

Each pair of environment and backend (that of Playground is "playground") is measured in 32 and in
64 bit floats, each in a process of its own; pairs on MJX, which compile longest, in 64 bit floats
alone. Each pair has one result file. What is in it is not measured again, also where it is an
error: delete a file to measure the pair anew. In the end the table is printed.

64 bit programs are compiled quickly: without LLVM's optimisations, which does not change the
arithmetic, and as one module, since each module costs more than its code. 32 bit programs are
compiled as usual. Robots on height fields run so slowly without optimisations that they are quicker
with ``JAX_DISABLE_MOST_OPTIMIZATIONS=0``.

Needs: pip install '.[brax,playground,examples]'.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import tyro
from table import make_table
from tqdm import tqdm

from gymbridge.engines import ENGINES

BACKENDS = ("generalized", "spring", "positional", "mjx")
NAMES = [name for name in ENGINES["Brax"].load_tasks() if name != "swimmer"]  # which fails
BRAX_PAIRS = tuple(f"{name}/{backend}" for name in NAMES for backend in BACKENDS)
PLAYGROUND_PAIRS = tuple(f"{name}/playground" for name in ENGINES["Playground"].load_tasks())
SCRIPT = Path(__file__).with_name("measure.py")
QUICKLY = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
MARK = "<!-- table -->"
RAISED = re.compile(r"^[\w.]+(?:Error|Exception)\b.*", re.MULTILINE)
"""The line of a traceback that has the error, whose message may go on below."""


@dataclass
class Args:
    """Measure gradients, and print their table."""

    pairs: tuple[str, ...] = (*BRAX_PAIRS, *PLAYGROUND_PAIRS)
    """Pairs such as ant/spring."""
    out: Path = Path("runs/gradients")
    """Folder of the result files."""
    seconds: int = 3600
    """Time of each process."""
    page: Path | None = None
    """Page to write the table to, after its mark."""


def measure(pair: str, floats: str, seconds: int) -> dict[str, Any]:
    """Measure a pair in a process of its own, which may take some seconds."""
    environ = {"JAX_PLATFORMS": "cpu", **os.environ, "JAX_ENABLE_X64": "0"}
    environ["JAX_TRACEBACK_FILTERING"] = "off"  # so that an error is the last line
    if floats == "float64":
        flags = f"{environ.get('XLA_FLAGS', '')} {QUICKLY}"
        environ |= {"JAX_ENABLE_X64": "1", "XLA_FLAGS": flags}
        environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    command = [sys.executable, str(SCRIPT), *pair.split("/")]
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": seconds}
    try:
        done = subprocess.run(command, env=environ, check=False, **options)
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {seconds} s"}
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    raised = RAISED.findall(done.stderr) or [f"exit status {done.returncode}"]
    return {"failed": shorten(raised[-1], 300, placeholder=" …")}


def complete(pair: str, args: Args) -> dict[str, Any]:
    """Return the result of a pair; measure what its file lacks, and write it there."""
    path = args.out / f"{pair.replace('/', '-')}.json"
    result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"pair": pair}
    is_on_mjx = pair.endswith(("/mjx", "/playground"))
    for floats in ("float64",) if is_on_mjx else ("float32", "float64"):
        if floats not in result:
            result[floats] = measure(pair, floats, args.seconds)
            path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def main(args: Args) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    results = [complete(pair, args) for pair in tqdm(args.pairs)]
    table = make_table(sorted(results, key=lambda one: ("/playground" in one["pair"], one["pair"])))
    print(table)
    if args.page:
        before = args.page.read_text(encoding="utf-8").split(MARK)[0]
        args.page.write_text(f"{before}{MARK}\n{table}\n", encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Args))
