"""Every example runs once with a tiny budget, and leaves what it promises."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gymbridge.command_line import main
from tests.support.example_runs import (
    EXAMPLES,
    call_script,
    check_picture,
)

pytestmark = pytest.mark.long

ROOT = EXAMPLES.parent


class Run(NamedTuple):
    """One call of a script, or two where it plays the policy that it wrote."""

    script: str  # in `examples`, without .py
    flags: str  # as in a shell
    says: str  # regular expression, which the output has
    writes: str = ""  # names of files, with a blank between them
    policy: str = ""  # a file that `gymbridge rollout` plays afterwards, in this task:
    task: str = ""


FAST = '--env-id=Brax/fast-v0 --env-kwargs=\'{"backend": "spring", "max_episode_steps": 3}\''
TINY = "--total-steps=64 --num-envs=4 --num-steps=8"
CURVE = "progress.csv learning_curve.png"

QUICK = (
    Run(
        "ppo",
        f"{FAST} {TINY}",
        r"Brax/fast-v0: mean return \S+ after 16 ",
        CURVE,
        "policy.pt",
        "Brax/fast-v0",
    ),
    Run(
        "shac",
        f"{FAST} {TINY}",
        r"Brax/fast-v0: mean return \S+ after 20 ",
        "progress.csv",
        "policy.pt",
        "Brax/fast-v0",
    ),
    Run(
        "torchrl_ppo",
        "--env-id=EnvPool/HalfCheetah-v5 --total-steps=128 --num-envs=4 --epochs=1 --num-steps=32",
        r"EnvPool/HalfCheetah-v5: mean return ",
        "progress.csv",
        "policy.pt",
        "EnvPool/HalfCheetah-v5",
    ),
    Run(
        "rsl_rl_ppo",
        "--num-envs=4 --num-steps=256 --iterations=2 --final-values",
        "Wrote logs and policy.pt to ",
        "model_1.pt",
        "policy.pt",
        "EnvPool/Pendulum-v1",
    ),
    Run(
        "sb3_sac",
        "--env-id=Brax/fast-v0 --episode-steps=5 --total-steps=816 --eval-episodes=16",
        r"Brax/fast-v0: mean return \S+ before, \S+ after",
        "0.monitor.csv",
        "fast-v0_sac.zip",
        "Brax/fast-v0",
    ),
    Run(
        "planning",
        "--env-id=Brax/fast-v0 --num-envs=4 --horizon=2 --best=2 --steps=3",
        r"Brax/fast-v0, random: .*\nBrax/fast-v0, planned: ",
        "returns.png",
    ),
    Run(
        "open_loop",
        "--env-id=Brax/fast-v0 --num-envs=2 --num-steps=3 --iterations=2",
        r"Brax/fast-v0: mean cost \S+ before, \S+ after",
        "costs.png",
    ),
    Run(
        "self_play",
        "--total-steps=256 --num-envs=4 --num-steps=8 --games=8",
        r"Moving first: .* of 4 games\nMoving second: won \d, ",
    ),
)
"""Of the normal leg."""

SLOW = (
    Run(
        "ppo",
        f"--env-id=string_shape:String-v0 {TINY}",
        r"string_shape:String-v0: mean return ",
        CURVE,
    ),
    Run(
        "ppo",
        "--env-id=snake:Snake-v0 --arrays=torch --num-envs=4 --num-steps=16 --total-steps=128",
        r"snake:Snake-v0: mean return ",
        CURVE,
    ),
    Run(
        "domain_randomization",
        "--num-envs=4 --total-steps=64 --points=3 --episodes=2 --backend=spring --leaf=gravity "
        "--low=0.5 --high=2 --seeds 0",
        r"with: mean return \S+, worst factor ",
        "returns.csv returns.png policy_with_0.zip",
        "policy_without_0.zip",
        "Brax/inverted_pendulum-v0",
    ),
    Run(
        "curriculum",
        "--seeds=3 --total-steps=256 --num-envs=2 --episodes=2 --test-updates=1",
        r"without curriculum, seed 3: successes \S+%, mean return ",
        "curves.json curves.png policy_with_3.zip policy_without_3.zip",
    ),
    Run(
        "gradients/residuals",
        "--tasks inverted_pendulum/spring",
        r"\| inverted_pendulum/spring \| \S+ MB",
    ),
)
"""Of the slow leg."""


NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


def test_every_example__is_one_file_and_named_by_a_test():
    texts = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    for path in (*EXAMPLES.glob("*.py"), *EXAMPLES.glob("suites/*.py")):
        assert any(re.search(rf"\b{path.stem}\b", text) for text in texts), path
        siblings = "|".join(NAMES)
        assert not re.search(rf"^ *(from|import) ({siblings})\b", path.read_text("utf-8"), re.M)


def check_file(path: Path) -> None:
    """Check that a file is a whole picture or has rows."""
    if path.suffix == ".png":
        check_picture(path)
    elif path.suffix == ".csv":
        assert re.search(r"^[-\d]", path.read_text("utf-8"), re.MULTILINE)
    else:
        assert path.exists()


@pytest.mark.parametrize(
    "run",
    [*QUICK, *(pytest.param(run, marks=pytest.mark.slow) for run in SLOW)],
    ids=lambda run: run.script.replace("/", "-"),
)
def test_example__says_and_writes_what_it_promises(run, tmp_path):
    printed = call_script(run.script, *shlex.split(run.flags), cwd=tmp_path)
    assert re.search(run.says, printed.out), printed.out
    for name in run.writes.split():
        [path] = tmp_path.rglob(name)
        check_file(path)
    if run.policy:
        [policy] = tmp_path.rglob(run.policy)
        assert main(["rollout", run.task, "--steps=3", f"--policy={policy}"]) == 0


def test_compare_curves__draws_runs(tmp_path):
    for run in ("one", "other"):
        (tmp_path / "runs" / run).mkdir(parents=True)
        rows = "env_steps,seconds,mean_return\n64,1,-2\n128,2,-1\n"
        (tmp_path / "runs" / run / "progress.csv").write_text(rows, "utf-8")
    call_script("compare_curves", "--curves", "PPO=runs", cwd=tmp_path)
    check_picture(tmp_path / "runs" / "curves.png")


GALLERY = ROOT / "docs" / "gallery.md"


@pytest.mark.parametrize("name", NAMES)
def test_gallery__has_each_example_with_a_small_picture(name):
    assert f"![{name}](img/gallery/{name}.png) | **{name}.py**<br>" in GALLERY.read_text("utf-8")
    picture = GALLERY.parent / "img" / "gallery" / f"{name}.png"
    check_picture(picture)
    assert picture.stat().st_size < 60_000


@pytest.mark.parametrize(
    ("index", "task"), [(0, "CartPole-v1"), (1, "Pendulum-v1"), (2, "Pendulum-v1")]
)
def test_gallery__diffs_of_cleanrl_build_a_batch(index, task):
    page = (ROOT / "docs" / "how-to" / "trainers" / "cleanrl.md").read_text("utf-8")
    diff = re.findall(r"```diff\n(.*?)```", page, re.DOTALL)[index]
    lines = [line[1:] for line in diff.splitlines() if line.startswith("+")]
    names: dict[str, Any] = {
        "args": argparse.Namespace(env_id=f"EnvPool/{task}", num_envs=2, seed=1, gamma=0.99)
    }
    exec("\n".join(lines), names)
    observations, _ = names["envs"].reset(seed=1)
    assert len(observations) == 2
    names["envs"].close()
