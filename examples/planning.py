"""Balance a pendulum by planning with snapshots: the cross-entropy method, without learning.

    python examples/planning.py

All environments begin with one seed, so they are in the same state. Before each step, `get_state`
saves the batch, every environment tries a plan of its own, and `set_state` restores the state. The
next plans are drawn around the best ones. Then all environments take the first action of the best
plan. For comparison, an episode with random actions is played first. Brax and Playground have
snapshots, EnvPool has none.

Needs: pip install '.[brax,examples]'.
"""

from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np
import tyro
from gymnasium.vector import VectorEnv
from tqdm import trange

import gymbridge  # noqa: F401 (registers the ids)


@dataclass
class Args:
    """Plan an episode with snapshots, and compare it with random actions."""

    env_id: str = "Brax/inverted_pendulum-v0"
    """Id of Brax or Playground."""
    num_envs: int = 64
    """Plans tried at once."""
    horizon: int = 30
    """Steps of a plan."""
    iterations: int = 2
    """Rounds of plans before a step."""
    best: int = 8
    """Plans around which to draw the next."""
    steps: int = 100
    """Maximum steps of the episode."""
    seed: int = 0
    """Seed of the episode and the plans."""
    out: Path = Path("runs/planning")
    """Folder for the picture of the returns."""


def try_plans(envs: VectorEnv, plans: np.ndarray) -> np.ndarray:
    """Return the return of each environment's plan, (num_envs,), and restore the batch."""
    state, total, running = envs.get_state(), np.zeros(envs.num_envs), True
    for actions in plans:
        _, rewards, terminations, truncations, _ = envs.step(actions)
        total += rewards * running
        running = running & ~(terminations | truncations)
    envs.set_state(state)
    return total


def plan(
    envs: VectorEnv, means: np.ndarray, args: Args, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of the best plans, (horizon, ...), and the first action of the best one."""
    space, deviations = envs.single_action_space, np.full_like(means, 1.0)
    for _ in range(args.iterations):
        noise = rng.standard_normal((args.horizon, args.num_envs, *space.shape))
        plans = means[:, None] + deviations[:, None] * noise
        plans = np.clip(plans, space.low, space.high).astype(space.dtype)
        order = np.argsort(-try_plans(envs, plans), kind="stable")
        best = plans[:, order[: args.best]]
        means, deviations = best.mean(1), best.std(1)
    return means, best[0, 0]


def play(envs: VectorEnv, args: Args, *, planned: bool) -> np.ndarray:
    """Return the rewards of one episode."""
    rng, rewards = np.random.default_rng(args.seed), []
    envs.reset(seed=[args.seed] * args.num_envs)
    means = np.zeros((args.horizon, *envs.single_action_space.shape))
    for _ in (bar := trange(args.steps, desc="planned" if planned else "random")):
        if planned:
            means, action = plan(envs, means, args, rng)
            means = np.concatenate([means[1:], means[-1:]])
        else:
            action = rng.uniform(envs.single_action_space.low, envs.single_action_space.high)
        actions = np.broadcast_to(action, envs.action_space.shape).astype(envs.action_space.dtype)
        _, reward, terminations, truncations, _ = envs.step(actions)
        rewards.append(reward[0])
        bar.set_postfix(total=f"{sum(rewards):.1f}", refresh=False)
        if terminations[0] or truncations[0]:
            break
    bar.close()
    return np.array(rewards)


def main(args: Args) -> None:
    envs = gym.make_vec(args.env_id, num_envs=args.num_envs)
    for name, planned in (("random", False), ("planned", True)):
        rewards = play(envs, args, planned=planned)
        plt.plot(1 + np.arange(len(rewards)), rewards.cumsum(), label=name)
        print(f"{args.env_id}, {name}: return {rewards.sum():.2f} in {len(rewards)} steps")
    envs.close()
    plt.title(args.env_id)
    plt.xlabel("step")
    plt.ylabel("sum of rewards")
    plt.legend()
    args.out.mkdir(parents=True, exist_ok=True)
    plt.savefig(args.out / "returns.png")
    print(f"Wrote returns.png to {args.out}")


if __name__ == "__main__":
    main(tyro.cli(Args))
