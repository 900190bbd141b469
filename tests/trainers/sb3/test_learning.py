"""SB3's wrappers, evaluation and algorithms run on the view, and learn what they should."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("stable_baselines3")

import torch
from sb3_samples import SEED, KindsEnv, compare, dummy, scripted, scripted_dummy, sync
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import (
    VecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
    VecVideoRecorder,
)

from gymbridge.trainers.sb3 import make_vec_env


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def short_cart_pole() -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1", max_episode_steps=11)


def short_pendulum() -> gym.Env[Any, Any]:
    return gym.make("Pendulum-v1", max_episode_steps=7)


class ImageEnv(KindsEnv):
    """Only the image."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (40, 44, 3), np.uint8)

    def _observe(self) -> Any:
        return self.np_random.integers(0, 256, (40, 44, 3), np.uint8)


class FlagEnv(KindsEnv):
    """No image, integers that begin at 4."""

    def __init__(self) -> None:
        super().__init__(start=4)
        parts = self.observation_space.spaces
        self.observation_space = spaces.Dict({key: parts[key] for key in ("kind", "vector")})

    def _observe(self) -> Any:
        obs = super()._observe()
        return {key: obs[key] for key in ("kind", "vector")}


@pytest.mark.parametrize(
    ("wrap", "make"),
    [
        (VecNormalize, short_pendulum),
        (VecNormalize, short_cart_pole),
        (lambda env: VecNormalize(env, norm_obs_keys=["vector"]), KindsEnv),
        (lambda env: VecFrameStack(env, 3), short_pendulum),
        (lambda env: VecFrameStack(env, 2), ImageEnv),
        (lambda env: VecTransposeImage(VecFrameStack(env, 2)), ImageEnv),
    ],
)
def test_wrappers_of_sb3__give_what_they_give_around_dummy_vec_env(wrap: Any, make: Any) -> None:
    assert compare(wrap(sync(make)), wrap(dummy(make)), 30)["truncated"] > 0


def test_vec_monitor__counts_as_around_dummy_vec_env() -> None:
    runs = []
    for env in (VecMonitor(scripted()), VecMonitor(scripted_dummy())):
        env.seed(SEED)
        env.reset()
        episodes = []
        for _ in range(20):
            infos = env.step(np.ones(4, np.int64))[3]
            ended = [info["episode"] for info in infos if "episode" in info]
            episodes.append([(one["r"], one["l"]) for one in ended])
        runs.append(episodes)
    assert runs[0] == runs[1]
    assert sum(map(len, runs[0])) > 20


def test_vec_video_recorder__writes_a_film(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    view = sync(lambda: KindsEnv(render_mode="rgb_array"))
    film = VecVideoRecorder(view, str(tmp_path), lambda step: step == 0, video_length=5)
    film.reset()
    for _ in range(6):
        film.step(np.zeros(4, np.int64))
    film.close()
    assert film.frames_per_sec == 7
    [path] = tmp_path.glob("*.mp4")
    assert path.stat().st_size > 500


def test_evaluate_policy__sees_what_it_sees_on_dummy_vec_env() -> None:
    model = PPO("MlpPolicy", dummy(short_cart_pole), seed=1, n_steps=8, batch_size=8)
    seen = []
    for env in (VecMonitor(sync(short_cart_pole)), VecMonitor(dummy(short_cart_pole))):
        env.seed(4)
        seen.append(evaluate_policy(model, env, n_eval_episodes=9, return_episode_rewards=True))
    assert seen[0] == seen[1]
    assert len(seen[0][0]) == 9


def weights(model: Any) -> dict[str, torch.Tensor]:
    return model.policy.state_dict()


@pytest.mark.parametrize(
    ("algorithm", "make", "kwargs"),
    [
        (PPO, short_cart_pole, {"n_steps": 16, "batch_size": 16, "n_epochs": 2}),
        (A2C, short_cart_pole, {}),
        (DQN, short_cart_pole, {"learning_starts": 20, "train_freq": 4}),
        (SAC, short_pendulum, {"learning_starts": 20, "train_freq": 4}),
    ],
)
def test_algorithms__learn_the_same_as_on_dummy_vec_env(
    algorithm: Any, make: Any, kwargs: dict[str, Any]
) -> None:
    """Timeouts are bootstrapped, so weights differ if `TimeLimit.truncated` or the last
    observation does."""
    learned = []
    for env in (sync(make), dummy(make)):
        model = algorithm("MlpPolicy", VecMonitor(env), seed=2, **kwargs)
        before = {name: value.clone() for name, value in weights(model).items()}
        model.learn(160)
        assert any(not torch.equal(before[name], value) for name, value in weights(model).items())
        learned.append((weights(model), [one["r"] for one in model.ep_info_buffer]))
    for name, value in learned[0][0].items():
        assert torch.equal(value, learned[1][0][name]), name
    assert learned[0][1] == learned[1][1]
    assert len(learned[0][1]) >= 8


def test_observations_of_several_parts__are_learned_from() -> None:
    learned = []
    for env in (sync(FlagEnv), dummy(FlagEnv)):
        if env.action_space.start:  # SB3 itself cannot
            with pytest.raises(AssertionError):
                PPO("MultiInputPolicy", env, n_steps=8, batch_size=8).learn(8)
            continue
        model = PPO("MultiInputPolicy", env, seed=1, n_steps=8, batch_size=8).learn(64)
        learned.append(model.num_timesteps)
    assert learned == [64]


class Record(VecMonitor):
    """Keeps what every step gave."""

    def __init__(self, venv: VecEnv) -> None:
        super().__init__(venv)
        self.steps: list[Any] = []

    def step_wait(self) -> Any:
        step = super().step_wait()
        self.steps.append(step)
        return step


@pytest.mark.parametrize(
    ("algorithm", "task", "limit"), [(DQN, "CartPole-v1", 6), (SAC, "Pendulum-v1", 5)]
)
def test_replay_on_engine__knows_timeouts_and_true_next_observations(
    algorithm: Any, task: str, limit: int
) -> None:
    pytest.importorskip("envpool")
    kwargs = {"max_episode_steps": limit}
    env = Record(make_vec_env(f"EnvPool/{task}", 4, seed=0, env_kwargs=kwargs).venv)
    model = algorithm("MlpPolicy", env, seed=0, buffer_size=400, learning_starts=200)
    model.learn(80)
    replay = model.replay_buffer
    assert len(env.steps) == replay.size() == 20
    ends = 0
    for step, (obs, _, dones, infos) in enumerate(env.steps):
        np.testing.assert_array_equal(replay.dones[step], dones)
        for index, info in enumerate(infos):
            true_next = info["terminal_observation"] if dones[index] else obs[index]
            np.testing.assert_array_equal(replay.next_observations[step, index], true_next)
            assert replay.timeouts[step, index] == info["TimeLimit.truncated"]
            assert info["TimeLimit.truncated"] == (bool(dones[index]) and step % limit == limit - 1)
            if dones[index]:
                ends += 1
                assert not np.array_equal(true_next, obs[index])
    assert ends == 4 * (20 // limit)


def test_rollout_on_engine__bootstraps_timeouts() -> None:
    pytest.importorskip("envpool")
    env = Record(make_vec_env("EnvPool/CartPole-v1", 4, env_kwargs={"max_episode_steps": 5}).venv)
    model = PPO("MlpPolicy", env, seed=0, n_steps=12, batch_size=12, n_epochs=1, learning_rate=0.0)
    model.learn(48)
    assert len(model.ep_info_buffer) == 8
    for step, (_, rewards, dones, infos) in enumerate(env.steps):
        for index, info in enumerate(infos):
            value = 0.0
            if dones[index]:
                last = torch.as_tensor(info["terminal_observation"])[None]
                value = model.gamma * model.policy.predict_values(last).item()
                assert abs(value) > 1e-3
            stored = model.rollout_buffer.rewards[step, index]
            assert stored == pytest.approx(1 + value, abs=1e-6)
            assert rewards[index] == stored, "SB3 adds the value in place"
