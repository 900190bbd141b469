"""A Brax environment with a model of its own, which compiles in a moment, and functions over it."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gymbridge import BraxVectorEnv
from tests.support.brax_samples import SampleEnv, start

PATHS = ("gravity", "link.mass")
"""What the functions here vary."""


class Link(NamedTuple):
    """A part of a model."""

    mass: Any = np.float32(2)
    parent: Any = np.int32(-1)


class Model(NamedTuple):
    """Two leaves that act, and three that cannot vary: an integer, an unread one, a missing one."""

    gravity: Any = np.array([0, 0, -10], np.float32)
    link: Link = Link()
    colour: Any = np.zeros((2, 1), np.float32)
    texture: Any = None


class FallingBall(SampleEnv):
    """A ball under gravity and a force, whose episode ends 1 below the place where it begins.

    The observation is (height, speed). The initial one does not depend on the model.
    """

    def __init__(self, model: Any = None) -> None:
        super().__init__(sys=Model() if model is None else model)
        self.traces = {"reset": 0, "step": 0}

    def reset(self, rng: jax.Array) -> Any:
        self.traces["reset"] += 1
        height = jax.random.uniform(rng)
        return start(rng, obs=jnp.stack([height, 0.0]), info={"lowest": height - 1})

    def step(self, state: Any, action: jax.Array) -> Any:
        self.traces["step"] += 1
        height, speed = state.obs
        speed += 0.1 * (self.sys.gravity[2] + 3 * action[0] / self.sys.link.mass)
        height += 0.1 * speed
        done = jnp.where(height < state.info["lowest"], 1.0, 0.0)
        return state.replace(obs=jnp.stack([height, speed]), reward=-speed, done=done)


def draw(model: Any, key: jax.Array) -> dict[str, jax.Array]:
    """Return gravity and mass by path."""
    first, second = jax.random.split(key)
    return {
        "gravity": model.gravity * jax.random.uniform(first, minval=0.3, maxval=1.5),
        "link.mass": jax.random.uniform(second, minval=1.0, maxval=4.0),
    }


def draw_batch(model: Any, rng: jax.Array) -> tuple[Any, Any]:
    """Return the same in the form of Brax's randomisation functions."""
    drawn = jax.vmap(lambda key: draw(model, key))(rng)
    axes = jax.tree.map(lambda leaf: None, model)
    axes = axes._replace(gravity=0, link=axes.link._replace(mass=0))
    link = model.link._replace(mass=drawn["link.mass"])
    return model._replace(gravity=drawn["gravity"], link=link), axes


def draw_weak(model: Any, key: jax.Array) -> dict[str, Any]:
    """Return one of two numbers of Python's, which JAX types weakly."""
    return {**draw(model, key), "link.mass": jnp.where(key[0] % 2, 2.0, 3.0)}


def make_ball(num_envs: int = 4, *, model: Any = None, **options: Any) -> BraxVectorEnv:
    """Return a new batch whose physics `draw` draws; None as `randomization_fn` varies nothing."""
    return BraxVectorEnv(FallingBall(model), num_envs, **{"randomization_fn": draw, **options})


shared_ball = cache(make_ball)
"""The same, one per combination of arguments: seed it first."""


def play_values(seed: int, num_episodes: int) -> list[dict[str, np.ndarray]]:
    """Return the physics of an environment's episodes 0, 1, …, alone in its batch."""
    envs = shared_ball(1, autoreset_mode="Disabled")
    found = [envs.reset(seed=seed)] + [envs.reset() for _ in range(num_episodes - 1)]
    return [{path: infos["randomization"][path][0] for path in PATHS} for _, infos in found]
