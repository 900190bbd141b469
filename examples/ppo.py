"""Train PPO on any id of gymbridge; table, picture and policy go to `runs/<env id>/`.

    python examples/ppo.py --env-id Brax/inverted_pendulum-v0 --target-return 950
    python examples/ppo.py --env-id Brax/ant-v0 --env-kwargs '{"backend": "spring"}' --arrays torch

`torch.jit.load("policy.pt")(observations)` returns actions, and `--evaluate FILE` plays them. To
copy this script, copy `ppo_flags.py` and `run_folder.py` as well.

With torch arrays everything is on `--device`, and a step of JAX does not synchronise with the host.
Actions: Discrete, Box. Observations: arrays (images go through a CNN), Discrete, Dict of these.
`--resume` continues a run that stopped or was killed, with the curve of an uninterrupted run.

In `AutoresetMode.NEXT_STEP` the step after the end of an episode ignores its action and begins the
next one, with reward 0. Such restart rows are left out of every loss. A truncation bootstraps from
the critic's value of the final observation, which the step that ends the episode returns.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ppo_flags import Args, parse_args

if __name__ == "__main__":
    parse_args(Args())  # answers --help before the slow imports

try:
    import gymnasium as gym
    import numpy as np
    import torch
    from gymnasium import spaces
    from gymnasium.vector import VectorEnv
    from run_folder import (
        Checkpoint,
        load_policy,
        make_bar,
        print_returns,
        save_policy,
        write_results,
    )
    from torch import Tensor, nn
    from torch.distributions import Categorical, Distribution, Independent, Normal
    from torch.optim import Adam

    import gymbridge  # noqa: F401 (registers the ids)
    from gymbridge.errors import GymbridgeError
except ImportError as error:
    raise SystemExit(f"{error}; in a checkout of gymbridge: pip install '.[all]'") from None


def flatten(space: spaces.Space, obs: Any, device: torch.device) -> Tensor:
    """Return observations as one tensor, (n, size)."""
    if isinstance(space, spaces.Dict):
        return torch.cat([flatten(space[key], obs[key], device) for key in space], dim=1)
    obs = torch.as_tensor(obs, device=device)
    if isinstance(space, spaces.Discrete):
        return nn.functional.one_hot(obs.long() - int(space.start), int(space.n))
    return obs.reshape(len(obs), -1)


def nature_cnn(channels: int, *size: int) -> nn.Module:
    """Return the CNN of Mnih et al. (2015), from (n, channels, height, width) to (n, 512)."""
    convs = nn.Conv2d(channels, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3)
    cnn = nn.Sequential(*(layer for conv in convs for layer in (conv, nn.ReLU())), nn.Flatten())
    return cnn.extend([nn.Linear(cnn(torch.zeros(1, channels, *size)).shape[1], 512), nn.ReLU()])


def mlp(*sizes: int) -> nn.Module:
    layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


class Agent(nn.Module):
    """A policy and a critic; for images they share the CNN, otherwise nothing."""

    def __init__(self, envs: VectorEnv, initial_std: float = 1.0) -> None:
        super().__init__()
        self.obs_space, self.action_space = envs.single_observation_space, envs.single_action_space
        if not isinstance(self.action_space, spaces.Discrete | spaces.Box):
            raise SystemExit(f"Actions must be Discrete or Box here, got {self.action_space}.")
        self.is_discrete = isinstance(self.action_space, spaces.Discrete)
        self.takes_tensors = envs.unwrapped.arrays == "torch"
        outputs = int(self.action_space.n if self.is_discrete else np.prod(self.action_space.shape))
        bounds = [] if self.is_discrete else [self.action_space.low, self.action_space.high]
        self.register_buffer("bounds", torch.as_tensor(np.array(bounds)))
        sample = flatten(self.obs_space, envs.observation_space.sample(), torch.device("cpu"))
        self.obs_size = size = sample.shape[1]
        shape, dtype = self.obs_space.shape or (), self.obs_space.dtype
        self.is_image = len(shape) == 3 and dtype == "uint8" and np.median(shape) > 35
        if self.is_image:
            self.channel_axis = int(np.argmin(shape))
            self.cnn = nature_cnn(*np.moveaxis(np.empty(shape), self.channel_axis, 0).shape)
        sizes = [512] if self.is_image else [size, 64, 64]
        self.actor, self.critic = mlp(*sizes, outputs), mlp(*sizes, 1)
        for weights in self.parameters():
            nn.init.orthogonal_(weights, 2**0.5) if weights.ndim > 1 else nn.init.zeros_(weights)
        nn.init.orthogonal_(self.actor[-1].weight, 0.01)  # begin with all actions alike
        self.log_std = nn.Parameter(torch.full((outputs,), math.log(initial_std)))
        # A batch norm averages means and variances, and applies the averages in eval mode.
        self.obs_norm = nn.BatchNorm1d(sizes[0], affine=False, momentum=None).eval()
        self.return_norm = nn.BatchNorm1d(1, affine=False, momentum=None)

    def forward(self, obs: Tensor) -> tuple[Distribution, Tensor]:
        """Return the distribution of actions, and the values (n,)."""
        if self.is_image:
            images = obs.unflatten(1, self.obs_space.shape).movedim(1 + self.channel_axis, 1)
            features = self.cnn(images / 255)
        else:
            features = self.obs_norm(obs.float()).clamp(-10, 10)
        scores, values = self.actor(features), self.critic(features).squeeze(-1)
        if self.is_discrete:
            return Categorical(logits=scores, validate_args=False), values
        normal = Normal(scores, self.log_std.exp(), validate_args=False)
        return Independent(normal, 1, validate_args=False), values

    def from_env(self, obs: Any, *rest: Any) -> list[Tensor]:
        """Return observations, flat, and other arrays as tensors on the device of the networks."""
        device = self.log_std.device
        arrays = [torch.as_tensor(array, device=device) for array in rest]
        return [flatten(self.obs_space, obs, device), *arrays]

    def act(self, obs: Tensor) -> Tensor:
        """Return the likeliest actions for observations (n, ...), in the action space."""
        return self.to_space(self(obs.flatten(1))[0].mode)

    def to_space(self, actions: Tensor) -> Tensor:
        """Return actions in the action space; [-1, 1] is scaled to the bounds of a bounded Box."""
        if self.is_discrete:
            return actions + int(self.action_space.start)
        low, high = self.bounds.unbind()
        actions = actions.reshape(-1, *self.action_space.shape)
        if self.action_space.is_bounded():
            actions = low + (actions + 1) / 2 * (high - low)
        return actions.clamp(low, high).to(low.dtype)

    def step(self, envs: VectorEnv, actions: Tensor) -> list[Tensor]:
        """Take actions of the action space; return what `envs.step` does, without infos."""
        taken = actions if self.takes_tensors else actions.cpu().numpy()
        return self.from_env(*envs.step(taken)[:-1])


class Rollout(NamedTuple):
    """Steps in order; every field leads with (num_steps, num_envs)."""

    obs: Tensor  # before the step
    actions: Tensor  # as the policy drew them
    log_probs: Tensor  # float32, of the actions
    values: Tensor  # float32, of obs
    rewards: Tensor  # float32, over the deviation of discounted sums within rollouts; clipped
    sums: Tensor  # (num_steps, 2, num_envs), the episode's rewards so far, plain and discounted
    terminated: Tensor  # bool
    ended: Tensor  # bool, terminated or truncated
    restarts: Tensor  # bool, the step ignored its action and began an episode


def draw(policy: Distribution) -> Tensor:
    """Return actions as `policy.sample` does, which reads on the host where they are discrete."""
    if policy.has_rsample:
        return policy.rsample()
    return (policy.probs / torch.empty_like(policy.probs).exponential_()).argmax(-1)


@torch.no_grad()
def rollouts(envs: VectorEnv, agent: Agent, args: Args, carry: Any = None) -> Iterator[Any]:
    """Yield rollouts without end, each with the values (num_envs,) of the observations after it."""
    zeros = torch.zeros(2, args.num_envs)
    carry = carry or (envs.reset(seed=args.seed)[0], zeros, zeros[0].bool())
    obs, sums, ended = agent.from_env(*carry)
    discounts = torch.tensor([[1.0], [args.gamma]], device=obs.device)
    while True:
        steps = []
        for _ in range(args.num_steps):
            sums, restarts = sums * ~ended, ended
            policy, values = agent(obs)
            actions = draw(policy)
            acted = obs, actions, policy.log_prob(actions), values
            obs, rewards, terminated, truncated = agent.step(envs, agent.to_space(actions))
            ended, sums = terminated | truncated, sums * discounts + rewards
            steps.append((*acted, rewards.float(), sums, terminated, ended, restarts))
        rollout = Rollout(*map(torch.stack, zip(*steps, strict=True)))
        agent.return_norm(rollout.sums[:, 1].reshape(-1, 1))
        scaled = rollout.rewards / (agent.return_norm.running_var + 1e-8).sqrt()
        yield rollout._replace(rewards=scaled.clamp(-10, 10)), agent(obs)[1]


def estimate_advantages(rollout: Rollout, last_values: Tensor, args: Args) -> Tensor:
    """Return generalised advantages, (num_steps, num_envs); meaningless in restart rows."""
    # The observation after a step, also after the last one of an episode, is that of the next row.
    next_values = torch.cat([rollout.values[1:], last_values[None]])
    advantages = rollout.rewards + args.gamma * next_values * ~rollout.terminated - rollout.values
    for step in reversed(range(len(advantages) - 1)):  # sums stop where an episode ends
        following = advantages[step + 1] * ~rollout.ended[step]
        advantages[step] += args.gamma * args.gae_lambda * following
    return advantages


def update(args: Args, agent: Agent, adam: Adam, rollout: Rollout, last_values: Tensor) -> None:
    """Improve the policy and the critic on all rows of the rollout except restart rows."""
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
    if not agent.is_image:  # not earlier: old and new log_probs need the same normalisation
        agent.obs_norm.train()(obs.float())
        agent.obs_norm.eval()


def train(args: Args, envs: VectorEnv, agent: Agent, path: Path | None = None) -> list[Any]:
    """Train until a limit is reached; return (steps, seconds, episodes, mean return) per update."""
    adam, start = Adam(agent.parameters(), args.learning_rate, eps=1e-5), time.perf_counter()
    checkpoint = Checkpoint(path, args, envs, agent=agent, adam=adam) if path else None
    begun = None, [], [(0, 0.0, 0, math.nan)]
    carry, last, progress = checkpoint.load() if args.resume else begun
    done, before, count, mean = progress[-1]
    if done >= args.total_steps or (count >= args.last_episodes and mean >= args.target_return):
        return progress[1:]
    first = next(steps := rollouts(envs, agent, args, carry))  # compiles: not for estimates
    with make_bar(done, args) as bar:
        for rollout, last_values in chain([first], steps):
            adam.param_groups[0]["lr"] = args.learning_rate * (1 - bar.n / args.total_steps)
            last += (returns := rollout.sums[:, 0][rollout.ended].tolist())
            last = last[-args.last_episodes :]
            update(args, agent, adam, rollout, last_values)
            mean, seconds = float(np.mean(last or [math.nan])), time.perf_counter() - start
            is_solved = len(last) == args.last_episodes and mean >= args.target_return
            bar.set_postfix_str(f"mean return {mean:.2f}{', solved' * is_solved}", refresh=False)
            bar.update(args.num_steps * args.num_envs)
            bar.total = bar.n if is_solved else bar.total
            progress.append((bar.n, before + seconds, count := count + len(returns), mean))
            is_over = bar.n >= bar.total or seconds >= args.max_seconds
            if checkpoint and (is_over or (len(progress) - 1) % args.checkpoint_updates == 0):
                checkpoint.save((rollout.sums[-1], rollout.ended[-1]), last, progress)
            if is_over:
                break
    return progress[1:]


@torch.no_grad()
def evaluate(envs: VectorEnv, agent: Agent, args: Args, act: Callable[..., Any]) -> list[float]:
    """Return the returns of first episodes that end within `eval_steps`, with actions by `act`."""
    [obs] = agent.from_env(envs.reset()[0])
    running = (total := torch.zeros(args.num_envs, device=obs.device)) == 0
    for _ in range(args.eval_steps):
        obs, rewards, terminated, truncated = agent.step(envs, act(obs.float()))
        total += rewards * running
        running &= ~(terminated | truncated)
        if not running.any():
            break
    return total[~running].tolist()


def find_device(name: str) -> torch.device:
    """Return the device of the networks; exit if torch does not have it."""
    try:
        return torch.empty(0, device=name.removesuffix(":all")).device
    except (RuntimeError, AssertionError) as error:
        raise SystemExit(f"--device: {str(error).partition(chr(10))[0]}") from None


def run(args: Args) -> None:
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # fastest for small networks
    fixed = {"num_envs": args.num_envs, "autoreset_mode": "NextStep", "arrays": args.arrays}
    device = find_device(args.device)
    is_spread = args.device.endswith(":all")
    place = args.device if args.arrays == "torch" or is_spread else None
    envs = gym.make_vec(args.env_id, **{"device": place} | json.loads(args.env_kwargs) | fixed)
    agent = Agent(envs, args.initial_std).to(device)
    if args.evaluate:
        act = load_policy(args.evaluate, torch.zeros(2, agent.obs_size, device=device), device)
    else:
        act, folder = agent.act, Path(args.out or Path("runs", args.env_id.split(":")[-1]))
        progress = train(args, envs, agent, folder / "checkpoint.pt")
        write_results(folder, args.env_id, progress)
        save_policy(folder / "policy.pt", agent)
    print_returns(evaluate(envs, agent, args, act), args.eval_steps)
    envs.close()
    if not args.evaluate:
        _, seconds, episodes, mean = progress[-1]
        print(f"{args.env_id}: mean return {mean:.2f} after {episodes} episodes, {seconds:.0f} s")


def main(args: Args) -> None:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("gymbridge").setLevel(logging.INFO)  # shows when physics compiles
    try:
        run(args)
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main(parse_args(Args()))
