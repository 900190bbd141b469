"""skrl: `SkrlWrapper`, for batches of tensors on their device.

Pass batches of numpy arrays to skrl's own `wrap_env` instead.
"""

from __future__ import annotations

from typing import Any, cast

from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.errors import NotInstalledError
from gymbridge.trainers.batches import check_batch

try:
    import torch
    from skrl.envs.wrappers.torch.gymnasium_envs import GymnasiumWrapper
    from skrl.utils.spaces.torch import (
        flatten_tensorized_space,
        tensorize_space,
        unflatten_tensorized_space,
    )
except ImportError as error:
    if (error.name or "").split(".")[0] == "gymbridge":
        raise
    raise NotInstalledError(
        "gymbridge.trainers.skrl needs skrl and torch. Install them with `pip install skrl torch`, "
        f"or `pip install '.[skrl]'` in a checkout of gymbridge ({error})."
    ) from error

__all__ = ["SkrlWrapper"]


class SkrlWrapper(GymnasiumWrapper):
    """skrl's wrapper of vector environments, for tensors that stay on their device.

    In every step, skrl's own `wrap_env` turns actions into numpy arrays and copies the results.

    Args:
        envs: A batch with ``arrays="torch"`` in NEXT_STEP or SAME_STEP mode. Prefer NEXT_STEP: skrl
            bootstraps from the observation that a step returns, and in NEXT_STEP this is the final
            one.

    Raises:
        ArgumentTypeError: `envs` is not a vector environment.
        ArgumentError: `envs` gives other arrays, or is in DISABLED mode, in which skrl would never
            reset ended environments.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        hint = "build one with `gymnasium.make_vec(id, num_envs=…, arrays='torch')`"
        modes = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP
        check_batch("envs", envs, "SkrlWrapper", modes, hint, arrays="torch")
        super().__init__(envs)

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

        Returns:
            observations: (num_envs, size) float32, flat.
            rewards: (num_envs, 1) float32.
            terminations: (num_envs, 1) bool.
            truncations: (num_envs, 1) bool.
            infos: The infos of the batch.
        """
        given = unflatten_tensorized_space(self.action_space, actions)
        if isinstance(self.action_space, spaces.Discrete):
            given = given.flatten()
        obs, rewards, terminations, truncations, infos = self._env.step(given)
        obs = self._flatten(obs)
        self._observation, self._info = obs, infos  # which `reset` returns from the second on
        flags = terminations.view(-1, 1), truncations.view(-1, 1)
        return obs, rewards.float().view(-1, 1), *flags, infos

    def _flatten(self, obs: Any) -> Any:
        """Return observations as skrl's own wrapper makes them of numpy arrays."""
        space = self.observation_space
        flat: Any = flatten_tensorized_space(tensorize_space(space, obs, device=self.device))
        return flat.float()
