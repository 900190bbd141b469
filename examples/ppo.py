"""Train PPO on any Brax or EnvPool id; table and learning curve go to `runs/<env id>/`.

    python examples/ppo.py --env-id Brax/inverted_pendulum-v0
    python examples/ppo.py --env-id EnvPool/CartPole-v1
    python examples/ppo.py --env-id Brax/ant-v0 --env-kwargs '{"backend": "spring"}'

Actions: `Discrete` and `Box`. Observations: `Box`, where images (`uint8`) go through a CNN, and
whatever `gymnasium.wrappers.vector.FlattenObservation` makes flat (`Dict`, `Tuple`, `Discrete`).

In `AutoresetMode.NEXT_STEP` the step after the end of an episode ignores its action and returns the
next initial observation, with reward 0. Such restart rows are left out of every loss. A truncation
bootstraps from the critic's value of the final observation, which the ending step returns.
"""

import argparse
import json
import logging
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import vector as wrappers
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution, Independent, Normal
from torch.optim import Adam
from tqdm import tqdm

import gymbridge  # noqa: F401 (registers the ids)

START = time.perf_counter()
TUNED: dict[str, dict[str, Any]] = {
    "Brax/inverted_pendulum-v0": {"target_return": 950.0},  # of 1000, 1 per step that it is up
    "EnvPool/CartPole-v1": {"target_return": 485.0},  # of 500, likewise
}
"""Defaults of single tasks, under the flags of the command line."""


@dataclass
class Args:
    """Hyperparameters, each a flag: ``--num-envs 8``."""

    env_id: Annotated[str, "Gymnasium id of the task"] = "Brax/inverted_pendulum-v0"
    env_kwargs: Annotated[str, "further keywords of gym.make_vec, as JSON"] = "{}"
    seed: Annotated[int, "seed of networks, actions and environments"] = 1
    device: Annotated[str, "where the networks are"] = "cpu"
    torch_threads: Annotated[int, "on the CPU; one is fastest for small networks"] = 1
    out: Annotated[str, "folder for results, by default runs/<env id>"] = ""
    total_steps: Annotated[int, "steps at most, of all environments together"] = 5_000_000
    max_seconds: Annotated[float, "wall time at most"] = math.inf
    target_return: Annotated[float, "stop at this mean over the last episodes"] = math.inf
    last_episodes: Annotated[int, "episodes that the running mean covers"] = 100
    eval_steps: Annotated[int, "steps of the greedy evaluation at the end, or 0"] = 1000
    num_envs: Annotated[int, "environments stepped at once"] = 64
    num_steps: Annotated[int, "steps of each environment between two updates"] = 64
    epochs: Annotated[int, "passes over the steps in one update"] = 8
    minibatches: Annotated[int, "gradient steps in one pass"] = 4
    learning_rate: Annotated[float, "of Adam, falling to 0 over total_steps"] = 1e-3
    gamma: Annotated[float, "discount"] = 0.99
    gae_lambda: Annotated[float, "weight of long advantage estimates"] = 0.95
    clip: Annotated[float, "how far one update may move the policy"] = 0.2
    entropy_coef: Annotated[float, "weight of the entropy bonus"] = 0.0
    value_coef: Annotated[float, "weight of the value loss"] = 0.5
    max_grad_norm: Annotated[float, "norm to which gradients are clipped"] = 0.5


def parse_args() -> Args:
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    for name, hint in get_type_hints(Args, include_extras=True).items():
        text = f"{hint.__metadata__[0]} (default: {getattr(Args, name)!r})"
        parser.add_argument("--" + name.replace("_", "-"), type=hint.__origin__, help=text)
    given = vars(parser.parse_args())
    return Args(**TUNED.get(given.get("env_id", Args.env_id), {}) | given)


def make_envs(args: Args) -> wrappers.NormalizeReward:
    """Return environments with scaled rewards; `envs.env` knows the true returns."""
    fixed = {"num_envs": args.num_envs, "autoreset_mode": "NextStep"}
    envs = gym.make_vec(args.env_id, **json.loads(args.env_kwargs), **fixed)
    if not isinstance(envs.single_observation_space, spaces.Box):
        envs = wrappers.FlattenObservation(envs)
    envs = wrappers.RecordEpisodeStatistics(envs, buffer_length=args.last_episodes)
    return wrappers.NormalizeReward(envs, gamma=args.gamma)


def nature_cnn(channels: int, *size: int) -> nn.Module:
    """Return the CNN of Mnih et al. (2015), from (n, channels, height, width) to (n, 512)."""
    cnn = nn.Sequential(nn.Conv2d(channels, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2))
    cnn.extend([nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten()])
    outputs = cnn(torch.zeros(1, channels, *size)).shape[1]
    return cnn.extend([nn.Linear(outputs, 512), nn.ReLU()])


def mlp(*sizes: int) -> nn.Module:
    layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


class Agent(nn.Module):
    """A policy and a critic; they share the CNN on images and nothing else."""

    def __init__(self, observation_space: spaces.Box, action_space: spaces.Space) -> None:
        super().__init__()
        if not isinstance(action_space, spaces.Discrete | spaces.Box):
            raise SystemExit(f"This script takes Discrete and Box actions, not {action_space}.")
        self.action_space = action_space
        self.is_discrete = isinstance(action_space, spaces.Discrete)
        outputs = int(action_space.n if self.is_discrete else np.prod(action_space.shape))
        shape, is_bytes = observation_space.shape, observation_space.dtype == np.uint8
        self.is_image = is_bytes and len(shape) == 3 and sorted(shape)[1] >= 36  # least for the CNN
        if self.is_image:
            self.channel_axis = int(np.argmin(shape))
            self.cnn = nature_cnn(*np.moveaxis(np.empty(shape), self.channel_axis, 0).shape)
        sizes = [512] if self.is_image else [math.prod(shape), 64, 64]
        self.actor, self.critic = mlp(*sizes, outputs), mlp(*sizes, 1)
        for layer in self.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                nn.init.orthogonal_(layer.weight, 2**0.5)
                nn.init.zeros_(layer.bias)
        nn.init.orthogonal_(self.actor[-1].weight, 0.01)  # begin with all actions alike
        self.log_std = nn.Parameter(torch.zeros(outputs))
        # In eval mode a batch norm applies its running mean and variance without changing them.
        self.normalise = nn.BatchNorm1d(sizes[0], affine=False, momentum=None).eval()

    def forward(self, obs: Tensor) -> tuple[Distribution, Tensor]:
        """Return the distribution of actions, and the values (n,)."""
        if self.is_image:
            features = self.cnn(obs.movedim(1 + self.channel_axis, 1) / 255)
        else:
            features = self.normalise(obs.reshape(len(obs), -1).float()).clamp(-10, 10)
        scores, values = self.actor(features), self.critic(features).squeeze(-1)
        if self.is_discrete:
            return Categorical(logits=scores, validate_args=False), values
        normal = Normal(scores, self.log_std.exp(), validate_args=False)
        return Independent(normal, 1, validate_args=False), values

    def observe(self, obs: Tensor) -> None:
        """Average the mean and variance of (n, ...) into those that normalise observations."""
        self.normalise.train()(obs.reshape(len(obs), -1).float())
        self.normalise.eval()

    def to_env(self, actions: Tensor) -> np.ndarray:
        """Return what `envs.step` takes; the policy's [-1, 1] spans a bounded Box."""
        space, array = self.action_space, actions.cpu().numpy()
        if self.is_discrete:
            return (array + space.start).astype(space.dtype)
        array = array.reshape(-1, *space.shape)
        if space.is_bounded():
            array = space.low + (array + 1) / 2 * (space.high - space.low)
        return array.clip(space.low, space.high).astype(space.dtype)


class Rollout(NamedTuple):
    """Steps in order; every field leads with (num_steps, num_envs)."""

    obs: Tensor  # before the step
    actions: Tensor  # as the policy drew them
    log_probs: Tensor  # float32, of the actions
    values: Tensor  # float32, of obs
    rewards: Tensor  # float32, scaled and clipped
    terminated: Tensor  # bool
    ended: Tensor  # bool, terminated or truncated
    restarts: Tensor  # bool, the step ignored its action and began an episode


@torch.no_grad()
def rollouts(envs: VectorEnv, agent: Agent, args: Args) -> Iterator[tuple[Rollout, Tensor]]:
    """Yield steps of the policy and the values (num_envs,) of the observations after them."""
    obs = torch.as_tensor(envs.reset(seed=args.seed)[0], device=args.device)
    restarts = torch.zeros(args.num_envs, dtype=torch.bool, device=args.device)
    while True:
        steps = []
        for _ in range(args.num_steps):
            policy, values = agent(obs)
            actions = policy.sample()
            log_probs = policy.log_prob(actions)
            next_obs, *outcome, _ = envs.step(agent.to_env(actions))
            rewards, terminated, truncated = (torch.as_tensor(x).to(obs.device) for x in outcome)
            ended, rewards = terminated | truncated, rewards.float().clamp(-10, 10)
            steps.append((obs, actions, log_probs, values, rewards, terminated, ended, restarts))
            obs, restarts = torch.as_tensor(next_obs, device=obs.device), ended
        yield Rollout(*map(torch.stack, zip(*steps, strict=True))), agent(obs)[1]


def estimate_advantages(rollout: Rollout, last_values: Tensor, args: Args) -> Tensor:
    """Return generalised advantages, (num_steps, num_envs); meaningless in restart rows."""
    # The observation after a step, also after the last one of an episode, is that of the next row.
    next_values = torch.cat([rollout.values[1:], last_values[None]])
    targets = rollout.rewards + args.gamma * next_values * ~rollout.terminated
    advantages, following = targets - rollout.values, 0.0  # sums stop where an episode ends
    for step in reversed(range(len(advantages))):
        advantages[step] += args.gamma * args.gae_lambda * following * ~rollout.ended[step]
        following = advantages[step]
    return advantages


def update(args: Args, agent: Agent, adam: Adam, rollout: Rollout, last_values: Tensor) -> None:
    """Improve the policy and the critic on all rows of the rollout but the restart rows."""
    rows = ~rollout.restarts
    obs, actions, old_log_probs = rollout.obs[rows], rollout.actions[rows], rollout.log_probs[rows]
    advantages = estimate_advantages(rollout, last_values, args)[rows]
    returns = advantages + rollout.values[rows]
    for _ in range(args.epochs):
        for batch in torch.randperm(len(obs), device=obs.device).chunk(args.minibatches):
            policy, values = agent(obs[batch])
            ratio = (policy.log_prob(actions[batch]) - old_log_probs[batch]).exp()
            gain = advantages[batch]
            gain = (gain - gain.mean()) / (gain.std(correction=0) + 1e-8)
            clipped_ratio = ratio.clamp(1 - args.clip, 1 + args.clip)
            policy_loss = -torch.minimum(gain * ratio, gain * clipped_ratio).mean()
            value_loss = args.value_coef * (values - returns[batch]).square().mean()
            entropy_bonus = args.entropy_coef * policy.entropy().mean()
            adam.zero_grad()
            (policy_loss + value_loss - entropy_bonus).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
            adam.step()
    if not agent.is_image:
        agent.observe(obs)  # not earlier: old and new log_probs need the same normalisation


def train(args: Args, envs: wrappers.NormalizeReward, agent: Agent) -> list[tuple[float, ...]]:
    """Train until a limit is reached; return (steps, seconds, episodes, mean return) per update."""
    adam, progress = Adam(agent.parameters(), args.learning_rate, eps=1e-5), []
    returns, steps = envs.env.return_queue, rollouts(envs, agent, args)
    first = next(steps)  # compiles, which the bar's estimate of time must not count
    with tqdm(total=args.total_steps, unit=" steps", unit_scale=True) as bar:
        for rollout, last_values in chain([first], steps):
            adam.param_groups[0]["lr"] = args.learning_rate * (1 - bar.n / args.total_steps)
            update(args, agent, adam, rollout, last_values)
            mean, seconds = np.mean(returns or [math.nan]), time.perf_counter() - START
            is_solved = len(returns) == args.last_episodes and mean >= args.target_return
            text = f"mean return {mean:.2f}" + ", solved" * int(is_solved)
            bar.set_postfix_str(text, refresh=False)
            bar.update(args.num_steps * args.num_envs)
            bar.total = bar.n if is_solved else bar.total
            progress.append((bar.n, seconds, envs.env.episode_count, mean))
            if bar.n >= bar.total or seconds >= args.max_seconds:
                break
    return progress


@torch.no_grad()
def evaluate(envs: VectorEnv, agent: Agent, args: Args) -> list[float]:
    """Return what the likeliest actions earn in each first episode of at most `eval_steps`."""
    obs, first, returns = envs.reset()[0], np.ones(args.num_envs, np.bool_), []
    for _ in range(args.eval_steps):
        policy, _ = agent(torch.as_tensor(obs, device=args.device))
        obs, _, terminated, truncated, infos = envs.step(agent.to_env(policy.mode))
        if (ended := first & (terminated | truncated)).any():
            returns += infos["episode"]["r"][ended].tolist()
            first &= ~ended
    return returns


def write_results(folder: Path, title: str, progress: list[tuple[float, ...]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names, table = ("env_steps", "seconds", "episodes", "mean_return"), np.array(progress)
    np.savetxt(folder / "progress.csv", table, "%.10g", ",", header=",".join(names), comments="")
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    figure.suptitle(title)
    for column, axes in enumerate(figure.subplots(1, 2, sharey=True)):
        axes.plot(table[:, column], table[:, 3])
        axes.set(xlabel=names[column].replace("_", " "), ylabel="mean return", xlim=(0, None))
        axes.locator_params("x", nbins=5)
        axes.grid(alpha=0.3)
        axes.label_outer()
    figure.savefig(folder / "learning_curve.png", dpi=120)


def main() -> None:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("gymbridge").setLevel(logging.INFO)  # shows when physics compiles
    args = parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.torch_threads)
    envs = make_envs(args)
    agent = Agent(envs.single_observation_space, envs.single_action_space).to(args.device)
    progress = train(args, envs, agent)
    (_, seconds, _, mean), count = progress[-1], len(envs.env.return_queue)
    folder = Path(args.out or Path("runs", args.env_id.split(":")[-1]))
    write_results(folder, args.env_id, progress)
    print(f"Wrote progress.csv and learning_curve.png to {folder}")
    if greedy := evaluate(envs, agent, args):
        print(f"Greedy policy: mean return {np.mean(greedy):.2f} over {len(greedy)} episodes")
    envs.close()
    print(f"{args.env_id}: mean return {mean:.2f} over the last {count} episodes, {seconds:.0f} s")


if __name__ == "__main__":
    main()
