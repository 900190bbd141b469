"""`make_atari_env` against Stable-Baselines3's own, which runs ALE, on the same games."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common import env_util
from stable_baselines3.common.atari_wrappers import AtariWrapper
from stable_baselines3.common.monitor import load_results

from gymbridge.errors import ArgumentError
from gymbridge.trainers.sb3 import make_atari_env

GAME = "EnvPool/MsPacman-v5"  # without fire, so that both play the same game
ONE_NOOP = {"noop_max": 1}


def make_theirs(**wrapper_kwargs: Any) -> Any:
    gym.register_envs(pytest.importorskip("ale_py"))
    keywords = {**ONE_NOOP, **wrapper_kwargs}
    return env_util.make_atari_env("MsPacmanNoFrameskip-v4", seed=0, wrapper_kwargs=keywords)


def play(envs: Any, num_steps: int) -> list[tuple[Any, ...]]:
    """Return what each step gave, until the first game is over, with the same actions always."""
    rng, steps = np.random.default_rng(1), list[tuple[Any, ...]]()
    envs.reset()
    for _ in range(num_steps):
        _, rewards, dones, infos = envs.step(rng.integers(9, size=1))
        steps.append((rewards[0], dones[0], infos[0]["lives"], infos[0].get("episode")))
        if steps[-1][-1]:
            break
    envs.close()
    return steps


def test_documented_defaults__are_those_of_sb3() -> None:
    wrapper = inspect.signature(AtariWrapper.__init__).parameters
    documented = make_atari_env.__doc__ or ""
    for name in [*wrapper][2:]:
        assert f"``{name}={wrapper[name].default}``" in documented


@pytest.mark.slow  # some 600 steps of ALE
def test_game__is_the_one_that_sb3_plays() -> None:
    theirs = play(make_theirs(terminal_on_life_loss=False), 1000)
    keywords = {**ONE_NOOP, "terminal_on_life_loss": False}
    ours = play(make_atari_env(GAME, seed=0, wrapper_kwargs=keywords), 1000)
    assert [step[:3] for step in ours] == [step[:3] for step in theirs]
    ours, theirs = ours[-1][-1], theirs[-1][-1]
    assert ours["r"] == theirs["r"] > 100, "the score is not the sum of clipped rewards"
    assert ours["l"] == theirs["l"] - 1, "frames without the no-op"


@pytest.mark.slow
def test_first_life__is_the_one_that_sb3_plays() -> None:
    theirs = play(make_theirs(), 209)
    ours = play(make_atari_env(GAME, 1, 0, 0, None, ONE_NOOP), 209)
    assert ours == theirs
    assert ours[-1][1:] == (True, 2, None), "a lost life ends an episode and no game"


def test_score__is_of_the_whole_game_over_all_lives(tmp_path: Path) -> None:
    envs = make_atari_env(GAME, 2, seed=0, monitor_dir=str(tmp_path), wrapper_kwargs=ONE_NOOP)
    rng, score, games, ends = np.random.default_rng(0), 0.0, [], 0
    envs.reset()
    while len(games) < 2:
        _, rewards, dones, infos = envs.step(rng.integers(9, size=2))
        assert set(rewards) <= {-1.0, 0.0, 1.0}
        score, ends = score + infos[0]["reward"], ends + dones[0]
        if "episode" in infos[0]:
            games.append((score, infos[0]["episode"]["r"]))
            score = 0.0
    envs.close()
    assert ends == 6, "a game has three lives"
    assert all(found == expected for expected, found in games)
    assert set(load_results(str(tmp_path)).r) >= {found for _, found in games}


def test_time_limit__ends_a_game() -> None:
    keywords = {"max_episode_steps": 5, "info_keys": ["lives"]}
    envs = make_atari_env("EnvPool/Pong-v5", 2, seed=0, env_kwargs=keywords)
    envs.reset()
    for _ in range(5):
        infos = envs.step(np.zeros(2, int))[3]
    assert [info["episode"]["l"] for info in infos] == [20, 20]
    envs.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env_id": "PongNoFrameskip-v4"}, "such as 'EnvPool/Pong-v5', got 'PongNoFrameskip-v4'"),
        ({"env_id": "Brax/ant-v0"}, "one of EnvPool's Atari games"),
        ({"env_id": GAME, "wrapper_kwargs": {"stack_num": 4}}, r"got \['stack_num'\]; EnvPool's"),
    ],
)
def test_wrong_arguments__are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make_atari_env(**arguments)
