"""Train TorchRL's PPO on a batch of tensors; curve and policy go to `runs/torchrl/<env id>/`.

    python examples/torchrl_ppo.py --env-id Brax/inverted_pendulum-v0
    python examples/torchrl_ppo.py --evaluate runs/torchrl/Brax/inverted_pendulum-v0/policy.pt

Observations, actions and rewards stay on the simulation's device. Everything but the environment
is TorchRL's own: collector, policy, advantages and loss. To copy this script, copy `run_folder.py`
as well.
"""

import argparse
import logging
import time
from collections import deque
from itertools import chain
from pathlib import Path
from typing import Any


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--env-id",
        default="Brax/inverted_pendulum-v0",
        help="task with bounded Box actions and flat observations",
    )
    parser.add_argument(
        "--device",
        default="cpu",
        help="device of simulation and networks; cpu:all simulates on every core",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of networks and environments")
    parser.add_argument("--total-steps", type=int, default=400_000, help="maximum steps")
    parser.add_argument(
        "--target-return", type=float, default=950.0, help="stop at this mean return"
    )
    parser.add_argument("--num-envs", type=int, default=64, help="environments stepped at once")
    parser.add_argument("--num-steps", type=int, default=64, help="steps per env between updates")
    parser.add_argument("--epochs", type=int, default=8, help="passes over the steps of an update")
    parser.add_argument("--minibatch", type=int, default=1024, help="steps in one minibatch")
    parser.add_argument("--evaluate", metavar="FILE", help="saved policy to play, no training")
    parser.add_argument("--out", default="", help="folder, by default runs/torchrl/<env id>")
    args = parser.parse_args()
    for name in ("total_steps", "num_envs", "num_steps", "epochs", "minibatch"):
        if getattr(args, name) < 1:
            parser.error(
                f"--{name.replace('_', '-')} must be at least 1, got {getattr(args, name)}"
            )
    if args.evaluate and not Path(args.evaluate).exists():
        parser.error(f"--evaluate: there is no file {args.evaluate}")
    return args


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import gymnasium as gym
    import numpy as np
    import torch
    from gymnasium.spaces import Box
    from matplotlib.figure import Figure
    from run_folder import load_policy
    from tensordict.nn import NormalParamExtractor, TensorDictModule
    from torch import Tensor, nn
    from torchrl.collectors import Collector
    from torchrl.envs import DoubleToFloat, InitTracker, RewardSum, TransformedEnv
    from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE
    from tqdm import tqdm

    from gymbridge.errors import GymbridgeError
    from gymbridge.trainers.torchrl import make_torchrl
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[torchrl,brax,examples]'"
    raise SystemExit(f"{error}; {install}") from None


def make_env(args: argparse.Namespace) -> TransformedEnv:
    env = TransformedEnv(make_torchrl(args.env_id, args.num_envs, device=args.device))
    env.append_transform(DoubleToFloat())  # observations of EnvPool's MuJoCo tasks
    env.append_transform(InitTracker())
    env.append_transform(RewardSum())
    env.set_seed(args.seed)
    return env


class Network(nn.Module):
    """Maps observations to the mean and the scale of the actions before their tanh."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = make_body(inputs, 2 * outputs)
        self.split = NormalParamExtractor()

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return (n, outputs) each."""
        return self.split(self.body(obs))


class Policy(nn.Module):
    """Maps float32 observations (num_envs, size) to actions without noise, between bounds."""

    def __init__(self, network: Network, low: Tensor, high: Tensor) -> None:
        super().__init__()
        self.network, self.low, self.high = network, low, high

    def forward(self, obs: Tensor) -> Tensor:
        """Return actions (num_envs, ...), scaled as `TanhNormal` scales its draws."""
        return self.low + (self.network(obs)[0].tanh() + 1) / 2 * (self.high - self.low)


def make_body(inputs: int, outputs: int) -> nn.Sequential:
    hidden = [nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()]
    return nn.Sequential(*hidden, nn.Linear(64, outputs))


def make_models(
    network: Network, inputs: int, bounds: dict[str, Tensor]
) -> tuple[ProbabilisticActor, ValueOperator]:
    actor = ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs=bounds,
        return_log_prob=True,
    )
    return actor, ValueOperator(make_body(inputs, 1))


def action_bounds(env: TransformedEnv) -> dict[str, Tensor]:
    """Return the bounds of one action; exit if the task is none for these networks."""
    obs, actions = env.envs.single_observation_space, env.envs.single_action_space
    if not (isinstance(actions, Box) and isinstance(obs, Box) and len(obs.shape) == 1):
        raise SystemExit(f"Actions and observations must be flat Boxes here, got {actions}, {obs}.")
    if not actions.is_bounded():
        raise SystemExit(f"Actions must be bounded here, got {actions}.")
    low, high = (torch.as_tensor(bound, device=env.device) for bound in (actions.low, actions.high))
    return {"low": low, "high": high}


def update(batch: Any, loss_module: ClipPPOLoss, adam: torch.optim.Adam, args: Any) -> None:
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
    args: argparse.Namespace, env: TransformedEnv, network: Network
) -> list[tuple[float, float, float]]:
    """Train until a limit is reached; return (steps, seconds, mean return) per update."""
    size = env.observation_spec["observation"].shape[-1]
    actor, critic = make_models(network, size, action_bounds(env))
    critic.to(env.device)
    loss_module = ClipPPOLoss(actor, critic, entropy_coeff=0.0, normalize_advantage=True)
    advantages = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    adam = torch.optim.Adam(loss_module.parameters(), 1e-3)
    frames = args.num_envs * args.num_steps
    collector = Collector(env, actor, frames_per_batch=frames, total_frames=args.total_steps)
    returns: deque[float] = deque(maxlen=100)
    progress: list[tuple[float, float, float]] = []
    started = time.perf_counter()
    first = next(batches := iter(collector))  # compiles: not for estimates
    scale = {"total": args.total_steps, "unit": " steps", "unit_scale": True, "smoothing": 0.05}
    with tqdm(**scale) as bar:
        for batch in chain([first], batches):
            with torch.no_grad():
                advantages(batch)
            update(batch, loss_module, adam, args)
            returns.extend(batch["next", "episode_reward"][batch["next", "done"]].tolist())
            mean = float(np.mean(returns)) if returns else float("nan")
            is_solved = len(returns) == returns.maxlen and mean >= args.target_return
            text = f"mean return {mean:.2f}" + ", solved" * is_solved
            bar.set_postfix_str(text, refresh=False)
            bar.update(frames)
            progress.append((bar.n, time.perf_counter() - started, mean))
            if is_solved:
                bar.total = bar.n
                break
    collector.shutdown()
    return progress


def write_results(folder: Path, title: str, progress: list[tuple[float, float, float]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = np.array(progress)
    header = "env_steps,seconds,mean_return"
    np.savetxt(folder / "progress.csv", table, "%.10g", ",", header=header, comments="")
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(title=title, xlabel="env steps", ylabel="mean return")
    axes.plot(table[:, 0], table[:, 2])
    figure.savefig(folder / "learning_curve.png", dpi=120)


@torch.no_grad()
def evaluate(env: TransformedEnv, policy: nn.Module) -> float:
    """Return the mean return of the episodes that end within 1000 steps."""
    act = TensorDictModule(policy, ["observation"], ["action"])
    steps = env.rollout(1000, act, break_when_any_done=False)["next"]
    return steps["episode_reward"][steps["done"]].mean().item()


def main() -> None:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("gymbridge").setLevel(logging.INFO)  # shows when physics compiles
    args = parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # fastest for small networks
    env, started = make_env(args), time.perf_counter()
    bounds = action_bounds(env)
    sizes = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    example = torch.zeros(2, sizes[0], device=env.device)
    if args.evaluate:
        mean = evaluate(env, load_policy(args.evaluate, example, env.device))
    else:
        network = Network(*sizes).to(env.device)
        progress = train(args, env, network)
        folder = Path(args.out or Path("runs", "torchrl", args.env_id))
        write_results(folder, args.env_id, progress)
        torch.jit.save(torch.jit.trace(Policy(network, **bounds), example), folder / "policy.pt")
        mean = progress[-1][-1]
        print(f"Wrote progress.csv, learning_curve.png and policy.pt to {folder}")
    print(f"{args.env_id}: mean return {mean:.2f}, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None
