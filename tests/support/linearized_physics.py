"""Linearised steps of Brax and Playground beside `jax.jacfwd` of the same.

``python -m tests.support.linearized_physics spring CartpoleSwingup`` prints JSON, by backend of
Brax or task of Playground: the names of the coordinates, and the errors of A and B relative to
their largest number.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from mujoco_playground import registry

from gymbridge import BraxVectorEnv, PlaygroundVectorEnv
from tests.support.puck import Puck

NUM_ENVS = 3
GRAVITY = np.float32([1.0, 0.0, -5.0])


def compare(env: Any, envs: Any, place: Any, read: Any) -> list[Any]:
    """Return the names and the errors.

    Args:
        env: Of the engine.
        envs: A batch of the same.
        place: (state, x) -> state at these coordinates.
        read: state -> coordinates.
    """
    actions = np.float32([[0.3], [0.1], [-0.5]])
    envs.reset(seed=0)
    found = envs.linearize(actions)
    state = jax.jit(env.reset)(jax.random.PRNGKey(0))

    def advance(x: Any, action: Any) -> Any:
        return read(env.step(place(state, x), action))

    by_hand = jax.jit(jax.vmap(jax.jacfwd(advance, (0, 1))))(found.x, actions)
    pairs = zip(found[:2], by_hand, strict=True)
    errors = [float(np.abs(ours - wanted).max() / np.abs(wanted).max()) for ours, wanted in pairs]
    return [list(found.fields), *errors]


def compare_brax(backend: str) -> list[Any]:
    """Compare a ball that slides, under a gravity that the batch draws."""
    env, drawn = Puck(backend), {"gravity": jnp.asarray(GRAVITY)}
    envs = BraxVectorEnv(Puck(backend), NUM_ENVS, randomization_fn=lambda *_: drawn)
    env.sys = env.sys.tree_replace(drawn)

    def place(state: Any, x: Any) -> Any:
        return state.replace(pipeline_state=env.pipeline_init(x[:2], x[2:]))

    def read(state: Any) -> Any:
        return jnp.concatenate([state.pipeline_state.q, state.pipeline_state.qd])

    return compare(env, envs, place, read)


def compare_playground(name: str) -> list[Any]:
    def place(state: Any, x: Any) -> Any:
        return state.replace(data=state.data.replace(qpos=x[:2], qvel=x[2:]))

    def read(state: Any) -> Any:
        return jnp.concatenate([state.data.qpos, state.data.qvel])

    env = registry.load(name, config_overrides={"impl": "jax"})
    return compare(env, PlaygroundVectorEnv(name, NUM_ENVS), place, read)


BACKENDS = ("generalized", "spring", "positional")

if __name__ == "__main__":
    found = {
        name: (compare_brax if name in BACKENDS else compare_playground)(name)
        for name in sys.argv[1:]
    }
    print(json.dumps(found))
