"""Batches as TorchRL's environments, and rollouts of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from gymbridge.trainers.torchrl import TorchRLEnv, make_torchrl
from tests.support.brax_samples import count_on
from tests.support.small_batches import counting_batch, playground_batch

NUM_ENVS = 4
FLAGS = ("done", "terminated", "truncated")
TASKS = {
    "discrete": ("EnvPool/CartPole-v1", {}),
    "atari": ("EnvPool/Pong-v5", {}),
    "box": ("EnvPool/HalfCheetah-v5", {"max_episode_steps": 5}),
    "dict": ("EnvPool/CheetahRun-v1", {"max_episode_steps": 5}),
    "discrete observations": ("EnvPool/FrozenLake-v1", {}),
    "barkour": ("EnvPool/BarkourJoystick-v1", {"max_episode_steps": 5}),
    "brax": ("Brax/fast-v0", {"max_episode_steps": 5}),
}


def make(task: str, num_envs: int = NUM_ENVS, **kwargs: Any) -> TorchRLEnv:
    if task == "playground":
        return TorchRLEnv(playground_batch(num_envs, "Disabled", **kwargs))
    env_id, given = TASKS[task]
    return make_torchrl(env_id, num_envs, **{**given, **kwargs})


@cache
def make_cart_pole() -> TorchRLEnv:
    return make("discrete", categorical_action_encoding=True)


def lean(td: Any) -> Any:
    """Push towards the side to which the pole leans away from, so that episodes end one by one."""
    return td.set("action", (td["observation"][..., 0] > 0).long())


def roll_out(env: Any, num_steps: int = 60, policy: Any = lean) -> Any:
    """Return a rollout by a policy; by None, of random actions that are the same in each run."""
    torch.manual_seed(0)
    env.set_seed(0)
    return env.rollout(num_steps, policy=policy, break_when_any_done=False)


def make_counting(num_envs: int = 2, **options: Any) -> TorchRLEnv:
    """Return the view of a small Brax environment, which is two functions."""
    return TorchRLEnv(counting_batch(num_envs, "Disabled", **options))


def make_staggered() -> TorchRLEnv:
    """Return a Brax batch that counts steps, whose episodes end one by one."""

    def step(state: Any, action: Any) -> Any:
        after = count_on(state, action)
        return after.replace(done=(after.obs[0] >= 2 + 6 * after.obs[1] // 1).astype(float))

    return make_counting(NUM_ENVS, step=step)
