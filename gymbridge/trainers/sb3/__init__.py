"""Stable-Baselines3: `Sb3VecEnv`, `make_vec_env` and `make_atari_env` in place of its own.

An SB3 script changes one import::

    from gymbridge.trainers.sb3 import make_vec_env

    envs = make_vec_env("EnvPool/CartPole-v1", n_envs=8, seed=0)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from gymbridge.core.extras import needs
from gymbridge.core.requests import read_count, read_seed
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.trainers.batches import make_same_step

with needs("sb3", "gymbridge.trainers.sb3"):
    from stable_baselines3.common.vec_env import VecMonitor

    from gymbridge.trainers.sb3.atari import GameMonitor, game_keywords
    from gymbridge.trainers.sb3.vec_env import Sb3VecEnv

__all__ = ["GameMonitor", "Sb3VecEnv", "make_atari_env", "make_vec_env"]


def make_vec_env(
    env_id: str | type[VectorEnv[Any, Any, Any]],
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | None = None,
    wrapper_class: Callable[..., Any] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    vec_env_cls: type[Sb3VecEnv] | None = None,
    vec_env_kwargs: dict[str, Any] | None = None,
    monitor_kwargs: dict[str, Any] | None = None,
    wrapper_kwargs: dict[str, Any] | None = None,
) -> VecMonitor:
    """Return a monitored batch for Stable-Baselines3, with the arguments of its `make_vec_env`.

    Args:
        env_id: A Gymnasium id, or the class of a vector environment.
        n_envs: Size of the batch.
        seed: Environment i gets ``seed + i`` at the first reset; None draws a seed.
        start_index: Added to the seed of the action space; also the name of the monitor's file.
        monitor_dir: Folder for ``<start_index>.monitor.csv``, with all environments' episodes.
        wrapper_class: A `gymnasium.vector.VectorWrapper`, put around the batch.
        env_kwargs: Keywords of the batch, such as ``max_episode_steps=`` or the engine's.
        vec_env_cls: `Sb3VecEnv` or a subclass.
        vec_env_kwargs: Further keywords of `vec_env_cls`.
        monitor_kwargs: Keywords of SB3's ``VecMonitor``, such as ``info_keywords``.
        wrapper_kwargs: Keywords of `wrapper_class`.

    Raises:
        ArgumentError: A batch cannot do what an argument asks for; the message says what to do.
        ArgumentTypeError: `env_id` or `n_envs` has a wrong type.
    """
    wrappers = _wrappers(wrapper_class, wrapper_kwargs)
    view = _view(vec_env_cls, vec_env_kwargs)
    monitor = _monitor(VecMonitor, start_index, monitor_dir, monitor_kwargs)
    vector_env = _make_batch(env_id, read_count("n_envs", n_envs), env_kwargs or {})
    return _put_on(vector_env, [*wrappers, view, monitor], seed, start_index)


def make_atari_env(
    env_id: str,
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | None = None,
    wrapper_kwargs: dict[str, Any] | None = None,
    env_kwargs: dict[str, Any] | None = None,
    vec_env_cls: type[Sb3VecEnv] | None = None,
    vec_env_kwargs: dict[str, Any] | None = None,
    monitor_kwargs: dict[str, Any] | None = None,
) -> GameMonitor:
    """Return a monitored batch of an Atari game, with the arguments of SB3's `make_atari_env`.

    Observations are (1, screen_size, screen_size) uint8, so a script's ``VecFrameStack(envs, 4)``
    stays. ``env_kwargs={"stack_num": 4}`` stacks the frames in C++ instead.

    Args:
        env_id: The id of a game, such as "EnvPool/Pong-v5".
        n_envs: Size of the batch.
        seed: See `make_vec_env`.
        start_index: See `make_vec_env`.
        monitor_dir: Folder for ``<start_index>.monitor.csv``, with the scores of whole games.
        wrapper_kwargs: Keywords of SB3's ``AtariWrapper``: ``noop_max=30``, at least 1 here,
            ``frame_skip=4``, ``screen_size=84``, ``terminal_on_life_loss=True``,
            ``clip_reward=True`` and ``action_repeat_probability=0.0``.
        env_kwargs: Keywords of the batch, such as ``max_episode_steps=`` or EnvPool's.
        vec_env_cls: See `make_vec_env`.
        vec_env_kwargs: See `make_vec_env`.
        monitor_kwargs: See `make_vec_env`.

    Raises:
        ArgumentError: The id is not EnvPool's, or a batch cannot do what an argument asks for.
        ArgumentTypeError: `n_envs` has a wrong type.
        KeywordError: The id is no Atari game.
    """
    keywords = game_keywords(env_id, wrapper_kwargs or {}, env_kwargs or {})
    view = _view(vec_env_cls, vec_env_kwargs)
    game_monitor = partial(GameMonitor, frame_skip=keywords["frame_skip"])
    monitor = _monitor(game_monitor, start_index, monitor_dir, monitor_kwargs)
    vector_env = _make_batch(env_id, read_count("n_envs", n_envs), keywords)
    return _put_on(vector_env, [view, monitor], seed, start_index)


def _monitor(
    monitor: Callable[..., Any], start_index: int, monitor_dir: str | None, kwargs: Any
) -> Callable[..., Any]:
    """Return what puts a view into a monitor that writes into the file of a start index."""
    path = None if monitor_dir is None else os.path.join(monitor_dir, str(start_index))
    return partial(monitor, filename=path, **(kwargs or {}))


def _wrappers(wrapper_class: Any, wrapper_kwargs: Any) -> list[Callable[..., Any]]:
    """Return what goes between the batch and its view."""
    if wrapper_class is None:
        if wrapper_kwargs:
            raise ArgumentError(f"`wrapper_kwargs` needs a `wrapper_class`, got {wrapper_kwargs}.")
        return []
    if not _is_subclass(wrapper_class, VectorWrapper):
        raise ArgumentError(
            "`wrapper_class` must be a gymnasium.vector.VectorWrapper, since a batch has no single "
            f"environments to wrap, got {wrapper_class}; use its counterpart in "
            "gymnasium.wrappers.vector or an SB3 VecEnvWrapper around the result."
        )
    return [partial(wrapper_class, **(wrapper_kwargs or {}))]


def _view(vec_env_cls: Any, vec_env_kwargs: Any) -> Callable[..., Any]:
    if vec_env_cls is not None and not _is_subclass(vec_env_cls, Sb3VecEnv):
        raise ArgumentError(
            "`vec_env_cls` must be None or a subclass of Sb3VecEnv, since the batch steps all "
            f"environments itself, got {vec_env_cls}; leave it out."
        )
    return partial(vec_env_cls or Sb3VecEnv, **(vec_env_kwargs or {}))


def _put_on(
    vector_env: Any, layers: list[Callable[..., Any]], seed: int | None, start_index: int
) -> Any:
    """Return the batch within its layers, seeded; close it where one of them refuses it."""
    try:
        seed, envs = read_seed(seed), vector_env
        for layer in layers:
            envs = layer(envs)
        envs.seed(seed)
    except Exception:
        vector_env.close()
        raise
    if seed is not None:
        envs.action_space.seed(seed + start_index)
    envs.reset_infos = envs.venv.reset_infos  # SB3's wrappers leave their own list empty.
    return envs


def _make_batch(env_id: Any, n_envs: int, env_kwargs: dict[str, Any]) -> VectorEnv[Any, Any, Any]:
    if isinstance(env_id, str):
        return make_same_step(env_id, n_envs, env_kwargs)
    if not _is_subclass(env_id, VectorEnv):
        raise ArgumentTypeError(
            "`env_id` must be a Gymnasium id or the class of a vector environment, got "
            f"{env_id!r}; give a vector environment to Sb3VecEnv, and a function that makes a "
            "single one to Stable-Baselines3's own `make_vec_env`."
        )
    same_step = {"autoreset_mode": AutoresetMode.SAME_STEP, **env_kwargs}
    return env_id(num_envs=n_envs, **same_step)


def _is_subclass(value: Any, parent: type[Any]) -> bool:
    return isinstance(value, type) and issubclass(value, parent)
