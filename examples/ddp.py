"""Train with one process per GPU: torch's DistributedDataParallel and a batch in each process.

    torchrun --nproc-per-node=2 examples/ddp.py
    gymbridge rollout Brax/reacher-v0 --kwarg max_episode_steps=31 --policy runs/ddp/policy.pt

Every process simulates its part of the environments on its own GPU, or on the CPU if there is none,
and computes the gradient of a window of steps. Torch averages the gradients, so that all processes
take the same optimizer step. Rank 0 writes the policy and the learning curve.

Needs: pip install '.[brax,examples]'.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

# Before torch and JAX look for GPUs: each process sees its own alone, and leaves torch some memory.
LOCAL_RANK = int(os.environ["LOCAL_RANK"])  # of torchrun
VISIBLE = os.environ.get("CUDA_VISIBLE_DEVICES")
os.environ["CUDA_VISIBLE_DEVICES"] = (
    str(LOCAL_RANK) if VISIBLE is None else VISIBLE.split(",")[LOCAL_RANK] if VISIBLE else ""
)
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import trange

import gymbridge  # noqa: F401 (registers the ids)


@dataclass
class Args:
    """Train a policy by the gradient of the simulator, in each process of torchrun."""

    env_id: str = "Brax/reacher-v0"
    """Brax task."""
    backend: str = "generalized"
    """Physics backend of Brax."""
    num_envs: int = 64
    """Environments of all processes."""
    steps: int = 31
    """Steps of an episode and of a window."""
    windows: int = 100
    """Steps of Adam."""
    learning_rate: float = 1e-2
    """Learning rate of Adam."""
    seed: int = 0
    """Seed of networks and environments."""
    out: Path = Path("runs/ddp")
    """Folder for the files of rank 0."""


class Window(nn.Module):
    """A policy and the steps of a window as one call, since DDP needs one per backward pass."""

    def __init__(self, envs: gym.vector.VectorEnv, steps: int, policy: nn.Module) -> None:
        super().__init__()
        self.envs, self.steps, self.policy = envs, steps, policy

    def forward(self) -> torch.Tensor:
        """Return the mean reward of the next window, a scalar with gradient."""
        obs, total = self.envs.detach(), 0.0
        for _ in range(self.steps):
            obs, rewards, *_ = self.envs.step(self.policy(obs))
            total = total + rewards.mean()
        return total / self.steps


def make_policy(envs: gym.vector.VectorEnv) -> nn.Module:
    sizes = envs.single_observation_space.shape[0], envs.single_action_space.shape[0]
    return nn.Sequential(nn.Linear(sizes[0], 64), nn.Tanh(), nn.Linear(64, sizes[1]), nn.Tanh())


def write_results(args: Args, window: Window, progress: list[list[float]]) -> None:
    """Write the policy, and rows of (env steps, seconds, mean return)."""
    args.out.mkdir(parents=True, exist_ok=True)
    traced = torch.jit.trace(window.policy, window.envs.detach())
    torch.jit.save(traced, args.out / "policy.pt")
    header = "env_steps,seconds,mean_return"
    np.savetxt(args.out / "progress.csv", progress, "%.10g", ",", header=header, comments="")


def train(args: Args, window: nn.Module) -> list[list[float]]:
    """Return rows of (env steps, seconds, mean return), which are of all processes."""
    rank, world = distributed.get_rank(), distributed.get_world_size()
    optimizer = torch.optim.Adam(window.parameters(), args.learning_rate)
    progress, started = [], time.perf_counter()
    for index in (bar := trange(args.windows, disable=rank != 0)):
        optimizer.zero_grad()
        reward = window()
        (-reward).backward()
        nn.utils.clip_grad_norm_(window.parameters(), 1.0)
        optimizer.step()
        total = reward.detach() * args.steps
        distributed.all_reduce(total)
        env_steps = (index + 1) * args.steps * args.num_envs
        progress.append([env_steps, time.perf_counter() - started, total.item() / world])
        bar.set_postfix(mean_return=f"{progress[-1][-1]:.3f}", refresh=False)
    return progress


def main(args: Args) -> None:
    device, world = "cuda" if torch.cuda.is_available() else "cpu", int(os.environ["WORLD_SIZE"])
    num_envs, rest = divmod(args.num_envs, world)
    if rest:
        raise SystemExit(f"--num-envs must be a multiple of {world} processes, got {args.num_envs}")
    envs = gym.make_vec(
        args.env_id,
        num_envs=num_envs,
        backend=args.backend,
        max_episode_steps=args.steps,
        autoreset_mode="SameStep",
        arrays="torch",
        device=device,
        differentiable=True,
    )
    distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    rank = distributed.get_rank()
    torch.manual_seed(args.seed)
    # No two processes simulate the same episode.
    envs.reset(seed=args.seed + rank * num_envs)
    window = DistributedDataParallel(Window(envs, args.steps, make_policy(envs)).to(device))
    progress = train(args, window)
    if rank == 0:
        write_results(args, window.module, progress)
    tenth = max(1, args.windows // 10)
    before, after = (np.mean(part, 0)[-1] for part in (progress[:tenth], progress[-tenth:]))
    weights = sum(weight.detach().double().sum().item() for weight in window.parameters())
    line = (
        f"rank {rank} of {world}, seeds from {envs.np_random_seed[0]}: "
        f"mean return {before:.3f} to {after:.3f}, sum of weights {weights:.9f}\n"
    )
    # One write each: the ranks share a terminal, and print() writes a line's end by itself.
    print(line, end="", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(tyro.cli(Args))
