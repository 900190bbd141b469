"""Batches of small environments, which compile in a moment."""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["counting_batch", "playground_batch"]


def counting_batch(
    num_envs: int, mode: str, *, reset: Any = None, step: Any = None, **options: Any
) -> Any:
    """Return tensors of a Brax environment that counts, or does what two functions say."""
    pytest.importorskip("brax.envs")
    from brax_samples import SampleEnv

    from gymbridge import BraxVectorEnv

    options = {"arrays": "torch", "autoreset_mode": mode, **options}
    return BraxVectorEnv(SampleEnv(reset, step), num_envs, **options)


def playground_batch(num_envs: int, mode: str, *, is_flat: bool = False, **options: Any) -> Any:
    """Return a Playground batch with groups of observations, or with one of them."""
    pytest.importorskip("mujoco_playground")
    from playground_samples import SampleMjxEnv, make_config

    from gymbridge import PlaygroundVectorEnv

    class FlatMjxEnv(SampleMjxEnv):
        def _observe(self, info: Any) -> Any:
            return super()._observe(info)["state"]

    options = {"arrays": "torch", "autoreset_mode": mode, **options}
    kind = FlatMjxEnv if is_flat else SampleMjxEnv
    return PlaygroundVectorEnv(kind(make_config()), num_envs, **options)
