"""Policies for `gymbridge rollout`: random actions, or those of a file.

The ending of the file says what it contains:

- ``.pt``: a module that `torch.jit.save` wrote, or ``.pt2``: one that `torch.export.save` wrote. It
  maps observations to actions. Observations are a float32 tensor (num_envs, ...), or a dict of such
  for `Dict` observations, whatever the dtype of the space. Actions are a tensor (num_envs, ...), or
  a dict of such, in the action space; they are cast to its dtype and not clipped.
- ``.zip``: a model that Stable-Baselines3's ``save`` wrote. Its actions are the deterministic ones.
  The statistics of the `VecNormalize` that it was trained in are in a file of their own.

Loading a ``.zip`` or statistics runs code that is in them, so load only what you trust.
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
from gymbridge.command_line.output import LOG
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
        raise ArgumentError(
            "`--vecnormalize` needs a `--policy` that ends in .zip, got "
            f"{'none' if path is None else repr(str(path))}."
        )
    if path is None:
        envs.action_space.seed(seed)
        return lambda obs: envs.action_space.sample()
    if path.suffix not in (".pt", ".pt2", ".zip"):
        raise ArgumentError(f"`--policy` must end in .pt, .pt2 or .zip, got {str(path)!r}.")
    for flag, file in (("policy", path), ("vecnormalize", statistics)):
        if file is not None and not file.is_file():
            raise ArgumentError(f"`--{flag}`: there is no file {str(file)!r}.")
    with explain(f"`--policy`: {path} cannot be loaded"):
        is_sb3 = path.suffix == ".zip"
        policy = _load_sb3(path, envs, statistics) if is_sb3 else _load_torch(path)

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
        return _on_tensors(torch.export.load(path).module())
    with warnings.catch_warnings():
        # torch 2.13 calls it deprecated in favour of `torch.export`; files of it are about.
        warnings.simplefilter("ignore", DeprecationWarning)
        return _on_tensors(torch.jit.load(str(path), "cpu").eval())


def _on_tensors(module: Callable[[Any], Any]) -> Policy:
    import torch

    def to_tensor(obs: Any) -> Any:
        return torch.as_tensor(np.asarray(obs, np.float32))

    def act(obs: Any) -> Any:
        with torch.inference_mode():
            return module(map_arrays(to_tensor, obs))

    return act


def _load_sb3(path: Path, envs: VectorEnv[Any, Any, Any], statistics: Path | None) -> Policy:
    from gymbridge.trainers.sb3.saved import find_vecnormalize, load_actor

    if statistics is None and (sign := find_vecnormalize(path)):
        LOG.warning(
            "%s seems to have been trained in VecNormalize: %s. Without its statistics the policy "
            "gets other observations than in training; give them by `--vecnormalize FILE`.",
            path,
            sign,
        )
    return load_actor(path, envs, statistics)
