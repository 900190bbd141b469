"""Train with and without randomised physics, and compare both policies; takes 2 to 3 minutes.

    python examples/domain_randomization.py
    python examples/domain_randomization.py --evaluate runs/Brax/inverted_pendulum-v0/randomization

For each seed two policies train for the same number of steps: one with the model's own physics, the
other with a leaf of the model drawn for each episode. Both then play greedily with that leaf set to
values from a range that is wider than the one trained on. Table, picture and policies go to
`runs/<env id>/randomization/`.

To copy this script, copy `ppo.py`, `ppo_flags.py` and `run_folder.py` as well.

The leaf is the viscous friction of the joints. Any other float leaf that the backend reads works:

    --env-id Brax/hopper-v0 --backend spring --leaf geom_friction --total-steps 2000000
"""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env-id", default="Brax/inverted_pendulum-v0", help="Brax task")
    parser.add_argument("--backend", default="generalized", help="physics backend of Brax")
    parser.add_argument("--leaf", default="dof.damping", help="leaf of the model, a dotted path")
    parser.add_argument("--low", type=float, default=0.1, help="smallest factor in training")
    parser.add_argument("--high", type=float, default=10.0, help="largest factor in training")
    parser.add_argument(
        "--margin",
        type=float,
        default=3.0,
        help="evaluate factors from low / margin to high * margin",
    )
    parser.add_argument("--points", type=int, default=13, help="number of factors evaluated")
    parser.add_argument("--episodes", type=int, default=16, help="episodes for each factor")
    parser.add_argument("--eval-steps", type=int, default=1000, help="maximum steps of an episode")
    parser.add_argument("--total-steps", type=int, default=250_000, help="steps of each training")
    parser.add_argument("--num-envs", type=int, default=64, help="environments stepped at once")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="one per training")
    text = "folder of saved policies to play, no training"
    parser.add_argument("--evaluate", metavar="FOLDER", help=text)
    text = "folder, by default that of --evaluate, or runs/<env id>/randomization"
    parser.add_argument("--out", default="", help=text)
    args = parser.parse_args()
    if args.evaluate and not Path(args.evaluate).exists():
        parser.error(f"--evaluate: there is no file {args.evaluate}")
    return args


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import gymnasium as gym
    import jax
    import jax.numpy as jnp
    import numpy as np
    import torch
    from gymnasium.vector import VectorEnv
    from matplotlib.figure import Figure
    from ppo import Agent, Args, train
    from run_folder import load_policy, save_policy
    from tqdm import trange

    import gymbridge  # noqa: F401 (registers the ids)
    from gymbridge.errors import GymbridgeError
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[brax,examples]'"
    raise SystemExit(f"{error}; {install}") from None


def read_leaf(model: Any, path: str) -> Any:
    for name in path.split("."):
        model = getattr(model, name)
    return model


def make_draw(args: argparse.Namespace) -> Callable[[Any, jax.Array], dict[str, jax.Array]]:
    """Return the function that draws the physics of one episode: a factor, log-uniformly."""

    def draw(model: Any, key: jax.Array) -> dict[str, jax.Array]:
        low, high = jnp.log(args.low), jnp.log(args.high)
        factor = jnp.exp(jax.random.uniform(key, minval=low, maxval=high))
        return {args.leaf: factor * read_leaf(model, args.leaf)}

    return draw


def train_policies(args: argparse.Namespace, folder: Path, name: str, **keywords: Any) -> None:
    """Train and save one policy per seed by `ppo.py`."""
    folder.mkdir(parents=True, exist_ok=True)
    envs = gym.make_vec(args.env_id, num_envs=args.num_envs, backend=args.backend, **keywords)
    for seed in args.seeds:
        print(f"Training {name} randomisation, seed {seed}")
        torch.manual_seed(seed)
        agent = Agent(envs)
        numbers = Args(num_envs=args.num_envs, total_steps=args.total_steps, seed=seed)
        train(numbers, envs, agent)
        save_policy(folder / f"policy_{name}_{seed}.pt", agent)
    envs.close()


def load_policies(
    folder: Path, name: str, seeds: list[int], obs: torch.Tensor
) -> list[torch.nn.Module]:
    paths = [folder / f"policy_{name}_{seed}.pt" for seed in seeds]
    for path in paths:
        if not path.exists():
            raise SystemExit(f"There is no file {path}: train with this seed first.")
    return [load_policy(path, obs) for path in paths]


@torch.no_grad()
def play(
    envs: VectorEnv, policy: torch.nn.Module, args: argparse.Namespace, leaves: np.ndarray
) -> np.ndarray:
    """Return the sum of rewards of each environment's first episode, with these leaves."""
    options = {"randomization": {args.leaf: leaves}}
    obs, _ = envs.reset(seed=args.seeds[0], options=options)
    returns, running = np.zeros(envs.num_envs), np.ones(envs.num_envs, np.bool_)
    for _ in trange(args.eval_steps, desc="playing"):
        actions = policy(torch.as_tensor(obs)).numpy()
        obs, rewards, terminated, truncated, _ = envs.step(actions)
        returns += rewards * running
        running &= ~(terminated | truncated)
        if not running.any():
            break
    return returns


def compare(
    saved: Path, names: Iterable[str], args: argparse.Namespace
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the factors (points,), and mean returns (seeds, points) of saved policies by name."""
    low, high = args.low / args.margin, args.high * args.margin
    factors = np.geomspace(low, high, args.points)
    envs = gym.make_vec(
        args.env_id,
        num_envs=args.points * args.episodes,
        backend=args.backend,
        randomization_fn=make_draw(args),
    )
    obs = torch.as_tensor(envs.observation_space.sample())
    policies = {name: load_policies(saved, name, args.seeds, obs) for name in names}
    own = np.asarray(read_leaf(envs.get_attr("sys")[0], args.leaf))
    leaves = np.multiply.outer(np.repeat(factors, args.episodes), own)
    returns = {
        name: np.stack([play(envs, policy, args, leaves) for policy in group])
        for name, group in policies.items()
    }
    envs.close()
    shape = (len(args.seeds), args.points, args.episodes)
    return factors, {name: found.reshape(shape).mean(2) for name, found in returns.items()}


def write_results(
    folder: Path, args: argparse.Namespace, factors: np.ndarray, returns: dict[str, np.ndarray]
) -> None:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(args.low, args.high, color="tab:gray", alpha=0.12, label="range of training")
    columns = [factors]
    for name, found in returns.items():
        middle, low, high = found.mean(0), found.min(0), found.max(0)
        (line,) = axes.plot(factors, middle, "o-", ms=3, label=f"{name}, {len(found)} seeds")
        axes.fill_between(factors, low, high, color=line.get_color(), alpha=0.2)
        columns += [middle, low, high]
    axes.set(xscale="log", xlabel=f"factor of {args.leaf}", title=f"{args.env_id}, {args.backend}")
    axes.set_ylabel("return: mean, lowest and highest seed")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(folder / "returns.png", dpi=100)
    parts = ("mean", "lowest", "highest")
    header = ["factor", *(f"{name}_{part}" for name in returns for part in parts)]
    table = np.stack(columns, 1)
    np.savetxt(folder / "returns.csv", table, "%.6g", ",", header=",".join(header), comments="")


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)  # fastest for small networks
    own = Path("runs", args.env_id.split(":")[-1], "randomization")
    folder = Path(args.out or args.evaluate or own)
    keywords = {"without": {}, "with": {"randomization_fn": make_draw(args)}}
    if not args.evaluate:
        for name in keywords:
            train_policies(args, folder, name, **keywords[name])
    factors, returns = compare(Path(args.evaluate or folder), keywords, args)
    folder.mkdir(parents=True, exist_ok=True)
    write_results(folder, args, factors, returns)
    print(f"Wrote returns.csv and returns.png to {folder}")
    for name, found in returns.items():
        print(f"{name}: mean return {found.mean():.1f}, worst factor {found.mean(0).min():.1f}")


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None
