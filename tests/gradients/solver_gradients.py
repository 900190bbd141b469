"""Gradients through a solver against forward mode through MJX's own; prints the errors as JSON.

python solver_gradients.py '[[2, "unroll"], …]'
"""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from mjx_chain import Chain

from gymbridge import BraxVectorEnv

NUM_ENVS, NUM_STEPS = 4, 3
PHYSICS = ("dof_frictionloss", "opt.gravity", "body_mass")

_RNG = np.random.default_rng(0)
ACTIONS, ALONG = _RNG.uniform(-1, 1, (2, NUM_STEPS, NUM_ENVS, 3))
WEIGHTS = _RNG.normal(size=(NUM_ENVS, 6))


def draw(model: Any, key: jax.Array) -> dict[str, Any]:
    """Return the physics of an episode."""
    leaves = {"dof_frictionloss": model.dof_frictionloss, "opt.gravity": model.opt.gravity}
    leaves["body_mass"] = model.body_mass
    return {name: leaf * jax.random.uniform(key, minval=0.8) for name, leaf in leaves.items()}


def build(iterations: int, **options: Any) -> Any:
    """Return a batch of chains that has begun its episodes, and their physics by path."""
    options |= {"arrays": "torch", "autoreset_mode": "Disabled", "randomization_fn": draw}
    envs = BraxVectorEnv(Chain(iterations), NUM_ENVS, **options)
    infos = envs.reset(seed=0)[1]["randomization"]
    return envs, {name: infos[name] for name in PHYSICS}


def play(envs: Any, actions: Any) -> Any:
    """Return the observations of all steps."""
    return torch.stack([envs.step(action)[0] for action in actions])


@cache
def plain(iterations: int) -> tuple[np.ndarray, Any]:
    """Return the observations of a batch without gradients, and forward mode of plain MJX."""
    obs = play(build(iterations)[0], torch.tensor(ACTIONS))

    def losses(actions: Any, physics: Any) -> Any:
        def one(seed: Any, actions: Any, physics: Any, weights: Any) -> Any:
            env = Chain(iterations)
            env.sys = env.sys.tree_replace(physics)
            state = env.reset(jax.random.fold_in(jax.random.PRNGKey(seed), 0))
            body = lambda state, action: (env.step(state, action),) * 2  # noqa: E731
            return (jax.lax.scan(body, state, actions)[1].obs * weights).sum()

        axes = (0, 1, 0, 0)
        return jax.vmap(one, axes)(jnp.arange(NUM_ENVS), actions, physics, jnp.asarray(WEIGHTS))

    return obs.numpy(), jax.jit(lambda given, along: jax.jvp(losses, given, along)[1])


def compare(iterations: int, mode: str) -> dict[str, Any]:
    """Return whether values are the same, and the largest relative errors of slopes of rows."""
    envs, physics = build(iterations, differentiable=True, mjx_solver_gradient=mode)
    state = envs.physics_state.requires_grad_()
    envs.physics_state = state
    actions = torch.tensor(ACTIONS, requires_grad=True)
    obs = play(envs, actions)
    (obs * torch.tensor(WEIGHTS)).sum().backward()
    wanted, push = plain(iterations)
    values = {name: leaf.numpy() for name, leaf in physics.items()}
    still = {name: np.zeros_like(leaf) for name, leaf in values.items()}
    slopes = np.asarray(push((ACTIONS, values), (ALONG, still)))
    found = (actions.grad.numpy() * ALONG).sum((0, 2))
    errors = {"error": float(np.abs(found / slopes - 1).max()), "physics": 0.0}
    for name in PHYSICS:
        gradient = state.grad[:, envs.physics_state_fields[f"physics.{name}"]].numpy()
        moves = still | {name: values[name]}
        slopes = np.asarray(push((ACTIONS, values), (np.zeros_like(ALONG), moves)))
        found = (gradient * values[name].reshape(NUM_ENVS, -1)).sum(1)
        errors["physics"] = max(errors["physics"], float(np.abs(found / slopes - 1).max()))
    return {"is_same": bool((obs.detach().numpy() == wanted).all()), **errors}


if __name__ == "__main__":
    print(json.dumps([compare(*case) for case in json.loads(sys.argv[1])]))
