"""rsl_rl: `RslRlVecEnv`, a batch of tensors as its ``VecEnv``, and `make_rsl_rl` for an id.

Example::

    from rsl_rl.runners import OnPolicyRunner

    from gymbridge.trainers.rsl_rl import make_rsl_rl

    env = make_rsl_rl("Playground/CartpoleBalance-v0", 1024)
    OnPolicyRunner(env, train_cfg, device=str(env.device)).learn(100)
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.core.extras import needs
from gymbridge.errors import ArgumentError
from gymbridge.trainers.batches import (
    check_actions,
    check_batch,
    check_final_obs,
    check_spaces,
    make_own,
)

with needs("rsl_rl", "gymbridge.trainers.rsl_rl"):
    import torch
    from rsl_rl.env import VecEnv
    from tensordict import TensorDict

    from gymbridge.private.tensordict import make_tensordict

__all__ = ["RslRlVecEnv", "make_rsl_rl"]


def make_rsl_rl(env_id: str, num_envs: int, *, cfg: Any = None, **kwargs: Any) -> RslRlVecEnv:
    """Return a batch of one of gymbridge's ids for rsl_rl.

    Args:
        env_id: The id, such as "Brax/ant-v0".
        num_envs: Size of the batch.
        cfg: See `RslRlVecEnv`.
        **kwargs: Keywords of the batch, such as ``device=``, ``max_episode_steps=``,
            ``randomization_fn=`` or the engine's.

    Raises:
        ArgumentError: The id is of another package, or the batch is one that `RslRlVecEnv` refuses.
    """
    hint = "`RslRlVecEnv` takes batches of torch tensors only"
    envs = make_own(env_id, num_envs, AutoresetMode.SAME_STEP, kwargs, hint)
    return RslRlVecEnv(envs, cfg=cfg)


class RslRlVecEnv(VecEnv):
    """A ``rsl_rl.env.VecEnv`` (rsl_rl 5) view of a batch with ``arrays="torch"`` in SameStep mode.

    Args:
        envs: The batch, which is reset here. Its actions are a `Box`, its observations a `Box` or a
            `Dict` of Boxes.
        cfg: The configuration of the environment, which rsl_rl's loggers store.

    Attributes:
        envs: The batch.
        num_actions: Size of one action, flattened.
        max_episode_length: The time limit in steps; 2**31 - 1 without one.
        device: The device of the batch, a `torch.device`.
        step_dt: 1.0; rsl_rl multiplies the weight of its curiosity reward (RND) by it.

    Raises:
        ArgumentTypeError: `envs` is not a vector environment.
        ArgumentError: `envs` gives other arrays, has another autoreset mode, or has spaces that
            rsl_rl does not support.

    Observations are float32 in the group "policy", or in groups named by the keys of a `Dict`.
    Groups are flat, (num_envs, size). Images, of three axes, stay as they are; rsl_rl's CNN takes
    those with the channels first. Actions are clipped to their space. ``extras["time_outs"]`` is
    True where an episode was truncated and not terminated. In steps that end episodes,
    ``extras["log"]`` has the mean return and the mean length of these episodes, as rsl_rl's other
    environments have, and ``extras["final_observations"]`` has the final observations, which
    rsl_rl's own PPO does not read.
    """

    step_dt = 1.0

    def __init__(self, envs: VectorEnv[Any, Any, Any], *, cfg: Any = None) -> None:
        hint = "build one with `make_rsl_rl`"
        check_batch("envs", envs, "RslRlVecEnv", AutoresetMode.SAME_STEP, hint, arrays="torch")
        check_spaces(envs, "rsl_rl", (spaces.Box,), (spaces.Box,))
        batch: Any = envs.unwrapped
        self.envs = envs
        self.num_envs, self.device = envs.num_envs, torch.device(batch.device)
        limit = batch.max_episode_steps
        self.max_episode_length = 2**31 - 1 if limit is None else limit
        self.cfg = _Config(cfg or {}) if cfg is None or isinstance(cfg, dict) else cfg
        space: Any = envs.single_action_space
        self._low = torch.tensor(space.low, device=self.device)
        self._high = torch.tensor(space.high, device=self.device)
        self.num_actions = self._low.numel()
        self.reset()

    def __reduce__(self) -> Any:
        """Pickle and copy by building the view again around a copy of the batch."""
        return partial(type(self), cfg=self.cfg), (self.envs,)

    __copy__ = copy.deepcopy  # around a copied batch, not around the same one

    @property
    def unwrapped(self) -> RslRlVecEnv:
        """This view itself, where rsl_rl looks for `step_dt`."""
        return self

    def reset(self, seed: int | None = None) -> TensorDict:
        """Begin new episodes everywhere, and return their observations. rsl_rl never calls this.

        Args:
            seed: Environment i gets ``seed + i``; None to continue the random streams.
        """
        self._obs = self.envs.reset(seed=seed)[0]
        self._lengths = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        self._returns = torch.zeros(self.num_envs, device=self.device)
        return self.get_observations()

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps since each episode began, (num_envs,) int64, a copy.

        Assigning raises an `ArgumentError`, because the batch counts the steps itself. So
        ``learn(init_at_random_ep_len=True)`` is not supported.
        """
        return self._lengths.clone()

    @episode_length_buf.setter
    def episode_length_buf(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, lengths: Any
    ) -> None:
        """Raise an `ArgumentError`."""
        raise ArgumentError(
            "`episode_length_buf` cannot be assigned, because the batch counts the steps itself; "
            "call `learn(..., init_at_random_ep_len=False)`."
        )

    def get_observations(self) -> TensorDict:
        """Return a copy of the current observations."""
        return self._to_groups(self._obs)

    def _to_groups(self, obs: Any) -> TensorDict:
        groups = obs if isinstance(obs, dict) else {"policy": obs}
        entries = {key: _copy_as_group(value) for key, value in groups.items()}
        return make_tensordict(entries, torch.Size([self.num_envs]), self.device)

    def step(
        self, actions: torch.Tensor
    ) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Take one step in every environment; where an episode ends, the next one begins.

        Args:
            actions: (num_envs, num_actions) float.

        Raises:
            ArgumentTypeError: `actions` are not a tensor.
            ActionError: They have another shape.
            EnvContractError: A wrapper of the batch dropped ``infos["final_obs"]``.

        Returns:
            observations: Of the new episode where one ended, else of the running one.
            rewards: (num_envs,) float32.
            dones: (num_envs,) int64, 1 where an episode ended.
            extras: "time_outs", (num_envs,) bool; at ends "log" and "final_observations".

        Final observations are those with which episodes ended, and where none ended those above.
        """
        check_actions(actions, (self.num_envs, self.num_actions))
        actions = actions.reshape(self.num_envs, *self._low.shape)
        results = self.envs.step(torch.clamp(actions, self._low, self._high))
        self._obs, rewards, terminations, truncations, infos = results
        rewards, dones = rewards.float(), terminations | truncations
        self._returns = self._returns + rewards.detach()
        self._lengths = self._lengths + 1
        extras: dict[str, Any] = {"time_outs": truncations}
        if dones.any():
            check_final_obs("envs", infos, dones.nonzero()[:, 0].cpu().numpy())
            extras["final_observations"] = self._to_groups(infos["final_obs"])
            extras["log"] = {
                "/episode/return": self._returns[dones].mean(),
                "/episode/length": self._lengths[dones].float().mean(),
            }
            # A product with a mask would keep a return that is not finite.
            self._returns = self._returns.masked_fill(dones, 0)
            self._lengths = self._lengths.masked_fill(dones, 0)
        return self.get_observations(), rewards, dones.long(), extras

    def close(self) -> None:
        """Close the batch."""
        self.envs.close()


class _Config(dict[str, Any]):
    """A configuration as rsl_rl's loggers read it."""

    def to_dict(self) -> dict[str, Any]:
        return dict(self)


def _copy_as_group(obs: torch.Tensor) -> torch.Tensor:
    """Return a copy as rsl_rl's MLPs take it; images, of three axes, are for its CNNs."""
    obs = obs if obs.ndim == 4 else obs.reshape(len(obs), -1)
    return obs.to(torch.float32, copy=True)
