"""`make_vec_env` is called as SB3's own, does what a batch can, and says what it cannot."""

from __future__ import annotations

import csv
import inspect
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import NameNotFound
from gymnasium.wrappers import vector as wrappers

from gymbridge import BridgeVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.testing import ScriptedEnv, scripted_vector_env

pytest.importorskip("stable_baselines3")

from sb3_samples import KindsEnv, assert_like
from stable_baselines3 import A2C
from stable_baselines3.common import env_util
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor, VecNormalize

from gymbridge.trainers.sb3 import Sb3VecEnv, make_vec_env

CART_POLE = "EnvPool/CartPole-v1"


class Scripted(BridgeVectorEnv):
    """A class of batches, as a user may write one."""

    def __init__(self, num_envs: int, length: int = 2, **kwargs: Any) -> None:
        from gymbridge.testing import ScriptedSimulator

        super().__init__(ScriptedSimulator([length] * num_envs), **kwargs)


def test_signature__is_that_of_sb3() -> None:
    ours, theirs = (inspect.signature(make) for make in (make_vec_env, env_util.make_vec_env))
    assert list(ours.parameters) == list(theirs.parameters)
    assert [one.default for one in ours.parameters.values()] == [
        one.default for one in theirs.parameters.values()
    ]


def test_engine_id__is_a_monitored_batch() -> None:
    pytest.importorskip("envpool")
    envs = make_vec_env(CART_POLE, 3, seed=5, env_kwargs={"max_episode_steps": 4})
    assert type(envs) is VecMonitor
    assert type(envs.venv) is Sb3VecEnv
    assert type(envs.unwrapped.vector_env).__name__ == "EnvPoolVectorEnv"
    envs.reset()
    assert envs.get_attr("np_random_seed") == [5, 6, 7]
    for _ in range(4):
        _, _, dones, infos = envs.step(np.zeros(3, np.int64))
    assert dones.all()
    assert [info["TimeLimit.truncated"] for info in infos] == [True] * 3
    assert [info["episode"]["r"] for info in infos] == [4.0] * 3
    assert [info["elapsed_step"] for info in infos] == [4] * 3


def test_reset_infos__are_those_of_the_running_episodes() -> None:
    """As `DummyVecEnv` has them, although SB3's `VecMonitor` around a batch keeps none."""
    options = {"max_episode_steps": 2}
    envs = make_vec_env("EnvPool/CartPole-v1", 2, seed=0, env_kwargs=options)
    envs.reset()
    assert envs.reset_infos == [{"elapsed_step": 0}] * 2
    envs.reset_infos[0]["elapsed_step"] = 9
    for _ in range(2):
        envs.step(np.array([0, 1]))
    assert envs.reset_infos == [{"elapsed_step": 0}] * 2, "of the second episodes"
    envs.reset_infos[0]["elapsed_step"] = 9
    envs.reset()
    assert envs.reset_infos == [{"elapsed_step": 0}] * 2


@pytest.mark.parametrize("env_id", ["EnvPool/CartPole-v1", "Brax/fast-v0"])
def test_id__is_taken_by_sb3_itself(env_id: str) -> None:
    """SB3 asks for frames first, and goes on without them on a `TypeError`."""
    if env_id.startswith("Brax"):
        pytest.importorskip("brax")
    assert env_util.make_vec_env(env_id, 2, seed=0).reset().shape[0] == 2
    assert A2C("MlpPolicy", env_id).learn(8).num_timesteps >= 8


def test_plain_id__gives_what_sb3_gives() -> None:
    pairs = [
        make("CartPole-v1", 2, seed=3, start_index=4, env_kwargs={"max_episode_steps": 15})
        for make in (make_vec_env, env_util.make_vec_env)
    ]
    results = []
    for envs in pairs:
        steps = [envs.reset()]
        for _ in range(40):
            actions = np.array([envs.action_space.sample() for _ in range(2)])
            *step, infos = envs.step(actions)
            episodes = [info.pop("episode", {}) for info in infos]
            steps.append([*step, infos, [(one.get("r"), one.get("l")) for one in episodes]])
        results.append(steps)
        assert envs.render_mode is None or envs.render_mode == "rgb_array"
    assert_like(results[0], results[1])
    assert pairs[0].render_mode == pairs[1].render_mode


def test_module_in_the_id__is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import gymnasium
from gymbridge.testing import scripted_vector_env

def make(num_envs, **kwargs):
    return scripted_vector_env([2] * num_envs, **kwargs)

gymnasium.register("Sb3Test/Module-v0", vector_entry_point=make)
"""
    (tmp_path / "sb3_test_ids.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        assert make_vec_env("sb3_test_ids:Sb3Test/Module-v0", 3).num_envs == 3
    finally:
        gym.registry.pop("Sb3Test/Module-v0", None)


def test_unknown_id__is_the_error_of_gymnasium() -> None:
    with pytest.raises(NameNotFound, match="CartPoole"):
        make_vec_env("EnvPool/CartPoole-v1")


@pytest.mark.filterwarnings("ignore:.*Using the latest versioned environment")
def test_id_without_a_version__is_the_newest() -> None:
    assert make_vec_env("CartPole", 2).get_attr("spec")[0].id == "CartPole-v1"


def test_batch_that_hands_the_mode_on__runs_in_sync_vector_env() -> None:
    pytest.importorskip("jax")
    envs = make_vec_env("phys2d/CartPole-v1", 2, env_kwargs={"render_mode": None}, seed=0)
    assert envs.reset().shape == (2, 4)
    with pytest.raises(TypeError, match="no_such_keyword"):
        make_vec_env("phys2d/CartPole-v1", 2, env_kwargs={"no_such_keyword": 1})


def test_class_of_batches__is_built_with_the_keywords() -> None:
    envs = make_vec_env(Scripted, 3, seed=1, env_kwargs={"length": 5})
    assert isinstance(envs.unwrapped.vector_env, Scripted)
    assert envs.get_attr("lengths")[0].tolist() == [[5], [5], [5]]


def test_registered_batch_with_open_keywords__gets_the_mode() -> None:
    def make(num_envs: int, **kwargs: Any) -> BridgeVectorEnv:
        return Scripted(num_envs, **kwargs)

    gym.register("Sb3Test/Open-v0", vector_entry_point=make)
    try:
        envs = make_vec_env("Sb3Test/Open-v0", 2, env_kwargs={"length": 3})
        assert envs.get_attr("lengths")[0].tolist() == [[3], [3]]
    finally:
        del gym.registry["Sb3Test/Open-v0"]


def test_callable__makes_single_environments() -> None:
    envs = make_vec_env(KindsEnv, 2, seed=1, env_kwargs={"length": 2})
    envs.reset()
    envs.step(np.zeros(2, np.int64))
    infos = envs.step(np.zeros(2, np.int64))[3]
    assert [info["episode"]["l"] for info in infos] == [2, 2]
    envs = make_vec_env(lambda: ScriptedEnv(lambda seed, episode: (1, False)))
    envs.reset()
    assert envs.step(np.zeros(1, np.int64))[2].tolist() == [True]


def test_given_seed__seeds_the_action_space_as_sb3_does() -> None:
    for start_index in (0, 3):
        ours, theirs = (
            make("CartPole-v1", 2, seed=9, start_index=start_index).action_space
            for make in (make_vec_env, env_util.make_vec_env)
        )
        assert [ours.sample() for _ in range(20)] == [theirs.sample() for _ in range(20)]


def test_no_seed__draws_as_sb3_does() -> None:
    seeds = []
    for make in (make_vec_env, env_util.make_vec_env):
        np.random.seed(3)
        envs = make("CartPole-v1", 2)
        seeds.append(envs.unwrapped._seeds[0])
        envs.reset()
    assert seeds[0] == seeds[1]


def test_monitor__writes_the_episodes_of_all(tmp_path: Path) -> None:
    envs = make_vec_env(
        Scripted, 2, 0, 7, str(tmp_path / "new"), monitor_kwargs={"info_keywords": ("draw",)}
    )
    envs.reset()
    for _ in range(5):
        envs.step(np.ones(2, np.int64))
    envs.close()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["7.monitor.csv"]
    header, *lines = (tmp_path / "new" / "7.monitor.csv").read_text().splitlines()
    assert header.startswith("#")
    episodes = list(csv.DictReader(lines))
    assert [(one["r"], one["l"]) for one in episodes] == [("2.75", "2")] * 4
    assert len({one["draw"] for one in episodes}) == 4


def test_vector_wrapper__goes_around_the_batch() -> None:
    envs = make_vec_env(
        Scripted,
        2,
        wrapper_class=wrappers.TransformReward,
        wrapper_kwargs={"func": lambda rewards: 0 * rewards - 3},
    )
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
        (
            {"wrapper_class": gym.wrappers.FlattenObservation},
            r"`wrapper_class` must be a .*Wrapper",
        ),
        ({"wrapper_class": lambda env: env}, r"VecEnvWrapper around the result"),
        ({"wrapper_class": VecNormalize}, r"`wrapper_class` must be a"),
        ({"wrapper_kwargs": {"gamma": 1}}, r"`wrapper_kwargs` needs a `wrapper_class`"),
        ({"vec_env_cls": DummyVecEnv}, r"`vec_env_cls` must be None.*DummyVecEnv.*; leave it out"),
        ({"vec_env_cls": SubprocVecEnv}, r"`vec_env_cls` must be None"),
        ({"vec_env_kwargs": {"start_method": "fork"}}, r"`vec_env_kwargs` needs a `vec_env_cls`"),
        ({"monitor_kwargs": {"allow_early_resets": False}}, r"allow_early_resets=False"),
        ({"monitor_kwargs": {"reset_keywords": ("a",)}}, r"reset_keywords=\('a',\)"),
        ({"monitor_kwargs": {"unknown": 1}}, r"`monitor_kwargs` must hold 'info_keywords' alone"),
        ({"env_kwargs": {"num_envs": 2}}, r"`env_kwargs` must not have 'num_envs'; use `n_envs`"),
        ({"env_kwargs": {"autoreset_mode": "NextStep"}}, r"build it with `autoreset_mode='SameSte"),
        ({"n_envs": 0}, r"`n_envs` must be at least 1, got 0"),
        ({"seed": -1}, r"`seed` must be 0 or more"),
    ],
)
def test_what_a_batch_cannot_honour__is_an_error(kwargs: dict[str, Any], rule: str) -> None:
    with pytest.raises(ArgumentError, match=rule):
        make_vec_env(Scripted, **{"n_envs": 2, **kwargs})


def test_defaults_of_monitor__are_taken() -> None:
    defaults = {
        name: one.default
        for name, one in inspect.signature(Monitor).parameters.items()
        if name not in ("env", "filename")
    }
    assert make_vec_env(Scripted, monitor_kwargs=defaults).num_envs == 1


@pytest.mark.parametrize(
    "env_id",
    [
        None,
        3,
        scripted_vector_env([1], autoreset_mode="SameStep"),
        lambda: scripted_vector_env([1]),
    ],
)
def test_other_things__are_refused(env_id: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="give a vector environment to Sb3VecEnv"):
        make_vec_env(env_id)


@pytest.mark.parametrize("n_envs", [2.0, "2", None])
def test_size_of_another_type__is_refused(n_envs: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="`n_envs` must be an int"):
        make_vec_env(Scripted, n_envs)


def test_refused_batch__is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    monkeypatch.setattr(Scripted, "close", lambda self, **kwargs: closed.append(self))
    with pytest.raises(ArgumentError, match="`seed` must be 0 or more"):
        make_vec_env(Scripted, 2, seed=-1)
    assert len(closed) == 1


def test_brax__is_a_batch_like_any() -> None:
    pytest.importorskip("brax")
    envs = make_vec_env("Brax/fast-v0", 2, seed=2**31, env_kwargs={"max_episode_steps": 3})
    assert type(envs.unwrapped.vector_env).__name__ == "BraxVectorEnv"
    envs.reset()
    assert envs.get_attr("np_random_seed") == [2**31, 2**31 + 1]
    for _ in range(3):
        obs, rewards, dones, infos = envs.step(np.zeros((2, 1), np.float32))
    assert dones.all()
    assert obs.flags.writeable
    assert rewards.flags.writeable
    for info in infos:
        assert info["TimeLimit.truncated"]
        assert info["terminal_observation"].shape == (2,)
        assert info["nonfinite"] is False
        assert math.isfinite(info["episode"]["r"])


@pytest.mark.parametrize("first", [0, 2**31 - 1, 2**32 - 2])
def test_make_vec_env_of_sb3__takes_our_ids_and_draws_seeds(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It draws up to 2**32 - 2, asks for ``render_mode="rgb_array"``, and goes on without."""
    pytest.importorskip("envpool")
    monkeypatch.setattr(np.random, "randint", lambda *args, **kwargs: first)
    envs = env_util.make_vec_env(CART_POLE, n_envs=2)
    obs = envs.reset()
    assert envs.get_attr("np_random_seed") == [first, first + 1]
    np.testing.assert_array_equal(gym.make_vec(CART_POLE, 2).reset(seed=first)[0], obs)
    envs.close()
