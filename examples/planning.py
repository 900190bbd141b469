"""Balance a pendulum by planning with snapshots: the cross-entropy method, without learning.

    python examples/planning.py

All environments begin with one seed, so they are in the same state. Before each step, `get_state`
saves the batch, every environment tries a plan of its own, and `set_state` restores the state. The
next plans are drawn around the best ones. Then all environments take the first action of the best
plan. For comparison, an episode with random actions is played first. Brax and Playground have
snapshots, EnvPool has none.
"""

import argparse
import logging
from pathlib import Path


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env-id", default="Brax/inverted_pendulum-v0", help="Brax or Playground")
    parser.add_argument("--num-envs", type=int, default=64, help="plans tried at once")
    parser.add_argument("--horizon", type=int, default=30, help="steps of a plan")
    parser.add_argument("--iterations", type=int, default=2, help="rounds of plans before a step")
    parser.add_argument("--best", type=int, default=8, help="plans around which to draw the next")
    parser.add_argument("--steps", type=int, default=100, help="maximum steps of the episode")
    parser.add_argument("--seed", type=int, default=0, help="seed of the episode and the plans")
    parser.add_argument("--out", type=Path, default=Path("runs", "planning"), help="folder")
    return parser.parse_args()


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import gymnasium as gym
    import numpy as np
    from gymnasium.vector import VectorEnv
    from matplotlib.figure import Figure
    from tqdm import trange

    import gymbridge  # noqa: F401 (registers the ids)
    from gymbridge.errors import GymbridgeError
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[brax,examples]'"
    raise SystemExit(f"{error}; {install}") from None


def try_plans(envs: VectorEnv, plans: np.ndarray) -> np.ndarray:
    """Return the return of each environment's plan, (num_envs,), and restore the batch."""
    state, total, running = envs.get_state(), np.zeros(envs.num_envs), True
    for actions in plans:
        _, rewards, terminations, truncations, _ = envs.step(actions)
        total += rewards * running
        running = running & ~(terminations | truncations)
    envs.set_state(state)
    return total


def plan(envs: VectorEnv, means: np.ndarray, args: argparse.Namespace, rng: np.random.Generator):
    """Return the means of the best plans, (horizon, ...), and the first action of the best one."""
    space, deviations = envs.single_action_space, np.full_like(means, 1.0)
    for _ in range(args.iterations):
        noise = rng.standard_normal((args.horizon, args.num_envs, *space.shape))
        plans = means[:, None] + deviations[:, None] * noise
        plans = np.clip(plans, space.low, space.high).astype(space.dtype)
        order = np.argsort(-try_plans(envs, plans), kind="stable")
        best = plans[:, order[: args.best]]
        means, deviations = best.mean(1), best.std(1)
    return means, best[0, 0]


def play(envs: VectorEnv, args: argparse.Namespace, *, planned: bool) -> np.ndarray:
    """Return the rewards of one episode."""
    rng, rewards = np.random.default_rng(args.seed), []
    envs.reset(seed=[args.seed] * args.num_envs)
    means = np.zeros((args.horizon, *envs.single_action_space.shape))
    for _ in (bar := trange(args.steps, desc="planned" if planned else "random")):
        if planned:
            means, action = plan(envs, means, args, rng)
            means = np.concatenate([means[1:], means[-1:]])
        else:
            action = rng.uniform(envs.single_action_space.low, envs.single_action_space.high)
        actions = np.broadcast_to(action, envs.action_space.shape).astype(envs.action_space.dtype)
        _, reward, terminations, truncations, _ = envs.step(actions)
        rewards.append(reward[0])
        bar.set_postfix(total=f"{sum(rewards):.1f}", refresh=False)
        if len(rewards) == 1:
            bar.unpause()  # it compiled, which says nothing of the others
        if terminations[0] or truncations[0]:
            break
    bar.close()
    return np.array(rewards)


def main() -> None:
    args = parse_args()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("gymbridge").setLevel(logging.INFO)  # shows when physics compiles
    envs = gym.make_vec(args.env_id, num_envs=args.num_envs)
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(title=args.env_id, xlabel="step", ylabel="sum of rewards")
    for name, planned in (("random", False), ("planned", True)):
        rewards = play(envs, args, planned=planned)
        axes.plot(
            1 + np.arange(len(rewards)), rewards.cumsum(), ".-", label=name, zorder=3 - planned
        )
        print(f"{args.env_id}, {name}: return {rewards.sum():.2f} in {len(rewards)} steps")
    envs.close()
    axes.legend()
    args.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.out / "returns.png", dpi=100)
    print(f"Wrote returns.png to {args.out}")


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None
