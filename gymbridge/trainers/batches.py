"""Batches for trainers: how they are made from an id, and the checks that every view makes."""

from __future__ import annotations

import inspect
from functools import partial
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import (
    find_highest_version,
    get_env_id,
    load_env_creator,
    parse_env_id,
)
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from gymbridge.core.actions import check_shape
from gymbridge.engines import ENGINES, find_engine
from gymbridge.errors import ArgumentError, ArgumentTypeError, EnvContractError

__all__ = [
    "check_actions",
    "check_batch",
    "check_final_obs",
    "make_same_step",
    "make_tensors",
    "sync_same_step",
]


def make_same_step(env_id: str, num_envs: int, kwargs: dict[str, Any]) -> VectorEnv[Any, Any, Any]:
    """Return a batch in SameStep mode of any id of Gymnasium's registry.

    An id whose own batch takes no autoreset mode runs in `SyncVectorEnv`. Environments that can
    draw frames get ``render_mode="rgb_array"``, except in a batch of another package.
    """
    if not _has_same_step(env_id):
        return sync_same_step(partial(_make_env, env_id, kwargs), num_envs)
    same_step = {"autoreset_mode": AutoresetMode.SAME_STEP, **kwargs}
    if find_engine(env_id) is not None and "render_mode" not in kwargs:
        try:
            return gym.make_vec(env_id, num_envs=num_envs, render_mode="rgb_array", **same_step)
        except TypeError as error:
            if "'render_mode'" not in str(error):
                raise
    try:
        return gym.make_vec(env_id, num_envs=num_envs, **same_step)
    except TypeError as error:
        # Some batches take any keyword and hand it to an environment, which does not know this one.
        if "autoreset_mode" not in str(error):
            raise
    return sync_same_step(partial(_make_env, env_id, kwargs), num_envs)


def make_tensors(
    env_id: str, num_envs: int, mode: AutoresetMode, kwargs: dict[str, Any], hint: str
) -> VectorEnv[Any, Any, Any]:
    """Return a batch of torch tensors of one of gymbridge's ids.

    For another id it raises an `ArgumentError` that ends with `hint`.
    """
    if find_engine(env_id) is None:
        raise ArgumentError(
            f"`env_id` must be an id of gymbridge, which begins with one of {', '.join(ENGINES)}, "
            f"got {env_id!r}; {hint}."
        )
    wanted = {"autoreset_mode": mode, "arrays": "torch", **kwargs}
    return gym.make_vec(env_id, num_envs=num_envs, **wanted)


def sync_same_step(make_env: Any, num_envs: int) -> VectorEnv[Any, Any, Any]:
    """Return a `SyncVectorEnv` in SameStep mode of the environments that a function makes."""
    return SyncVectorEnv([make_env] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


def _has_same_step(env_id: str) -> bool:
    """Return whether the id has a batch of its own that takes an autoreset mode."""
    module, _, name = env_id.rpartition(":")
    if module:
        import_module(module)
    namespace, name, version = parse_env_id(name)
    if version is None:  # `gymnasium.make` takes the highest one too.
        version = find_highest_version(namespace, name)
    entry_point = gym.spec(get_env_id(namespace, name, version)).vector_entry_point
    if entry_point is None:
        return False
    make = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    parameters = inspect.signature(make).parameters.values()
    return any(p.name == "autoreset_mode" or p.kind is p.VAR_KEYWORD for p in parameters)


def _make_env(env_id: str, kwargs: dict[str, Any]) -> gym.Env[Any, Any]:
    """Return a single environment that renders arrays if it can, as SB3 makes them."""
    try:
        return gym.make(env_id, **{"render_mode": "rgb_array", **kwargs})
    except TypeError:
        return gym.make(env_id, **kwargs)


def check_batch(
    name: str,
    envs: Any,
    trainer: str,
    modes: AutoresetMode | tuple[AutoresetMode, ...],
    hint: str,
    *,
    arrays: str = "numpy",
) -> None:
    """Raise unless a batch has the arrays and the autoreset mode that a trainer needs.

    `name` is the argument that took the batch. `modes` is the mode that it must have, or several of
    which it must have one. `hint` says what to do where `envs` is no batch.
    """
    if not isinstance(envs, VectorEnv):
        raise ArgumentTypeError(
            f"`{name}` must be a gymnasium.vector.VectorEnv, got {type(envs).__name__}; {hint}."
        )
    given = getattr(envs.unwrapped, "arrays", None)
    if (given or "numpy") != arrays:
        found, advice = f"a batch with `arrays={given!r}`", f"build it with `arrays={arrays!r}`"
        if given is None:  # A batch of another package has no such keyword.
            found, advice = type(envs.unwrapped).__name__, hint
        raise ArgumentError(
            f"`{name}` must give {arrays} arrays, as {trainer} expects, got {found}; {advice}."
        )
    mode = envs.metadata.get("autoreset_mode")
    modes = (modes,) if isinstance(modes, AutoresetMode) else modes
    if mode not in modes:
        wanted, found = modes[0], getattr(mode, "value", mode)
        known = " or ".join(each.value for each in modes)
        raise ArgumentError(
            f"`{name}` must restart episodes by {known}, as {trainer} expects, got {found}; build "
            f"it with `autoreset_mode={wanted.value!r}` (gymbridge) or `autoreset_mode={wanted}` "
            "(SyncVectorEnv, AsyncVectorEnv)."
        )


def check_actions(actions: Any, shape: tuple[int, ...]) -> None:
    """Raise unless actions are a torch tensor of a shape, before a view gives them another."""
    if not hasattr(actions, "requires_grad"):
        raise ArgumentTypeError(
            f"`actions` must be a torch.Tensor of shape {shape}, got {type(actions).__name__}."
        )
    check_shape(actions, shape)


def check_final_obs(name: str, infos: dict[str, Any], ids: np.ndarray) -> None:
    """Raise `EnvContractError` unless a step that ended episodes gives their final observations.

    `name` is the argument that took the batch, and `ids` are the environments that ended.
    """
    if "final_obs" not in infos:
        raise EnvContractError(
            f"`{name}` ended the episodes of environments {ids.tolist()} without "
            "`infos['final_obs']`, which AutoresetMode.SAME_STEP requires; without final "
            "observations a trainer would treat every timeout as a termination."
        )
