"""The own step of Brax and Playground, with which `gymbridge bench` compares a batch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gymbridge.jax_env.tracing import cast_like

__all__ = ["make_bare_step"]

_LOG = logging.getLogger("gymbridge")


def make_bare_step(batch: Any, actions: list[Any]) -> Callable[[int], Any]:
    """Return the compiled ``vmap(env.step)`` of a batch's engine, which does not change the batch.

    It takes its number, plays the numpy `actions` in turn, and returns rewards, (num_envs,). It
    runs on one device, and never ends or restarts an episode. For a batch with numpy arrays it
    copies observations, rewards and ends to the host; for other arrays they stay on the device.
    """
    simulator, is_numpy = batch._simulator, batch.arrays == "numpy"
    engine, times, place = simulator.engine, simulator.action_repeat, simulator.split().device

    def repeat(state: Any, action: Any) -> Any:
        _LOG.info("Compiling the engine's own step.")  # A trace runs it.
        for _ in range(times):
            state = engine.step(state, action)
        return state

    _LOG.info("Compiling the engine's own reset.")
    keys = jax.random.split(jax.random.PRNGKey(0), batch.num_envs)
    state = _compile_rows(engine.reset)(jax.device_put(keys, place))
    advance = _compile_rows(repeat)
    if not is_numpy:
        actions = [jax.device_put(action, place) for action in actions]

    def step(index: int) -> Any:
        nonlocal state
        state = advance(state, actions[index % len(actions)])
        seen = state.reward, state.obs, state.done
        return (jax.tree.map(np.asarray, seen) if is_numpy else seen)[0]

    return step


def _compile_rows(function: Any) -> Any:
    def rows(*args: Any) -> Any:
        found = jax.vmap(function)(*args)
        return cast_like(found, found)  # A weak type would compile the step twice.

    return jax.jit(rows)
