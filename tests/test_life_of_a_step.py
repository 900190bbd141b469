"""The page "Life of a step" names the files that actions pass, in order."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import pytest

import gymbridge

pytest.importorskip("brax.envs")

PACKAGE = Path(gymbridge.__file__).parent
PAGE = PACKAGE.parent / "docs/explanation/life-of-a-step.md"


def list_files(stack: traceback.StackSummary) -> list[str]:
    """Return the files of the package in a stack, each as often as the stack comes back to it."""
    paths = [Path(frame.filename) for frame in stack]
    names = [str(p.relative_to(PACKAGE)) for p in paths if p.is_relative_to(PACKAGE)]
    # `private/jax.py` is between two functions of `core/vector_env.py`, to lift a guard.
    names = [name for name in names if not name.startswith("private/")]
    return [name for name, after in zip(names, [*names[1:], ""], strict=True) if name != after]


def test_page__names_the_files_of_a_step_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    from brax.envs.fast import Fast

    from gymbridge.jax_env.engine_env import EngineEnv
    from gymbridge.jax_env.traced import TracedEnv

    stacks: dict[str, list[str]] = {}

    def note(owner: Any, name: str, key: str) -> None:
        method = getattr(owner, name)

        def call(*args: Any) -> Any:
            stacks[key] = list_files(traceback.extract_stack())
            return method(*args)

        monkeypatch.setattr(owner, name, call)

    note(Fast, "step", "engine")
    note(EngineEnv, "step", "translation")
    envs = gymbridge.BraxVectorEnv("fast", num_envs=2, autoreset_mode="SameStep")
    note(TracedEnv, "step", "trace")
    envs.reset(seed=0)
    envs.step(envs.action_space.sample())
    assert stacks["trace"] == [
        "core/vector_env.py",
        *("jax_env/runners.py", "core/episode.py", "jax_env/simulator.py"),
        *("jax_env/divergence.py", "jax_env/rows.py"),
    ]
    assert stacks["translation"][-1] == "jax_env/traced.py"
    assert stacks["engine"][-1] == "jax_env/engine_env.py"
    passed = [*stacks["trace"], "jax_env/traced.py", "jax_env/engine_env.py"]
    passed.insert(1, "core/actions.py")
    page = re.findall(r"^\| \d \| `(.*?)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert page == passed
    assert len({*page}) == len(page) == 9
