"""`TorchRLEnv`: a batch of tensors as TorchRL's ``EnvBase``."""

from __future__ import annotations

import copy
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from tensordict import TensorDictBase
from torchrl.data import Binary, Composite, OneHot, Unbounded
from torchrl.envs import EnvBase

from gymbridge.core.arrays.adapter import map_arrays
from gymbridge.core.requests import read_flag, read_seed
from gymbridge.core.vector_env import BridgeVectorEnv
from gymbridge.engines import ENGINES
from gymbridge.errors import ArgumentError, ArgumentTypeError, ResetNeededError
from gymbridge.private.tensordict import make_tensordict
from gymbridge.trainers.batches import check_actions, check_batch
from gymbridge.trainers.torchrl.specs import (
    from_one_hot,
    read_infos,
    to_action_spec,
    to_info_spec,
    to_observation_specs,
    widen,
)
from gymbridge.wrappers.libraries import find_library, select

__all__ = ["TorchRLEnv"]

_FLAGS = ("done", "terminated", "truncated")


class TorchRLEnv(EnvBase):
    """A ``torchrl.envs.EnvBase`` view of a batch with ``arrays="torch"`` in Disabled mode.

    Args:
        envs: The batch, which is reset here.
        categorical_action_encoding: Whether `Discrete` and `MultiDiscrete` actions are integers;
            by default they are one-hot, as in TorchRL. In a `Dict`, and in spaces that do not begin
            at 0 or have several axes, they are integers always.

    Attributes:
        envs: The batch.
        available_envs: Ids that `make_torchrl` takes.

    Raises:
        ArgumentTypeError: `envs` is not a batch of gymbridge, or is inside a wrapper.
        ArgumentError: `envs` gives other arrays, has another autoreset mode, or has spaces for
            which TorchRL has no spec.

    Tensors stay on the batch's device. Observations are under "observation", or under the keys of a
    `Dict` space. Integer observations stay integers, not one-hot. Infos are under ("info", key).
    Unsigned integers of more than a byte, which torch cannot add or mask, become int64. The next
    observation of an ended episode is its final one. With ``differentiable=True`` a rollout carries
    the graph; `detach` cuts it.

    Example:
        >>> from gymbridge.trainers.torchrl import make_torchrl
        >>> env = make_torchrl("EnvPool/CartPole-v1", 2)
        >>> rollout = env.rollout(3)
        >>> rollout.batch_size, rollout["next", "reward"].shape
        (torch.Size([2, 3]), torch.Size([2, 3, 1]))
    """

    available_envs = sorted(env_id for engine in ENGINES.values() for env_id, *_ in engine.ids())

    def __init__(
        self, envs: VectorEnv[Any, Any, Any], *, categorical_action_encoding: bool = False
    ) -> None:
        hint = "build one with `make_torchrl`"
        check_batch("envs", envs, "TorchRLEnv", AutoresetMode.DISABLED, hint, arrays="torch")
        if not isinstance(envs, BridgeVectorEnv):
            raise ArgumentTypeError(
                f"`envs` must be a batch of gymbridge without wrappers, got {type(envs).__name__}; "
                "TorchRL's transforms do what vector wrappers do."
            )
        is_categorical = read_flag("categorical_action_encoding", categorical_action_encoding)
        device, batch = torch.device(envs.device), torch.Size([envs.num_envs])
        actions = to_action_spec(envs.single_action_space, is_categorical)
        entries = to_observation_specs(envs.single_observation_space)
        infos = read_infos(envs.reset()[1])
        super().__init__(device=device, batch_size=batch)
        self.envs: Any = envs
        self._is_one_hot = isinstance(actions, OneHot)  # `MultiOneHot` is a subclass.
        self._next_seed: int | None = None
        none = torch.zeros(batch, dtype=torch.bool, device=device)
        # What the last call left. It is apart, since `EnvBase` is slow to set an attribute.
        self._last = SimpleNamespace(terminated=none, truncated=none, infos=infos)
        observations = Composite(entries).expand(batch)
        if infos:
            observations["info"] = to_info_spec(infos, batch)
        self.observation_spec = observations.to(device)
        self.full_action_spec = Composite(action=actions).expand(batch).to(device)
        column = torch.Size([*batch, 1])
        self.reward_spec = Unbounded(column, device, torch.float32)
        flags = {key: Binary(1, column, device, torch.bool) for key in _FLAGS}
        self.done_spec = Composite(flags, shape=batch).to(device)

    def __reduce__(self) -> Any:
        """Pickle and copy by building the view again around a copy of the batch."""
        make = partial(type(self), categorical_action_encoding=not self._is_one_hot)
        return make, (self.envs,)

    __copy__ = copy.deepcopy  # around a copied batch, not around the same one

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.envs!r}, device='{self.device}')"

    @property
    def is_closed(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the batch is closed."""
        return "envs" not in self.__dict__ or self.envs.closed

    @is_closed.setter
    def is_closed(self, value: bool) -> None:
        """Do nothing: TorchRL assigns it when it closes, and the batch knows by itself."""

    def detach(self) -> None:
        """Cut the graph of a differentiable batch, as between two windows of a rollout.

        Raises:
            ArgumentError: The batch was not built with ``differentiable=True``.
        """
        self.envs.detach()

    def to(self, *args: Any, **kwargs: Any) -> TorchRLEnv:
        """Return the environment itself if it is on that device.

        Raises:
            ArgumentError: It is on another device; a batch cannot be moved.
        """
        device = torch.empty(0, device=self.device).to(*args, **kwargs).device
        if device != self.device:
            raise ArgumentError(
                f"`device` is fixed when a batch is built, here '{self.device}', got '{device}'; "
                f"build it with `device='{device}'`."
            )
        return self

    def render(self, mode: str = "rgb_array") -> torch.Tensor:
        """Draw each environment in its current state, for TorchRL's `PixelRenderTransform`.

        Args:
            mode: "rgb_array", the only mode.

        Returns:
            frames: (num_envs, height, width, 3) uint8.

        Raises:
            ArgumentError: `mode` is another one, or the batch was built without
                ``render_mode="rgb_array"``.
        """
        if mode != "rgb_array":
            raise ArgumentError(f"`mode` must be 'rgb_array', got {mode!r}.")
        return torch.as_tensor(np.stack(self.envs.render())).to(self.device)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the batch."""
        super().close(raise_if_closed=raise_if_closed)
        self.envs.close()

    def _set_seed(self, seed: int | None) -> None:
        """Seed environment i with ``seed + i`` at the reset of all that must follow."""
        self._next_seed = read_seed(seed)

    def _reset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        tensordict: TensorDictBase | None = None,
        *,
        seed: Any = None,
        options: dict[str, Any] | None = None,
    ) -> TensorDictBase:
        """Begin new episodes, in every environment or where "_reset", (num_envs, 1) bool, is True.

        The seed of `set_seed` counts in a full reset. `options` are those of the batch's `reset`,
        such as ``{"randomization": ...}``; its mask is the tensordict's "_reset".
        """
        if options and "reset_mask" in options:
            raise ArgumentError(
                "`options` must not have 'reset_mask' here; TorchRL's mask is the entry '_reset' "
                "of the tensordict."
            )
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is None or bool(mask.all()):
            seed = self._next_seed if seed is None else seed
            obs, infos = self.envs.reset(seed=seed, options=options)
            self._next_seed = None
            none = torch.zeros_like(self._last.terminated)
            return self._to_tensordict(obs, infos, none, none)
        mask = mask.view(self.batch_size)
        obs, infos = self.envs.reset(seed=seed, options={**(options or {}), "reset_mask": mask})
        flags = self._last.terminated & ~mask, self._last.truncated & ~mask
        return self._to_tensordict(obs, infos, *flags, began=mask)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Take one step, in every environment or where "_step" is True."""
        if self._next_seed is not None:
            raise ResetNeededError(
                f"`set_seed({self._next_seed})` takes effect at a reset of all environments; call "
                "`reset()` before `step`. Seed the environment of a collector before the "
                "collector is built, since it resets the environment then."
            )
        actions = self._to_actions(tensordict.get("action"))
        mask = tensordict.get("_step", None)
        if mask is None or bool(mask.all()):
            results = self.envs.step(actions)
        else:
            results = self.envs.step_some(actions, mask.view(self.batch_size))
        obs, rewards, terminations, truncations, infos = results
        column = rewards.unsqueeze(-1).float()
        return self._to_tensordict(obs, infos, terminations, truncations, reward=column)

    def _to_tensordict(
        self,
        obs: Any,
        infos: Any,
        terminated: torch.Tensor,
        truncated: torch.Tensor,
        began: torch.Tensor | None = None,
        **entries: torch.Tensor,
    ) -> TensorDictBase:
        """Return what a call returned; infos of environments that began no episode are kept."""
        last = self._last
        last.terminated, last.truncated = terminated.clone(), truncated.clone()
        entries.update(map_arrays(widen, obs if isinstance(obs, dict) else {"observation": obs}))
        if last.infos:
            found: Any = read_infos(infos)
            if began is not None:
                found = select(find_library("torch"), began, found, last.infos)
            entries["info"] = found
            # A copy, since the user may write into those that the step returns.
            last.infos = map_arrays(torch.clone, found)
        flags = zip(_FLAGS, (terminated | truncated, terminated, truncated), strict=True)
        entries.update((key, flag.unsqueeze(-1)) for key, flag in flags)
        return make_tensordict(entries, self.batch_size, self.device)

    def _to_actions(self, actions: Any) -> Any:
        """Return actions as the batch takes them; one-hot ones have the shape of their spec."""
        if isinstance(actions, TensorDictBase):
            return actions.to_dict()
        if not self._is_one_hot:
            return actions
        check_actions(actions, tuple(self.full_action_spec["action"].shape))
        return from_one_hot(actions, self.envs.single_action_space)
