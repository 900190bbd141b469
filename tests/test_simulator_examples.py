"""The scripts on Playground, randomised physics and pure functions run as a new user runs them."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("brax")
pytest.importorskip("matplotlib")
pytest.importorskip("torch")
pytest.importorskip("tqdm")

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "how-to" / "simulators.md"


def run_script(name: str, *arguments: str, cwd: Path) -> list[str]:
    """Return the lines that a script prints."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def load(path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a script as a module, with its own folder on the path, as when it runs."""
    monkeypatch.syspath_prepend(path.parent)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


def read_table(path: Path) -> np.ndarray:
    return np.genfromtxt(path, delimiter=",", names=True, ndmin=1)


def check_picture(path: Path) -> None:
    picture = path.read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert picture.rstrip().endswith(b"IEND\xaeB`\x82")


@pytest.mark.slow
def test_custom_brax_env__trains_and_writes_its_results(tmp_path):
    sizes = ("--num-envs=4", "--total-steps=512", "--eval-steps=2")
    lines = run_script("custom_brax_env", *sizes, cwd=tmp_path)
    assert lines[-1].startswith("Docking-v0: mean return ")
    folder = tmp_path / "runs" / "Docking-v0"
    assert read_table(folder / "progress.csv")["env_steps"].tolist() == [256, 512]
    check_picture(folder / "learning_curve.png")


def test_custom_brax_env__ends_where_it_docks_and_where_it_is_lost(monkeypatch):
    module = load(EXAMPLES / "custom_brax_env.py", monkeypatch)
    assert len(inspect.getsource(module.Docking).splitlines()) <= 60
    envs = module.BraxVectorEnv(module.Docking(), 8)
    obs, _ = envs.reset(seed=0)
    ends = np.zeros(8)
    for _ in range(80):
        towards = obs["dock"] - obs["craft"][:, :2] - 2 * obs["craft"][:, 2:]
        towards[4:] = 1.0
        obs, rewards, terminations, _, _ = envs.step(np.clip(towards, -1, 1).astype(np.float32))
        ends = np.where((ends == 0) & terminations, rewards, ends)
    assert (ends[:4] > 9).all(), "steering to the dock does not end there"
    assert (ends[4:] < -9).any(), "full thrust is not lost"


@pytest.mark.parametrize("mode", ["NextStep", pytest.param("SameStep", marks=pytest.mark.slow)])
def test_functional_rollout__prints_both_throughputs(tmp_path, mode):
    sizes = ("--num-envs=3", "--num-steps=4", "--rounds=2", f"--mode={mode}")
    lines = run_script("functional_rollout", "--env-id=Brax/fast-v0", *sizes, cwd=tmp_path)
    assert re.fullmatch(r"class: [\d,]+ steps/s, \d+ us", lines[0])
    assert re.fullmatch(r"lax\.scan: [\d,]+ steps/s, \d+ us", lines[1])
    assert lines[3].startswith("Brax/fast-v0: the scan takes ")
    check_picture(tmp_path / "runs" / "Brax" / "fast-v0" / "rollouts.png")


@pytest.mark.slow
def test_domain_randomization__compares_two_policies_over_the_range(tmp_path):
    sizes = ("--num-envs=4", "--total-steps=256", "--points=3", "--episodes=2", "--eval-steps=100")
    flags = ("--backend=spring", "--leaf=gravity", "--low=0.5", "--high=2", "--margin=2")
    flags = (*flags, "--seeds", "0", "1")
    run_script("domain_randomization", *sizes, *flags, cwd=tmp_path)
    folder = tmp_path / "runs" / "Brax" / "inverted_pendulum-v0" / "randomization"
    played = f"--evaluate={folder}"
    run_script("domain_randomization", *sizes, *flags, played, "--out=again", cwd=tmp_path)
    assert not [*(tmp_path / "again").glob("*.pt")], "it trained again"
    assert (tmp_path / "again" / "returns.csv").read_text() == (folder / "returns.csv").read_text()
    table = read_table(folder / "returns.csv")
    assert table["factor"].tolist() == pytest.approx([0.25, 1.0, 4.0])
    assert (table["with_mean"] >= 1).all()
    assert (table["without_lowest"] <= table["without_highest"]).all()
    assert (table["without_lowest"] < table["without_highest"]).any()
    assert sorted(path.name for path in folder.glob("*.pt")) == [
        f"policy_{name}_{seed}.pt" for name in ("with", "without") for seed in (0, 1)
    ]
    check_picture(folder / "returns.png")


@pytest.mark.slow
def test_system_identification__recovers_mass_and_friction(tmp_path):
    run_script("system_identification", "--num-envs=4", "--iterations=100", cwd=tmp_path)
    folder = tmp_path / "runs" / "system_identification"
    table = read_table(folder / "factors.csv")
    for name in ("mass", "friction"):
        assert table[f"fitted_{name}"] == pytest.approx(table[f"true_{name}"], rel=0.05)
        assert np.ptp(table[f"true_{name}"]) > 0.3, "the truths are alike"
    check_picture(folder / "fit.png")


@pytest.mark.slow
def test_playground_ppo__trains_and_writes_its_curve(tmp_path):
    pytest.importorskip("mujoco_playground")
    sizes = ("--num-envs=4", "--num-steps=8", "--total-steps=64", "--eval-steps=3")
    lines = run_script("playground_ppo", *sizes, cwd=tmp_path)
    assert lines[-1].startswith("Playground/CartpoleBalance-v0: mean return ")
    folder = tmp_path / "runs" / "Playground" / "CartpoleBalance-v0"
    assert read_table(folder / "progress.csv")["env_steps"].tolist() == [32, 64]
    check_picture(folder / "learning_curve.png")


@pytest.mark.slow
def test_page__has_the_leaves_that_the_script_prints(tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    printed = run_script("physics_leaves", cwd=tmp_path)
    table = page.split("<!-- leaves of hopper -->")[1].strip().split("\n\n")[0]
    assert table.splitlines() == [line for line in printed if line.startswith("|")]
    check_picture(tmp_path / "runs" / "physics_leaves" / "hopper.png")


@pytest.mark.slow
def test_page__names_leaves_that_act_in_the_backend(monkeypatch):
    module = load(EXAMPLES / "physics_leaves.py", monkeypatch)
    acting = module.backends_by_leaf("hopper")
    text = PAGE.read_text(encoding="utf-8").split("### Which leaves act")[1]
    header, _, *rows = text.strip().split("\n\n")[1].splitlines()
    for row in rows:
        for backends, cell in zip(header.split("|")[2:-1], row.split("|")[2:-1], strict=True):
            for name in re.findall(r"`([^`]+)`", cell):
                found = [backend.rstrip("*") for backend in acting[name]]
                named = [name.strip() for name in backends.split(",") if "Playground" not in name]
                assert set(named) <= set(found), name


@pytest.mark.slow
def test_randomization_benchmark__prints_its_rows(tmp_path, monkeypatch, capsys):
    pytest.importorskip("mujoco_playground")
    module = load(EXAMPLES / "benchmarks" / "randomization_step.py", monkeypatch)
    monkeypatch.chdir(tmp_path)  # the results go to its folder `runs`
    monkeypatch.setattr(module, "NUM_ENVS", 2)
    monkeypatch.setattr(module, "SCAN_STEPS", 3)
    budget = {"count": 1, "rounds": 1}
    rows = [*module.randomization_rows(budget), *module.playground_rows(budget)]
    module.print_table([*rows, module.functional_row(budget)])
    assert [row.bar for row in rows] == [1.10, None, 1.12, 1.12]
    assert capsys.readouterr().out.count("\n| ") == 6
