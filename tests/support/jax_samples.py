"""Small environments as a user writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from gymbridge import JaxEnv


class Seen(NamedTuple):
    """What is observed, an action mask beside it."""

    place: Any
    board: Any
    action_mask: Any


class Drift(JaxEnv):
    """A point on a line that is pushed at random; its state has Inf in it on purpose.

    It terminates beyond 3 and truncates itself with a chance of a tenth.
    """

    observation_space = Dict(
        place=Box(-np.inf, np.inf, (), np.float32),
        board=Box(-1, 5, (2, 2), np.int8),
        action_mask=MultiBinary(3),
    )
    action_space = Dict(move=Discrete(3), push=Box(-1, 1, (2,)), kind=MultiDiscrete([2, 3000]))
    reset_options: Mapping[str, Any] = {"wind": Box(0, 1, ()), "level": Discrete(5)}
    info_defaults: Mapping[str, Any] = {
        "best": np.inf,
        "weather": {"gust": -1, "sky": {"cloud": -2}},
        "wave": {"height": -3},
    }

    def reset(self, key: Any, wind: Any = 0.25, level: Any = 1) -> Any:
        place = jax.random.uniform(jax.random.split(key)[0]) + 0.0 * wind
        state = {
            "place": place,
            "wind": jnp.float32(wind),
            "level": jnp.int8(level),
            "least": np.inf,
        }
        return (
            state,
            self._see(place, state["level"]),
            {"weather": {"wind": state["wind"], "sky": {"blue": True}}},
        )

    def step(self, key: Any, state: Any, action: Any) -> Any:
        first, second = jax.random.split(key)
        place = state["place"] + action["move"] - 1 + 0.1 * action["push"].sum()
        gust = state["wind"] * jax.random.normal(first)
        place += gust + action["kind"][1] / 3000
        least = jnp.minimum(state["least"], jnp.where(place < 0, place, jnp.inf))
        truncated = jax.random.uniform(second) < 0.1
        weather = {"wind": state["wind"], "gust": gust, "sky": {"blue": True, "cloud": 2}}
        info = {"weather": weather, "best": least, "wave": {"height": 3}}
        after = {**state, "place": place, "least": least}
        return after, self._see(place, state["level"]), 1, jnp.abs(place) > 3, truncated, info

    def render(self, state: Any) -> Any:
        return np.full((4, 6, 3), np.uint8(10 * state["level"]))

    def _see(self, place: Any, level: Any) -> Seen:
        mask = jnp.stack([place > -1, True, place < 1]).astype(jnp.int8)
        return Seen(place, jnp.full((2, 2), level, jnp.int8), mask)


class Glide(JaxEnv):
    """A smooth motion, through which gradients flow."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = Box(-1, 1, (2,), np.float32)
    max_episode_steps = 4

    def reset(self, key: Any) -> Any:
        place = jax.random.uniform(key, (2,))
        return place, place, {}

    def step(self, key: Any, state: Any, action: Any) -> Any:
        place = state + jnp.sin(action) * state
        return place, place, -(place**2).sum(), False, False, {}
