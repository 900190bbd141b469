"""A user's script, which a strict type checker reads against the installed package."""
# pyright: strict

from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode

import gymbridge
from gymbridge import BraxVectorEnv, BridgeVectorEnv, EnvPoolVectorEnv, JaxEnv, JaxVectorEnv
from gymbridge.errors import ArgumentError
from gymbridge.testing import Report, check_vector_env


def make(num_envs: int) -> BridgeVectorEnv:
    try:
        return EnvPoolVectorEnv("CartPole-v1", num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    except ArgumentError as error:
        raise SystemExit(str(error)) from error


class Still(JaxEnv):
    observation_space = action_space = Box(0, 1)

    def __init__(self) -> None:
        self.reset_options = {"wind": Box(0, 1)}

    def reset(self, key: Any, wind: Any = 0.0) -> tuple[Any, Any, dict[str, Any]]:
        return {"wind": wind}, wind, {}

    def step(
        self, key: Any, state: Any, action: Any
    ) -> tuple[Any, Any, Any, Any, Any, dict[str, Any]]:
        return state, state["wind"], 0.0, False, False, {}


def still(num_envs: int) -> JaxVectorEnv:
    return JaxVectorEnv(Still(), num_envs, arrays="torch")


def roll_out(envs: BridgeVectorEnv, num_steps: int) -> Any:
    observations, _ = envs.reset(seed=0, options=None)
    for _ in range(num_steps):
        observations, _, _, _, _ = envs.step(envs.action_space.sample())
    return observations


def save(envs: BraxVectorEnv, path: Path) -> int:
    envs.save_state(path)
    return envs.num_envs


def check() -> Report:
    report = check_vector_env(lambda: make(4), steps=100, seed=0)
    report.raise_if_broken()
    print([rule.id for rule in report.held], gymbridge.__version__)
    return report


gym.register_envs(gymbridge)
