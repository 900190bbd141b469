"""`make_vec_env` is called as SB3's own, does what a batch can, and says what it cannot."""

from __future__ import annotations

import csv
import inspect
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import vector as wrappers
from stable_baselines3.common import env_util
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

from gymbridge import BridgeVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.testing import ScriptedSimulator, scripted_vector_env
from gymbridge.trainers import sb3
from gymbridge.trainers.sb3 import Sb3VecEnv, make_vec_env
from tests.support.sb3_samples import KindsEnv, assert_like


class Scripted(BridgeVectorEnv):
    """A class of batches, as a user may write one."""

    def __init__(self, num_envs: int, length: int = 2, **kwargs: Any) -> None:
        super().__init__(ScriptedSimulator([length] * num_envs), **kwargs)


@pytest.mark.parametrize("name", ["make_vec_env", "make_atari_env"])
def test_signature__is_that_of_sb3(name: str) -> None:
    ours, theirs = (
        [(one.name, one.default) for one in inspect.signature(make).parameters.values()]
        for make in (getattr(sb3, name), getattr(env_util, name))
    )
    assert ours == theirs


@pytest.mark.parametrize(
    ("env_id", "kind"),
    [("EnvPool/CartPole-v1", "EnvPoolVectorEnv"), ("Brax/fast-v0", "BraxVectorEnv")],
)
def test_engine_id__is_a_monitored_batch(env_id: str, kind: str) -> None:
    envs = make_vec_env(env_id, 3, seed=2**31, env_kwargs={"max_episode_steps": 4})
    assert type(envs) is VecMonitor
    assert type(envs.venv) is Sb3VecEnv
    assert type(envs.unwrapped.vector_env).__name__ == kind
    envs.reset()
    assert envs.get_attr("np_random_seed") == [2**31, 2**31 + 1, 2**31 + 2]
    actions = np.zeros((3, *envs.action_space.shape), envs.action_space.dtype)
    returns = np.zeros(3)
    for _ in range(4):
        obs, rewards, dones, infos = envs.step(actions)
        returns += rewards
    assert dones.all()
    assert obs.flags.writeable
    for index, info in enumerate(infos):
        assert info["TimeLimit.truncated"]
        assert info["terminal_observation"].shape == obs.shape[1:]
        assert info["episode"]["r"] == pytest.approx(returns[index], abs=1e-5)
        assert info["episode"]["l"] == 4


def test_reset_infos__are_those_of_the_running_episodes() -> None:
    """As `DummyVecEnv` has them, although SB3's `VecMonitor` around a batch keeps none."""
    envs = make_vec_env(Scripted, 2, seed=0)
    envs.reset()
    draws = [[info["draw"] for info in envs.reset_infos]]
    for _ in range(2):
        infos = envs.step(np.array([0, 1]))[3]
        assert [info["draw"] for info in infos] == draws[0]
    draws.append([info["draw"] for info in envs.reset_infos])
    envs.reset()
    draws.append([info["draw"] for info in envs.reset_infos])
    assert len({tuple(drawn) for drawn in draws}) == 3, "one for each episode"


@pytest.mark.parametrize("seed", [0, 2**32 - 2])
def test_make_vec_env_of_sb3__takes_our_ids_and_draws_seeds(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It draws up to 2**32 - 2, asks for ``render_mode="rgb_array"``, and goes on without."""
    monkeypatch.setattr(np.random, "randint", lambda *args, **kwargs: seed)
    envs = env_util.make_vec_env("EnvPool/CartPole-v1", n_envs=2)
    obs = envs.reset()
    assert envs.get_attr("np_random_seed") == [seed, seed + 1]
    np.testing.assert_array_equal(gym.make_vec("EnvPool/CartPole-v1", 2).reset(seed=seed)[0], obs)


@pytest.mark.parametrize("seed", [3, None])
def test_plain_id__gives_what_sb3_gives(seed: int | None) -> None:
    results, render_modes = [], []
    for make in (make_vec_env, env_util.make_vec_env):
        np.random.seed(7)  # SB3 draws a seed where none is given
        envs = make("CartPole-v1", 2, seed, start_index=4, env_kwargs={"max_episode_steps": 15})
        if seed is None:
            envs.action_space.seed(0)
        render_modes.append(envs.render_mode)
        steps = [envs.reset()]
        for _ in range(40):
            actions = np.array([envs.action_space.sample() for _ in range(2)])
            *step, infos = envs.step(actions)
            episodes = [info.pop("episode", {}) for info in infos]
            steps.append([*step, infos, [(one.get("r"), one.get("l")) for one in episodes]])
        results.append(steps)
    assert_like(*results)
    assert render_modes == ["rgb_array"] * 2


def test_monitor__writes_the_episodes_of_all(tmp_path: Path) -> None:
    options: Any = {"env_kwargs": {"length": 1}, "monitor_kwargs": {"info_keywords": ("draw",)}}
    envs = make_vec_env(Scripted, 2, 0, 7, str(tmp_path / "new"), **options)
    assert isinstance(envs.unwrapped.vector_env, Scripted)
    envs.reset()
    for _ in range(5):
        envs.step(np.ones(2, np.int64))
    envs.close()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["7.monitor.csv"]
    header, *lines = (tmp_path / "new" / "7.monitor.csv").read_text().splitlines()
    assert header.startswith("#")
    episodes = list(csv.DictReader(lines))
    assert [(one["r"], one["l"]) for one in episodes] == [("1.25", "1")] * 10
    assert len({one["draw"] for one in episodes}) == 10


def test_vector_wrapper__goes_around_the_batch() -> None:
    kwargs = {"func": lambda rewards: 0 * rewards - 3}
    envs = make_vec_env(Scripted, 2, wrapper_class=wrappers.TransformReward, wrapper_kwargs=kwargs)
    envs.reset()
    assert envs.step(np.ones(2, np.int64))[1].tolist() == [-3, -3]


def test_own_class__is_built_with_its_keywords() -> None:
    class Mine(Sb3VecEnv):
        def __init__(self, vector_env: Any, mark: int) -> None:
            super().__init__(vector_env)
            self.mark = mark

    assert make_vec_env(Scripted, vec_env_cls=Mine, vec_env_kwargs={"mark": 4}).mark == 4


@pytest.mark.parametrize(
    ("kwargs", "rule"),
    [
        ({"wrapper_class": gym.wrappers.TimeLimit}, r"`wrapper_class` must be a .*VectorWrapper"),
        ({"wrapper_class": VecNormalize}, r"VecEnvWrapper around the result"),
        ({"wrapper_kwargs": {"gamma": 1}}, r"`wrapper_kwargs` needs a `wrapper_class`"),
        ({"vec_env_cls": DummyVecEnv}, r"`vec_env_cls` must be None.*DummyVecEnv.*; leave it out"),
        ({"env_kwargs": {"autoreset_mode": "NextStep"}}, r"build it with `autoreset_mode='SameSte"),
        ({"n_envs": 0}, r"`n_envs` must be at least 1, got 0"),
    ],
)
def test_what_a_batch_cannot_honour__is_an_error(kwargs: dict[str, Any], rule: str) -> None:
    with pytest.raises(ArgumentError, match=rule):
        make_vec_env(Scripted, **{"n_envs": 2, **kwargs})


@pytest.mark.parametrize(
    ("kwargs", "owner"),
    [
        ({"vec_env_kwargs": {"start_method": "fork"}}, "Sb3VecEnv"),
        ({"monitor_kwargs": {"allow_early_resets": False}}, "VecMonitor"),
        ({"env_kwargs": {"num_envs": 2}}, "Scripted"),
    ],
)
def test_keyword__that_the_class_does_not_take_is_python_s_error(
    kwargs: dict[str, Any], owner: str
) -> None:
    with pytest.raises(TypeError, match=rf"{owner}.* got .* keyword argument '\w+'"):
        make_vec_env(Scripted, **kwargs)


BATCH = scripted_vector_env([1], autoreset_mode="SameStep")


@pytest.mark.parametrize(
    ("env_id", "n_envs", "rule"),
    [
        *((env_id, 1, "give a vector environment to Sb3VecEnv") for env_id in (None, 3, BATCH)),
        (KindsEnv, 1, "own `make_vec_env`"),
        *((Scripted, n_envs, "`n_envs` must be an int") for n_envs in (2.0, "2", None)),
    ],
)
def test_other_types__are_refused(env_id: Any, n_envs: Any, rule: str) -> None:
    with pytest.raises(ArgumentTypeError, match=rule):
        make_vec_env(env_id, n_envs)


def test_refused_batch__is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    monkeypatch.setattr(Scripted, "close", lambda self, **kwargs: closed.append(self))
    with pytest.raises(ArgumentError, match="`seed` must be 0 or more"):
        make_vec_env(Scripted, 2, seed=-1)
    assert len(closed) == 1
