"""The examples that train reach the returns that they promise, as a user runs them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from PIL import Image

from gymbridge.command_line import main
from tests.support.example_runs import call_script, check_picture, read_table, run_script

pytestmark = [pytest.mark.slow, pytest.mark.long]

MEAN = r"mean return ([-\d.]+)"
PENDULUM = "--env-id=Brax/inverted_pendulum-v0"


@pytest.mark.parametrize(
    ("name", "flags", "reached", "bar"),
    [
        ("ppo", f"{PENDULUM} --arrays=torch --target-return=900", rf"{MEAN} after", 900),
        ("ppo", "--env-id=EnvPool/CartPole-v1 --target-return=475", rf"{MEAN} after", 475),
        ("torchrl_ppo", "", MEAN, 800),
        (
            "curriculum",
            "--seeds=1 --total-steps=160000",
            r"with curriculum.* successes ([\d.]+)%",
            90,
        ),
        # Each of at most 50 steps earns 1.
        ("sb3_sac", f"{PENDULUM} --total-steps=4000", r"before, ([\d.]+) after", 40),
        # Actions of 0 earn -22.6.
        ("shac", "--target-return=-18", rf"{MEAN} after", -18),
        ("planning", "--steps=40", r"planned: .* in (\d+) steps", 40),
    ],
)
def test_example__reaches_its_bar(name, flags, reached, bar, tmp_path):
    printed = run_script(name, *flags.split(), cwd=tmp_path)
    found = re.findall(reached, printed.out)
    assert float(found[-1]) >= bar


def test_rsl_rl_ppo__writes_a_policy_that_reaches_its_bar(tmp_path, capsys):
    run_script("rsl_rl_ppo", cwd=tmp_path)
    [policy] = tmp_path.rglob("policy.pt")
    flags = ("--episodes=32", f"--policy={policy}")
    assert main(["rollout", "EnvPool/Pendulum-v1", "--json", *flags]) == 0
    assert json.loads(capsys.readouterr().out)["mean_return"] >= -450


def test_system_identification__recovers_mass_and_friction(tmp_path):
    call_script("system_identification", "--num-envs=4", "--iterations=100", cwd=tmp_path)
    folder = tmp_path / "runs" / "system_identification"
    table = read_table(folder / "factors.csv")
    for name in ("mass", "friction"):
        assert table[f"fitted_{name}"] == pytest.approx(table[f"true_{name}"], rel=0.05)
        assert np.ptp(table[f"true_{name}"]) > 0.3, "the truths are alike"
    check_picture(folder / "fit.png")


@pytest.mark.needs_opengl
def test_ilqr__finds_better_actions(tmp_path):
    """In 12 of its 57 iterations, with a shorter plan: the pole swings, and does not stand yet."""
    sizes = ("--steps=150", "--iterations=12", "--hold=2", "--video")
    printed = run_script("ilqr", *sizes, cwd=tmp_path)
    begun, reached = map(float, re.search(r"Cost (\S+) -> (\S+) in", printed.out).groups())
    assert reached < 0.9 * begun
    check_picture(tmp_path / "runs" / "ilqr" / "trajectory.png")
    with Image.open(tmp_path / "runs" / "ilqr" / "swing_up.gif") as video:
        assert (video.size, video.n_frames) == ((240, 180), 31)
