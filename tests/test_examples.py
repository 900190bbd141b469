"""Every example runs once with a tiny budget, and leaves what it promises."""

from __future__ import annotations

import argparse
import ast
import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.example_runs import (
    EXAMPLES,
    call_script,
    check_picture,
    load_script,
    read_table,
    run_script,
)

pytestmark = pytest.mark.long

ROOT = EXAMPLES.parent
PAGE = ROOT / "docs" / "how-to" / "domain-randomization.md"


class Run(NamedTuple):
    """One call of a script, or two where it plays the policy that it wrote."""

    script: str  # in `examples`, without .py
    flags: str  # as in a shell
    says: str  # regular expression, which the output has
    writes: str = ""  # names of files, with a blank between them
    policy: str = ""  # what `--evaluate` plays afterwards, which prints a mean return
    in_process: bool = True


FAST = '--env-id=Brax/fast-v0 --env-kwargs=\'{"backend": "spring", "max_episode_steps": 3}\''
TINY = "--total-steps=64 --num-envs=4 --num-steps=8 --eval-steps=4"
CURVE = "progress.csv learning_curve.png"

QUICK = (
    Run("ppo", f"{FAST} {TINY}", r"Brax/fast-v0: mean return \S+ after 16 ", CURVE, "policy.pt"),
    Run(
        "shac",
        f"{FAST} {TINY}",
        r"Brax/fast-v0: mean return \S+ over the last ",
        CURVE,
        "policy.pt",
    ),
    Run(
        "torchrl_ppo",
        "--env-id=EnvPool/HalfCheetah-v5 --total-steps=128 --num-envs=4 --epochs=1 --num-steps=32",
        r"EnvPool/HalfCheetah-v5: mean return ",
        CURVE,
        "policy.pt",
    ),
    Run(
        "rsl_rl_ppo",
        "--num-envs=4 --num-steps=256 --iterations=2 --final-values",
        r"EnvPool/Pendulum-v1: mean return -\d+\.\d+ over 4 episodes",
        f"{CURVE} model_1.pt",
        "policy.pt",
    ),
    Run(
        "sb3_ppo",
        "--num-envs=4 --eval-episodes=3 --total-steps=256",
        r"EnvPool/CartPole-v1: mean return \S+ \+- \S+ over 3 episodes",
        "CartPole-v1_ppo.png",
        "CartPole-v1_ppo.zip",
    ),
    Run(
        "sb3_sac",
        "--env-id=Brax/fast-v0 --episode-steps=5 --total-steps=816 --eval-episodes=16",
        r"Brax/fast-v0: mean return \S+ before, \S+ after",
        "fast-v0_sac.png",
        "fast-v0_sac.zip",
    ),
    Run(
        "record_video",
        "--train-steps=128 --num-envs=4 --steps=12 --size 320 240",
        r"Return \d+\.0 in \d+ steps; wrote ",
        "CartPole-v1.zip CartPole-v1.png CartPole-v1.gif CartPole-v1.mp4",
    ),
    Run(
        "partial_resets",
        "--env-id=Brax/fast-v0 --num-envs=2 --episodes=4 --max-episode-steps=9",
        r"Brax/fast-v0: mean return \S+ over 4 episodes",
        "episodes.csv lengths.png",
    ),
    Run(
        "planning",
        "--env-id=Brax/fast-v0 --num-envs=4 --horizon=2 --best=2 --steps=3",
        r"Brax/fast-v0, random: .*\nBrax/fast-v0, planned: ",
        "returns.png",
    ),
    Run(
        "functional_rollout",
        "--env-id=Brax/fast-v0 --num-envs=3 --num-steps=4 --rounds=2 --mode=SameStep",
        r"class: [\d,]+ steps/s, \d+ us\nlax\.scan: [\d,]+ steps/s, \d+ us\n",
        "rollouts.png",
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
        r"256 moves in \d+ s\nMoving first: .* of 4 games\nMoving second: won \d, ",
    ),
)
"""Of the normal leg."""

SLOW = (
    Run("custom_brax_env", TINY, r"Docking-v0: mean return ", CURVE, "policy.pt"),
    Run("playground_ppo", TINY, r"Playground/CartpoleBalance-v0: mean return ", CURVE, "policy.pt"),
    Run(
        "ppo",
        "--env-id=snake:Snake-v0 --arrays=torch --num-envs=4 --num-steps=16 --total-steps=128",
        r"snake:Snake-v0: mean return ",
        CURVE,
        "policy.pt",
    ),
    Run("ppo", f"--env-id=EnvPool/Pong-v5 {TINY}", r"EnvPool/Pong-v5: mean return ", CURVE),
    Run(
        "sb3_atari",
        "--num-envs=2 --num-steps=16 --total-steps=32 --eval-episodes=1 --max-episode-steps=10",
        r"EnvPool/Pong-v5: mean score \S+ \+- \S+ over 1 games",
        "Pong-v5_ppo.png",
        "Pong-v5_ppo.zip",
    ),
    Run(
        "domain_randomization",
        "--num-envs=4 --total-steps=64 --points=3 --episodes=2 --eval-steps=100 --backend=spring "
        "--leaf=gravity --low=0.5 --high=2 --margin=2 --seeds 0",
        r"with: mean return \S+, worst factor ",
        "returns.csv returns.png policy_with_0.pt policy_without_0.pt",
        "randomization",
    ),
    Run(
        "curriculum",
        "--seeds 3 --total-steps=256 --num-envs=2 --episodes=2 --test-updates=1",
        r"without curriculum, seed 3: successes \S+%, mean return ",
        "curves.json curves.png policy_with_3.pt policy_without_3.pt",
        "curriculum",
    ),
    Run("string_shape", "--seeds 1 --max-seconds=1", "", "curves.png"),
    Run(
        "soak",
        "--env-ids EnvPool/CartPole-v1 Brax/fast-v0 --steps=1500 --modes=SameStep --arrays=numpy",
        r"\| Brax/fast-v0, 256 environments, SameStep, numpy \| 1,500 \| .* \| 0 \| yes \| yes \|",
        "soak.json",
        in_process=False,
    ),
    Run(
        "gradients/residuals", "inverted_pendulum/spring", r"\| inverted_pendulum/spring \| \S+ MB"
    ),
)
"""Of the slow leg."""


def is_script(path: Path) -> bool:
    """Tell whether a file of `examples` is for a user to run or to register, and no part."""
    return 'if __name__ == "__main__":' in path.read_text("utf-8") or path.parent.name == "suites"


def test_every_script__is_named_by_a_test():
    texts = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    for path in filter(is_script, EXAMPLES.rglob("*.py")):
        assert any(re.search(rf"\b{path.stem}\b", text) for text in texts), path


def check_file(path: Path) -> None:
    """Check that a file is a whole picture or has rows."""
    if path.suffix == ".png":
        check_picture(path)
    elif path.suffix == ".csv":
        assert len(read_table(path)) > 0
    else:
        assert path.exists()


@pytest.mark.parametrize(
    "run",
    [*QUICK, *(pytest.param(run, marks=pytest.mark.slow) for run in SLOW)],
    ids=lambda run: run.script.replace("/", "-"),
)
def test_example__says_and_writes_what_it_promises(run, tmp_path):
    call = call_script if run.in_process else run_script
    flags = shlex.split(run.flags)
    printed = call(run.script, *flags, cwd=tmp_path)
    assert re.search(run.says, printed.out), printed.out
    for name in run.writes.split():
        [path] = tmp_path.rglob(name)
        check_file(path)
    if run.policy:
        [policy] = tmp_path.rglob(run.policy)
        line = call(run.script, *flags, f"--evaluate={policy}", cwd=tmp_path).lines[-1]
        assert re.search(r"mean (return|score) -?\d|no episode ended", line)


SLOW_IMPORTS = (
    *("brax", "envpool", "gymbridge", "gymnasium", "jax", "matplotlib", "moviepy", "numpy", "ray"),
    *("rsl_rl", "stable_baselines3", "torch", "torchrl", "tqdm"),
)
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if is_script(path))


def siblings(name: str) -> set[str]:
    """Return the files of `examples` that a script imports, also by way of others."""
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text("utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    found = {node.module.replace(".", "/") for node in nodes if node.module}
    ours = {module for module in found if (EXAMPLES / f"{module}.py").exists()}
    return ours.union(*map(siblings, ours))


@pytest.fixture(params=NAMES)
def copied(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of an example with what it says to copy, where no library can be imported."""
    text = ast.get_docstring(ast.parse((EXAMPLES / f"{request.param}.py").read_text("utf-8")))
    assert text is not None
    for name in (request.param, *siblings(request.param)):
        assert name == request.param or f"`{name}.py`" in text
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(EXAMPLES / f"{name}.py", tmp_path / f"{name}.py")
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in SLOW_IMPORTS:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("LOCAL_RANK", "0")  # of torchrun
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / f"{request.param}.py"


def test_copy__explains_its_flags_and_names_the_libraries_that_it_lacks(copied, monkeypatch):
    parsers, parse = [], argparse.ArgumentParser.parse_args

    def note(parser: argparse.ArgumentParser, *args: Any) -> Any:
        parsers.append(parser)
        return parse(parser, *args)

    needed = ["--curve", "a", "b"] if copied.stem == "compare_curves" else []
    monkeypatch.setattr(sys, "argv", [str(copied), *needed])
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", note)
    with pytest.raises(SystemExit, match=r"^.* in a checkout of gymbridge: pip install '\.\[.*\]'"):
        runpy.run_path(str(copied), run_name="__main__")
    assert [action.dest for action in parsers[0]._actions if not action.help] == []


@pytest.mark.slow
def test_page__has_the_leaves_that_the_script_prints_and_names_those_that_act(
    tmp_path, monkeypatch, capsys
):
    module, page = load_script(EXAMPLES / "physics_leaves.py"), PAGE.read_text("utf-8")
    acting = module.backends_by_leaf("hopper")
    monkeypatch.setattr(module, "backends_by_leaf", lambda name: acting)
    monkeypatch.setattr(sys, "argv", ["physics_leaves.py"])
    monkeypatch.chdir(tmp_path)
    module.main()
    printed = capsys.readouterr().out.splitlines()
    table = page.split("<!-- leaves of hopper -->")[1].strip().split("\n\n")[0]
    assert table.splitlines() == [line for line in printed if line.startswith("|")]
    check_picture(tmp_path / "runs" / "physics_leaves" / "hopper.png")
    text = page.split("## Which leaves act")[1]
    header, _, *rows = text.strip().split("\n\n")[1].splitlines()
    for row in rows:
        for backends, cell in zip(header.split("|")[2:-1], row.split("|")[2:-1], strict=True):
            for name in re.findall(r"`([^`]+)`", cell):
                found = [backend.rstrip("*") for backend in acting[name]]
                named = [name.strip() for name in backends.split(",") if "Playground" not in name]
                assert set(named) <= set(found), name


GALLERY = ROOT / "docs" / "gallery.md"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "soak"])
def test_gallery__has_each_example_with_a_small_picture(name):
    assert f"![{name}](img/gallery/{name}.png) | **{name}.py**<br>" in GALLERY.read_text("utf-8")
    picture = GALLERY.parent / "img" / "gallery" / f"{name}.png"
    check_picture(picture)
    assert picture.stat().st_size < 60_000


@pytest.mark.parametrize(
    ("index", "task"), [(0, "CartPole-v1"), (1, "Pendulum-v1"), (2, "Pendulum-v1")]
)
def test_gallery__diffs_of_cleanrl_build_a_batch(index, task):
    diff = re.findall(r"```diff\n(.*?)```", GALLERY.read_text("utf-8"), re.DOTALL)[index]
    lines = [line[1:] for line in diff.splitlines() if line.startswith("+")]
    names: dict[str, Any] = {
        "args": argparse.Namespace(env_id=f"EnvPool/{task}", num_envs=2, seed=1, gamma=0.99)
    }
    exec("\n".join(lines), names)
    observations, _ = names["envs"].reset(seed=1)
    assert len(observations) == 2
    names["envs"].close()
