"""SB3's algorithms run on the view, and learn what they should."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium as gym
import pytest
import torch
from stable_baselines3 import A2C, PPO, SAC
from stable_baselines3.common.vec_env import VecMonitor
from torch.nn.utils import parameters_to_vector

from gymbridge.envpool.pool import Pool
from gymbridge.errors import ResetNeededError
from gymbridge.trainers.sb3 import make_vec_env
from tests.support.sb3_samples import dummy, sync


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


CART_POLE = partial(gym.make, "CartPole-v1", max_episode_steps=11)
PENDULUM = partial(gym.make, "Pendulum-v1", max_episode_steps=7)


@pytest.mark.parametrize(
    ("algorithm", "make", "kwargs"),
    [
        (PPO, CART_POLE, {"n_steps": 16, "batch_size": 16, "n_epochs": 2}),
        (SAC, PENDULUM, {"learning_starts": 20, "train_freq": 4}),
    ],
)
def test_algorithms__learn_the_same_as_on_dummy_vec_env(
    algorithm: Any, make: Any, kwargs: dict[str, Any]
) -> None:
    """Timeouts are bootstrapped, so weights differ if `TimeLimit.truncated` or the final
    observation does."""
    learned, returns = [], []
    for env in (sync(make), dummy(make)):
        model = algorithm("MlpPolicy", VecMonitor(env), seed=2, **kwargs)
        begun = parameters_to_vector(model.policy.parameters()).clone()
        model.learn(160)
        learned.append(parameters_to_vector(model.policy.parameters()))
        returns.append([one["r"] for one in model.ep_info_buffer])
        assert not torch.equal(begun, learned[-1])
    assert torch.equal(*learned)
    assert returns[0] == returns[1]
    assert len(returns[0]) >= 8


def test_interrupted_learning__says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    envs = make_vec_env("EnvPool/CartPole-v1", 4, seed=0)
    model = A2C("MlpPolicy", envs, seed=0)
    model.learn(40)
    with monkeypatch.context() as patch:
        patch.setattr(Pool, "receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.learn(40, reset_num_timesteps=False)
    advice = r"call `model\.set_env\(model\.get_env\(\)\)`"
    with pytest.raises(ResetNeededError, match=advice):
        model.learn(40, reset_num_timesteps=False)
    model.set_env(model.get_env())
    assert model.learn(40, reset_num_timesteps=False).num_timesteps == 80
