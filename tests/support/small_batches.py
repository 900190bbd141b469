"""Batches of small environments, which compile in a moment."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import VectorWrapper

from gymbridge import BraxVectorEnv, JaxEnv, JaxVectorEnv, PlaygroundVectorEnv
from tests.support.brax_samples import SampleEnv
from tests.support.playground_samples import SampleMjxEnv, make_config

GAMMA = 0.9
"""Discount with which the values of `wheel_values` are true."""

_MODEL = {"class_name": "MLPModel", "hidden_dims": [16], "activation": "elu"}
_NORMAL = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "scalar"}
RSL_RL_CFG: dict[str, Any] = {
    "num_steps_per_env": 16,
    "save_interval": 50,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {**_MODEL, "distribution_cfg": _NORMAL},
    "critic": _MODEL,
    "algorithm": {"class_name": "PPO", "num_learning_epochs": 2, "num_mini_batches": 2},
}
"""A small training of rsl_rl."""


def counting_batch(
    num_envs: int, mode: str, *, reset: Any = None, step: Any = None, **options: Any
) -> Any:
    """Return tensors of a Brax environment that counts, or does what two functions say."""
    options = {"arrays": "torch", "autoreset_mode": mode, **options}
    return BraxVectorEnv(SampleEnv(reset, step), num_envs, **options)


class Silent(VectorWrapper):
    """A batch whose steps have no infos."""

    def step(self, actions: Any) -> Any:
        return *super().step(actions)[:4], {}


class _Wheel(JaxEnv):
    """A point on a wheel, which makes a quarter turn in each step and earns where it was across.

    Actions do nothing, and episodes end by a limit of 2 steps alone.
    """

    observation_space, action_space = Box(-1, 1, (2,)), Box(-1, 1, (1,))
    max_episode_steps = 2

    def reset(self, key: Any) -> Any:
        angle = jax.random.uniform(key, maxval=2 * np.pi)
        point = jax.numpy.stack([jax.numpy.cos(angle), jax.numpy.sin(angle)])
        return point, point, {}

    def step(self, key: Any, state: Any, action: Any) -> Any:
        point = jax.numpy.stack([-state[1], state[0]])
        return point, point, state[0], False, False, {}


def wheel_batch(num_envs: int, mode: str, arrays: str = "torch") -> Any:
    """Return a batch whose values are known, see `wheel_values`."""
    return JaxVectorEnv(_Wheel(), num_envs, autoreset_mode=mode, arrays=arrays)


def wheel_values(points: Any) -> Any:
    """Return the true values of points on the wheel, without a limit."""
    return (points[:, 0] - GAMMA * points[:, 1]) / (1 + GAMMA**2)


def playground_batch(num_envs: int, mode: str, *, is_flat: bool = False, **options: Any) -> Any:
    """Return a Playground batch with groups of observations, or with one of them."""

    class FlatMjxEnv(SampleMjxEnv):
        def _observe(self, info: Any) -> Any:
            return super()._observe(info)["state"]

    options = {"arrays": "torch", "autoreset_mode": mode, **options}
    kind = FlatMjxEnv if is_flat else SampleMjxEnv
    return PlaygroundVectorEnv(kind(make_config()), num_envs, **options)
