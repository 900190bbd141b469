"""`gymbridge check`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gymbridge.command_line import main

ARGUMENTS = ("check", "EnvPool/CartPole-v1", "--kwarg=max_episode_steps=10", "--steps=60")


@pytest.fixture
def _envpool() -> None:
    pytest.importorskip("envpool.registration")


@pytest.mark.usefixtures("_envpool")
def test_check__prints_a_table(capsys: Any) -> None:
    assert main([*ARGUMENTS, "--mode=Disabled", "--num-envs=3"]) == 0
    printed, said = capsys.readouterr()
    assert "num_envs=3" in printed
    assert "0 broken" in printed
    assert "held        final-observation" in printed
    what = "checking EnvPool/CartPole-v1, 3 environments, in runs of at most 60 steps."
    assert said == f"gymbridge check: {what}\n"


@pytest.mark.usefixtures("_envpool")
def test_check__prints_json(capsys: Any) -> None:
    assert main([*ARGUMENTS, "--json", "--seed=5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["mode"], found["seed"]) == ("NextStep", 5)
    assert found["results"][0]["evidence"]["expected"] == "a VectorEnv"


def test_check__takes_any_id_and_exits_with_1_where_rules_are_broken(capsys: Any) -> None:
    assert main(["check", "CartPole-v1", "--steps=60"]) == 1
    assert "broken      close" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.*Using the latest versioned")
@pytest.mark.parametrize("env_id", ["gymbridge:EnvPool/CartPole-v1", "Acrobot"])
def test_check__gives_the_mode_to_ids_with_a_module_or_without_a_version(
    env_id: str, capsys: Any
) -> None:
    if ":" in env_id:
        pytest.importorskip("envpool.registration")
    assert main(["check", env_id, "--mode=SameStep", "--steps=20"]) == 0
    assert "SameStep" in capsys.readouterr().out


@pytest.mark.usefixtures("_envpool")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["EnvPool/CartPole-v1", "--kwarg=array=torch"], "array"),
        (["EnvPool/CartPole-v1", "--kwarg=limit"], "KEY=VALUE"),
        (["EnvPool/CartPole-v1", "--kwarg=max_episode_steps=0"], "max_episode_steps"),
    ],
)
def test_check__exits_with_2_where_nothing_can_be_built(
    arguments: list[str], text: str, capsys: Any
) -> None:
    assert main(["check", *arguments]) == 2
    assert text in capsys.readouterr().err
