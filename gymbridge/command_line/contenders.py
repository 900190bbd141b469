"""What `gymbridge bench` times: a batch, its engine's own step, and Gymnasium's `SyncVectorEnv`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.command_line.batches import make_batch
from gymbridge.core.arrays.adapter import map_arrays
from gymbridge.engines import find_engine
from gymbridge.errors import ArgumentError

__all__ = ["Step", "draw_actions", "make_bare_step", "make_step", "make_sync"]

Step = Callable[[int], Any]
"""A step by its number, which returns rewards, (num_envs,)."""

_NUM_ACTIONS = 64
_SAME_TASK = {"arrays", "autoreset_mode", "device", "max_episode_steps", "num_threads"}
"""Keywords that leave the task as it is, or that `make_sync` hands on."""

_ARRAY_MODULES = {"numpy": "numpy", "torch": "torch", "jax": "jax.numpy"}


def draw_actions(envs: VectorEnv[Any, Any, Any]) -> list[Any]:
    """Return numpy actions for a batch, the same ones each time."""
    envs.action_space.seed(0)
    return [envs.action_space.sample() for _ in range(_NUM_ACTIONS)]


def make_step(envs: VectorEnv[Any, Any, Any], actions: list[Any]) -> Step:
    """Reset a batch and return its step, which takes numpy actions in the arrays of the batch.

    With Disabled, it resets the environments that end.
    """
    actions = [_convert(action, envs.unwrapped) for action in actions]
    is_disabled = envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED
    envs.reset(seed=0)

    def step(index: int) -> Any:
        _, rewards, terminations, truncations, _ = envs.step(actions[index % len(actions)])
        if is_disabled and (ended := terminations | truncations).any():
            envs.reset(options={"reset_mask": ended})
        return rewards

    return step


def _convert(action: Any, batch: Any) -> Any:
    arrays = getattr(batch, "arrays", "numpy")
    if arrays == "numpy":
        return action
    module = import_module(_ARRAY_MODULES[arrays])
    return map_arrays(partial(module.asarray, device=batch.device), action)


def make_bare_step(envs: VectorEnv[Any, Any, Any], actions: list[Any]) -> Step:
    """Return the engine's own step, which does not change the batch; `actions` are numpy."""
    engine = find_engine(envs.spec.id) if envs.spec is not None else None
    assert engine is not None, "make_vec sets the spec"
    make: Any = load_env_creator(engine.bare_step)
    return make(envs.unwrapped, actions)


def make_sync(
    envs: VectorEnv[Any, Any, Any], keywords: Iterable[str] = ()
) -> VectorEnv[Any, Any, Any]:
    """Return the `SyncVectorEnv` of the task that Gymnasium has under the same name.

    Raises:
        ArgumentError: Gymnasium has no such task with spaces of the same shapes, or one of the
            `keywords` that the batch was built with may have changed the task.
        Error: Gymnasium cannot build it.
    """
    spec = envs.spec
    task_id = spec.kwargs.get("task_id") if spec else None
    if spec is None or task_id not in gym.registry:
        raise ArgumentError("Gymnasium has no environment of that name")
    if changing := sorted({*keywords} - _SAME_TASK):
        raise ArgumentError(f"it does not get {', '.join(changing)}, which may change the task")
    with warnings.catch_warnings():  # such as of a later version of the same task
        warnings.simplefilter("ignore")
        sync = make_batch(
            str(task_id),
            num_envs=envs.num_envs,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": envs.metadata["autoreset_mode"]},
            max_episode_steps=spec.max_episode_steps,
        )
    for name in ("single_observation_space", "single_action_space"):
        ours, theirs = getattr(envs, name), getattr(sync, name)
        if (type(ours), ours.shape) != (type(theirs), theirs.shape):
            sync.close()
            raise ArgumentError(f"Gymnasium's task of that name has another {name}, {theirs}")
    return sync
