"""`gymbridge bench`: what is timed, and what is said of it."""

from __future__ import annotations

import json
import time
from itertools import groupby
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gymbridge.command_line import main
from gymbridge.command_line.bench import draw_actions, make_bare_step, make_step
from gymbridge.command_line.timing import measure_rates, spread

CARTPOLE = ("bench", "EnvPool/CartPole-v1", "--num-envs=2", "--seconds=0.05")


def test_bench__compares_the_batch_with_its_engine(capsys: Any) -> None:
    pytest.importorskip("envpool.registration")
    assert main(CARTPOLE) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "EnvPool/CartPole-v1: 2 environments, NextStep, numpy arrays on cpu"
    assert [line.split()[0] for line in lines[4:]] == ["gymbridge", "engine"]
    assert "over engine" in lines[3]
    assert max(map(len, lines)) <= 80


def test_bench__says_what_it_does_and_on_which_devices(capsys: Any) -> None:
    pytest.importorskip("brax.envs")
    flags = ("--num-envs=4", "--kwarg=device=cpu:all", "--seconds=0.05", "--json")
    assert main(["bench", "Brax/fast-v0", *flags]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found["device"] == "cpu, cpu:1"
    assert found["steps_per_second"].keys() == {"gymbridge", "engine"}
    said = printed.err.replace("gymbridge bench: ", "").splitlines()
    assert [line for line in said if not line.startswith("Compiling ")] == [
        "Building Brax/fast-v0 with 4 environments.",
        "Warming up gymbridge.",
        "Warming up engine.",
        "Measuring 10 rounds.",
    ]
    for function in ("reset", "step"):
        assert said.count(f"Compiling the engine's own {function}.") == 1


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("SameStep", "numpy"), ("Disabled", "torch"), ("NextStep", "jax")],
)
def test_bench__prints_json(mode: str, kind: str, capsys: Any) -> None:
    pytest.importorskip("envpool.registration")
    pytest.importorskip(kind)
    keywords = (f"autoreset_mode={mode}", f"arrays={kind}", "max_episode_steps=3")
    assert main([*CARTPOLE, "--json", *(f"--kwarg={one}" for one in keywords)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mode"] == mode
    assert found["arrays"] == kind
    rates = found["steps_per_second"]
    assert rates.keys() == {"gymbridge", "engine"}
    assert all(0 < rate["low"] <= rate["median"] <= rate["high"] for rate in rates.values())
    assert found["share_of_engine"]["engine"] == {"median": 1, "low": 1, "high": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "flags"),
    [
        ("Brax/inverted_pendulum-v0", ["--kwarg=arrays=jax", "--kwarg=action_repeat=3"]),
        ("Playground/CartpoleBalance-v0", []),
        ("EnvPool/Hopper-v5", []),
    ],
)
def test_bench__runs_every_engine(env_id: str, flags: list[str], capsys: Any) -> None:
    pytest.importorskip("mujoco_playground")
    pytest.importorskip("envpool.registration")
    assert main(["bench", env_id, "--num-envs=2", "--seconds=0.05", "--json", *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["steps_per_second"].keys() == {"gymbridge", "engine"}


def test_bare_step__is_the_engine_s_own() -> None:
    """The same task, threads and limit: it ends in the same step, and begins again."""
    pytest.importorskip("envpool.registration")
    envs = gym.make_vec("EnvPool/MountainCar-v0", num_envs=3, max_episode_steps=4, num_threads=2)
    step = make_bare_step(envs, draw_actions(envs))
    rewards = np.array([step(index) for index in range(6)])
    assert rewards.tolist() == [[-1] * 3] * 4 + [[0] * 3] + [[-1] * 3]
    envs.close()


def test_disabled_batch__begins_anew_where_it_ends() -> None:
    pytest.importorskip("envpool.registration")
    envs = gym.make_vec(
        "EnvPool/CartPole-v1", num_envs=2, max_episode_steps=2, autoreset_mode="Disabled"
    )
    step = make_step(envs, draw_actions(envs))
    assert [step(index).tolist() for index in range(5)] == [[1, 1]] * 5
    envs.close()


def test_rates__are_of_each_round_and_each_function() -> None:
    calls: list[str] = []

    def make(name: str, seconds: float) -> Any:
        def step(index: int) -> list[float]:
            calls.append(name)
            time.sleep(seconds)
            return [0.0]

        return step

    rates = measure_rates({"slow": make("slow", 4e-3), "quick": make("quick", 1e-3)}, 0.12, 3)
    assert [len(found) for found in rates.values()] == [3, 3]
    assert max(rates["slow"]) <= 250
    assert max(rates["quick"]) <= 1000
    turns = [name for name, _ in groupby(calls)]
    assert turns[-6:] == ["slow", "quick"] * 3  # after warming up


def test_spread__is_the_median_and_the_deciles() -> None:
    assert spread([*range(11)]) == {"median": 5, "low": 1, "high": 9}
