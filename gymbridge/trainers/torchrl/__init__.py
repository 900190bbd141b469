"""TorchRL: `TorchRLEnv`, a batch of tensors as an ``EnvBase``, and `make_torchrl` in one line.

A script of TorchRL's `BraxEnv` changes one line::

    from gymbridge.trainers.torchrl import make_torchrl

    env = make_torchrl("Brax/ant-v0", 256, device="cuda")
"""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AutoresetMode

from gymbridge.core.extras import needs
from gymbridge.core.requests import read_flag
from gymbridge.trainers.batches import make_own

with needs("torchrl", "gymbridge.trainers.torchrl"):
    from torchrl.envs import EnvBase, TransformedEnv
    from torchrl.record import PixelRenderTransform

    from gymbridge.trainers.torchrl.env import TorchRLEnv

__all__ = ["TorchRLEnv", "make_torchrl"]


def make_torchrl(
    env_id: str,
    num_envs: int,
    *,
    categorical_action_encoding: bool = False,
    from_pixels: bool = False,
    **kwargs: Any,
) -> EnvBase:
    """Return a batch of one of gymbridge's ids for TorchRL: a `TorchRLEnv`, transformed or not.

    Args:
        env_id: The id, such as "Brax/ant-v0".
        num_envs: Size of the batch.
        categorical_action_encoding: See `TorchRLEnv`.
        from_pixels: Whether every step draws frames under "pixels", (num_envs, height, width, 3)
            uint8, by TorchRL's `PixelRenderTransform`.
        **kwargs: Keywords of the batch, such as ``device=``, ``max_episode_steps=``,
            ``differentiable=``, ``action_repeat=``, ``info_keys=`` or the engine's.

    Raises:
        ArgumentError: The id is of another package, or the batch is one that `TorchRLEnv` refuses.
        ArgumentTypeError: A flag is not a bool.
    """
    hint = "for others use torchrl's GymWrapper(gymnasium.make_vec(...))"
    if read_flag("from_pixels", from_pixels):
        kwargs["render_mode"] = "rgb_array"
    envs = make_own(env_id, num_envs, AutoresetMode.DISABLED, kwargs, hint)
    env = TorchRLEnv(envs, categorical_action_encoding=categorical_action_encoding)
    return TransformedEnv(env, PixelRenderTransform()) if from_pixels else env
