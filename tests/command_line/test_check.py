"""`gymbridge check`."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gymbridge.command_line import main

ARGUMENTS = ("check", "EnvPool/CartPole-v1", "--kwarg=max_episode_steps=10", "--steps=60")
SAME_STEP = ('--kwarg=vector_kwargs={"autoreset_mode": "SameStep"}',)


@pytest.fixture
def _envpool() -> None:
    pytest.importorskip("envpool.registration")


@pytest.mark.usefixtures("_envpool")
def test_check__prints_a_table(capsys: Any) -> None:
    assert main([*ARGUMENTS, "--kwarg=autoreset_mode=Disabled", "--num-envs=3"]) == 0
    printed, said = capsys.readouterr()
    assert "num_envs=3" in printed
    assert "0 broken" in printed
    assert "held        final-observation" in printed
    what = "Checking EnvPool/CartPole-v1, 3 environments, in runs of at most 60 steps."
    assert said == f"gymbridge check: {what}\n"


def test_check__says_how_far_it_is(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gymbridge.command_line.output.QUIET", 0.0)
    assert main(["check", "Acrobot-v1", *SAME_STEP, "--steps=2"]) == 0
    said = capsys.readouterr().err
    assert "gymbridge check: The first run of 2: 1 steps taken, about" in said
    assert re.search(r"^gymbridge check: Test \d+ of \d+, neighbours: \d+ steps", said, re.M)


@pytest.mark.usefixtures("_envpool")
def test_check__prints_json(capsys: Any) -> None:
    assert main([*ARGUMENTS, "--json", "--seed=5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["mode"], found["seed"]) == ("NextStep", 5)
    assert found["results"][0]["evidence"]["expected"] == "a VectorEnv"


def test_check__takes_any_id_and_exits_with_1_where_rules_are_broken(capsys: Any) -> None:
    assert main(["check", "CartPole-v1", "--steps=60"]) == 1
    assert "broken      close" in capsys.readouterr().out
