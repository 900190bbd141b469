"""Print which slow tests, and which legs of `.ci/run`, a change needs: one name a line.

Those are the ones that belong to what changed since the last commit on which everything ran, which
`.ci/full-run` names, and a fifth of the others: five runs with one commit more each meet all. With
the argument `full`, without git's history, and after a change of what everything depends on, they
are all.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

LEGS = ("gpu", "gymnasium", "wheel")
"""Legs of `.ci/run` that a change may need: the rehearsal of the GPU's tests, those in an
environment with gymnasium 1.2.2 (RLlib's too), and the wheel without extras."""

BELONGS = {
    "gymbridge/__": "wheel tests/test_imports.py",
    "gymbridge/brax/": "tests/brax tests/conformance",
    "gymbridge/command_line/": "tests/command_line wheel",
    "gymbridge/core/": "tests/conformance tests/faults gymnasium wheel",
    "gymbridge/core/arrays/": "tests/gradients gpu",
    "gymbridge/envpool/": "tests/envpool tests/conformance tests/faults",
    "gymbridge/errors.py": "tests/faults",
    "gymbridge/functional/": "tests/brax tests/functional tests/jax_env tests/gradients gpu",
    "gymbridge/gradients/": "tests/gradients tests/playground/test_gradients.py gpu",
    "gymbridge/jax_env/": "tests/jax_env tests/functional",
    "gymbridge/playground/": "tests/playground",
    "gymbridge/registration.py": "tests/command_line wheel",
    "gymbridge/single_env.py": "tests/conformance gymnasium",
    "gymbridge/state_envs/": "tests/brax tests/functional tests/playground tests/test_opengl.py",
    "gymbridge/testing/": "tests/checker tests/conformance",
    "gymbridge/trainers/": "tests/trainers",
    "gymbridge/trainers/rllib.py": "gymnasium",
    "gymbridge/version.py": "wheel",
    "gymbridge/wrappers.py": "tests/conformance",
    "docs/": "tests/test_docs.py",
    "examples/": "tests/test_examples.py tests/test_example_training.py tests/test_ppo_example.py "
    "tests/test_gradient_examples.py",
    "examples/benchmarks/": "tests/test_benchmarks.py",
    "examples/suites/": "tests/jax_env",
    "README.md": "tests/test_docs.py",
    "tests/gpu/": "gpu",
    "tests/trainers/test_rllib": "gymnasium",
}
"""What belongs to a changed file, by how its path begins. A file of tests belongs to itself, and
tests to a module of `tests/support/` that they import."""

ALL = ("setup.cfg", "pyproject.toml", "constraints", ".ci/run", ".ci/choose", "tests/conftest.py")
"""What everything depends on, by how its path begins."""

_IS_SLOW = re.compile(r"\bslow\b|needs_qt5|needs_opengl|\bcells\(")


def list_units() -> list[str]:
    """Return the files with slow tests, and the legs."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    slow = [file for file in files if _IS_SLOW.search(file.read_text(encoding="utf-8"))]
    return [*(str(file.relative_to(ROOT)) for file in slow), *LEGS]


def choose(units: list[str], changed: list[str], num_commits: int) -> list[str]:
    """Return the units that belong to changed files, and a fifth of the others."""
    if any(path.startswith(ALL) for path in changed):
        return units
    wanted = {path for path in changed if path.startswith("tests/")}
    for path in changed:
        for start, names in BELONGS.items():
            wanted |= set(names.split()) if path.startswith(start) else set()
        if path.startswith("tests/support/"):
            wanted |= {unit for unit in units if _imports(unit, Path(path).stem)}
    return [
        unit
        for place, unit in enumerate(units)
        if place % 5 == num_commits % 5 or any((unit + "/").startswith(f"{it}/") for it in wanted)
    ]


def _imports(unit: str, module: str) -> bool:
    file = ROOT / unit
    return file.is_file() and re.search(rf"\b{module}\b", file.read_text("utf-8")) is not None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Print the names."""
    chosen = units = list_units()
    if "full" not in sys.argv:
        try:
            last = (ROOT / ".ci" / "full-run").read_text(encoding="utf-8").strip()
            changed = _git("diff", "--name-only", last).splitlines()
            count = int(_git("rev-list", "--count", "HEAD"))
            chosen = choose(units, changed, count)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"everything is chosen: {error}", file=sys.stderr)
    print(*chosen, sep="\n")


if __name__ == "__main__":
    main()
