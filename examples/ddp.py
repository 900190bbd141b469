"""Train with one process per GPU: torch's DistributedDataParallel and a batch in each process.

    torchrun --nproc-per-node=2 examples/ddp.py

Every process simulates its part of the environments on its own GPU, or on the CPU if there is none,
and computes the gradient of a window of steps. Torch averages the gradients, so that all processes
take the same optimizer step. To play the policy, and to film it:

    torchrun --nproc-per-node=2 examples/ddp.py --evaluate runs/ddp/policy.pt
    python examples/record_video.py --env-id Brax/reacher-v0 --policy runs/ddp/policy.pt

To copy this script, copy `run_folder.py` as well.
"""

import argparse
import os
import time
from pathlib import Path


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env-id", default="Brax/reacher-v0", help="Brax task")
    parser.add_argument("--backend", default="generalized", help="physics backend of Brax")
    parser.add_argument("--num-envs", type=int, default=64, help="environments of all processes")
    parser.add_argument("--steps", type=int, default=31, help="steps of an episode and of a window")
    parser.add_argument("--windows", type=int, default=100, help="steps of Adam")
    parser.add_argument("--learning-rate", type=float, default=1e-2, help="learning rate of Adam")
    parser.add_argument("--seed", type=int, default=0, help="seed of networks and environments")
    parser.add_argument("--evaluate", metavar="FILE", help="saved policy to play, no training")
    parser.add_argument(
        "--out", type=Path, default="runs/ddp", help="folder for the files of rank 0"
    )
    args = parser.parse_args()
    if args.evaluate and not Path(args.evaluate).exists():
        parser.error(f"--evaluate: there is no file {args.evaluate}")
    if args.windows < 1:
        parser.error(f"--windows must be at least 1, got {args.windows}")
    return args


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

if "LOCAL_RANK" not in os.environ:
    raise SystemExit(f"Run this with torchrun:{__doc__.split(chr(10) * 2)[1]}")
LOCAL_RANK = int(os.environ["LOCAL_RANK"])
# Before torch and JAX look for GPUs: each process sees its own alone, and leaves torch some memory.
VISIBLE = os.environ.get("CUDA_VISIBLE_DEVICES")
os.environ["CUDA_VISIBLE_DEVICES"] = (
    str(LOCAL_RANK) if VISIBLE is None else VISIBLE.split(",")[LOCAL_RANK] if VISIBLE else ""
)
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

try:
    import gymnasium as gym
    import numpy as np
    import torch
    from matplotlib.figure import Figure
    from run_folder import load_policy
    from torch import distributed, nn
    from torch.nn.parallel import DistributedDataParallel
    from tqdm import trange

    import gymbridge  # noqa: F401
    from gymbridge.errors import GymbridgeError
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[brax,examples]'"
    raise SystemExit(f"{error}; {install}") from None


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


@torch.no_grad()
def evaluate(window: Window) -> float:
    """Return the mean return of a window of all processes: an episode, unless one ends early."""
    total = window() * window.steps
    distributed.all_reduce(total)
    return total.item() / distributed.get_world_size()


def write_results(args: argparse.Namespace, window: Window, progress: list[list[float]]) -> None:
    """Write the policy, rows of (env steps, seconds, mean return), and a picture of them."""
    args.out.mkdir(parents=True, exist_ok=True)
    traced = torch.jit.trace(window.policy, window.envs.detach())
    torch.jit.save(traced, args.out / "policy.pt")
    header, table = "env_steps,seconds,mean_return", np.array(progress)
    np.savetxt(args.out / "progress.csv", table, "%.10g", ",", header=header, comments="")
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(title=args.env_id, xlabel="env steps", ylabel="mean return")
    axes.plot(table[:, 0], table[:, 2])
    figure.savefig(args.out / "learning_curve.png", dpi=120)


def train(args: argparse.Namespace, window: nn.Module) -> list[list[float]]:
    """Return rows of (env steps, seconds, mean return), which are of all processes."""
    rank, world = distributed.get_rank(), distributed.get_world_size()
    optimizer = torch.optim.Adam(window.parameters(), args.learning_rate)
    progress, started = [], time.perf_counter()
    for index in (bar := trange(args.windows, disable=rank != 0, smoothing=0.05)):
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
        if index == 0:
            bar.unpause()  # it compiled, which says nothing of the others
    return progress


def main() -> None:
    args = parse_args()
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
    obs, _ = envs.reset(seed=args.seed + rank * num_envs)
    if args.evaluate:
        mean = evaluate(Window(envs, args.steps, load_policy(args.evaluate, obs, device)))
        if rank == 0:
            print(f"{args.env_id}: mean return {mean:.3f} over {args.num_envs} episodes")
        return
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


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()
