"""Batches of small environments, which compile in a moment."""

from __future__ import annotations

from typing import Any

from gymbridge import BraxVectorEnv, PlaygroundVectorEnv
from tests.support.brax_samples import SampleEnv
from tests.support.playground_samples import SampleMjxEnv, make_config

__all__ = ["RSL_RL_CFG", "counting_batch", "playground_batch"]

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


def playground_batch(num_envs: int, mode: str, *, is_flat: bool = False, **options: Any) -> Any:
    """Return a Playground batch with groups of observations, or with one of them."""

    class FlatMjxEnv(SampleMjxEnv):
        def _observe(self, info: Any) -> Any:
            return super()._observe(info)["state"]

    options = {"arrays": "torch", "autoreset_mode": mode, **options}
    kind = FlatMjxEnv if is_flat else SampleMjxEnv
    return PlaygroundVectorEnv(kind(make_config()), num_envs, **options)
