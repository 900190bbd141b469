"""Measure the steps per second of a batch inside `jax.lax.scan`, and by `step` of its class.

    python examples/functional_rollout.py --env-id Brax/inverted_pendulum-v0

`envs.functional()` returns the batch as pure functions, so that a whole rollout is one compiled
call. Time limit, autoreset mode, seeds and infos are those of the class. Both rollouts take the
same steps from the same state, and the script checks that their rewards are equal. A picture shows
the median and the range over the rounds.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--env-id", default="Brax/inverted_pendulum-v0", help="Brax or Playground")
    parser.add_argument("--mode", default="NextStep", help="autoreset mode")
    parser.add_argument("--seed", type=int, default=0, help="seed of environments and actions")
    parser.add_argument("--num-envs", type=int, default=256, help="environments stepped at once")
    parser.add_argument("--num-steps", type=int, default=100, help="steps of one rollout")
    parser.add_argument("--rounds", type=int, default=5, help="rollouts of each kind")
    parser.add_argument("--out", type=Path, help="folder, by default runs/<env id>")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {args.rounds}")
    return args


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import gymnasium as gym
    import jax
    import jax.numpy as jnp
    import numpy as np
    from gymnasium.vector import VectorEnv
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter
    from tqdm import trange

    import gymbridge  # noqa: F401 (registers the ids)
    from gymbridge.errors import GymbridgeError
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[brax,examples]'"
    raise SystemExit(f"{error}; {install}") from None


def make_scan(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return the compiled rollout: (carry, actions) -> (carry, rewards), by step in front."""

    def take(carry: Any, actions: jax.Array) -> tuple[Any, jax.Array]:
        carry, (_, rewards, _, _, _) = step(carry, actions)
        return carry, rewards

    return jax.jit(lambda carry, actions: jax.lax.scan(take, carry, actions))


def run_class(envs: VectorEnv, actions: jax.Array) -> jax.Array:
    return jnp.stack([envs.step(row)[1] for row in actions])


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that a rollout took, and what it returned."""
    start = time.perf_counter()
    result = jax.block_until_ready(run())
    return time.perf_counter() - start, result


def compare(envs: VectorEnv, args: argparse.Namespace) -> dict[str, list[float]]:
    """Return the seconds of each rollout, of the class and of the scan."""
    envs.reset(seed=args.seed)
    carry, _, step = envs.functional()
    scan = make_scan(step)
    space, lead = envs.single_action_space, (args.num_steps, args.num_envs)
    key = jax.random.PRNGKey(args.seed)
    actions = jax.random.uniform(key, (*lead, *space.shape), minval=space.low, maxval=space.high)
    of_class, of_scan = [], []
    for index in (bar := trange(args.rounds + 1, desc="rollouts")):
        seconds, stepped = timed(lambda: run_class(envs, actions))
        more_seconds, (carry, scanned) = timed(lambda carry=carry: scan(carry, actions))
        np.testing.assert_allclose(scanned, stepped, rtol=1e-4, atol=1e-5)
        if index == 0:
            bar.unpause()  # it compiled, which says nothing of the others
        else:
            of_class.append(seconds)
            of_scan.append(more_seconds)
    return {"class": of_class, "lax.scan": of_scan}


def draw(rates: dict[str, list[float]], title: str) -> Figure:
    """Draw the median of some steps/s as a bar, and their range as a line."""
    figure = Figure(figsize=(6, 2.5), layout="constrained")
    axes = figure.add_subplot(title=title, xlabel="steps per second")
    medians = np.array([median(rate) for rate in rates.values()])
    lowest, highest = np.transpose([(min(rate), max(rate)) for rate in rates.values()])
    axes.barh(list(rates), medians, xerr=(medians - lowest, highest - medians), capsize=4)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    return figure


def main() -> None:
    args = parse_args()
    envs = gym.make_vec(args.env_id, num_envs=args.num_envs, autoreset_mode=args.mode, arrays="jax")
    taken = compare(envs, args)
    envs.close()
    steps = args.num_steps * args.num_envs
    for name, seconds in taken.items():
        middle = median(seconds)
        print(f"{name}: {steps / middle:,.0f} steps/s, {middle / args.num_steps * 1e6:.0f} us")
    rates = {name: [steps / each for each in seconds] for name, seconds in taken.items()}
    path = (args.out or Path("runs", args.env_id)) / "rollouts.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(rates, f"{args.env_id}, {args.mode}, {args.num_envs} environments").savefig(path, dpi=120)
    print(f"Wrote {path}")
    ratio = median(taken["lax.scan"]) / median(taken["class"])
    print(f"{args.env_id}: the scan takes {ratio:.2f} times as long as the class")


if __name__ == "__main__":
    try:
        main()
    except (GymbridgeError, gym.error.Error, ModuleNotFoundError) as error:
        raise SystemExit(str(error)) from None
