"""Batches as TorchRL's environments, and rollouts of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("torchrl")
pytest.importorskip("envpool.registration")


from gymbridge.trainers.torchrl import TorchRLEnv, make_torchrl

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
    env_id, given = TASKS[task]
    if env_id.startswith("Brax"):
        pytest.importorskip("brax.envs")
    return make_torchrl(env_id, num_envs, **{**given, **kwargs})


@cache
def make_cart_pole() -> TorchRLEnv:
    return make("discrete", categorical_action_encoding=True)


def lean(td: Any) -> Any:
    """Push towards the side to which the pole leans away from, so that episodes end one by one."""
    return td.set("action", (td["observation"][..., 0] > 0).long())


def roll_out(env: Any, num_steps: int = 60, **options: Any) -> Any:
    env.set_seed(0)
    return env.rollout(num_steps, policy=lean, **{"break_when_any_done": False, **options})


def make_staggered() -> TorchRLEnv:
    """Return a Brax batch that counts steps, whose episodes end one by one."""
    pytest.importorskip("brax.envs")
    from brax_samples import SampleEnv, count_on

    from gymbridge import BraxVectorEnv

    def step(state: Any, action: Any) -> Any:
        after = count_on(state, action)
        return after.replace(done=(after.obs[0] >= 2 + 6 * after.obs[1] // 1).astype(float))

    brax_env = SampleEnv(step=step)
    return TorchRLEnv(BraxVectorEnv(brax_env, 4, autoreset_mode="Disabled", arrays="torch"))
