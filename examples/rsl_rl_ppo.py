"""Train rsl_rl's PPO on a batch of tensors; logs and policy go to `runs/rsl_rl/<env id>/`.

    python examples/rsl_rl_ppo.py --env-id Playground/CartpoleBalance-v0
    gymbridge rollout EnvPool/Pendulum-v1 --policy runs/rsl_rl/EnvPool/Pendulum-v1/policy.pt

`tensorboard --logdir runs/rsl_rl` shows all curves during the training. Every new episode begins in
a new initial state, and `time_outs` is True only for truncations. With `--final-values` they are
bootstrapped from final observations, and otherwise as rsl_rl does it. The critic reads every group
of observations, and the actor those that are not `privileged`.

Needs: pip install '.[rsl_rl,envpool,examples]'.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from gymnasium import spaces
from rsl_rl.algorithms import PPO
from rsl_rl.runners import OnPolicyRunner
from torch import Tensor, nn

from gymbridge.trainers.rsl_rl import RslRlVecEnv, make_rsl_rl


@dataclass
class Args:
    """Train PPO of rsl_rl."""

    env_id: str = "EnvPool/Pendulum-v1"
    """Task with Box actions."""
    device: str = "cpu"
    """Device of simulation and networks; cpu:all simulates on every core."""
    seed: int = 1
    """Seed of networks and environments."""
    num_envs: int = 64
    """Environments stepped at once."""
    num_steps: int = 64
    """Steps of each environment between two updates."""
    iterations: int = 150
    """Number of updates."""
    gamma: float = 0.95
    """Discount of a step."""
    init_std: float = 1.0
    """Standard deviation of the first actions."""
    hidden: tuple[int, ...] = (64, 64)
    """Units of each hidden layer."""
    final_values: bool = False
    """Bootstrap time-outs from final observations, not from those before the last step."""
    out: str = ""
    """Folder, by default runs/rsl_rl/<env id>."""


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


def make_config(env: RslRlVecEnv, args: Args) -> dict[str, Any]:
    """Return a configuration: the actor reads no privileged observations, the critic reads all."""
    groups = list(env.get_observations().keys())
    sensed = [name for name in groups if not name.startswith("privileged")]
    network = {
        "class_name": "MLPModel",
        "hidden_dims": list(args.hidden),
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


class Policy(nn.Module):
    """An actor without noise, whose actions lie in the space of the environments.

    It takes their observations, of a `Dict` space the groups that the actor reads.
    """

    def __init__(self, actor: nn.Module, space: spaces.Box, groups: list[str]) -> None:
        super().__init__()
        self.actor, self.groups = actor, groups
        self.register_buffer("low", torch.as_tensor(space.low).flatten())
        self.register_buffer("high", torch.as_tensor(space.high).flatten())

    def forward(self, obs: Tensor | dict[str, Tensor]) -> Tensor:
        if isinstance(obs, dict):
            obs = torch.cat([obs[name] for name in self.groups], -1)
        return self.actor(obs).clamp(self.low, self.high)


def save_policy(runner: OnPolicyRunner, env: RslRlVecEnv, groups: list[str], path: Path) -> None:
    """Write what maps observations of the environments to actions, as `torch.jit.load` reads it."""
    runner.export_policy_to_jit(str(path.parent), path.name)
    policy = Policy(torch.jit.load(path), env.envs.single_action_space, groups)
    seen = env.get_observations().cpu().to_dict()
    is_dict = isinstance(env.envs.single_observation_space, spaces.Dict)
    torch.jit.trace(policy, (seen if is_dict else seen[groups[0]],)).save(path)


def main(args: Args) -> None:
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # fastest for small networks
    env = make_rsl_rl(args.env_id, args.num_envs, device=args.device)
    env.reset(seed=args.seed)
    config = make_config(env, args)
    folder = Path(args.out or Path("runs", "rsl_rl", args.env_id))
    runner = OnPolicyRunner(env, config, log_dir=str(folder), device=str(env.device))
    runner.learn(args.iterations)
    save_policy(runner, env, config["obs_groups"]["actor"], folder / "policy.pt")
    print(f"Wrote logs and policy.pt to {folder}")


if __name__ == "__main__":
    main(tyro.cli(Args))
