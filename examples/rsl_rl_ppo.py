"""Train rsl_rl's PPO on a batch of tensors; logs and policy go to `runs/rsl_rl/<env id>/`.

    python examples/rsl_rl_ppo.py --env-id Playground/CartpoleBalance-v0
    python examples/rsl_rl_ppo.py --evaluate runs/rsl_rl/EnvPool/Pendulum-v1/policy.pt
    gymbridge rollout EnvPool/Pendulum-v1 --policy runs/rsl_rl/EnvPool/Pendulum-v1/policy.pt

`tensorboard --logdir runs/rsl_rl` shows all curves during the training. Every new episode begins in
a new initial state, and `time_outs` is True only for truncations. With `--final-values` they are
bootstrapped from final observations, and otherwise as rsl_rl does it. The critic reads every group
of observations, and the actor those that are not `privileged`. To copy this script, copy
`run_folder.py` as well.
"""

import argparse
import logging
import time
from pathlib import Path
from typing import Any


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env-id", default="EnvPool/Pendulum-v1", help="task with Box actions")
    parser.add_argument(
        "--device",
        default="cpu",
        help="device of simulation and networks; cpu:all simulates on every core",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of networks and environments")
    parser.add_argument("--num-envs", type=int, default=64, help="environments stepped at once")
    parser.add_argument("--num-steps", type=int, default=64, help="steps per env between updates")
    parser.add_argument("--iterations", type=int, default=150, help="number of updates")
    parser.add_argument("--gamma", type=float, default=0.95, help="discount of a step")
    text = "standard deviation of the first actions"
    parser.add_argument("--init-std", type=float, default=1.0, help=text)
    text = "units of each hidden layer"
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 64], help=text)
    text = "bootstrap time-outs from final observations, not from those before the last step"
    parser.add_argument("--final-values", action="store_true", help=text)
    parser.add_argument("--evaluate", metavar="FILE", help="saved policy to play, no training")
    parser.add_argument("--out", default="", help="folder, by default runs/rsl_rl/<env id>")
    args = parser.parse_args()
    if args.evaluate and not Path(args.evaluate).exists():
        parser.error(f"--evaluate: there is no file {args.evaluate}")
    return args


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import gymnasium as gym
    import numpy as np
    import torch
    from gymnasium import spaces
    from matplotlib.figure import Figure
    from rsl_rl.algorithms import PPO
    from rsl_rl.runners import OnPolicyRunner
    from run_folder import load_policy
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch import Tensor, nn

    from gymbridge.errors import GymbridgeError
    from gymbridge.trainers.rsl_rl import RslRlVecEnv, make_rsl_rl
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[rsl_rl,envpool,examples]'"
    raise SystemExit(f"{error}; {install}") from None


class FinalValuePPO(PPO):
    """rsl_rl's PPO, which bootstraps a time-out from the value of the final observation.

    rsl_rl's own takes the value of the observation before it.
    """

    def process_env_step(
        self, obs: Any, rewards: Tensor, dones: Tensor, extras: dict[str, Any]
    ) -> None:
        if "final_observations" in extras:
            extras = dict(extras)
            time_outs = extras.pop("time_outs").to(self.device)
            hidden_state = self.critic.get_hidden_state()
            values = self.critic(extras["final_observations"].to(self.device)).detach()
            self.critic.reset(hidden_state=hidden_state)
            rewards = rewards + self.gamma * values[:, 0].where(time_outs, 0)
        super().process_env_step(obs, rewards, dones, extras)


def make_config(env: RslRlVecEnv, args: argparse.Namespace) -> dict[str, Any]:
    """Return a configuration: the actor reads no privileged observations, the critic reads all."""
    groups = list(env.get_observations().keys())
    sensed = [name for name in groups if not name.startswith("privileged")]
    network = {
        "class_name": "MLPModel",
        "hidden_dims": args.hidden,
        "activation": "elu",
        "obs_normalization": True,
    }
    normal = {"class_name": "GaussianDistribution", "init_std": args.init_std, "std_type": "scalar"}
    return {
        "num_steps_per_env": args.num_steps,
        "save_interval": 50,
        "obs_groups": {"actor": sensed, "critic": groups},
        "actor": {**network, "distribution_cfg": normal},
        "critic": network,
        "algorithm": {
            "class_name": FinalValuePPO if args.final_values else PPO,
            "gamma": args.gamma,
            "lam": 0.95,
            "learning_rate": 1e-3,
            "schedule": "adaptive",
            "desired_kl": 0.01,
            "num_learning_epochs": 5,
            "num_mini_batches": 4,
            "entropy_coef": 0.0,
        },
    }


class Clipped(nn.Module):
    """An actor whose actions lie in the space of the environments."""

    def __init__(self, actor: nn.Module, space: spaces.Box) -> None:
        super().__init__()
        self.actor = actor
        self.register_buffer("low", torch.as_tensor(space.low).flatten())
        self.register_buffer("high", torch.as_tensor(space.high).flatten())

    def forward(self, obs: Tensor) -> Tensor:
        return self.actor(obs).clamp(self.low, self.high)


class Joined(nn.Module):
    """An actor that takes all observations of a `Dict` space, and reads some groups of them."""

    def __init__(self, actor: nn.Module, groups: list[str]) -> None:
        super().__init__()
        self.actor, self.groups = actor, groups

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        return self.actor(torch.cat([obs[name] for name in self.groups], -1))


def save_policy(runner: OnPolicyRunner, env: RslRlVecEnv, groups: list[str], path: Path) -> None:
    """Write what maps observations of the environments to actions, as `torch.jit.load` reads it."""
    runner.export_policy_to_jit(str(path.parent), path.name)
    act: nn.Module = Clipped(torch.jit.load(path), env.envs.single_action_space)
    if isinstance(env.envs.single_observation_space, spaces.Dict):
        act = Joined(act, groups)
    torch.jit.script(act).save(path)


def read(env: RslRlVecEnv, obs: Any) -> Any:
    """Return observations as a saved policy takes them."""
    return dict(obs) if isinstance(env.envs.observation_space, spaces.Dict) else obs["policy"]


@torch.no_grad()
def evaluate(env: RslRlVecEnv, act: Any) -> float:
    """Return the mean return of the first episode of each environment."""
    env = RslRlVecEnv(env.envs)  # begins new episodes
    obs = env.get_observations()
    running = torch.ones(env.num_envs, device=env.device)
    returns = torch.zeros_like(running)
    while running.any():
        obs, rewards, dones, _ = env.step(act(read(env, obs)))
        returns += rewards * running
        running *= 1 - dones
    return returns.mean().item()


def write_progress(folder: Path, title: str, started: float, steps: int) -> None:
    """Write rows of (env steps, seconds, mean return) from rsl_rl's log, and a picture of them."""
    log = EventAccumulator(str(folder)).Reload()
    rows = log.Scalars("Train/mean_reward") if "Train/mean_reward" in log.Tags()["scalars"] else []
    rows = [row for row in rows if row.wall_time >= started]  # the folder keeps earlier runs' logs
    if not rows:
        print("No episode ended in training, so there is no learning curve.")
        return
    progress = [[(row.step + 1) * steps, row.wall_time - started, row.value] for row in rows]
    header, table = "env_steps,seconds,mean_return", np.array(progress)
    np.savetxt(folder / "progress.csv", table, "%.10g", ",", header=header, comments="")
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(title=title, xlabel="env steps", ylabel="mean return")
    axes.plot(table[:, 0], table[:, 2])
    figure.savefig(folder / "learning_curve.png", dpi=120)
    print(f"Wrote progress.csv and learning_curve.png to {folder}")


def main() -> None:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("gymbridge").setLevel(logging.INFO)  # shows when physics compiles
    args = parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # fastest for small networks
    env = make_rsl_rl(args.env_id, args.num_envs, device=args.device)
    env.reset(seed=args.seed)
    config = make_config(env, args)
    example = read(env, env.get_observations())
    if args.evaluate:
        act = load_policy(args.evaluate, example, env.device)
    else:
        folder = Path(args.out or Path("runs", "rsl_rl", args.env_id))
        runner = OnPolicyRunner(env, config, log_dir=str(folder), device=str(env.device))
        started = time.time()
        runner.learn(args.iterations)
        save_policy(runner, env, config["obs_groups"]["actor"], folder / "policy.pt")
        act = load_policy(folder / "policy.pt", example, env.device)
        runner.logger.writer.flush()
        print(f"Wrote logs and policy.pt to {folder}")
        write_progress(folder, args.env_id, started, args.num_steps * env.num_envs)
    mean = evaluate(env, act)
    print(f"{args.env_id}: mean return {mean:.2f} over {env.num_envs} episodes without noise")


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None
