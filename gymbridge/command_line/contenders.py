"""What `gymbridge bench` times: a batch, its engine's own step, and Gymnasium's `SyncVectorEnv`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.command_line.batches import make_batch
from gymbridge.command_line.output import LOG
from gymbridge.core.arrays.adapter import map_arrays
from gymbridge.errors import ArgumentError, GymbridgeError

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
    assert envs.spec is not None, "make_vec sets it"
    make = _make_envpool_step if envs.spec.namespace == "EnvPool" else _make_jax_step
    return make(envs.unwrapped, actions)


def _make_jax_step(batch: Any, actions: list[Any]) -> Step:
    """Return the compiled ``vmap(env.step)`` of an engine on JAX.

    It runs on one device, and never ends or restarts an episode. For a batch with numpy arrays it
    copies observations, rewards and ends to the host; for other arrays they stay on the device.
    """
    import jax

    engine, place = batch._simulator.engine, batch._simulator.device
    if batch._simulator.num_devices > 1:
        place = place.mesh.devices.flat[0]
    times, is_numpy = batch._simulator.action_repeat, batch.arrays == "numpy"

    def repeat(state: Any, action: Any) -> Any:
        LOG.info("Compiling the engine's own step.")  # A trace runs it.
        for _ in range(times):
            state = engine.step(state, action)
        return state

    def type_strongly(leaf: Any) -> Any:  # A weak type would compile the step twice.
        return leaf.astype(leaf.dtype) if getattr(leaf, "weak_type", False) else leaf

    def compile_rows(function: Any) -> Any:
        rows = jax.vmap(function)
        return jax.jit(lambda *args: jax.tree.map(type_strongly, rows(*args)))

    LOG.info("Compiling the engine's own reset.")
    keys = jax.random.split(jax.random.PRNGKey(0), batch.num_envs)
    state = compile_rows(engine.reset)(jax.device_put(keys, place))
    advance = compile_rows(repeat)
    if not is_numpy:
        actions = [jax.device_put(action, place) for action in actions]

    def step(index: int) -> Any:
        nonlocal state
        state = advance(state, actions[index % len(actions)])
        if is_numpy:
            return jax.tree.map(np.asarray, (state.obs, state.done, state.reward))[2]
        return state.reward

    return step


def _make_envpool_step(batch: Any, actions: list[Any]) -> Step:
    """Return the `step` of a new pool with the threads, options and time limit of a batch.

    It restarts episodes as in NextStep.
    """
    import envpool

    from gymbridge.envpool.pool import name_task

    options = batch.get_attr("config")[0]._asdict()
    del options["env_seed"]  # an empty list, which EnvPool itself refuses
    if batch.max_episode_steps is not None:
        options["max_episode_steps"] = batch.max_episode_steps
    task_id = batch.spec.kwargs["task_id"]
    with name_task("build", task_id), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of bounds that `Box` casts
        pool: Any = envpool.make_gymnasium(task_id, **options)
        pool.reset()
    return lambda index: pool.step(actions[index % len(actions)])[1]


def make_sync(
    envs: VectorEnv[Any, Any, Any], keywords: Iterable[str] = ()
) -> VectorEnv[Any, Any, Any]:
    """Return the `SyncVectorEnv` of the task that Gymnasium has under the same name.

    Raises:
        ArgumentError: Gymnasium has no such task with spaces of the same shapes, the task cannot be
            built, or one of the `keywords` that the batch was built with may have changed the task.
    """
    spec = envs.spec
    task_id = spec.kwargs.get("task_id") if spec else None
    if spec is None or task_id not in gym.registry:
        raise ArgumentError("Gymnasium has no environment of that name")
    if changing := sorted({*keywords} - _SAME_TASK):
        raise ArgumentError(f"it does not get {', '.join(changing)}, which may change the task")
    try:
        with warnings.catch_warnings():  # such as of a later version of the same task
            warnings.simplefilter("ignore")
            sync = make_batch(
                str(task_id),
                num_envs=envs.num_envs,
                vectorization_mode="sync",
                vector_kwargs={"autoreset_mode": envs.metadata["autoreset_mode"]},
                max_episode_steps=spec.max_episode_steps,
            )
    except (GymbridgeError, gym.error.Error) as error:
        raise ArgumentError(" ".join(str(error).split())) from error
    for name in ("single_observation_space", "single_action_space"):
        ours, theirs = getattr(envs, name), getattr(sync, name)
        if not _is_alike(ours, theirs):
            sync.close()
            raise ArgumentError(f"Gymnasium's task of that name has another {name}, {theirs}")
    return sync


def _is_alike(ours: gym.Space[Any], theirs: gym.Space[Any]) -> bool:
    """Return whether two spaces have values of the same shape; their bounds may differ."""
    if isinstance(ours, gym.spaces.Dict) and isinstance(theirs, gym.spaces.Dict):
        keys = ours.spaces.keys()
        return keys == theirs.spaces.keys() and all(_is_alike(ours[k], theirs[k]) for k in keys)
    sizes = [np.ravel(getattr(space, "n", ())).tolist() for space in (ours, theirs)]
    return type(ours) is type(theirs) and ours.shape == theirs.shape and sizes[0] == sizes[1]
