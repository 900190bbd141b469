"""What a training run leaves in its folder: its curve, its policy, and a checkpoint to go on from.

`ppo.py`, beside this file, writes them.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from matplotlib.figure import Figure

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
"""Flags that say how long a run goes on and what it leaves, and do not bend its learning curve."""


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
    """What an agent does without noise: float32 observations (num_envs, ...) to actions."""

    def __init__(self, agent: Any) -> None:
        super().__init__()
        self.agent = agent

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return the actions (num_envs, ...), of the environment's action space."""
        return self.agent.act(obs)


def save_policy(path: Path, agent: Any) -> None:
    """Write what `torch.jit.load` reads without this file: networks and normalisation in one."""
    obs = torch.zeros(2, agent.obs_size, device=agent.log_std.device)
    torch.jit.save(torch.jit.trace(Policy(agent), obs, check_trace=False), path)
    print(f"Wrote {path.name} to {path.parent}")


class Checkpoint:
    """A file with all that a run is between two updates; from there it goes on as if unbroken.

    Args:
        path: Of the file; its folder is made where there is none.
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
        """Write the file; a kill at any moment leaves this one or the one before it, whole.

        Args:
            carry: What belongs to the current observations.
            *values: What else the run is: numbers, and lists and tuples of such.
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
        """Put learner, environments and random numbers back to the file.

        Returns:
            carry: As `save` was given it, on the CPU, behind the observations, (num_envs, ...).
            *values: As `save` was given them.
        """
        if not self.is_possible:
            raise SystemExit("The state of these environments cannot be saved: omit `--resume`.")
        if not self.path.exists():
            raise SystemExit(f"There is no {self.path} to go on from: omit `--resume`.")
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
    """Say what a greedy policy earned in the episodes that ended within some steps."""
    if returns:
        print(f"Greedy policy: mean return {np.mean(returns):.2f} over {len(returns)} episodes")
    elif num_steps:
        print(f"Greedy policy: no episode ended within {num_steps} steps")
