"""The files of a training run: its learning curve, its policy, and a checkpoint to resume from.

`ppo.py`, beside this file, writes them. What a run shows meanwhile is here, too: its progress bar.
"""

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from matplotlib.figure import Figure
from tqdm import tqdm

from gymbridge.errors import ResetNeededError, SimulationError

MAY_CHANGE = (
    "out",
    "evaluate",
    "resume",
    "checkpoint_updates",
    "max_seconds",
    "target_return",
    "eval_steps",
)
"""Flags that may change when a run is resumed, since its learning curve does not depend on them."""


AT_MOST = (
    "{percentage:3.0f}%|{bar}| {n_fmt} of at most {total_fmt} [{elapsed}, {rate_fmt}{postfix}]"
)
"""Progress bar of a run with a target return, whose remaining time is unknown."""


def make_bar(done: int, args: Any) -> tqdm:
    """Return the progress bar of a run that has done some of its `total_steps`."""
    layout = {"bar_format": AT_MOST} if math.isfinite(args.target_return) else {}
    scale = {"total": args.total_steps, "unit": " steps", "unit_scale": True, "smoothing": 0.05}
    return tqdm(initial=done, **scale, **layout)


def write_results(folder: Path, title: str, progress: list[tuple[float, ...]]) -> None:
    """Write rows of (env steps, seconds, episodes, mean return), and a picture of them."""
    folder.mkdir(parents=True, exist_ok=True)
    names, table = ("env_steps", "seconds", "episodes", "mean_return"), np.array(progress)
    np.savetxt(folder / "progress.csv", table, "%.10g", ",", header=",".join(names), comments="")
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(title=title, xlabel="env steps", ylabel="mean return")
    axes.plot(table[:, 0], table[:, 3])
    figure.savefig(folder / "learning_curve.png", dpi=120)
    print(f"Wrote progress.csv and learning_curve.png to {folder}")


class Policy(torch.nn.Module):
    """Maps float32 observations (num_envs, ...) to the actions of an agent without noise."""

    def __init__(self, agent: Any) -> None:
        super().__init__()
        self.agent = agent

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return actions (num_envs, ...) in the environment's action space."""
        return self.agent.act(obs)


def save_policy(path: Path, agent: Any) -> None:
    """Write networks and normalisation as one module, which `torch.jit.load` reads."""
    obs = torch.zeros(2, agent.obs_size, device=agent.log_std.device)
    torch.jit.save(torch.jit.trace(Policy(agent), obs, check_trace=False), path)
    print(f"Wrote {path.name} to {path.parent}")


def load_policy(path: Path | str, obs: Any, device: Any = "cpu") -> Any:
    """Return a saved policy on a device; exit if it does not take such observations."""
    try:
        policy = torch.jit.load(path, device)
        policy(obs)
    except RuntimeError as error:
        reason = str(error).strip().rpartition("\n")[2]
        raise SystemExit(f"{path} cannot act in this task: {reason}") from None
    return policy


class Checkpoint:
    """A file with the whole state of a run between two updates, from which the run can resume.

    Args:
        path: Path of the file; its folder is made if there is none.
        args: The flags of the run.
        envs: Its environments.
        **learner: Its networks and optimizers, by name.
    """

    def __init__(self, path: Path, args: Any, envs: VectorEnv, **learner: Any) -> None:
        self.path, self.envs, self.learner = path, envs, learner
        self.flags = {name: flag for name, flag in vars(args).items() if name not in MAY_CHANGE}
        self.generators = [torch.default_generator, *torch.cuda.default_generators]
        self.is_possible = has_state(envs)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not self.is_possible and not args.resume:
            print("The state of these environments cannot be saved: this run cannot be resumed.")

    def save(self, carry: tuple[torch.Tensor, ...], *values: Any) -> None:
        """Replace the file at once, so that a killed process leaves a complete file.

        Args:
            carry: Tensors that belong to the current observations.
            *values: Further state of the run: numbers, and lists and tuples of numbers.
        """
        if not self.is_possible:
            return
        beside = self.path.with_suffix(".tmp")
        self.envs.save_state(beside)
        run = {
            "flags": self.flags,
            "learner": {name: part.state_dict() for name, part in self.learner.items()},
            "random": [generator.get_state() for generator in self.generators],
            "envs": torch.from_numpy(np.fromfile(beside, np.uint8)),
            "carry": carry,
            "values": values,
        }
        with beside.open("wb") as file:
            torch.save(run, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self.path)

    def load(self) -> tuple[Any, ...]:
        """Restore learner, environments and random numbers from the file.

        Returns:
            carry: The observations, (num_envs, ...), and then the carry of `save` on the CPU.
            *values: Those of `save`.
        """
        if not self.is_possible:
            raise SystemExit("The state of these environments cannot be saved: omit `--resume`.")
        if not self.path.exists():
            raise SystemExit(f"There is no checkpoint {self.path}: omit `--resume`.")
        run = torch.load(self.path, "cpu", weights_only=True)
        if odd := sorted(run["flags"].items() - self.flags.items()):
            flags = " ".join(f"--{name.replace('_', '-')}={flag}" for name, flag in odd)
            raise SystemExit(f"{self.path} is of a run with other flags. Resume with {flags}")
        beside = self.path.with_suffix(".tmp")
        run["envs"].numpy().tofile(beside)
        obs = self.envs.load_state(beside)
        beside.unlink()
        for name, part in self.learner.items():
            part.load_state_dict(run["learner"][name])
        for generator, state in zip(self.generators, run["random"], strict=False):
            generator.set_state(state)
        return (obs, *run["carry"]), *run["values"]


def has_state(envs: VectorEnv) -> bool:
    """Return whether the environments can be saved."""
    try:
        envs.get_state()
    except ResetNeededError:  # it has one as soon as episodes run
        return True
    except (AttributeError, SimulationError):
        return False
    return True


def print_returns(returns: list[float], num_steps: int) -> None:
    """Print the mean return of a greedy policy over the episodes that ended within some steps."""
    if returns:
        print(f"Greedy policy: mean return {np.mean(returns):.2f} over {len(returns)} episodes")
    elif num_steps:
        print(f"Greedy policy: no episode ended within {num_steps} steps")
