"""A small Playground environment without physics, and its episodes in a plain loop."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import config_dict
from mujoco_playground import MjxEnv, State

__all__ = ["PlainLoop", "SampleMjxEnv", "make_config"]

_SHORTEST, _LONGEST = 2, 8
"""Simulator steps of an episode."""


def make_config(**entries: Any) -> config_dict.ConfigDict:
    """Return the least configuration that `MjxEnv` takes, with more entries."""
    return config_dict.create(ctrl_dt=0.02, sim_dt=0.01, **entries)


class SampleMjxEnv(MjxEnv):
    """It counts, draws its length at reset, and writes into metrics and info in place.

    Args:
        config: Its configuration; None for an environment without one.
        model: What it has for a model, which it never reads.
    """

    def __init__(self, config: Any = None, model: Any = None) -> None:
        if config is not None:
            super().__init__(config)
        self._mjx_model = model

    def reset(self, rng: jax.Array) -> State:
        rng, draw = jax.random.split(rng)
        length = jax.random.randint(draw, (), _SHORTEST, _LONGEST + 1)
        info = {"rng": rng, "steps": 0, "length": length, "last": {"action": jnp.zeros(1)}}
        obs = self._observe(info)
        return State(None, obs, jnp.zeros(()), jnp.zeros(()), {"reward/push": jnp.zeros(())}, info)

    def step(self, state: State, action: jax.Array) -> State:
        state.info["rng"], draw = jax.random.split(state.info["rng"])
        state.info["steps"] += 1
        state.info["last"]["action"] = action
        state.metrics["reward/push"] = action.sum() + jax.random.uniform(draw)
        done = (state.info["steps"] >= state.info["length"]).astype(float)
        obs, reward = self._observe(state.info), state.metrics["reward/push"]
        return State(state.data, obs, reward, done, state.metrics, state.info)

    def _observe(self, info: dict[str, Any]) -> dict[str, jax.Array]:
        steps = jnp.asarray(info["steps"], float)
        return {
            "state": jnp.append(info["last"]["action"], steps),
            "privileged_state": jnp.stack([steps, info["length"].astype(float), steps]),
        }

    @property
    def action_size(self) -> int:
        return 1

    @property
    def xml_path(self) -> str:
        raise NotImplementedError

    @property
    def mj_model(self) -> Any:
        raise NotImplementedError

    @property
    def mjx_model(self) -> Any:
        return self._mjx_model


class PlainLoop:
    """The episodes of one seed, one after another, by the environment's own `reset` and `step`.

    Args:
        env: The environment.
        seed: Of the first episode.
        action_repeat: Calls of `step` with one action, while the episode runs.
        limit: Steps after which an episode is cut, or None.
    """

    def __init__(
        self, env: MjxEnv, seed: int, *, action_repeat: int = 1, limit: int | None = None
    ) -> None:
        self._reset, self._step = jax.jit(env.reset), jax.jit(env.step)
        self._key = jax.random.PRNGKey(np.uint32(seed))
        self._action_repeat, self._limit = action_repeat, limit
        self._episode = -1
        self.begin()

    def begin(self) -> None:
        """Go to the first state of the next episode."""
        self._episode, self._steps = self._episode + 1, 0
        self.state = self._reset(jax.random.fold_in(self._key, self._episode))
        self.reward, self.terminated, self.truncated = np.float32(0), False, False

    def step(self, action: np.ndarray) -> None:
        """Go on by one step."""
        self._steps, self.reward = self._steps + 1, np.float32(0)
        for _ in range(self._action_repeat):
            if not self.terminated:
                self.state = self._step(self.state, action)
                self.reward += np.float32(self.state.reward)
                self.terminated = bool(self.state.done)
        self.truncated = self._steps == self._limit and not self.terminated

    @property
    def ended(self) -> bool:
        """Whether the episode is over."""
        return self.terminated or self.truncated
