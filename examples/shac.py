"""Train SHAC through a Brax simulator; table and policy go to `runs/<env id>/shac/`.

    python examples/shac.py
    gymbridge rollout Brax/reacher-v0 --policy runs/Brax/reacher-v0/shac/policy.pt

Needs: pip install '.[brax,examples]'.

Short-horizon actor-critic (Xu et al. 2022, "Accelerated Policy Learning with Parallel
Differentiable Simulation") plays windows of a few steps, and the gradient of a window's rewards
goes through the simulator into the policy. A critic estimates the rewards after the window.

Episodes restart as in Gymnasium's `AutoresetMode.SAME_STEP`: a step that ends an episode returns
the next initial observation, without a gradient into the earlier episode. The observation that the
step itself led to is in `infos["final_obs"]`, with its gradient. Where a window ends or an episode
is truncated, the critic's value of it is added to the rewards; at a termination, 0 is.
"""

import copy
import json
import logging
import math
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
import tyro
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from torch import Tensor, nn
from torch.optim import Adam
from tqdm import tqdm

import gymbridge  # noqa: F401 (registers the ids)
from gymbridge.wrappers import RecordEpisodeStatistics


@dataclass
class Args:
    """Train SHAC through a Brax simulator."""

    env_id: str = "Brax/reacher-v0"
    """Gymnasium id of the task."""
    env_kwargs: str = '{"backend": "spring", "max_episode_steps": 100}'
    """Further keywords of gym.make_vec, as JSON."""
    seed: int = 1
    """Seed of networks, actions and environments."""
    out: str = ""
    """Folder for results, by default runs/<env id>/shac."""
    total_steps: int = 80_000
    """Maximum steps, of all environments together."""
    max_seconds: float = math.inf
    """Maximum wall time in seconds."""
    target_return: float = math.inf
    """Stop at this mean return of the last 100 episodes."""
    num_envs: int = 64
    """Environments stepped at once."""
    num_steps: int = 8
    """Steps of each environment in one window."""
    initial_std: float = 0.135
    """Standard deviation of actions at the start, before tanh."""
    actor_rate: float = 1e-2
    """Learning rate of the policy, falling to 0."""
    critic_rate: float = 2e-3
    """Learning rate of the critic, falling to 0."""
    critic_epochs: int = 8
    """The critic's passes over a window."""
    minibatches: int = 4
    """The critic's gradient steps in one pass."""
    target_rate: float = 0.6
    """Fraction that the target critic moves in one window."""
    gamma: float = 0.99
    """Discount factor."""
    td_lambda: float = 0.95
    """Weight of long sums in the critic's targets."""
    max_grad_norm: float = 1.0
    """Norm to which gradients are clipped."""


def mlp(*sizes: int) -> nn.Sequential:
    layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ELU())]
    for layer in layers[::2]:
        nn.init.orthogonal_(layer.weight, 2**0.5)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers[:-1])


class Agent(nn.Module):
    """A policy, a critic, and a target critic that follows it."""

    def __init__(self, envs: VectorEnv, initial_std: float) -> None:
        super().__init__()
        observation_space, action_space = envs.single_observation_space, envs.single_action_space
        for space in (observation_space, action_space):
            if not isinstance(space, spaces.Box) or len(space.shape) != 1:
                raise SystemExit(f"Spaces must be flat Boxes here, got {space}.")
        self.obs_size = size = observation_space.shape[0]
        outputs = action_space.shape[0]
        self.actor, self.critic = mlp(size, 64, 64, outputs), mlp(size, 64, 64, 1)
        nn.init.orthogonal_(self.actor[-1].weight, 0.01)  # begin with all actions alike
        self.log_std = nn.Parameter(torch.full((outputs,), math.log(initial_std)))
        self.target_critic = copy.deepcopy(self.critic).requires_grad_(False)
        # In eval mode a batch norm applies its running mean and variance without changing them.
        self.normalise = nn.BatchNorm1d(size, affine=False, momentum=None).eval()
        self.is_bounded = action_space.is_bounded()
        self.low, self.high = map(torch.as_tensor, (action_space.low, action_space.high))

    def forward(self, obs: Tensor, *, explore: bool = False) -> Tensor:
        """Return actions with a gradient to the policy and to observations."""
        means = self.actor(self.features(obs))
        actions = means + self.log_std.exp() * torch.randn_like(means) if explore else means
        half = (self.high - self.low) / 2
        return self.low + half * (1 + actions.tanh()) if self.is_bounded else actions

    def values(self, obs: Tensor) -> Tensor:
        """Return the target critic's values (...), with a gradient to observations (..., size)."""
        return self.target_critic(self.features(obs)).squeeze(-1)

    def features(self, obs: Tensor) -> Tensor:
        """Return normalised observations."""
        return self.normalise(obs.flatten(0, -2)).clamp(-10, 10).view(obs.shape)


class Window(NamedTuple):
    """Steps in order; every field leads with (num_steps, num_envs)."""

    obs: Tensor  # before the step, without a gradient
    next_obs: Tensor  # that the step led to, with a gradient
    rewards: Tensor  # with a gradient
    terminated: Tensor  # bool
    ended: Tensor  # bool, terminated or truncated
    returns: Tensor  # without a gradient, of the episodes that ended


def windows(envs: VectorEnv, agent: Agent, args: Args) -> Iterator[Window]:
    """Yield windows of steps of the policy, each with a graph of its own."""
    envs.reset(seed=args.seed)
    while True:
        obs, steps = envs.detach(), []
        for _ in range(args.num_steps):
            actions = agent(obs, explore=True)
            next_obs, rewards, terminated, truncated, infos = envs.step(actions)
            ended, returns = terminated | truncated, infos["episode"]["r"]
            steps.append((obs.detach(), infos["final_obs"], rewards, terminated, ended, returns))
            obs = next_obs
        yield Window(*map(torch.stack, zip(*steps, strict=True)))


def sum_rewards(window: Window, next_values: Tensor, gamma: float, weight: float) -> Tensor:
    """Return lambda-returns from every step on, (num_steps, num_envs); `weight` is lambda.

    After a step, the value of the next observation has weight 1 - lambda, and the return from there
    lambda. At the end of an episode or of the window, the value has weight 1.
    """
    next_values = next_values * ~window.terminated
    following, sums = next_values[-1], []
    for step in reversed(range(len(next_values))):
        onward = torch.lerp(next_values[step], following, weight)
        onward = torch.where(window.ended[step], next_values[step], onward)
        following = window.rewards[step] + gamma * onward
        sums.append(following)
    return torch.stack(sums[::-1])


def policy_loss(window: Window, next_values: Tensor, gamma: float) -> Tensor:
    """Return minus the returns of the window's episodes, each from its first step in the window."""
    sums = sum_rewards(window, next_values, gamma, 1.0)
    begins = torch.cat([torch.ones_like(window.ended[:1]), window.ended[:-1]])
    return -sums[begins].sum() / sums.numel()


def step_adam(adam: Adam, loss: Tensor, max_norm: float) -> bool:
    """Take a step and return True, or take none and return False if the gradient is not finite."""
    adam.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(adam.param_groups[0]["params"], max_norm)
    if norm.isfinite():
        adam.step()
    return bool(norm.isfinite())


def fit_critic(args: Args, agent: Agent, adam: Adam, obs: Tensor, targets: Tensor) -> None:
    """Fit the critic's values of `obs` (n, size) to the targets (n,); move the target critic."""
    features = agent.features(obs)
    for _ in range(args.critic_epochs):
        for batch in torch.randperm(len(obs)).chunk(args.minibatches):
            errors = agent.critic(features[batch]).squeeze(-1) - targets[batch]
            step_adam(adam, errors.square().mean(), args.max_grad_norm)
    pairs = zip(agent.target_critic.parameters(), agent.critic.parameters(), strict=True)
    for target, weights in pairs:
        target.lerp_(weights.detach(), args.target_rate)


def update(args: Args, agent: Agent, actor_adam: Adam, critic_adam: Adam, window: Window) -> bool:
    """Improve the policy and the critic; return whether the policy's gradient was finite."""
    next_values = agent.values(window.next_obs)
    loss = policy_loss(window, next_values, args.gamma)
    is_finite = step_adam(actor_adam, loss, args.max_grad_norm)
    with torch.no_grad():
        targets = sum_rewards(window, next_values, args.gamma, args.td_lambda)
    obs = window.obs.flatten(0, 1)
    fit_critic(args, agent, critic_adam, obs, targets.flatten())
    agent.normalise.train()(obs)  # not earlier: a window and its values need the same features
    agent.normalise.eval()
    return is_finite


def train(args: Args, envs: VectorEnv, agent: Agent) -> list[tuple[float, ...]]:
    """Train until a limit is reached; return (steps, seconds, episodes, mean return) per update."""
    actor_adam = Adam([*agent.actor.parameters(), agent.log_std], betas=(0.7, 0.95))
    critic_adam = Adam(agent.critic.parameters(), betas=(0.7, 0.95))
    progress, returns, episodes, start = [], deque(maxlen=100), 0, time.perf_counter()
    with tqdm(total=args.total_steps, unit=" steps", unit_scale=True) as bar:
        for window in windows(envs, agent, args):
            left = 1 - bar.n / args.total_steps
            actor_adam.param_groups[0]["lr"] = args.actor_rate * left
            critic_adam.param_groups[0]["lr"] = args.critic_rate * left
            if not update(args, agent, actor_adam, critic_adam, window):
                bar.write(f"Skipped a gradient that was not finite, at {bar.n} steps.")
            returns.extend(window.returns[window.ended].tolist())
            episodes += int(window.ended.sum())
            mean, seconds = float(np.mean(returns or [math.nan])), time.perf_counter() - start
            bar.set_postfix_str(f"mean return {mean:.2f}", refresh=False)
            bar.update(args.num_steps * args.num_envs)
            progress.append((bar.n, seconds, episodes, mean))
            is_solved = len(returns) == returns.maxlen and mean >= args.target_return
            if is_solved or bar.n >= bar.total or seconds >= args.max_seconds:
                break
    return progress


def write_results(folder: Path, progress: list[Any], agent: Agent) -> None:
    """Write the policy and the rows of progress."""
    folder.mkdir(parents=True, exist_ok=True)
    names, table = "env_steps,seconds,episodes,mean_return", np.array(progress)
    np.savetxt(folder / "progress.csv", table, "%.10g", ",", header=names, comments="")
    policy = torch.jit.trace(agent, torch.zeros(2, agent.obs_size))
    torch.jit.save(policy, folder / "policy.pt")
    print(f"Wrote progress.csv and policy.pt to {folder}")


def main(args: Args) -> None:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("gymbridge").setLevel(logging.INFO)  # shows when physics compiles
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # fastest for small networks
    envs = gym.make_vec(
        args.env_id,
        num_envs=args.num_envs,
        autoreset_mode="SameStep",
        arrays="torch",
        differentiable=True,
        **json.loads(args.env_kwargs),
    )
    envs = RecordEpisodeStatistics(envs)
    agent = Agent(envs, args.initial_std)
    progress = train(args, envs, agent)
    folder = Path(args.out or Path("runs", args.env_id.split(":")[-1], "shac"))
    write_results(folder, progress, agent)
    envs.close()
    _, seconds, episodes, mean = progress[-1]
    print(f"{args.env_id}: mean return {mean:.2f} after {episodes} episodes, {seconds:.0f} s")


if __name__ == "__main__":
    main(tyro.cli(Args))
