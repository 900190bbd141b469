"""rl_games: `RlGamesVecEnv`, a batch of tensors as its ``IVecEnv``, for its runner by name.

Example::

    from gymbridge.trainers.rl_games import register_rl_games

    register_rl_games()
    runner.load(config)  # env_name: gymbridge, env_config: {env_id: EnvPool/CartPole-v1}
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.core.extras import needs
from gymbridge.core.requests import read_seed
from gymbridge.trainers.batches import check_actions, check_batch, check_spaces, make_own

with needs("rl_games", "gymbridge.trainers.rl_games"):
    import torch
    from rl_games.common import env_configurations, vecenv  # pyright: ignore[reportMissingImports]
    from rl_games.common.ivecenv import IVecEnv  # pyright: ignore[reportMissingImports]

__all__ = ["RlGamesVecEnv", "make_rl_games", "register_rl_games"]


def register_rl_games() -> None:
    """Let a configuration of rl_games name a batch, by ``env_name: gymbridge``.

    Its ``env_config`` has the arguments of `make_rl_games` but ``num_envs``, which is the
    configuration's ``num_actors``. Players get a batch of one.
    """
    vecenv.register("GYMBRIDGE", lambda _, num, **given: make_rl_games(num_envs=num, **given))
    kinds = {"vecenv_type": "GYMBRIDGE", "env_creator": lambda **given: make_rl_games(**given)}
    env_configurations.register("gymbridge", kinds)


def make_rl_games(
    env_id: str, num_envs: int = 1, *, seed: int | None = None, **kwargs: Any
) -> RlGamesVecEnv:
    """Return a batch of one of gymbridge's ids for rl_games.

    Args:
        env_id: The id, such as "Brax/ant-v0".
        num_envs: Size of the batch.
        seed: See `RlGamesVecEnv.seed`. The runner puts the configuration's own here.
        **kwargs: Keywords of the batch, such as ``device=`` or the engine's.

    Raises:
        ArgumentError: The id is of another package, or `RlGamesVecEnv` refuses the batch.
    """
    hint = "`RlGamesVecEnv` takes batches of torch tensors only"
    envs = make_own(env_id, num_envs, AutoresetMode.SAME_STEP, kwargs, hint)
    view = RlGamesVecEnv(envs)
    view.seed(seed)
    return view


class RlGamesVecEnv(IVecEnv):
    """An ``IVecEnv`` (rl_games 1.6) view of a batch with ``arrays="torch"`` in SameStep mode.

    Args:
        envs: The batch. Its actions are a `Box` or a `Discrete`, its observations a `Box` or a
            `Dict` of Boxes.

    Attributes:
        envs: The batch.
        observation_space, action_space: Those of one environment, as rl_games reads them.

    Raises:
        ArgumentTypeError: `envs` is not a vector environment.
        ArgumentError: `envs` gives other arrays, has another autoreset mode, or has spaces that
            rl_games does not support.

    Observations are float32, and bytes stay bytes. The parts of a `Dict` are flattened into one
    `Box`, in the order of their sorted keys. Actions of a `Box` are flat, and those of a `Discrete`
    are numbered from 0. ``infos["time_outs"]`` is True where an episode was truncated and not
    terminated, and ``infos["final_obs"]`` has the observations before new episodes began.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        hint = "build one with `make_rl_games`"
        check_batch("envs", envs, "RlGamesVecEnv", AutoresetMode.SAME_STEP, hint, arrays="torch")
        check_spaces(envs, "rl_games", (spaces.Box, spaces.Discrete), (spaces.Box,))
        self.envs: Any = envs
        self._seed: int | None = None
        obs_space: Any = envs.single_observation_space
        if isinstance(obs_space, spaces.Dict) or not obs_space.shape:
            obs_space = spaces.flatten_space(obs_space)
        dtype = np.uint8 if obs_space.dtype == np.uint8 else np.float32
        self.observation_space = spaces.Box(obs_space.low, obs_space.high, dtype=dtype)
        space: Any = envs.single_action_space
        is_box = isinstance(space, spaces.Box)
        self.action_space = spaces.flatten_space(space) if is_box else spaces.Discrete(space.n)
        self._start = 0 if is_box else int(space.start)

    __copy__ = copy.deepcopy  # around a copied batch, not around the same one

    def seed(self, seed: int | None) -> None:
        """Seed environment i with ``seed + i`` at the next reset; later resets are not seeded."""
        self._seed = read_seed(seed)

    def get_env_info(self) -> dict[str, Any]:
        """Return the spaces of one environment."""
        return {"observation_space": self.observation_space, "action_space": self.action_space}

    def reset(self) -> torch.Tensor:
        """Begin new episodes everywhere, and return their observations, (num_envs, ...)."""
        obs, _ = self.envs.reset(seed=self._seed)
        self._seed = None
        return self._to_tensor(obs)

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Take one step in every environment; where an episode ends, the next one begins.

        Args:
            actions: (num_envs,) int for a `Discrete`, (num_envs, size) float for a `Box`.

        Raises:
            ArgumentTypeError: `actions` are not a tensor.
            ActionError: They have another shape.

        Returns:
            observations: (num_envs, ...), of the new episode where one ended.
            rewards: (num_envs,) float32.
            dones: (num_envs,) bool, True where an episode ended.
            infos: "time_outs", (num_envs,) bool, and "final_obs", (num_envs, ...) as observations.
        """
        num_envs, space = self.envs.num_envs, self.envs.single_action_space
        if num_envs == 1 and getattr(actions, "ndim", 1) == 0:
            actions = actions.reshape(1)  # Players squeeze it.
        check_actions(actions, (num_envs, *(self.action_space.shape or ())))
        actions = actions.reshape(num_envs, *space.shape) + self._start
        obs, rewards, terminations, truncations, infos = self.envs.step(actions)
        final_obs = self._to_tensor(infos["final_obs"])
        extras = {"time_outs": truncations, "final_obs": final_obs}
        return self._to_tensor(obs), rewards.float(), terminations | truncations, extras

    def close(self) -> None:
        """Close the batch."""
        self.envs.close()

    def _to_tensor(self, obs: Any) -> torch.Tensor:
        if isinstance(obs, dict):
            obs = torch.cat([obs[key].reshape(self.envs.num_envs, -1) for key in sorted(obs)], 1)
        obs = obs.reshape(self.envs.num_envs, *self.observation_space.shape)
        return obs if self.observation_space.dtype == np.uint8 else obs.float()
