"""The scripts on Playground, randomised physics and pure functions run as a new user runs them."""

from __future__ import annotations

import inspect
import re
import sys

import numpy as np
import pytest

from tests.support.example_runs import (
    EXAMPLES,
    call_script,
    check_picture,
    load_script,
    read_table,
    run_script,
)

PAGE = EXAMPLES.parent / "docs" / "how-to" / "domain-randomization.md"


@pytest.mark.slow
def test_custom_brax_env__trains_and_writes_its_results(tmp_path):
    sizes = ("--num-envs=4", "--total-steps=512", "--eval-steps=2")
    lines = call_script("custom_brax_env", *sizes, cwd=tmp_path).lines
    assert lines[-1].startswith("Docking-v0: mean return ")
    folder = tmp_path / "runs" / "Docking-v0"
    assert read_table(folder / "progress.csv")["env_steps"].tolist() == [256, 512]
    check_picture(folder / "learning_curve.png")


def test_custom_brax_env__ends_where_it_docks_and_where_it_is_lost():
    module = load_script(EXAMPLES / "custom_brax_env.py")
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


def test_functional_rollout__prints_both_throughputs(tmp_path):
    sizes = ("--num-envs=3", "--num-steps=4", "--rounds=2", "--mode=SameStep")
    lines = call_script("functional_rollout", "--env-id=Brax/fast-v0", *sizes, cwd=tmp_path).lines
    assert re.fullmatch(r"class: [\d,]+ steps/s, \d+ us", lines[0])
    assert re.fullmatch(r"lax\.scan: [\d,]+ steps/s, \d+ us", lines[1])
    assert lines[3].startswith("Brax/fast-v0: the scan takes ")
    check_picture(tmp_path / "runs" / "Brax" / "fast-v0" / "rollouts.png")


@pytest.mark.slow
def test_domain_randomization__compares_two_policies_over_the_range(tmp_path):
    sizes = ("--num-envs=4", "--total-steps=256", "--points=3", "--episodes=2", "--eval-steps=100")
    flags = ("--backend=spring", "--leaf=gravity", "--low=0.5", "--high=2", "--margin=2")
    flags = (*flags, "--seeds", "0", "1")
    call_script("domain_randomization", *sizes, *flags, cwd=tmp_path)
    folder = tmp_path / "runs" / "Brax" / "inverted_pendulum-v0" / "randomization"
    played = f"--evaluate={folder}"
    call_script("domain_randomization", *sizes, *flags, played, "--out=again", cwd=tmp_path)
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
    call_script("system_identification", "--num-envs=4", "--iterations=100", cwd=tmp_path)
    folder = tmp_path / "runs" / "system_identification"
    table = read_table(folder / "factors.csv")
    for name in ("mass", "friction"):
        assert table[f"fitted_{name}"] == pytest.approx(table[f"true_{name}"], rel=0.05)
        assert np.ptp(table[f"true_{name}"]) > 0.3, "the truths are alike"
    check_picture(folder / "fit.png")


@pytest.mark.slow
def test_ilqr__finds_better_actions(tmp_path):
    """In 12 of its 57 iterations, with a shorter plan: the pole swings, and does not stand yet."""
    sizes = ("--steps=150", "--iterations=12", "--hold=2")
    first, second, _ = run_script("ilqr", *sizes, cwd=tmp_path).lines[-3:]
    begun, reached = map(float, re.match(r"Cost (\S+) -> (\S+) in", first).groups())
    assert reached < 0.9 * begun
    assert re.fullmatch(r"Return \d+\.\d of at most 152; upright in \d+%", second)
    check_picture(tmp_path / "runs" / "ilqr" / "trajectory.png")


@pytest.mark.slow
def test_playground_ppo__trains_and_writes_its_curve(tmp_path):
    sizes = ("--num-envs=4", "--num-steps=8", "--total-steps=64", "--eval-steps=3")
    lines = call_script("playground_ppo", *sizes, cwd=tmp_path).lines
    assert lines[-1].startswith("Playground/CartpoleBalance-v0: mean return ")
    folder = tmp_path / "runs" / "Playground" / "CartpoleBalance-v0"
    assert read_table(folder / "progress.csv")["env_steps"].tolist() == [32, 64]
    check_picture(folder / "learning_curve.png")


@pytest.mark.slow
def test_page__has_the_leaves_that_the_script_prints_and_names_those_that_act(
    tmp_path, monkeypatch, capsys
):
    module, page = load_script(EXAMPLES / "physics_leaves.py"), PAGE.read_text(encoding="utf-8")
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


def test_suites_benchmark__prints_its_rows(tmp_path, monkeypatch, capsys):
    pytest.importorskip("jumanji")
    module = load_script(EXAMPLES / "benchmarks" / "suites_step.py")
    monkeypatch.chdir(tmp_path)  # the results go to its folder `runs`
    monkeypatch.setattr(module, "NUM_ENVS", 2)
    rows = module.measure("2048", module.jumanji_steps, 4, {"count": 1, "rounds": 1})
    module.print_table(rows)
    assert [row.bar for row in rows] == [None, 1.5] * 2
    assert capsys.readouterr().out.count("\n| ") == 5


@pytest.mark.slow
def test_snake__is_trained_by_its_id(tmp_path):
    pytest.importorskip("jumanji")
    sizes = ("--num-envs=4", "--num-steps=16", "--total-steps=128", "--eval-steps=20")
    flags = ("--env-id=snake:Snake-v0", "--arrays=torch", f"--out={tmp_path}")
    printed = call_script("ppo", *flags, *sizes, cwd=tmp_path)
    assert (tmp_path / "policy.pt").exists()
    assert "mean return" in printed.out + printed.log


@pytest.mark.slow
def test_randomization_benchmark__prints_its_rows(tmp_path, monkeypatch, capsys):
    module = load_script(EXAMPLES / "benchmarks" / "randomization_step.py")
    monkeypatch.chdir(tmp_path)  # the results go to its folder `runs`
    monkeypatch.setattr(module, "TASK", "hopper")  # which compiles in half the time
    monkeypatch.setattr(module, "NUM_ENVS", 2)
    monkeypatch.setattr(module, "SCAN_STEPS", 3)
    budget = {"count": 1, "rounds": 1}
    rows = [*module.randomization_rows(budget), *module.playground_rows(budget)]
    module.print_table([*rows, module.functional_row(budget)])
    assert [row.bar for row in rows] == [1.10, None, 1.12, 1.12]
    assert capsys.readouterr().out.count("\n| ") == 6
