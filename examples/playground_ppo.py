"""Train PPO on MuJoCo Playground, in torch tensors from end to end; results go to `runs/<env id>/`.

    python examples/playground_ppo.py --env-id Playground/CartpoleBalance-v0

Observations, actions, rewards and flags are tensors on the simulation's device, so that no step
waits for the host. The agent and its update are those of `ppo.py`, beside this file.
"""

import argparse
import logging
from collections import deque
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorEnv, VectorWrapper
from ppo import Agent, Args, train, write_results
from torch import Tensor

import gymbridge  # noqa: F401 (registers the ids)
from gymbridge.wrappers import RecordEpisodeStatistics


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--env-id", default="Playground/CartpoleBalance-v0", help="of Playground")
    parser.add_argument("--device", default="cpu", help="of simulation and networks")
    parser.add_argument("--seed", type=int, default=1, help="of networks and environments")
    parser.add_argument("--total-steps", type=int, default=1_500_000, help="steps at most")
    parser.add_argument("--max-seconds", type=float, default=600.0, help="wall time at most")
    parser.add_argument(
        "--target-return", type=float, default=950.0, help="stop there; 1000 at most"
    )
    parser.add_argument("--num-envs", type=int, default=128, help="environments stepped at once")
    parser.add_argument("--num-steps", type=int, default=64, help="of each between two updates")
    parser.add_argument("--eval-steps", type=int, default=1000, help="of the greedy policy, or 0")
    parser.add_argument("--out", default="", help="folder for results, by default runs/<env id>")
    return parser.parse_args()


class TensorAgent(Agent):
    """The agent of `ppo.py`, whose actions stay tensors."""

    def to_env(self, actions: Tensor) -> Tensor:
        """Return the actions in the space of every Playground environment, [-1, 1]."""
        return actions.clamp(-1, 1)


class KeepReturns(VectorWrapper):
    """Keep the returns of the last episodes, which `ppo.train` shows.

    Flags are read on the host here, once per step.
    """

    def __init__(self, env: VectorEnv, count: int) -> None:
        super().__init__(env)
        self.return_queue: deque[float] = deque(maxlen=count)
        self.episode_count = 0

    def step(self, actions: Tensor) -> tuple[Any, ...]:
        """Take a step."""
        result = self.env.step(actions)
        infos = result[-1]
        ended = infos["episode"]["r"][infos["_episode"]].tolist()
        self.return_queue.extend(ended)
        self.episode_count += len(ended)
        return result


class ScaleRewards(VectorWrapper):
    """Multiply rewards, so that the critic's targets are of the order of 1."""

    def __init__(self, env: VectorEnv, factor: float) -> None:
        super().__init__(env)
        self.factor = factor

    def step(self, actions: Tensor) -> tuple[Any, ...]:
        """Take a step."""
        obs, rewards, *rest = self.env.step(actions)
        return obs, self.factor * rewards, *rest


def make_envs(args: argparse.Namespace, count: int) -> ScaleRewards:
    envs = gym.make_vec(args.env_id, num_envs=args.num_envs, arrays="torch", device=args.device)
    return ScaleRewards(KeepReturns(RecordEpisodeStatistics(envs), count), 0.1)


@torch.no_grad()
def evaluate(envs: VectorEnv, agent: Agent, num_steps: int) -> Tensor:
    """Return what the likeliest actions earn in each first episode, (num_envs,)."""
    obs, returns = envs.reset()[0], torch.zeros(envs.num_envs, device=envs.unwrapped.device)
    running = torch.ones_like(returns, dtype=torch.bool)
    for _ in range(num_steps):
        policy, _ = agent(obs)
        obs, rewards, terminated, truncated, _ = envs.step(agent.to_env(policy.mode))
        returns += rewards * running
        running &= ~(terminated | truncated)
    return returns


def main() -> None:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("gymbridge").setLevel(logging.INFO)  # shows when physics compiles
    args = parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    names = ("seed", "device", "total_steps", "max_seconds", "target_return")
    numbers = Args(
        **{name: getattr(args, name) for name in (*names, "num_envs", "num_steps")},
        gamma=0.995,
        last_episodes=args.num_envs,
    )
    envs = make_envs(args, numbers.last_episodes)
    agent = TensorAgent(envs.single_observation_space, envs.single_action_space).to(args.device)
    progress = train(numbers, envs, agent)
    folder = Path(args.out or Path("runs", args.env_id.split(":")[-1]))
    write_results(folder, args.env_id, progress)
    print(f"Wrote progress.csv and learning_curve.png to {folder}")
    if args.eval_steps:
        greedy = evaluate(envs.env.env.env, agent, args.eval_steps).cpu()
        print(f"Greedy policy: mean return {np.mean(greedy.numpy()):.2f} of {len(greedy)} episodes")
    envs.close()


if __name__ == "__main__":
    main()
