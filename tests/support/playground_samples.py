"""A small Playground environment without physics, and one as the oracle steps it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import VectorEnv
from ml_collections import config_dict
from mujoco_playground import MjxEnv, State

from tests.support.brax_samples import episode_key
from tests.support.oracle import Answer

_SHORTEST, _LONGEST = 2, 8
"""Simulator steps of an episode."""

_PHYSICS = 0x70687973
"""Folded into the key of an episode for the draw of its physics."""


def make_config(**entries: Any) -> config_dict.ConfigDict:
    """Return the least configuration that `MjxEnv` takes, with more entries."""
    return config_dict.create(ctrl_dt=0.02, sim_dt=0.01, **entries)


def draw_actions(envs: VectorEnv, num_steps: int) -> np.ndarray:
    """Return actions of some steps, the same in each call."""
    shape = (num_steps, *envs.action_space.shape)
    return np.random.default_rng(4).uniform(-1, 1, shape).astype(np.float32)


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


class OwnPlayground:
    """One environment of Playground's own, as the oracle steps it.

    Args:
        env: The environment.
        seed: Its episode k begins from ``fold_in(PRNGKey(seed), k)``.
        infos: Entries of the state's info that a batch shows, beside the metrics.
        action_repeat: Calls of `step` with one action, while the episode runs.
    """

    def __init__(
        self, env: MjxEnv, seed: int, infos: tuple[str, ...] = (), *, action_repeat: int = 1
    ) -> None:
        self._reset, self._step = jax.jit(env.reset), jax.jit(env.step)
        self._seed, self._infos, self._action_repeat = seed, infos, action_repeat
        self._episode = -1
        self.state: Any = None

    def begin(self) -> Answer:
        self._episode += 1
        self.state = self._reset(episode_key(self._seed, self._episode))
        return self._answer(np.float32(0))

    def step(self, action: np.ndarray) -> Answer:
        reward = np.float32(0)
        for _ in range(self._action_repeat):
            self.state = self._step(self.state, action)
            reward += np.float32(self.state.reward)
            if self.state.done:
                break
        return self._answer(reward)

    def _answer(self, reward: Any) -> Answer:
        info = {**self.state.metrics, "nonfinite": False}
        info |= {name: self.state.info[name] for name in self._infos}
        return Answer(self.state.obs, reward, bool(self.state.done), False, info)


class OwnDrawn(OwnPlayground):
    """One environment of Playground's own, with physics that are drawn for each episode.

    Args:
        env: The environment.
        seed: As in `OwnPlayground`.
        draw: A `randomization_fn`.
        leaves: Of the model; those that it draws.
        infos: As in `OwnPlayground`.
    """

    def __init__(
        self,
        env: MjxEnv,
        seed: int,
        draw: Callable[..., Any],
        leaves: tuple[str, ...],
        infos: tuple[str, ...] = (),
    ) -> None:
        super().__init__(env, seed, infos)
        self._env, self._draw, self._leaves = env, draw, leaves
        self._step = lambda state, action: _run(env, "step", self._physics, state, action)

    def begin(self) -> Answer:
        key = episode_key(self._seed, self._episode + 1)
        model, _ = self._draw(self._env.mjx_model, jax.random.fold_in(key, _PHYSICS)[None])
        self._physics = {name: getattr(model, name)[0] for name in self._leaves}
        self._reset = partial(_run, self._env, "reset", self._physics)
        return super().begin()

    def _answer(self, reward: Any) -> Answer:
        answer = super()._answer(reward)
        answer.info["randomization"] = self._physics
        return answer


@partial(jax.jit, static_argnums=(0, 1))
def _run(env: Any, verb: str, physics: dict[str, Any], *args: Any) -> Any:
    """Call a verb of Playground's environment while its model has other leaves."""
    model = env._mjx_model
    env._mjx_model = model.tree_replace(physics)
    try:
        return getattr(env, verb)(*args)
    finally:
        env._mjx_model = model
