"""Train PPO on any id of gymbridge; table, picture and policy go to `runs/<env id>/`.

    python examples/ppo.py --env-id Brax/inverted_pendulum-v0 --target-return 950
    python examples/ppo.py --env-id Brax/ant-v0 --env-kwargs '{"backend": "spring"}' --arrays torch
    gymbridge rollout Brax/inverted_pendulum-v0 --policy runs/Brax/inverted_pendulum-v0/policy.pt

Needs: pip install '.[brax,envpool,examples]', or the extra of another engine.

With torch arrays everything is on `--device`, and a step of JAX does not synchronise with the host.
Actions: Discrete, Box. Observations: arrays, which are flattened, Discrete, Dict of these.
`--resume` continues a run that stopped or was killed, with the curve of an uninterrupted run.

In `AutoresetMode.NEXT_STEP` the step after the end of an episode ignores its action and begins the
next one, with reward 0. Such restart rows are left out of every loss. A truncation bootstraps from
the critic's value of the final observation, which the step that ends the episode returns.
"""

import json
import logging
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gymnasium as gym
import numpy as np
import torch
import tyro
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution, Independent, Normal
from torch.optim import Adam
from tqdm import tqdm

import gymbridge  # noqa: F401 (registers the ids)
from gymbridge.errors import SimulationError
from gymbridge.wrappers import ClipReward, NormalizeReward, RecordEpisodeStatistics


@dataclass
class Args:
    """Train PPO on any id of gymbridge; table, picture and policy go to `runs/<env id>/`."""

    env_id: str = "Brax/inverted_pendulum-v0"
    """Gymnasium id of the task."""
    env_kwargs: str = "{}"
    """Further keywords of `gym.make_vec`, as JSON."""
    seed: int = 1
    """Seed of networks, actions and environments."""
    arrays: Literal["numpy", "torch"] = "numpy"
    """Arrays that the environments return."""
    device: str = "cpu"
    """Device of the networks, and of environments with torch arrays; cpu:all simulates on every
    core."""
    out: str = ""
    """Folder for results, by default runs/<env id>."""
    resume: bool = False
    """Continue from the checkpoint in the folder for results."""
    checkpoint_updates: int = 10
    """Updates between two checkpoints."""
    total_steps: int = 5_000_000
    """Maximum steps, of all environments together."""
    max_seconds: float = math.inf
    """Maximum wall time of this start, in seconds."""
    target_return: float = math.inf
    """Stop at this mean return of the last episodes."""
    last_episodes: int = 100
    """Episodes that the running mean covers."""
    num_envs: int = 64
    """Environments stepped at once."""
    num_steps: int = 64
    """Steps of each environment between two updates."""
    epochs: int = 8
    """Passes over the steps in one update."""
    minibatches: int = 4
    """Gradient steps in one pass."""
    initial_std: float = 1.0
    """Standard deviation of continuous actions at the start."""
    learning_rate: float = 1e-3
    """Learning rate of Adam, falling to 0 over `total_steps`."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """Weight of long advantage estimates."""
    clip: float = 0.2
    """How far one update may move the policy."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus."""
    value_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Norm to which gradients are clipped."""


MAY_CHANGE = {"out", "resume", "checkpoint_updates", "max_seconds", "target_return"}
"""Flags that may change when a run is resumed, since its learning curve does not depend on them."""


def flatten(space: spaces.Space, obs: Any, device: torch.device) -> Tensor:
    """Return observations as one tensor, (n, size)."""
    if isinstance(space, spaces.Dict):
        return torch.cat([flatten(space[key], obs[key], device) for key in space], dim=1)
    obs = torch.as_tensor(obs, device=device)
    if isinstance(space, spaces.Discrete):
        return nn.functional.one_hot(obs.long() - int(space.start), int(space.n))
    return obs.reshape(len(obs), -1)


def mlp(*sizes: int) -> nn.Module:
    layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


class Agent(nn.Module):
    """A policy and a critic, which share nothing but normalised observations."""

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
        self.actor, self.critic = mlp(size, 64, 64, outputs), mlp(size, 64, 64, 1)
        for weights in self.parameters():
            nn.init.orthogonal_(weights, 2**0.5) if weights.ndim > 1 else nn.init.zeros_(weights)
        nn.init.orthogonal_(self.actor[-1].weight, 0.01)  # begin with all actions alike
        self.log_std = nn.Parameter(torch.full((outputs,), math.log(initial_std)))
        # A batch norm averages means and variances, and applies the averages in eval mode. It is
        # part of the policy that is saved, as a wrapper of the environments would not be.
        self.obs_norm = nn.BatchNorm1d(size, affine=False, momentum=None).eval()

    def forward(self, obs: Tensor) -> Tensor:
        """Return the likeliest actions for observations (n, ...), in the action space."""
        return self.to_space(self.predict(obs.flatten(1).float())[0].mode)

    def predict(self, obs: Tensor) -> tuple[Distribution, Tensor]:
        """Return the distribution of actions, and the values (n,)."""
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

    def to_space(self, actions: Tensor) -> Tensor:
        """Return actions in the action space; [-1, 1] is scaled to the bounds of a bounded Box."""
        if self.is_discrete:
            return actions + int(self.action_space.start)
        low, high = self.bounds.unbind()
        actions = actions.reshape(-1, *self.action_space.shape)
        if self.action_space.is_bounded():
            actions = low + (actions + 1) / 2 * (high - low)
        return actions.clamp(low, high).to(low.dtype)


class Rollout(NamedTuple):
    """Steps in order; every field leads with (num_steps, num_envs)."""

    obs: Tensor  # before the step
    actions: Tensor  # as the policy drew them
    log_probs: Tensor  # float32, of the actions
    values: Tensor  # float32, of obs
    rewards: Tensor  # float32, normalised and clipped
    terminated: Tensor  # bool
    ended: Tensor  # bool, terminated or truncated
    restarts: Tensor  # bool, the step ignored its action and began an episode
    returns: Tensor  # float32, of the episodes that ended


def make_envs(args: Args) -> VectorEnv:
    fixed = {"num_envs": args.num_envs, "autoreset_mode": "NextStep", "arrays": args.arrays}
    is_spread = args.device.endswith(":all")
    place = args.device if args.arrays == "torch" or is_spread else None
    envs = gym.make_vec(args.env_id, **{"device": place} | json.loads(args.env_kwargs) | fixed)
    return wrap(envs, args.gamma)


def wrap(envs: VectorEnv, gamma: float) -> VectorEnv:
    """Return environments that report true returns and give rewards for learning."""
    envs = NormalizeReward(RecordEpisodeStatistics(envs), gamma)
    return ClipReward(envs, min_reward=-10, max_reward=10)


def draw(policy: Distribution) -> Tensor:
    """Return actions as `policy.sample` does, which reads on the host where they are discrete."""
    if policy.has_rsample:
        return policy.rsample()
    return (policy.probs / torch.empty_like(policy.probs).exponential_()).argmax(-1)


@torch.no_grad()
def rollouts(envs: VectorEnv, agent: Agent, args: Args, begun: Any = None) -> Iterator[Any]:
    """Yield rollouts without end, each with the values (num_envs,) of the observations after it.

    `begun` has observations, and the mask of episodes that ended in the step before.
    """
    begun = begun or (envs.reset(seed=args.seed)[0], np.zeros(envs.num_envs, np.bool_))
    obs, ended = agent.from_env(*begun)
    while True:
        steps = []
        for _ in range(args.num_steps):
            restarts = ended
            policy, values = agent.predict(obs)
            actions = draw(policy)
            acted = obs, actions, policy.log_prob(actions), values
            taken = agent.to_space(actions)
            *found, infos = envs.step(taken if agent.takes_tensors else taken.cpu().numpy())
            returns = infos["episode"]["r"] if "episode" in infos else np.zeros(envs.num_envs)
            obs, rewards, terminated, truncated, returns = agent.from_env(*found, returns)
            ended = terminated | truncated
            steps.append((*acted, rewards.float(), terminated, ended, restarts, returns.float()))
        yield Rollout(*map(torch.stack, zip(*steps, strict=True))), agent.predict(obs)[1]


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
            policy, values = agent.predict(obs[batch])
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
    agent.obs_norm.train()(obs.float())  # not earlier: all log_probs need the same normalisation
    agent.obs_norm.eval()


class Run:
    """A training between two updates, and its file; without a path it has none."""

    def __init__(self, path: Path | None, args: Args, envs: VectorEnv, agent: Agent) -> None:
        self.path, self.args, self.envs = path, args, envs
        self.adam = Adam(agent.parameters(), args.learning_rate, eps=1e-5)
        self.parts = agent, self.adam
        self.returns: list[float] = []  # of the last episodes
        self.progress: list[tuple[Any, ...]] = []  # (steps, seconds, episodes, mean return)
        self.generators = [torch.default_generator, *torch.cuda.default_generators]

    def save(self, ended: Tensor) -> None:
        """Replace the file at once, so that a killed process leaves a complete file."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".tmp")
        try:
            self.envs.save_state(beside)
        except SimulationError as error:
            print(f"This run cannot be resumed. {error}")
            self.path = None
            return
        saved = {
            "flags": asdict(self.args),
            "parts": [part.state_dict() for part in self.parts],
            "random": [generator.get_state() for generator in self.generators],
            "envs": torch.from_numpy(np.fromfile(beside, np.uint8)),
            "rest": (ended, self.returns, self.progress),
        }
        torch.save(saved, beside)
        beside.replace(self.path)

    def load(self) -> tuple[Any, Tensor]:
        """Restore all of it; return the observations, and which episodes had just ended."""
        if self.path is None or not self.path.exists():
            raise SystemExit(f"There is no checkpoint {self.path}: omit `--resume`.")
        saved, flags = torch.load(self.path, "cpu", weights_only=True), asdict(self.args)
        odd = {k: v for k, v in saved["flags"].items() if v != flags.get(k) and k not in MAY_CHANGE}
        if odd:
            raise SystemExit(f"{self.path} is of a run with other flags: {odd}.")
        beside = self.path.with_suffix(".tmp")
        saved["envs"].numpy().tofile(beside)
        obs = self.envs.load_state(beside)
        beside.unlink()
        for part, state in zip(self.parts, saved["parts"], strict=True):
            part.load_state_dict(state)
        for generator, state in zip(self.generators, saved["random"], strict=False):
            generator.set_state(state)
        ended, self.returns, self.progress = saved["rest"]
        return obs, ended


def train(args: Args, envs: VectorEnv, agent: Agent, path: Path | None = None) -> list[Any]:
    """Train until a limit is reached; return (steps, seconds, episodes, mean return) per update."""
    run, start = Run(path, args, envs, agent), time.perf_counter()
    begun = run.load() if args.resume else None
    steps, before, episodes, mean = run.progress[-1] if run.progress else (0, 0.0, 0, math.nan)
    rounds, is_over = rollouts(envs, agent, args, begun), is_done(args, steps, episodes, mean)
    with tqdm(total=args.total_steps, initial=steps, unit=" steps", unit_scale=True) as bar:
        while not is_over:
            rollout, last_values = next(rounds)
            run.adam.param_groups[0]["lr"] = args.learning_rate * (1 - steps / args.total_steps)
            found = rollout.returns[rollout.ended].tolist()
            run.returns = (run.returns + found)[-args.last_episodes :]
            update(args, agent, run.adam, rollout, last_values)
            mean, seconds = float(np.mean(run.returns or [math.nan])), time.perf_counter() - start
            steps, episodes = steps + rollout.ended.numel(), episodes + len(found)
            run.progress.append((steps, before + seconds, episodes, mean))
            bar.set_postfix_str(f"mean return {mean:.2f}", refresh=False)
            bar.update(rollout.ended.numel())
            is_over = is_done(args, steps, episodes, mean) or seconds >= args.max_seconds
            if is_over or len(run.progress) % args.checkpoint_updates == 0:
                run.save(rollout.ended[-1])
    return run.progress


def is_done(args: Args, steps: int, episodes: int, mean: float) -> bool:
    is_solved = episodes >= args.last_episodes and mean >= args.target_return
    return is_solved or steps >= args.total_steps


def write_results(folder: Path, title: str, progress: list[Any], agent: Agent) -> None:
    """Write the policy, the rows of progress, and a picture of them."""
    folder.mkdir(parents=True, exist_ok=True)
    names, table = "env_steps,seconds,episodes,mean_return", np.array(progress)
    np.savetxt(folder / "progress.csv", table, "%.10g", ",", header=names, comments="")
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(title=title, xlabel="env steps", ylabel="mean return")
    axes.plot(table[:, 0], table[:, 3])
    figure.savefig(folder / "learning_curve.png", dpi=120)
    obs = torch.zeros(2, agent.obs_size, device=agent.log_std.device)
    torch.jit.save(torch.jit.trace(agent, obs, check_trace=False), folder / "policy.pt")
    print(f"Wrote progress.csv, learning_curve.png and policy.pt to {folder}")


def main(args: Args) -> None:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("gymbridge").setLevel(logging.INFO)  # shows when physics compiles
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # fastest for small networks
    envs = make_envs(args)
    agent = Agent(envs, args.initial_std).to(args.device.removesuffix(":all"))
    folder = Path(args.out or Path("runs", args.env_id.split(":")[-1]))
    progress = train(args, envs, agent, folder / "checkpoint.pt")
    write_results(folder, args.env_id, progress, agent)
    envs.close()
    _, seconds, episodes, mean = progress[-1]
    print(f"{args.env_id}: mean return {mean:.2f} after {episodes} episodes, {seconds:.0f} s")


if __name__ == "__main__":
    main(tyro.cli(Args))
