"""Batches that drift: one for each bar of the soak, whose processes find them by id."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from gymbridge import BridgeVectorEnv
from gymbridge.testing import ScriptedSimulator


class _Scripted(BridgeVectorEnv):
    def __init__(self, num_envs: int, **options: Any) -> None:
        super().__init__(ScriptedSimulator([2, 3] * (num_envs // 2)), **options)
        self.taken = 0

    def step(self, actions: Any) -> Any:
        self.taken += 1
        self.drift()
        return super().step(actions)

    def drift(self) -> None:
        """Do what a batch should not."""


class Leaks(_Scripted):
    """It keeps 20 kB in each step."""

    def __init__(self, num_envs: int, **options: Any) -> None:
        super().__init__(num_envs, **options)
        self.kept: list[np.ndarray] = []

    def drift(self) -> None:
        self.kept.append(np.ones(2500))


class Compiles(_Scripted):
    """It compiles once more, in step 100: before memory is compared."""

    def __init__(self, num_envs: int, **options: Any) -> None:
        import jax

        super().__init__(num_envs, **options)
        self.add_one = jax.jit(lambda array: array + 1)

    def drift(self) -> None:
        self.add_one(np.ones(3 if self.taken < 100 else 4))


class Differs(_Scripted):
    """Its rewards are drawn without a seed, in step 100."""

    def step(self, actions: Any) -> Any:
        obs, rewards, *rest = super().step(actions)
        if self.taken == 100:
            rewards = rewards + np.random.default_rng().random(rewards.shape)
        return obs, rewards, *rest


for _batch in (Leaks, Compiles, Differs):
    gym.register(f"{_batch.__name__}-v0", vector_entry_point=_batch)
