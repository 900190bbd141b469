"""The scripted task as a Brax environment without physics, so that the compiled rule can be tested.

A pure environment cannot know its index in the batch. So the number that an episode draws picks the
row of the table, and `episode_draw` computes the same number outside the environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from gymbridge.private.brax import brax_envs
from gymbridge.private.jax import default_generator


@default_generator()
def episode_draw(seed: int, episode: int) -> np.uint32:
    """Return the number that episode `episode` of a Brax environment with that seed draws."""
    key = jax.random.fold_in(jax.random.PRNGKey(np.uint32(seed)), episode)
    return np.uint32(jax.random.bits(key, dtype=jnp.uint32))


class ScriptedBraxEnv(brax_envs.Env):
    """A `brax.envs.Env` without ``sys`` and with ``pipeline_state=None``.

    Args:
        lengths: (kinds,) int, steps of an episode of each kind; the episode's draw picks the kind.
        truncates: (kinds,) bool, True where an episode of that kind is truncated instead of
            terminated.
    """

    action_space = spaces.Discrete(3)
    observation_space = spaces.Box(0, np.inf, (), np.float32)

    def __init__(self, lengths: Sequence[int], truncates: Sequence[bool] | bool = False) -> None:
        self.lengths = np.asarray(lengths, np.int32)
        self.truncates = np.broadcast_to(np.asarray(truncates, np.bool_), self.lengths.shape)

    def reset(self, rng: jax.Array) -> brax_envs.State:
        """Return the initial state of an episode."""
        zero, total = jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32)
        draw = jax.random.bits(rng, dtype=jnp.uint32)
        info = {"draw": draw, "script": {"total": total}, "truncation": zero}
        return brax_envs.State(None, zero, zero, zero, {}, {**info, "rng": rng})

    def step(self, state: brax_envs.State, action: jax.Array) -> brax_envs.State:
        """Return the state one step later."""
        kind = state.info["draw"] % np.uint32(len(self.lengths))
        step = jnp.asarray(state.obs) + 1
        over = step >= jnp.asarray(self.lengths)[kind]
        cut = over & jnp.asarray(self.truncates)[kind]
        total = state.info["script"]["total"] + action.astype(jnp.int32)
        info = {**state.info, "script": {"total": total}, "truncation": cut.astype(jnp.float32)}
        reward, done = action + step / 4, over.astype(jnp.float32)
        return replace(state, obs=step, reward=reward, done=done, info=info)

    def render(self, state: brax_envs.State) -> np.ndarray:
        """Return an image with the number of the step in every entry, (4, 8, 3) uint8."""
        return np.full((4, 8, 3), np.asarray(state.obs), np.uint8)

    @property
    def observation_size(self) -> Any:
        """Size of one observation."""
        return 1

    @property
    def action_size(self) -> int:
        """Size of one action."""
        return 1

    @property
    def backend(self) -> str:
        """The text "script", in place of a physics backend's name."""
        return "script"
