"""Reach the target by gradient descent on a sequence of actions, without a policy.

    python examples/open_loop.py

`envs.unroll` plays a whole sequence of actions as one node of torch's graph, so that one backward
pass gives the gradient of the sequence's rewards with respect to each of its actions. Adam follows
this gradient from many initial states at once. A picture of the costs goes to
`runs/<env id>/open_loop/`.
"""

import argparse
from pathlib import Path
from typing import NamedTuple


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env-id", default="Brax/reacher-v0", help="Brax task with Box actions")
    parser.add_argument("--backend", default="generalized", help="physics backend of Brax")
    parser.add_argument("--seed", type=int, default=1, help="seed of the initial states")
    parser.add_argument("--out", default="", help="folder, by default runs/<env id>/open_loop")
    parser.add_argument("--num-envs", type=int, default=16, help="number of initial states")
    parser.add_argument("--num-steps", type=int, default=50, help="actions in one sequence")
    parser.add_argument("--iterations", type=int, default=60, help="steps of Adam")
    parser.add_argument("--learning-rate", type=float, default=0.02, help="learning rate of Adam")
    return parser.parse_args()


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import gymnasium as gym
    import torch
    from gymnasium.vector import VectorEnv
    from matplotlib.figure import Figure
    from torch import Tensor
    from torch.optim import Adam
    from tqdm import trange

    import gymbridge  # noqa: F401 (registers the ids)
    from gymbridge.errors import GymbridgeError
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[brax,examples]'"
    raise SystemExit(f"{error}; {install}") from None


class Plan(NamedTuple):
    """The costs and rewards of each iteration's actions."""

    costs: Tensor  # (iterations, num_envs), minus the sum of rewards
    rewards: Tensor  # (iterations, num_steps, num_envs)


def optimise(envs: VectorEnv, args: argparse.Namespace) -> Plan:
    """Optimise the actions; every iteration plays them from the same initial states."""
    envs.reset(seed=args.seed)
    start, space = envs.get_state(), envs.single_action_space
    low, high = torch.as_tensor(space.low), torch.as_tensor(space.high)
    free = torch.zeros(args.num_steps, args.num_envs, *space.shape, requires_grad=True)
    adam, rows = Adam([free], args.learning_rate), []
    bar = trange(args.iterations)
    for _ in bar:
        envs.set_state(start)
        actions = low + (free.tanh() + 1) / 2 * (high - low)
        _, rewards, _, _, _ = envs.unroll(actions)
        costs = -rewards.sum(0)
        adam.zero_grad()
        costs.sum().backward()  # each row's gradient is its own
        adam.step()
        bar.set_postfix_str(f"mean cost {costs.mean():.3f}", refresh=False)
        rows.append((costs.detach(), rewards.detach()))
        if len(rows) == 1:
            bar.unpause()  # it compiled, which says nothing of the others
    return Plan(*map(torch.stack, zip(*rows, strict=True)))


def draw(path: Path, title: str, plan: Plan) -> None:
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    figure.suptitle(title)
    left, right = figure.subplots(1, 2)
    left.plot(plan.costs, color="tab:blue", alpha=0.2)
    left.plot(plan.costs.mean(1), color="tab:blue", label="mean")
    left.set(xlabel="iteration", ylabel="cost of the sequence")
    for label, rewards in (("first", plan.rewards[0]), ("last", plan.rewards[-1])):
        right.plot(-rewards.mean(1), label=f"{label} iteration")
    right.set(xlabel="step", ylabel="mean cost of the step")
    for axes in (left, right):
        axes.set_ylim(0, None)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=100)


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)
    envs = gym.make_vec(
        args.env_id,
        num_envs=args.num_envs,
        backend=args.backend,
        max_episode_steps=-1,  # the sequence is one episode
        arrays="torch",
        differentiable=True,
    )
    plan = optimise(envs, args)
    envs.close()
    folder = Path(args.out or Path("runs", args.env_id.split(":")[-1], "open_loop"))
    folder.mkdir(parents=True, exist_ok=True)
    draw(folder / "costs.png", f"{args.env_id}, {args.num_envs} initial states", plan)
    before, after = plan.costs[0].mean(), plan.costs[-1].mean()
    print(f"Wrote costs.png to {folder}")
    print(f"{args.env_id}: mean cost {before:.3f} before, {after:.3f} after")


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None
