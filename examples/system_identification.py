"""Recover a mass and a friction from observations, by gradients through the simulator.

    python examples/system_identification.py

Each environment is an inverted pendulum with its own mass of the cart and viscous friction of the
joints. The script observes some steps with random actions. The fit does not know mass and friction:
it begins at the model's own values, plays the same actions, and follows with Adam the gradient of
the error with respect to the physics, which are fields of `envs.physics_state`. Results go to
`runs/system_identification/`.

Needs: pip install '.[brax,examples]'.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import matplotlib.pyplot as plt
import numpy as np
import torch
import tyro
from gymnasium.vector import VectorEnv
from torch import Tensor
from torch.optim import Adam
from tqdm import trange

import gymbridge  # noqa: F401 (registers the ids)

MASS, FRICTION = "link.inertia.mass", "dof.damping"
NAMES = ("mass of the cart", "friction of the joints")


@dataclass
class Args:
    """Identify the physics of pendulums."""

    num_envs: int = 16
    """Pendulums to identify at once."""
    num_steps: int = 15
    """Steps that are observed."""
    iterations: int = 150
    """Steps of Adam."""
    learning_rate: float = 0.05
    """Learning rate of Adam."""
    seed: int = 1
    """Seed of physics, states and actions."""
    out: Path = Path("runs/system_identification")
    """Folder for results."""


def draw_physics(model: Any, key: jax.Array) -> dict[str, jax.Array]:
    """Draw the physics of one pendulum: two factors, each between a half and two."""
    mass, friction = jax.random.uniform(key, (2,), minval=0.5, maxval=2.0)
    return {
        MASS: model.link.inertia.mass.at[0].multiply(mass),
        FRICTION: model.dof.damping * friction,
    }


class Observed(NamedTuple):
    """The observed trajectories, each with its own mass and friction."""

    actions: Tensor  # (num_steps, num_envs, 1)
    obs: Tensor  # (num_steps, num_envs, 4)
    running: Tensor  # (num_steps, num_envs) bool, the episode had not ended before the step
    factors: Tensor  # (num_envs, 2), the truth: over the model's own mass and friction


def to_leaves(model: Any, factors: Tensor) -> dict[str, Tensor]:
    """Return the physics (num_envs, ...) for factors (num_envs, 2), with their graph."""
    mass, friction = (
        torch.tensor(np.asarray(leaf)).expand(len(factors), -1)
        for leaf in (model.link.inertia.mass, model.dof.damping)
    )
    cart, joints = factors[:, :1], factors[:, 1:]
    return {MASS: torch.cat([cart * mass[:, :1], mass[:, 1:]], 1), FRICTION: joints * friction}


@torch.no_grad()
def observe(envs: VectorEnv, args: Args) -> Observed:
    """Play small random actions with physics that were drawn."""
    _, infos = envs.reset(seed=args.seed)
    model, drawn = envs.get_attr("sys")[0], infos["randomization"]
    own = to_leaves(model, torch.ones(args.num_envs, 2))
    factors = torch.stack([(drawn[name] / own[name])[:, 0] for name in (MASS, FRICTION)], 1)
    actions = 0.1 * (2 * torch.rand(args.num_steps, args.num_envs, 1) - 1)
    obs, _, terminated, _, _ = envs.unroll(actions)
    running = torch.cat([torch.ones_like(terminated[:1]), ~terminated[:-1]]).cumprod(0).bool()
    return Observed(actions, obs, running, factors)


def play(envs: VectorEnv, seed: int, leaves: dict[str, Tensor], actions: Tensor) -> Tensor:
    """Return the observations with these physics, and with torch's graph to the physics.

    `reset` gets the physics too, because the simulator's initial state is computed from them.
    """
    given = {name: leaf.detach().numpy() for name, leaf in leaves.items()}
    with torch.no_grad():
        envs.reset(seed=seed, options={"randomization": given})
    state, fields = envs.physics_state.detach().clone(), envs.physics_state_fields
    for name, leaf in leaves.items():
        state[:, fields[f"physics.{name}"]] = leaf
    envs.physics_state = state
    return envs.unroll(actions)[0]


def identify(envs: VectorEnv, observed: Observed, args: Args) -> tuple[Tensor, Tensor]:
    """Follow the gradient of each environment's own error, beginning with factors of 1.

    Returns:
        The factors (iterations, num_envs, 2), and the errors (iterations, num_envs): mean squares
        over the spread of observations.
    """
    model = envs.get_attr("sys")[0]
    logs = torch.zeros(args.num_envs, 2, requires_grad=True)
    adam, rows = Adam([logs], args.learning_rate), []
    spread = observed.obs.std((0, 1))
    for _ in (bar := trange(args.iterations)):
        obs = play(envs, args.seed, to_leaves(model, logs.exp()), observed.actions)
        squares = ((obs - observed.obs) / spread).square().mean(-1)
        errors = (squares * observed.running).sum(0) / observed.running.sum(0)
        rows.append((logs.exp().detach(), errors.detach()))
        adam.zero_grad()
        errors.sum().backward()
        adam.step()
        bar.set_postfix_str(f"mean error {errors.mean():.2e}", refresh=False)
    factors, errors = zip(*rows, strict=True)
    return torch.stack(factors), torch.stack(errors)


def draw(path: Path, truth: Tensor, factors: Tensor, errors: Tensor) -> None:
    figure, (*pairs, last) = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    for index, axes in enumerate(pairs):
        axes.axline((1, 1), slope=1, color="tab:gray", lw=1)
        axes.plot(truth[:, index], factors[0, :, index], "x", label="first iteration")
        axes.plot(truth[:, index], factors[-1, :, index], "o", ms=4, label="last iteration")
        axes.set(title=NAMES[index], xlabel="true factor", ylabel="fitted factor")
        axes.legend()
    last.plot(errors, color="tab:blue", alpha=0.3)
    last.set(title="each pendulum's error", xlabel="iteration", yscale="log")
    for axes in (*pairs, last):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=100)


def main(args: Args) -> None:
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = gym.make_vec(
        "Brax/inverted_pendulum-v0",
        num_envs=args.num_envs,
        backend="generalized",
        autoreset_mode="Disabled",  # a pendulum that fell stays as it is
        randomization_fn=draw_physics,
        arrays="torch",
        differentiable=True,
    )
    observed = observe(envs, args)
    factors, errors = identify(envs, observed, args)
    envs.close()
    args.out.mkdir(parents=True, exist_ok=True)
    table = torch.cat([observed.factors, factors[-1]], 1).numpy()
    header = "true_mass,true_friction,fitted_mass,fitted_friction"
    np.savetxt(args.out / "factors.csv", table, "%.6g", ",", header=header, comments="")
    draw(args.out / "fit.png", observed.factors, factors, errors)
    print(f"Wrote factors.csv and fit.png to {args.out}")
    for index, name in enumerate(NAMES):
        off = (factors[[0, -1], :, index] / observed.factors[:, index] - 1).abs().mean(1)
        print(f"{name}: off by {off[0]:.1%} before, {off[1]:.1%} after")


if __name__ == "__main__":
    main(tyro.cli(Args))
