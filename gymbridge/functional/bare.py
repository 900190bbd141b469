"""The compiled ``vmap(env.step)`` of a JAX engine, to compare a batch's speed with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from gymnasium.vector import VectorEnv

from gymbridge.functional.simulator import FunctionalSimulator

__all__ = ["make_bare_step"]


def make_bare_step(envs: VectorEnv[Any, Any, Any], actions: Sequence[Any]) -> Callable[[int], Any]:
    """Return the step of the engine's own environment: `reset` and `step` of Brax or Playground.

    It never ends or restarts an episode. For a batch with numpy arrays it copies observations,
    rewards and ends to the host; for other arrays they stay on the device.

    Args:
        envs: A batch of one of these engines; its state does not change.
        actions: numpy actions for the batch; step i takes ``actions[i % len(actions)]``.

    Returns:
        A function of the step's number that returns rewards, (num_envs,).
    """
    batch: Any = envs.unwrapped
    simulator: FunctionalSimulator = batch._simulator
    engine, place, is_numpy = simulator.engine, simulator.device, batch.arrays == "numpy"
    keys = jax.random.split(jax.random.PRNGKey(0), envs.num_envs)
    state = jax.jit(jax.vmap(engine.reset))(jax.device_put(keys, place))
    advance = jax.jit(jax.vmap(_repeat(engine, simulator.action_repeat)))
    if not is_numpy:
        actions = [jax.device_put(action, place) for action in actions]

    def step(index: int) -> Any:
        nonlocal state
        state = advance(state, actions[index % len(actions)])
        if is_numpy:
            return jax.tree.map(np.asarray, (state.obs, state.done, state.reward))[2]
        return state.reward

    return step


def _repeat(engine: Any, times: int) -> Callable[[Any, Any], Any]:
    def advance(state: Any, action: Any) -> Any:
        for _ in range(times):
            state = engine.step(state, action)
        return state

    return advance
