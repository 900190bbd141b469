"""skrl: `SkrlWrapper`, for batches of tensors on their device.

Pass batches of numpy arrays to skrl's own `wrap_env` instead.
"""

from __future__ import annotations

import copy
import math
from typing import Any, cast

from gymnasium import Space, spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.core.extras import needs
from gymbridge.trainers.batches import check_actions, check_batch, check_spaces

with needs("skrl", "gymbridge.trainers.skrl"):
    import torch
    from skrl.envs.wrappers.torch.gymnasium_envs import GymnasiumWrapper

__all__ = ["SkrlWrapper"]


class SkrlWrapper(GymnasiumWrapper):
    """skrl's wrapper of vector environments, for tensors that stay on their device.

    In every step, skrl's own `wrap_env` turns actions into numpy arrays and copies the results.

    Args:
        envs: A batch with ``arrays="torch"`` in NextStep or SameStep mode. Prefer NextStep: skrl
            bootstraps from the observation that a step returns, and in NextStep this is the final
            one.

    Raises:
        ArgumentTypeError: `envs` is not a vector environment.
        ArgumentError: `envs` gives other arrays, is in Disabled mode, in which skrl would never
            reset ended environments, or has spaces that skrl does not support.

    Observations are flat; the parts of a `Dict` are in the order of their sorted keys, as in skrl.
    Discrete actions are numbered from 0, as skrl's policies draw them.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        hint = "build one with `gymnasium.make_vec(id, num_envs=…, arrays='torch')`"
        modes = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP
        check_batch("envs", envs, "SkrlWrapper", modes, hint, arrays="torch")
        kinds = spaces.Box, spaces.Discrete, spaces.MultiDiscrete
        check_spaces(envs, "skrl", kinds, (*kinds, spaces.Dict))
        super().__init__(envs)
        # Copies, which models and agents may write into. What is not here, skrl takes of `envs`.
        single_spaces = envs.single_observation_space, envs.single_action_space
        self.single_observation_space, self.single_action_space = copy.deepcopy(single_spaces)
        self.metadata = copy.deepcopy(envs.metadata)
        space: Any = self.single_action_space
        self._action_shape = space.shape
        self._num_actions = math.prod(space.shape)
        self._start = torch.as_tensor(getattr(space, "start", 0), device=self.device)

    def __deepcopy__(self, memo: dict[int, Any]) -> SkrlWrapper:
        """Return a new wrapper around a copy of the batch."""
        # skrl's own class would look the method up in the batch.
        return type(self)(copy.deepcopy(self._env, memo))

    __copy__ = copy.deepcopy  # around a copied batch, not around the same one

    @property
    def observation_space(self) -> Space[Any]:
        """The space of one observation, before it is flattened."""
        return self.single_observation_space

    @property
    def action_space(self) -> Space[Any]:
        """The space of one action; agents number `Discrete` actions from 0."""
        return self.single_action_space

    def reset(self) -> tuple[torch.Tensor, Any]:
        """Begin new episodes the first time; later return the current observations, as skrl does.

        Returns:
            observations: (num_envs, size) float32, flat.
            infos: The infos of the batch.
        """
        if self._reset_once:
            obs, self._info = self._env.reset(seed=self._seed)
            self._observation, self._reset_once, self._seed = self._flatten(obs), False, None
        return cast("torch.Tensor", self._observation), self._info

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Any]:
        """Take one step in every environment.

        Args:
            actions: (num_envs, size), flat.

        Raises:
            ArgumentTypeError: `actions` are not a tensor.
            ActionError: They have another shape.

        Returns:
            observations: (num_envs, size) float32, flat.
            rewards: (num_envs, 1) float32.
            terminations: (num_envs, 1) bool.
            truncations: (num_envs, 1) bool.
            infos: The infos of the batch.
        """
        check_actions(actions, (self.num_envs, self._num_actions))
        actions = actions.reshape(self.num_envs, *self._action_shape) + self._start
        obs, rewards, terminations, truncations, infos = self._env.step(actions)
        obs = self._flatten(obs)
        self._observation, self._info = obs, infos
        flags = terminations.view(-1, 1), truncations.view(-1, 1)
        return obs, rewards.float().view(-1, 1), *flags, infos

    def _flatten(self, obs: Any) -> torch.Tensor:
        """Return observations as skrl's own wrapper makes them of numpy arrays."""
        if isinstance(obs, dict):
            return torch.cat([self._flatten(obs[key]) for key in sorted(obs)], dim=-1)
        return obs.reshape(self.num_envs, -1).float()
