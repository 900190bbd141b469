"""Reach the target by gradient descent on a sequence of actions, without a policy.

    python examples/open_loop.py

`envs.unroll` plays a whole sequence of actions as one node of torch's graph, so that one backward
pass gives the gradient of the sequence's rewards with respect to each of its actions. Adam follows
this gradient from many initial states at once. A picture of the costs goes to
`runs/<env id>/open_loop/`.

Needs: pip install '.[brax,examples]'.
"""

from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import torch
import tyro
from gymnasium.vector import VectorEnv
from torch import Tensor
from torch.optim import Adam
from tqdm import trange

import gymbridge  # noqa: F401 (registers the ids)


@dataclass
class Args:
    """Optimise sequences of actions by the gradient of the simulator."""

    env_id: str = "Brax/reacher-v0"
    """Brax task with Box actions."""
    backend: str = "generalized"
    """Physics backend of Brax."""
    seed: int = 1
    """Seed of the initial states."""
    out: str = ""
    """Folder, by default runs/<env id>/open_loop."""
    num_envs: int = 16
    """Number of initial states."""
    num_steps: int = 50
    """Actions in one sequence."""
    iterations: int = 60
    """Steps of Adam."""
    learning_rate: float = 0.02
    """Learning rate of Adam."""


def optimise(envs: VectorEnv, args: Args) -> Tensor:
    """Optimise the actions; every iteration plays them from the same initial states.

    Returns:
        The rewards (iterations, num_steps, num_envs) of each iteration's actions.
    """
    envs.reset(seed=args.seed)
    start, space = envs.get_state(), envs.single_action_space
    low, high = torch.as_tensor(space.low), torch.as_tensor(space.high)
    free = torch.zeros(args.num_steps, args.num_envs, *space.shape, requires_grad=True)
    adam, found = Adam([free], args.learning_rate), []
    for _ in (bar := trange(args.iterations)):
        envs.set_state(start)
        actions = low + (free.tanh() + 1) / 2 * (high - low)
        _, rewards, _, _, _ = envs.unroll(actions)
        costs = -rewards.sum(0)
        adam.zero_grad()
        costs.sum().backward()  # each row's gradient is its own
        adam.step()
        bar.set_postfix_str(f"mean cost {costs.mean():.3f}", refresh=False)
        found.append(rewards.detach())
    return torch.stack(found)


def draw(path: Path, title: str, rewards: Tensor) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    figure.suptitle(title)
    costs = -rewards.sum(1)
    left.plot(costs, color="tab:blue", alpha=0.2)
    left.plot(costs.mean(1), color="tab:blue", label="mean")
    left.set(xlabel="iteration", ylabel="cost of the sequence")
    right.plot(-rewards[0].mean(1), label="first iteration")
    right.plot(-rewards[-1].mean(1), label="last iteration")
    right.set(xlabel="step", ylabel="mean cost of the step")
    for axes in (left, right):
        axes.legend()
    figure.savefig(path)


def main(args: Args) -> None:
    torch.set_num_threads(1)
    envs = gym.make_vec(
        args.env_id,
        num_envs=args.num_envs,
        backend=args.backend,
        max_episode_steps=-1,  # the sequence is one episode
        arrays="torch",
        differentiable=True,
    )
    rewards = optimise(envs, args)
    envs.close()
    folder = Path(args.out or Path("runs", args.env_id.split(":")[-1], "open_loop"))
    folder.mkdir(parents=True, exist_ok=True)
    draw(folder / "costs.png", f"{args.env_id}, {args.num_envs} initial states", rewards)
    before, after = -rewards[[0, -1]].sum(1).mean(1)
    print(f"Wrote costs.png to {folder}")
    print(f"{args.env_id}: mean cost {before:.3f} before, {after:.3f} after")


if __name__ == "__main__":
    main(tyro.cli(Args))
