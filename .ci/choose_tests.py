"""Print which slow tests, and which legs of `.ci/run`, a change needs: one name a line.

Those are the ones that belong to what changed since the last commit on which everything ran, which
`.ci/full-run` names, and a fifth of the others, by the number of commits: five runs with one commit
more each meet all. With the argument `full`, without all of git's history, and after a change of
what everything depends on, they are all.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

LEGS = ("gpu", "wheel", "gymnasium", "mjlab", "trainers")
"""Legs of `.ci/run` that a change may need: the rehearsal of the GPU's tests, those in
environments with gymnasium 1.2.2 (RLlib's too), with mjlab, and with trainers whose pins clash with
the others', and the wheel without extras. In this order the longest, gymnasium's, is in turn with
the fifth of the tests that takes least."""

_RENDERING = "tests/test_opengl.py tests/test_opengl_libraries.py"

BELONGS = {
    "gymbridge/__": "wheel tests/test_imports.py",
    "gymbridge/py.typed": "wheel",
    "gymbridge/version.py": "wheel",
    "gymbridge/brax/": "tests/brax tests/conformance",
    "gymbridge/command_line/": "tests/command_line wheel",
    "gymbridge/core/": "tests/conformance tests/core tests/faults gymnasium wheel",
    "gymbridge/core/arrays/": "tests/gradients gpu",
    "gymbridge/core/arrays/torch.py": "mjlab",
    "gymbridge/core/opengl.py": _RENDERING,
    "gymbridge/core/processes.py": "tests/test_processes.py tests/test_threads.py",
    "gymbridge/core/runner.py": "tests/test_soak.py",
    "gymbridge/envpool/": "tests/envpool tests/conformance tests/faults",
    "gymbridge/envpool/rendering.py": _RENDERING,
    "gymbridge/errors.py": "tests/faults",
    "gymbridge/gradients/": "tests/gradients tests/playground/test_gradients.py gpu",
    "gymbridge/jax_env/": "tests/brax tests/conformance tests/gradients tests/jax_env "
    "tests/playground tests/test_scaling.py gpu",
    "gymbridge/jax_env/rendering.py": _RENDERING,
    "gymbridge/jax_vector_env.py": "tests/brax tests/conformance tests/gradients tests/jax_env "
    "tests/playground gpu",
    "gymbridge/playground/": "tests/conformance tests/playground",
    "gymbridge/private/": "tests/brax tests/envpool tests/gradients tests/jax_env tests/playground "
    "tests/trainers",
    "gymbridge/engines.py": "tests/command_line wheel",
    "gymbridge/single_env.py": "tests/conformance tests/test_single_env.py gymnasium",
    "gymbridge/testing/": "tests/checker tests/conformance",
    "gymbridge/trainers/": "tests/trainers",
    "gymbridge/trainers/batches.py": "trainers",
    "gymbridge/trainers/rl_games.py": "trainers",
    "gymbridge/trainers/rllib.py": "gymnasium",
    "gymbridge/trainers/tianshou.py": "trainers",
    "gymbridge/wrappers/": "tests/wrappers tests/trainers/cleanrl",
    ".ci/run": "gpu gymnasium mjlab trainers wheel",  # slow tests do not depend on it
    "docs/": "tests/test_docs.py",
    "docs/how-to/scaling.md": "tests/test_scaling.py",
    "docs/how-to/trainers/": "trainers",
    "docs/scripts/": "tests/command_line/test_list.py",
    "examples/": "tests/test_examples.py tests/test_example_training.py tests/test_ppo_example.py "
    "tests/test_gradient_examples.py",
    "examples/benchmarks/": "tests/test_benchmarks.py tests/test_variants.py",
    "examples/ddp.py": "tests/test_scaling.py",
    "examples/engines/": "mjlab",
    "examples/gradients/": "tests/gradients/test_proof.py",
    "examples/suites/": "tests/jax_env",
    "README.md": "tests/test_docs.py",
    "tests/command_line/": "wheel",
    "tests/conformance/": "gymnasium wheel",
    "tests/core/": "gymnasium wheel",
    "tests/engines_apart/": "mjlab",
    "tests/gpu/": "gpu",
    "tests/trainers/cleanrl/": "gymnasium",
    "tests/trainers/others/": "trainers",
    "tests/trainers/test_rllib": "gymnasium",
    "tests/typed_script.py": "wheel",
}
"""What belongs to a changed file, by how its path begins. To a file of tests belongs its folder,
and to a module of `tests/support/` all that import it, directly or not."""

ALL = (
    *("setup.", "pyproject.toml", "constraints", "tests/conftest.py"),
    *("tests/support/gpu_runs.py", "tests/support/system_libraries.py"),
)
"""What everything depends on, by how its path begins."""

_IS_SLOW = re.compile(r"\bslow\b|needs_qt5|needs_opengl|\bcells\(")


def list_units() -> list[str]:
    """Return the files with slow tests, and the legs; one leg has files of its own."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    files = [file for file in files if file.parent.name != "others"]
    slow = [file for file in files if _IS_SLOW.search(file.read_text(encoding="utf-8"))]
    return [*(str(file.relative_to(ROOT)) for file in slow), *LEGS]


def choose(units: list[str], changed: list[str], num_commits: int) -> list[str]:
    """Return the units that belong to changed files, and a fifth of the others."""
    if any(path.startswith(ALL) for path in changed):
        return units
    wanted = set(importers := _list_importers(changed))
    for path in (*changed, *importers):
        for start, names in BELONGS.items():
            wanted |= set(names.split()) if path.startswith(start) else set()
    for path in changed:
        if path.startswith("tests/"):
            wanted.add(str(Path(path).parent) if path.count("/") > 1 else path)
    return [
        unit
        for place, unit in enumerate(units)
        if place % 5 == num_commits % 5 or any((unit + "/").startswith(f"{it}/") for it in wanted)
    ]


def _list_importers(changed: list[str]) -> list[str]:
    """Return the files of tests that import changed modules of `tests/support/`, even by others."""
    texts = {
        str(file.relative_to(ROOT)): file.read_text(encoding="utf-8")
        for file in (ROOT / "tests").rglob("*.py")
    }
    found: list[str] = []
    todo = [path for path in changed if path.startswith("tests/support/")]
    while todo:
        name = Path(todo.pop()).stem
        imports = re.compile(rf"tests\.support(\.{name}\b| import [^)]*\b{name}\b)")
        new = [path for path, text in texts.items() if imports.search(text) and path not in found]
        found += new
        todo += [path for path in new if path.startswith("tests/support/")]
    return found


def list_changed(last: str) -> list[str]:
    """Return the files that differ from a commit, and those that git does not know yet."""
    diff = _git("diff", "--name-only", "--no-renames", "-z", last, "--")
    others = _git("ls-files", "-z", "--others", "--exclude-standard")
    return [path for path in (diff + others).split("\0") if path]


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Print the names."""
    chosen = units = list_units()
    try:
        is_whole = _git("rev-parse", "--is-shallow-repository").strip() == "false"
        if is_whole and "full" not in sys.argv:
            last = (ROOT / ".ci" / "full-run").read_text(encoding="utf-8").strip()
            count = int(_git("rev-list", "--count", "HEAD"))
            chosen = choose(units, list_changed(last), count)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"everything is chosen: {error}", file=sys.stderr)
    print(*chosen, sep="\n")


if __name__ == "__main__":
    main()
