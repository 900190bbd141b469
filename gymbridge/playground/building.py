"""How a Playground environment is built, and what its engine calls things."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

import mujoco_playground as playground
from ml_collections import ConfigDict
from mujoco_playground import registry

from gymbridge.core.requests import read_count
from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
    EnvContractError,
    SimulationError,
    UnknownTaskError,
    nearest,
)
from gymbridge.jax_env.engine_env import StateFields
from gymbridge.playground.meshes import find_menagerie
from gymbridge.playground.warp import WithoutShared, prepare_warp, set_contact_capacity
from gymbridge.private.jax import default_promotion
from gymbridge.private.playground import hide_iterations, meshes_of, registered, starting_at

__all__ = ["FIELDS", "build_env", "check_once", "episode_steps", "find_impl"]

FIELDS = StateFields(
    engine="Playground",
    argument="env",
    state="mujoco_playground.State",
    physics="data",
    model="_mjx_model",
    mj_model="mj_model",
    package="mujoco_playground",
    preserved="AutoResetWrapper_preserve_info",
    starting_at=starting_at,
    training=(playground.wrapper.__name__, "brax.envs.wrappers.training"),
)
"""What the engine calls things."""

_IMPLS = ("jax", "warp")


def find_impl(env: Any, config: Any, config_overrides: Any, impl: str | None) -> str:
    """Return the implementation of MJX under an environment, "jax" or "warp".

    The arguments are those of `PlaygroundVectorEnv`. Without any it is "jax", or what a built
    environment has.
    """
    if not isinstance(env, str):
        _check_env(env, config=config, config_overrides=config_overrides, impl=impl)
        model: Any = getattr(env.unwrapped, FIELDS.model, None)
        found = getattr(getattr(model, "impl", None), "value", "jax")
        if found not in _IMPLS:
            raise EnvContractError(f"`env` must have one of the `impl` {_IMPLS}, got {found!r}.")
        return found
    check_once("impl", impl, config_overrides)
    chosen = impl or _read_overrides(config_overrides).get("impl")
    if chosen not in (*_IMPLS, None):
        raise ArgumentError(f"`impl` must be one of {_IMPLS}, got {chosen!r}.")
    if chosen is None and config is not None and _copy(config).get("impl", "jax") != "jax":
        raise ArgumentError(
            f"`config.impl` is {config.impl!r}, as in Playground's default configurations, and "
            "the default here is 'jax': pass `impl='jax'` or `impl='warp'` beside `config`."
        )
    return chosen or "jax"


def check_once(name: str, value: Any, config_overrides: Any) -> None:
    """Raise if `config_overrides` has another value of an argument that is not None."""
    entry = _read_overrides(config_overrides).get(name)
    if value is not None and entry not in (value, None):
        raise ArgumentError(
            f"`{name}` must be what `config_overrides` has, {entry!r}, got {value!r}; leave one "
            "out."
        )


def build_env(env: Any, config: Any, config_overrides: Any, impl: str, num_envs: int) -> Any:
    """Return the environment to batch, loaded from the registry if a name was given.

    The arguments are those of `PlaygroundVectorEnv`, with the `impl` that `find_impl` returned.
    """
    if impl == "warp":
        prepare_warp()
    if isinstance(env, str):
        env = _load(env, config, _read_overrides(config_overrides), impl, num_envs)
        if impl == "warp":
            hide_iterations(env)
    return WithoutShared(env) if impl == "warp" else env


def _load(name: str, config: Any, overrides: dict[str, Any], impl: str, num_envs: int) -> Any:
    if name not in (names := registered()):
        known = nearest(name, names)
        raise UnknownTaskError(
            f"`env` must be a registered Playground environment, got {name!r}; {known}"
        )
    default: Any = registry.get_default_config(name)
    config = default if config is None else _copy(config)
    if "impl" in config:
        overrides["impl"] = impl
    elif impl != "jax":
        raise ArgumentError(f"`impl` must be 'jax' for {name!r}, which has no other, got {impl!r}.")
    if impl == "warp":
        overrides |= set_contact_capacity(config, default, overrides, num_envs)
    with meshes_of(name, find_menagerie):
        try:
            with default_promotion():
                return registry.load(name, config, overrides)
        except Exception as error:
            raise SimulationError(
                f"Playground cannot build {name!r} with {overrides}: "
                f"{type(error).__name__}: {error}"
            ) from error


def _copy(config: Any) -> ConfigDict:
    """Return a copy of a configuration, which the environment may change."""
    if not isinstance(config, ConfigDict):
        raise ArgumentTypeError(
            f"`config` must be a ConfigDict of ml_collections, got {type(config).__name__}; to "
            "change single entries, use `config_overrides`."
        )
    return config.copy_and_resolve_references()


def _read_overrides(overrides: Any) -> dict[str, Any]:
    if overrides is not None and not isinstance(overrides, Mapping):
        raise ArgumentTypeError(
            "`config_overrides` must be a dict from dotted paths to values, got "
            f"{type(overrides).__name__}."
        )
    return dict(overrides or {})


def _check_env(env: Any, **options: Any) -> None:
    """Raise unless this is an environment that is built already, without options beside it."""
    if not hasattr(env, "unwrapped") or not isinstance(env.unwrapped, playground.MjxEnv):
        raise ArgumentTypeError(
            "`env` must be the name of a registered Playground environment or an MjxEnv, got "
            f"{type(env).__name__}."
        )
    for name, value in options.items():
        if value is not None:
            raise ArgumentError(
                f"`{name}` cannot be given with a built {type(env).__name__}, got {value!r}; give "
                "it to the environment's own constructor."
            )


def episode_steps(env: Any, action_repeat: int | None) -> tuple[int, int | None]:
    """Return the simulator steps per step and the limit in steps of the batch, or None.

    Both are the configuration's, if the environment has one. The user's `action_repeat` goes first.
    """
    config: Any = getattr(env.unwrapped, "_config", None)
    entries: dict[str, Any] = dict(config) if isinstance(config, Mapping | ConfigDict) else {}
    if action_repeat is None:
        action_repeat = read_count("config.action_repeat", entries.get("action_repeat", 1))
    if (length := entries.get("episode_length")) is None:
        return action_repeat, None
    return action_repeat, ceil(read_count("config.episode_length", length) / action_repeat)
