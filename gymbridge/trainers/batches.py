"""Batches for trainers: how they are made from an id, and the checks that every view makes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from gymbridge.core.actions import check_shape
from gymbridge.core.players import check_turns
from gymbridge.engines import ENGINES, find_engine
from gymbridge.errors import ArgumentError, ArgumentTypeError, EnvContractError

__all__ = [
    "check_actions",
    "check_batch",
    "check_final_obs",
    "check_spaces",
    "make_own",
    "make_same_step",
]


def make_same_step(env_id: str, num_envs: int, kwargs: dict[str, Any]) -> VectorEnv[Any, Any, Any]:
    """Return a batch in SameStep mode of any id of Gymnasium's registry.

    An id of another package that has single environments runs in `SyncVectorEnv`. Environments that
    can draw frames get ``render_mode="rgb_array"``.
    """
    module, _, name = env_id.rpartition(":")
    if module:
        import_module(module)
    spec = gym.registry.get(name)
    if find_engine(env_id) is None and (spec is None or spec.entry_point is not None):
        make = partial(_try_drawn, gym.make, env_id, kwargs)
        return SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    same_step = {"autoreset_mode": AutoresetMode.SAME_STEP, **kwargs}
    return _try_drawn(gym.make_vec, env_id, {"num_envs": num_envs, **same_step})


def _try_drawn(make: Callable[..., Any], env_id: str, kwargs: dict[str, Any]) -> Any:
    """Return what a function of Gymnasium's makes, with frames if it can draw, as SB3 does."""
    try:
        return make(env_id, **{"render_mode": "rgb_array", **kwargs})
    except TypeError:
        return make(env_id, **kwargs)


def make_own(
    env_id: str,
    num_envs: int,
    mode: AutoresetMode,
    kwargs: dict[str, Any],
    hint: str,
    arrays: str = "torch",
) -> VectorEnv[Any, Any, Any]:
    """Return a batch of one of gymbridge's ids.

    For another id it raises an `ArgumentError` that ends with `hint`.
    """
    if find_engine(env_id) is None:
        raise ArgumentError(
            f"`env_id` must be an id of gymbridge, which begins with one of {', '.join(ENGINES)}, "
            f"got {env_id!r}; {hint}."
        )
    ours = {"autoreset_mode": mode, "arrays": arrays}
    return gym.make_vec(env_id, num_envs=num_envs, **{**ours, **kwargs})


def check_spaces(
    envs: VectorEnv[Any, Any, Any],
    trainer: str,
    actions: tuple[type[Any], ...],
    observations: tuple[type[Any], ...],
) -> None:
    """Raise unless actions, and observations or the parts of a `Dict` of them, are in such spaces.

    `envs` is the argument that took the batch.
    """
    action, obs = envs.single_action_space, envs.single_observation_space
    obs_parts = [*obs.spaces.values()] if isinstance(obs, spaces.Dict) else [obs]
    for name, space, parts, kinds in (
        ("actions", action, [action], actions),
        ("observations", obs, obs_parts, observations),
    ):
        if not all(isinstance(part, kinds) for part in parts):
            known = " or ".join(kind.__name__ for kind in kinds)
            raise ArgumentError(
                f"`envs` must have {name} in {known}, as {trainer} expects, got {space}."
            )


def check_batch(
    name: str,
    envs: Any,
    trainer: str,
    mode: AutoresetMode,
    hint: str,
    *,
    arrays: str = "numpy",
) -> None:
    """Raise unless a batch has the arrays and the autoreset mode that a trainer needs.

    `name` is the argument that took the batch. `hint` says what to do where `envs` is no batch.
    """
    if not isinstance(envs, VectorEnv):
        raise ArgumentTypeError(
            f"`{name}` must be a gymnasium.vector.VectorEnv, got {type(envs).__name__}; {hint}."
        )
    check_turns(name, envs, trainer)
    given = getattr(envs.unwrapped, "arrays", None)
    if (given or "numpy") != arrays:
        found, advice = f"a batch with `arrays={given!r}`", f"build it with `arrays={arrays!r}`"
        if given is None:  # A batch of another package has no such keyword.
            found, advice = type(envs.unwrapped).__name__, hint
        raise ArgumentError(
            f"`{name}` must give {arrays} arrays, as {trainer} expects, got {found}; {advice}."
        )
    found = envs.metadata.get("autoreset_mode")
    if found != mode:
        raise ArgumentError(
            f"`{name}` must restart episodes by {mode.value}, as {trainer} expects, got "
            f"{getattr(found, 'value', found)}; build it with `autoreset_mode={mode.value!r}` "
            f"(gymbridge) or `autoreset_mode={mode}` (SyncVectorEnv, AsyncVectorEnv)."
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
