"""TorchRL's `GymWrapper` takes our batches as they are."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
import torch
from torchrl.envs import GymEnv, GymWrapper
from torchrl.envs.utils import check_env_specs

from tests.support.torchrl_samples import roll_out

CART_POLE = "EnvPool/CartPole-v1"


def wrap(env_id: str, mode: str, **kwargs: Any) -> GymWrapper:
    envs = gym.make_vec(env_id, num_envs=4, autoreset_mode=mode, **kwargs)
    is_discrete = isinstance(envs.action_space, gym.spaces.MultiDiscrete)
    return GymWrapper(envs, categorical_action_encoding=is_discrete)


@pytest.mark.parametrize(
    ("env_id", "mode", "kwargs"),
    [
        ("EnvPool/CheetahRun-v1", "SameStep", {"max_episode_steps": 5}),
        ("EnvPool/FrozenLake-v1", "SameStep", {}),
        ("EnvPool/Pong-v5", "SameStep", {"info_keys": ["lives"]}),
        ("EnvPool/BarkourJoystick-v1", "Disabled", {"info_keys": ["elapsed_step"]}),
    ],
)
def test_specs__are_what_comes(env_id: str, mode: str, kwargs: dict[str, Any]) -> None:
    """`test_table.py` has boxes, of each engine."""
    # One-hot, its default, TorchRL cannot compare integers of observations in SameStep.
    envs = gym.make_vec(env_id, num_envs=4, autoreset_mode=mode, **kwargs)
    env = GymWrapper(envs, categorical_action_encoding="FrozenLake" in env_id)
    check_env_specs(env)
    assert env.batch_size == (4,)


def test_rollouts__agree_between_the_modes() -> None:
    same_step = roll_out(wrap("EnvPool/CartPole-v1", "SameStep"))
    disabled = roll_out(wrap("EnvPool/CartPole-v1", "Disabled"))
    ends = disabled["next", "done"][..., 0]
    assert not ends.all(0).any(), "TorchRL resets the whole batch where every row ends at once"
    assert_final_observations(disabled)
    for key in disabled.keys(include_nested=True, leaves_only=True):
        assert torch.equal(same_step[key], disabled[key]), key


def assert_final_observations(rollout: Any) -> None:
    """Each episode ends in its final observation, with the pole down, and the next one is upright.

    Args:
        rollout: Of CartPole, (..., steps).
    """
    ends = rollout["next", "done"][..., :-1, 0]
    final, initial = rollout["next", "observation"][..., :-1, :], rollout["observation"][..., 1:, :]
    assert ends.sum() > 10
    assert ((final[..., 2].abs() > 0.2) | (final[..., 0].abs() > 2.4))[ends].all()
    assert (initial[ends].abs() < 0.06).all()
    assert torch.equal(final[~ends], initial[~ends])


@pytest.mark.parametrize("env_id", ["EnvPool/Pendulum-v1", "Brax/fast-v0"])
def test_gym_env__opens_a_single_environment(env_id: str) -> None:
    """It asks for ``frameskip=`` first, and repeats actions itself where that is refused."""
    env = GymEnv(env_id, frame_skip=3)
    assert env.wrapper_frame_skip == 3
    check_env_specs(env)
    env.set_seed(2**32 + 1)
    assert env.rollout(4).batch_size == (4,)
