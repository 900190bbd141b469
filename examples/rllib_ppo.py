"""Train RLlib's PPO with env runners of a Ray cluster.

    python examples/rllib_ppo.py                     # on this machine
    python examples/rllib_ppo.py --address auto      # on the cluster that this machine is part of

Training stops when the mean return of recent episodes reaches `--target`. The checkpoint, policy
included, goes to `runs/rllib/<env id>/`, with a picture of the learning curve. It plays again
without training:

    python examples/rllib_ppo.py --evaluate runs/rllib/EnvPool/CartPole-v1

RLlib pins an older Gymnasium, so use a virtual environment:
``pip install '.[rllib,envpool,brax,torch]' matplotlib tqdm``.
"""

import argparse
import ast
import time
from pathlib import Path
from typing import Any


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env-id", default="EnvPool/CartPole-v1", help="id of the task")
    parser.add_argument(
        "--env-config",
        type=ast.literal_eval,
        default={},
        help="keywords of the environment, a dict",
    )
    parser.add_argument("--target", type=float, default=450, help="mean return to stop at")
    parser.add_argument("--total-steps", type=int, default=400_000, help="maximum steps")
    parser.add_argument(
        "--num-env-runners", type=int, default=2, help="env runners, each a process"
    )
    parser.add_argument("--num-envs", type=int, default=16, help="environments of each env runner")
    parser.add_argument("--seed", type=int, default=0, help="seed of networks and environments")
    parser.add_argument(
        "--address", help="address of a Ray cluster; if not given, one is started here"
    )
    parser.add_argument("--out", default="", help="folder, by default runs/rllib/<env id>")
    parser.add_argument("--evaluate", metavar="FOLDER", help="checkpoint to play, no training")
    parser.add_argument("--eval-episodes", type=int, default=16, help="episodes of --evaluate")
    args = parser.parse_args()
    if args.total_steps < 1:
        parser.error(f"--total-steps must be at least 1, got {args.total_steps}")
    if args.evaluate and not Path(args.evaluate).exists():
        parser.error(f"--evaluate: there is no file {args.evaluate}")
    return args


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import gymnasium as gym
    import numpy as np
    import ray
    from matplotlib.figure import Figure
    from ray.rllib.algorithms.ppo import PPOConfig
    from tqdm import tqdm

    from gymbridge.errors import GymbridgeError
    from gymbridge.trainers.rllib import BridgeEnvRunner
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[rllib,envpool,examples]'"
    raise SystemExit(f"{error}; {install}") from None


def make_config(args: argparse.Namespace) -> PPOConfig:
    return (
        PPOConfig()
        .environment(f"gymbridge:{args.env_id}", env_config=args.env_config)
        .env_runners(
            env_runner_cls=BridgeEnvRunner,
            gym_env_vectorize_mode="vector_entry_point",
            num_env_runners=args.num_env_runners,
            num_envs_per_env_runner=args.num_envs,
            sample_timeout_s=600,  # the first sample waits for Brax's compiler
        )
        .training(
            train_batch_size_per_learner=2048,
            minibatch_size=256,
            num_epochs=10,
            lr=1e-3,
            gamma=0.98,
            lambda_=0.9,
            vf_loss_coeff=0.01,
        )
        .rl_module(model_config={"fcnet_hiddens": [64, 64], "vf_share_layers": False})
        .fault_tolerance(restart_failed_env_runners=True)
        .debugging(seed=args.seed, log_level="ERROR")
    )


def train(args: argparse.Namespace, algorithm: Any) -> None:
    start, mean, steps, progress = time.perf_counter(), float("nan"), 0, []
    with tqdm(total=args.total_steps, unit="step") as bar:
        while steps < args.total_steps and not mean >= args.target:
            found = algorithm.train()["env_runners"]
            mean = found.get("episode_return_mean", mean)
            taken = int(found["num_env_steps_sampled_lifetime"]) - steps
            steps += taken
            bar.update(taken)
            bar.set_postfix(mean_return=f"{mean:.1f}")
            progress.append((steps, time.perf_counter() - start, mean))
    seconds = time.perf_counter() - start
    folder = Path(args.out or Path("runs", "rllib", args.env_id)).resolve()
    algorithm.save_to_path(str(folder))
    write_progress(folder, args.env_id, progress)
    print(f"Wrote a checkpoint, progress.csv and learning_curve.png to {folder}")
    print(f"{args.env_id}: mean return {mean:.2f} after {steps} steps, {seconds:.0f} s")


def write_progress(folder: Path, title: str, progress: list[tuple[float, ...]]) -> None:
    """Write rows of (env steps, seconds, mean return), and a picture of them."""
    header, table = "env_steps,seconds,mean_return", np.array(progress)
    np.savetxt(folder / "progress.csv", table, "%.10g", ",", header=header, comments="")
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.add_subplot(title=title, xlabel="env steps", ylabel="mean return")
    axes.plot(table[:, 0], table[:, 2])
    figure.savefig(folder / "learning_curve.png", dpi=120)


def restore(algorithm: Any, args: argparse.Namespace) -> None:
    """Load a checkpoint; exit if its networks are of a task with other spaces."""
    try:
        algorithm.restore_from_path(str(Path(args.evaluate).resolve()))
    except RuntimeError as error:
        reason = str(error).strip().rpartition("\n")[2].strip()
        raise SystemExit(f"{args.evaluate} cannot act in {args.env_id}: {reason}") from None


def main() -> None:
    args = parse_args()
    gym.spec(args.env_id)  # raises for an unknown id before Ray starts
    ray.init(address=args.address or "local", log_to_driver=False)
    config = make_config(args)
    if args.evaluate:  # greedily, in this process: another could wait for a core forever
        config.env_runners(num_env_runners=0)
        config.evaluation(
            evaluation_interval=1,
            evaluation_duration=args.eval_episodes,
            evaluation_config={"explore": False},
        )
    algorithm = config.build_algo()
    if args.evaluate:
        restore(algorithm, args)
        mean = algorithm.evaluate()["env_runners"]["episode_return_mean"]
        print(f"{args.env_id}: mean return {mean:.2f} over {args.eval_episodes} episodes")
    else:
        train(args, algorithm)
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None
