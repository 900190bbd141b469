"""TorchRL: `TorchRLEnv`, a batch of tensors as an ``EnvBase``, and `make_torchrl` in one line.

A script of TorchRL's `BraxEnv` changes one line::

    from gymbridge.trainers.torchrl import make_torchrl

    env = make_torchrl("Brax/ant-v0", 256, device="cuda")
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.core.requests import read_seed
from gymbridge.core.rows import is_mask
from gymbridge.core.vector_env import BridgeVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError, NotInstalledError
from gymbridge.registration import ENGINES
from gymbridge.trainers.batches import check_batch, check_own_id

try:
    import torch
    from tensordict import TensorDict, TensorDictBase
    from torchrl.data import (
        Binary,
        Bounded,
        Categorical,
        Composite,
        MultiCategorical,
        MultiOneHot,
        OneHot,
        TensorSpec,
        Unbounded,
    )
    from torchrl.envs import EnvBase
except ImportError as error:
    if (error.name or "").split(".")[0] == "gymbridge":
        raise
    raise NotInstalledError(
        "gymbridge.trainers.torchrl needs torchrl. Install it with `pip install torchrl`, or "
        f"`pip install '.[torchrl]'` in a checkout of gymbridge ({error})."
    ) from error

__all__ = ["TorchRLEnv", "make_torchrl"]

_RESERVED = ("action", "done", "info", "next", "reward", "terminated", "truncated")


def make_torchrl(
    env_id: str, num_envs: int, *, categorical_action_encoding: bool = False, **kwargs: Any
) -> TorchRLEnv:
    """Return a batch of one of gymbridge's ids for TorchRL.

    Args:
        env_id: The id, such as "Brax/ant-v0".
        num_envs: Size of the batch.
        categorical_action_encoding: See `TorchRLEnv`.
        **kwargs: Of the batch: ``device=``, ``max_episode_steps=``, ``differentiable=``,
            ``action_repeat=``, ``info_keys=`` or the engine's.

    Raises:
        ArgumentError: An id of another package.
    """
    check_own_id(env_id, "for others use torchrl's GymWrapper(gymnasium.make_vec(...))")
    wanted = {"autoreset_mode": "Disabled", "arrays": "torch", **kwargs}
    envs = gym.make_vec(env_id, num_envs=num_envs, **wanted)
    return TorchRLEnv(envs, categorical_action_encoding=categorical_action_encoding)


class _EnvIds:
    """All ids of gymbridge, as an attribute of the class."""

    def __get__(self, instance: Any, owner: Any) -> list[str]:
        return sorted(env_id for engine in ENGINES.values() for env_id, *_ in engine.ids())


class TorchRLEnv(EnvBase):
    """A ``torchrl.envs.EnvBase`` view of a batch with ``arrays="torch"`` in DISABLED mode.

    Args:
        envs: The batch; it is reset here.
        categorical_action_encoding: Whether `Discrete` and `MultiDiscrete` actions are integers;
            by default they are one-hot, as in TorchRL.

    Attributes:
        envs: The batch.
        available_envs: Ids that `make_torchrl` takes.

    Raises:
        ArgumentTypeError: It is no batch of gymbridge, or it is in a wrapper.
        ArgumentError: It gives other arrays, has another mode, or spaces that no spec describes.

    Tensors stay on the batch's device. Observations are under "observation", or under the keys of a
    `Dict` space; integers are integers, not one-hot. Infos are under ("info", key), zero after a
    reset in the environments that it left alone. The next observation of an ended episode is its
    final one. With ``differentiable=True`` a rollout carries the graph; `detach` cuts it.

    Example:
        >>> env = make_torchrl("EnvPool/CartPole-v1", 2)
        >>> rollout = env.rollout(3)
        >>> rollout.batch_size, rollout["next", "reward"].shape
        (torch.Size([2, 3]), torch.Size([2, 3, 1]))
    """

    available_envs = _EnvIds()

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
        device, batch = torch.device(envs.device), torch.Size([envs.num_envs])
        actions = _to_action_spec(envs.single_action_space, categorical_action_encoding)
        entries = _to_observation_specs(envs.single_observation_space)
        infos = _without_masks(envs.reset()[1])
        super().__init__(device=device, batch_size=batch)
        self.envs = envs
        self._is_one_hot = not categorical_action_encoding
        self._is_dict = isinstance(envs.single_observation_space, spaces.Dict)
        self._has_infos = bool(infos)
        self._next_seed: int | None = None
        entries = {key: _expand(spec, batch) for key, spec in entries.items()}
        if infos:
            entries["info"] = _to_info_spec(infos, batch)
        self.observation_spec = Composite(entries, shape=batch).to(device)
        self.full_action_spec = Composite(action=_expand(actions, batch), shape=batch).to(device)
        column = torch.Size([*batch, 1])
        self.reward_spec = Unbounded(column, device, torch.float32)
        flags = {key: Binary(1, column, device, torch.bool) for key in _FLAGS}
        self.done_spec = Composite(flags, shape=batch).to(device)

    def detach(self) -> None:
        """Cut the graph of a differentiable batch, as between two windows of a rollout.

        Raises:
            ArgumentError: The batch was not built with ``differentiable=True``.
        """
        envs: Any = self.envs
        envs.detach()

    def to(self, *args: Any, **kwargs: Any) -> TorchRLEnv:
        """Return the environment itself if it is on that device.

        Raises:
            ArgumentError: It is on another one: a batch stays where it was built.
        """
        device = torch.empty(0, device=self.device).to(*args, **kwargs).device
        if device != self.device:
            raise ArgumentError(
                f"`device` is fixed when a batch is built, here '{self.device}', got '{device}'; "
                f"build it with `device='{device}'`."
            )
        return self

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the batch."""
        super().close(raise_if_closed=raise_if_closed)
        self.envs.close()

    def _set_seed(self, seed: int | None) -> None:
        """Seed environment i with ``seed + i`` at the next reset of all environments."""
        self._next_seed = read_seed(seed)

    def _reset(
        self, tensordict: TensorDictBase | None = None, *, options: Any = None, **kwargs: Any
    ) -> TensorDictBase:
        """Begin new episodes, in every environment or where "_reset" is True.

        Args:
            tensordict: With "_reset", (num_envs, 1) bool, or without.
            options: Of the batch's `reset`, such as ``{"randomization": ...}``.
            **kwargs: TorchRL's own.
        """
        mask = None if tensordict is None else tensordict.get("_reset", None)
        seed = None
        if mask is None or bool(mask.all()):
            seed, self._next_seed = self._next_seed, None
        else:
            options = {**(options or {}), "reset_mask": mask.view(self.batch_size)}
        obs, infos = self.envs.reset(seed=seed, options=options)
        return self._to_tensordict(obs, infos, *[self.full_done_spec["done"].zero()] * 2)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Take one step, in every environment or where "_step" is True."""
        actions = self._to_actions(tensordict.get("action"))
        mask = tensordict.get("_step", None)
        envs: Any = self.envs
        if mask is None or bool(mask.all()):
            results = envs.step(actions)
        else:
            results = envs.step_some(actions, mask.view(self.batch_size))
        obs, rewards, terminations, truncations, infos = results
        flags = terminations.unsqueeze(-1), truncations.unsqueeze(-1)
        returned = self._to_tensordict(obs, infos, *flags)
        return returned.set("reward", rewards.unsqueeze(-1).float())

    def _to_tensordict(
        self, obs: Any, infos: Any, terminated: torch.Tensor, truncated: torch.Tensor
    ) -> TensorDictBase:
        entries = dict(obs) if self._is_dict else {"observation": obs}
        if self._has_infos:
            entries["info"] = _without_masks(infos)
        flags = {"terminated": terminated.clone(), "truncated": truncated.clone()}
        done = {"done": terminated | truncated}
        return TensorDict({**entries, **done, **flags}, self.batch_size, device=self.device)

    def _to_actions(self, actions: Any) -> Any:
        """Return actions as the batch takes them."""
        if isinstance(actions, TensorDictBase):
            return actions.to_dict()
        space = self.envs.single_action_space
        if self._is_one_hot and isinstance(space, spaces.Discrete):
            return actions.long().argmax(-1)
        if self._is_one_hot and isinstance(space, spaces.MultiDiscrete):
            parts = actions.long().split(space.nvec.tolist(), -1)
            return torch.stack([part.argmax(-1) for part in parts], -1)
        return actions


_FLAGS = ("done", "terminated", "truncated")


def _expand(spec: TensorSpec, batch: torch.Size) -> TensorSpec:
    return spec.expand(torch.Size([*batch, *spec.shape]))


def _to_action_spec(space: Space[Any], is_categorical: bool) -> TensorSpec:
    """Return the spec of one action.

    Raises:
        ArgumentError: A space that TorchRL has no spec for.
    """
    if isinstance(space, spaces.Discrete) and space.start == 0:
        n, one = int(space.n), torch.Size([])
        return Categorical(n, one) if is_categorical else OneHot(n, dtype=torch.int64)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1 and not space.start.any():
        kind = MultiCategorical if is_categorical else MultiOneHot
        return kind(space.nvec.tolist(), dtype=torch.int64)
    if isinstance(space, spaces.Dict):
        return Composite({key: _to_action_spec(sub, True) for key, sub in space.spaces.items()})
    return _to_spec("action_space", space)


def _to_observation_specs(space: Space[Any]) -> dict[str, TensorSpec]:
    """Return the specs of the entries of one observation.

    Raises:
        ArgumentError: A key that TorchRL uses itself, or a space that it has no spec for.
    """
    if not isinstance(space, spaces.Dict):
        return {"observation": _to_spec("observation_space", space)}
    for key in space.spaces:
        if key in _RESERVED or key.startswith("_"):
            raise ArgumentError(
                f"`envs` must not have observations under {key!r}, which TorchRL uses itself; give "
                "the environment another key."
            )
    return {key: _to_spec("observation_space", sub) for key, sub in space.spaces.items()}


def _to_spec(name: str, space: Space[Any]) -> TensorSpec:
    if isinstance(space, spaces.Dict):
        return Composite({key: _to_spec(name, sub) for key, sub in space.spaces.items()})
    if isinstance(space, spaces.MultiBinary):
        return Binary(shape=torch.Size(space.shape), dtype=_to_dtype(space.dtype))
    if isinstance(space, spaces.Discrete):
        low, high = int(space.start), int(space.start + space.n - 1)
        return Bounded(low, high, torch.Size([]), dtype=_to_dtype(space.dtype))
    if isinstance(space, spaces.MultiDiscrete):
        low, high = torch.as_tensor(space.start), torch.as_tensor(space.start + space.nvec - 1)
        return Bounded(low, high, dtype=_to_dtype(space.dtype))
    if not isinstance(space, spaces.Box):
        raise ArgumentError(f"`{name}` must be made of arrays, as TorchRL expects, got {space}.")
    dtype, shape = _to_dtype(space.dtype), torch.Size(space.shape)
    if np.isinf(space.low).all() and np.isinf(space.high).all():
        return Unbounded(shape, dtype=dtype)
    low, high = (torch.as_tensor(np.asarray(bound)) for bound in (space.low, space.high))
    return Bounded(low, high, shape, dtype=dtype)


def _to_info_spec(infos: dict[str, Any], batch: torch.Size) -> Composite:
    entries: dict[str, TensorSpec] = {}
    for key, value in infos.items():
        if isinstance(value, dict):
            entries[key] = _to_info_spec(value, batch)
        else:
            entries[key] = Unbounded(value.shape, dtype=value.dtype)
    return Composite(entries, shape=batch)


def _without_masks(infos: dict[str, Any]) -> dict[str, Any]:
    """Return infos without the mask beside each key, which a step has True everywhere."""
    return {
        key: _without_masks(value) if isinstance(value, dict) else value
        for key, value in infos.items()
        if not is_mask(key, infos)
    }


def _to_dtype(dtype: Any) -> torch.dtype:
    return torch.as_tensor(np.zeros((), dtype)).dtype
