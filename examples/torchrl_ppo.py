"""Train TorchRL's PPO on a batch of tensors; curve and policy go to `runs/torchrl/<env id>/`.

    python examples/torchrl_ppo.py --env-id Brax/ant-v0
    gymbridge rollout Brax/ant-v0 --policy runs/torchrl/Brax/ant-v0/policy.pt

Observations, actions and rewards stay on the simulation's device. Everything but the environment
is TorchRL's own: collector, policy, advantages and loss.

Needs: pip install '.[torchrl,brax,examples]'.
"""

import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import Tensor, nn
from torchrl.collectors import Collector
from torchrl.envs import DoubleToFloat, RewardSum, TransformedEnv
from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE
from tqdm import tqdm

from gymbridge.trainers.torchrl import make_torchrl


@dataclass
class Args:
    """Train PPO of TorchRL."""

    env_id: str = "Brax/inverted_pendulum-v0"
    """Task with bounded Box actions and flat observations."""
    device: str = "cpu"
    """Device of simulation and networks; cpu:all simulates on every core."""
    seed: int = 1
    """Seed of networks and environments."""
    total_steps: int = 400_000
    """Maximum steps."""
    target_return: float = 950.0
    """Stop at this mean return of 100 episodes."""
    num_envs: int = 64
    """Environments stepped at once."""
    num_steps: int = 64
    """Steps of each environment between two updates."""
    epochs: int = 8
    """Passes over the steps of an update."""
    minibatch: int = 1024
    """Steps in one minibatch."""
    out: str = ""
    """Folder, by default runs/torchrl/<env id>."""


def make_env(args: Args) -> TransformedEnv:
    env = TransformedEnv(make_torchrl(args.env_id, args.num_envs, device=args.device))
    env.append_transform(DoubleToFloat())  # observations of EnvPool's MuJoCo tasks
    env.append_transform(RewardSum())
    env.set_seed(args.seed)
    return env


def make_body(inputs: int, outputs: int) -> nn.Sequential:
    hidden = [nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()]
    return nn.Sequential(*hidden, nn.Linear(64, outputs))


class Policy(nn.Module):
    """Maps float32 observations (num_envs, size) to actions without noise, between bounds."""

    def __init__(self, network: nn.Module, low: Tensor, high: Tensor) -> None:
        super().__init__()
        self.network, self.low, self.high = network, low, high

    def forward(self, obs: Tensor) -> Tensor:
        """Return actions (num_envs, ...), scaled as `TanhNormal` scales its draws."""
        return self.low + (self.network(obs)[0].tanh() + 1) / 2 * (self.high - self.low)


def update(batch: Any, loss_module: ClipPPOLoss, adam: torch.optim.Adam, args: Args) -> None:
    steps = batch.reshape(-1)
    for _ in range(args.epochs):
        for rows in torch.randperm(len(steps), device=steps.device).split(args.minibatch):
            losses = loss_module(steps[rows])
            loss = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
            adam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(loss_module.parameters(), 0.5)
            adam.step()


def train(
    args: Args, env: TransformedEnv, actor: ProbabilisticActor, critic: ValueOperator
) -> list[tuple[float, float, float]]:
    """Train until a limit is reached; return (steps, seconds, mean return) per update."""
    loss_module = ClipPPOLoss(actor, critic, entropy_coeff=0.0, normalize_advantage=True)
    advantages = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    adam = torch.optim.Adam(loss_module.parameters(), 1e-3)
    frames = args.num_envs * args.num_steps
    collector = Collector(env, actor, frames_per_batch=frames, total_frames=args.total_steps)
    returns, progress, started = deque[float](maxlen=100), [], time.perf_counter()
    with tqdm(total=args.total_steps, unit=" steps", unit_scale=True) as bar:
        for batch in collector:
            with torch.no_grad():
                advantages(batch)
            update(batch, loss_module, adam, args)
            returns.extend(batch["next", "episode_reward"][batch["next", "done"]].tolist())
            mean = float(np.mean(returns)) if returns else float("nan")
            bar.set_postfix_str(f"mean return {mean:.2f}", refresh=False)
            bar.update(frames)
            progress.append((bar.n, time.perf_counter() - started, mean))
            if len(returns) == returns.maxlen and mean >= args.target_return:
                break
    collector.shutdown()
    return progress


def main(args: Args) -> None:
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # fastest for small networks
    env = make_env(args)
    inputs, outputs = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    space = env.action_spec_unbatched.space
    bounds = {"low": space.low, "high": space.high}
    network = nn.Sequential(make_body(inputs, 2 * outputs), NormalParamExtractor()).to(env.device)
    actor = ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs=bounds,
        return_log_prob=True,
    )
    progress = train(args, env, actor, ValueOperator(make_body(inputs, 1)).to(env.device))
    folder = Path(args.out or Path("runs", "torchrl", args.env_id))
    folder.mkdir(parents=True, exist_ok=True)
    header = "env_steps,seconds,mean_return"
    np.savetxt(folder / "progress.csv", progress, "%.10g", ",", header=header, comments="")
    example = torch.zeros(2, inputs, device=env.device)
    torch.jit.save(torch.jit.trace(Policy(network, **bounds), example), folder / "policy.pt")
    print(f"Wrote progress.csv and policy.pt to {folder}")
    _, seconds, mean = progress[-1]
    print(f"{args.env_id}: mean return {mean:.2f}, {seconds:.0f} s")


if __name__ == "__main__":
    main(tyro.cli(Args))
