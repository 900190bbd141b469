"""Policies for `gymbridge rollout`: random actions, or those of a file.

docs/reference/command-line.md says what files of each ending contain. Loading a ``.zip`` or
statistics runs code that is in them, so load only what you trust.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import VectorEnv

from gymbridge.command_line.batches import explain
from gymbridge.core.arrays.adapter import map_arrays
from gymbridge.core.extras import needs
from gymbridge.errors import ArgumentError

__all__ = ["Policy", "load_policy"]

Policy = Callable[[Any], Any]
"""From observations, (num_envs, ...), to actions, (num_envs, ...)."""


def load_policy(
    path: Path | None, envs: VectorEnv[Any, Any, Any], seed: int, statistics: Path | None = None
) -> Policy:
    """Return the policy of a file, or a random one for None, to act in a batch with numpy arrays.

    `statistics` is a file of Stable-Baselines3's `VecNormalize`. A note on standard error says
    where one seems to be missing.

    Raises:
        ArgumentError: There is no such file, its ending is unknown, it cannot be read, the
            statistics belong to no .zip, or (when the policy is called) it cannot act on these
            observations.
        NotInstalledError: torch or Stable-Baselines3 is not installed.
    """
    if statistics is not None and (path is None or path.suffix != ".zip"):
        raise ArgumentError(f"`--vecnormalize` needs a `--policy` that ends in .zip, got {path}.")
    if path is None:
        envs.action_space.seed(seed)
        return lambda obs: envs.action_space.sample()
    if path.suffix not in (".pt", ".pt2", ".zip"):
        raise ArgumentError(f"`--policy` must end in .pt, .pt2 or .zip, got {str(path)!r}.")
    with explain(f"`--policy`: {path} cannot be loaded"):
        if path.suffix == ".zip":
            from gymbridge.trainers.sb3.saved import load_actor

            policy = load_actor(path, envs, statistics)
        else:
            policy = _load_torch(path)

    def act(obs: Any) -> Any:
        with explain(f"`--policy`: {path} cannot act on observations in {envs.observation_space}"):
            return _cast(policy(obs), envs.action_space)

    return act


def _cast(actions: Any, space: Space[Any]) -> Any:
    """Return actions as numpy arrays with the dtype of the space."""
    if isinstance(space, spaces.Dict):
        return {key: _cast(actions[key], sub) for key, sub in space.spaces.items()}
    return np.asarray(actions).astype(space.dtype)


def _load_torch(path: Path) -> Policy:
    with needs("torch", "This policy"):
        import torch
    if path.suffix == ".pt2":
        module = torch.export.load(path).module()
    else:
        with warnings.catch_warnings():
            # torch 2.13 calls it deprecated in favour of `torch.export`; files of it are about.
            warnings.simplefilter("ignore", DeprecationWarning)
            module = torch.jit.load(str(path), "cpu").eval()

    def act(obs: Any) -> Any:
        tensors = map_arrays(lambda part: torch.as_tensor(np.asarray(part, np.float32)), obs)
        with torch.inference_mode():
            return module(tensors)

    return act
