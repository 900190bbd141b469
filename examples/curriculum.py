"""Swing a pendulum up with PPO, from ever lower starts and from the lowest alone; 3 minutes of CPU.

    python examples/curriculum.py
    python examples/curriculum.py --evaluate runs/curriculum

The only reward comes when the pendulum stands still upright. The level is the angle at which an
episode begins, away from upright. With the curriculum it rises by each success and falls by each
failure, in each environment by itself, and it outlives the episode because it is a carried value.
Without, each episode begins at the last level, where the pendulum hangs. Tests at the last level
show what both learn. Curves, picture and policies go to `runs/curriculum/`.

To copy this script, copy `ppo.py`, `ppo_flags.py` and `run_folder.py` as well.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="one per training")
    parser.add_argument("--total-steps", type=int, default=400_000, help="steps of each training")
    parser.add_argument("--num-envs", type=int, default=64, help="environments stepped at once")
    parser.add_argument("--rise", type=float, default=0.15, help="radians by which a level rises")
    parser.add_argument("--episodes", type=int, default=256, help="episodes of each test")
    text = "updates between two tests"
    parser.add_argument("--test-updates", type=int, default=5, help=text)
    text = "folder of saved policies to play, no training"
    parser.add_argument("--evaluate", metavar="FOLDER", type=Path, help=text)
    parser.add_argument("--out", type=Path, default=Path("runs", "curriculum"), help="folder")
    args = parser.parse_args()
    if args.evaluate and not args.evaluate.exists():
        parser.error(f"--evaluate: there is no file {args.evaluate}")
    return args


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    import torch
    from gymnasium.spaces import Box
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter
    from ppo import Agent, Args, rollouts, update
    from run_folder import load_policy, save_policy
    from torch.optim import Adam
    from tqdm import trange

    from gymbridge import JaxEnv, JaxVectorEnv
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[jax,examples]'"
    raise SystemExit(f"{error}; {install}") from None

FIRST, LAST = 0.2, np.pi
"""Levels, in radians from upright."""


class SwingUp(JaxEnv):
    """A pendulum with a weak motor, which has to stand still upright within 150 steps.

    Args:
        rise: What a success adds to the level; a failure takes off 0.3 of it.
    """

    observation_space = Box(-np.inf, np.inf, (3,), "float32")
    action_space = Box(-1, 1, (1,), "float32")
    carried: ClassVar = {"level": Box(0, 4, (), "float32")}
    limit, dt, gravity, torque = 150, 0.05, 10.0, 3.0

    def __init__(self, rise: float) -> None:
        self.rise = rise

    def reset(self, key: Any, level: Any = FIRST) -> tuple[Any, Any, dict[str, Any]]:
        """Begin at the level's angle, on either side, with a small velocity."""
        level, (side, push) = jnp.asarray(level), jax.random.split(key)
        angle = jnp.where(jax.random.bernoulli(side), level, -level)
        velocity = jax.random.uniform(push, minval=-0.3, maxval=0.3)
        state = {"angle": angle, "velocity": velocity, "steps": jnp.zeros(()), "level": level}
        return state, observe(state), {"level": level}

    def step(self, key: Any, state: Any, action: Any) -> tuple[Any, ...]:
        """Push the pendulum. At the end of an episode the info has the level of the next one."""
        force = self.gravity * jnp.sin(state["angle"]) + self.torque * action[0]
        velocity = state["velocity"] + self.dt * force
        angle, steps = state["angle"] + self.dt * velocity, state["steps"] + 1
        state = {**state, "angle": angle, "velocity": velocity, "steps": steps}
        success = (jnp.cos(angle) > 0.98) & (jnp.abs(velocity) < 0.5)
        failure = ~success & (steps >= self.limit)
        change = self.rise * jnp.where(success, 1.0, jnp.where(failure, -0.3, 0.0))
        level = jnp.clip(state["level"] + change, FIRST, LAST)
        return state, observe(state), success - 0.001, success, failure, {"level": level}


def observe(state: dict[str, Any]) -> Any:
    return jnp.stack([jnp.cos(state["angle"]), jnp.sin(state["angle"]), state["velocity"]])


def train(
    args: argparse.Namespace, rise: float, seed: int, test: Callable[[Any], dict[str, float]]
) -> tuple[Agent, list[dict[str, float]]]:
    """Return a trained agent, and what it did in each test at the last level."""
    envs = JaxVectorEnv(SwingUp(rise), args.num_envs)
    start = {} if rise else {"level": np.full(args.num_envs, LAST)}
    torch.manual_seed(seed)
    numbers = Args(num_envs=args.num_envs, seed=seed)
    agent, zeros = Agent(envs), torch.zeros(2, args.num_envs)
    adam = Adam(agent.parameters(), numbers.learning_rate, eps=1e-5)
    begun = envs.reset(seed=seed, options=start)[0], zeros, zeros[0].bool()
    steps, curve = rollouts(envs, agent, numbers, begun), []
    size = numbers.num_steps * args.num_envs
    for done in (bar := trange(size, args.total_steps + size, size, desc=f"seed {seed}")):
        update(numbers, agent, adam, *next(steps))
        if done // size % args.test_updates == 0 or done >= args.total_steps:
            curve.append({"env_steps": done, **test(agent.act)})
            bar.set_postfix_str(f"success {curve[-1]['success']:.2f}", refresh=False)
    return agent, curve


@torch.no_grad()
def play(envs: JaxVectorEnv, act: Callable[[Any], Any]) -> dict[str, float]:
    """Return what a policy did in the first episode of each environment, at the last level."""
    level = np.full(envs.num_envs, LAST)
    obs, _ = envs.reset(seed=1000, options={"level": level})
    running, succeeded, returns = np.ones((3, envs.num_envs)) * [[1], [0], [0]]
    while running.any():
        actions = act(torch.as_tensor(obs)).numpy()
        obs, rewards, terminated, truncated, _ = envs.step(actions)
        succeeded += terminated * running
        returns += rewards * running
        running *= ~(terminated | truncated)
    return {"success": succeeded.mean(), "mean_return": returns.mean()}


def write_results(folder: Path, curves: dict[str, dict[int, list[dict[str, float]]]]) -> None:
    """Write the tests of each training, and a picture with a line for each seed."""
    (folder / "curves.json").write_text(json.dumps(curves, indent=1))
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="environment steps", ylabel="successes at the last level")
    for color, (name, found) in zip(("tab:orange", "tab:blue"), curves.items(), strict=True):
        for index, curve in enumerate(found.values()):
            label = None if index else f"{name} curriculum, {len(found)} seeds"
            columns = [[row[key] for row in curve] for key in ("env_steps", "success")]
            axes.plot(*columns, color=color, label=label)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(folder / "curves.png", dpi=100)
    print(f"Wrote curves.json and curves.png to {folder}")


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)  # fastest for small networks
    others = JaxVectorEnv(SwingUp(0.0), args.episodes)
    rises, folder = {"with": args.rise, "without": 0.0}, args.evaluate or args.out
    folder.mkdir(parents=True, exist_ok=True)
    curves: dict[str, dict[int, Any]] = {name: {} for name in rises}
    for seed in () if args.evaluate else args.seeds:
        for name, rise in rises.items():
            print(f"Training {name} curriculum")
            test = partial(play, others)
            agent, curves[name][seed] = train(args, rise, seed, test)
            save_policy(folder / f"policy_{name}_{seed}.pt", agent)
    if not args.evaluate:
        write_results(folder, curves)
    obs = torch.zeros(2, 3)
    for name in rises:
        for seed in args.seeds:
            found = play(others, load_policy(folder / f"policy_{name}_{seed}.pt", obs))
            texts = f"successes {found['success']:.1%}, mean return {found['mean_return']:.3f}"
            print(f"{name} curriculum, seed {seed}: {texts}")


if __name__ == "__main__":
    main()
