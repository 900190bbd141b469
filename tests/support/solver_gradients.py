"""Gradients through a solver against forward mode through MJX's own; prints the errors as JSON.

In some rows the solver goes on to its optimum, in others a large tolerance stops it early.
"""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from gymbridge import BraxVectorEnv
from tests.support.mjx_chain import Chain

NUM_ENVS, NUM_STEPS, ITERATIONS = 8, 3, 30
PHYSICS, TOLERANCE = ("dof_frictionloss", "opt.gravity", "body_mass"), "opt.tolerance"

_RNG = np.random.default_rng(0)
ACTIONS, ALONG = _RNG.uniform(-1, 1, (2, NUM_STEPS, NUM_ENVS, 3))
WEIGHTS = _RNG.normal(size=(NUM_ENVS, 6))


def draw(model: Any, key: jax.Array) -> dict[str, Any]:
    """Return the physics of an episode."""
    leaves = {"dof_frictionloss": model.dof_frictionloss, "opt.gravity": model.opt.gravity}
    leaves["body_mass"] = model.body_mass
    drawn = {name: leaf * jax.random.uniform(key, minval=0.8) for name, leaf in leaves.items()}
    return drawn | {
        TOLERANCE: jnp.where(jax.random.bernoulli(jax.random.fold_in(key, 1)), 1e-10, 1e3)
    }


def build(**options: Any) -> Any:
    """Return a batch of chains that has begun its episodes, and their physics by path."""
    options |= {"arrays": "torch", "autoreset_mode": "Disabled", "randomization_fn": draw}
    envs = BraxVectorEnv(Chain(ITERATIONS), NUM_ENVS, **options)
    infos = envs.reset(seed=0)[1]["randomization"]
    return envs, {name: infos[name].numpy() for name in (*PHYSICS, TOLERANCE)}


def play(envs: Any, actions: Any) -> Any:
    """Return the observations of all steps."""
    return torch.stack([envs.step(action)[0] for action in actions])


def losses(actions: Any, physics: Any) -> Any:
    """Return the loss of each row in plain MJX."""

    def one(seed: Any, actions: Any, physics: Any, weights: Any) -> Any:
        env = Chain(ITERATIONS)
        env.sys = env.sys.tree_replace(physics)
        state = env.reset(jax.random.fold_in(jax.random.PRNGKey(seed), 0))
        body = lambda state, action: (env.step(state, action),) * 2  # noqa: E731
        return (jax.lax.scan(body, state, actions)[1].obs * weights).sum()

    axes = (0, 1, 0, 0)
    return jax.vmap(one, axes)(jnp.arange(NUM_ENVS), actions, physics, jnp.asarray(WEIGHTS))


@jax.jit
def push(given: Any, along: Any) -> Any:
    """Return the slope of each row's loss, by forward mode."""
    return jax.jvp(losses, given, along)[1]


def compare(mode: str, wanted: np.ndarray) -> dict[str, Any]:
    """Return whether values are the same, and the largest relative error of slopes in each row."""
    envs, physics = build(differentiable=True, mjx_solver_gradient=mode)
    state = envs.physics_state.requires_grad_()
    envs.physics_state = state
    actions = torch.tensor(ACTIONS, requires_grad=True)
    obs = play(envs, actions)
    (obs * torch.tensor(WEIGHTS)).sum().backward()
    still = {name: np.zeros_like(leaf) for name, leaf in physics.items()}
    errors = [(actions.grad.numpy() * ALONG).sum((0, 2)) / push((ACTIONS, physics), (ALONG, still))]
    for name in PHYSICS:
        gradient = state.grad[:, envs.physics_state_fields[f"physics.{name}"]].numpy()
        moves = still | {name: physics[name]}
        slopes = push((ACTIONS, physics), (np.zeros_like(ALONG), moves))
        errors.append((gradient * physics[name].reshape(NUM_ENVS, -1)).sum(1) / slopes)
    return {
        "is_same": bool((obs.detach().numpy() == wanted).all()),
        "is_early": (physics[TOLERANCE] > 1e-3).tolist(),
        "errors": np.abs(np.asarray(errors) - 1).max(0).tolist(),
    }


if __name__ == "__main__":
    plain = play(build()[0], torch.tensor(ACTIONS)).numpy()
    print(json.dumps({mode: compare(mode, plain) for mode in ("unroll", "implicit")}))
