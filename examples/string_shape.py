"""Bend an elastic string with 32 actuators: SHAC beside PPO over wall time, three seeds of each.

    python examples/string_shape.py
    python examples/shac.py --env-id string_shape:String-v0 --env-kwargs '{}'   # in this folder

An actuator pushes each mass of the string, which has to take a given shape. PPO has to find out by
trial which of the 32 pushes were good. SHAC gets the gradient of the reward with respect to all
of them from the simulator. The task is smooth and has many actions, which suits gradients. To copy
this script, copy `shac.py`, `ppo.py`, `ppo_flags.py`, `run_folder.py` and `compare_curves.py` too.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of the runs")
    parser.add_argument("--max-seconds", type=float, default=60, help="wall time of each run")
    parser.add_argument("--out", type=Path, default=Path("runs", "String-v0"), help="folder")
    return parser.parse_args()


if __name__ == "__main__":
    parse_args()  # answers --help before the slow imports

try:
    import gymnasium as gym
    import jax
    import jax.numpy as jnp
    from brax.envs import Env, State

    from gymbridge import BraxVectorEnv
except ImportError as error:
    install = "in a checkout of gymbridge: pip install '.[brax,examples]'"
    raise SystemExit(f"{error}; {install}") from None


class String(Env):
    """Masses in a row between two fixed ends, with springs between neighbours."""

    size, stiffness, damping, strength = 32, 16.0, 0.2, 3.0
    dt, substeps = 0.1, 4

    def reset(self, rng: jax.Array) -> State:
        """Return a straight string at rest, and a shape of three random waves."""
        places = jnp.pi * jnp.arange(1, self.size + 1) / (self.size + 1)
        heights = jax.random.uniform(rng, (3,), minval=-1.0, maxval=1.0)
        shape = sum(heights[wave] * jnp.sin((wave + 1) * places) for wave in range(3))
        obs = jnp.concatenate([jnp.zeros(2 * self.size), shape])
        zero = jnp.zeros(())
        return State(None, obs, zero, zero)

    def step(self, state: State, action: jax.Array) -> State:
        """Return the state after `dt` seconds of pushes, (32,) in [-1, 1]."""
        place, velocity, shape = jnp.split(state.obs, 3)
        for _ in range(self.substeps):
            padded = jnp.pad(place, 1)
            pull = padded[:-2] - 2 * place + padded[2:]
            force = self.stiffness * pull - self.damping * velocity + self.strength * action
            velocity = velocity + self.dt / self.substeps * force
            place = place + self.dt / self.substeps * velocity
        reward = -jnp.square(place - shape).mean()
        return state.replace(obs=jnp.concatenate([place, velocity, shape]), reward=reward)

    @property
    def observation_size(self) -> int:
        """Number of places, velocities and heights of the shape."""
        return 3 * self.size

    @property
    def action_size(self) -> int:
        """Number of actuators."""
        return self.size

    @property
    def backend(self) -> str:
        """An empty text, since there is no physics of Brax."""
        return ""


def make_string(**kwargs: Any) -> BraxVectorEnv:
    return BraxVectorEnv(String(), max_episode_steps=50, **kwargs)


if "String-v0" not in gym.registry:
    gym.register("String-v0", vector_entry_point=make_string)


FLAGS = {
    "shac": ["--num-steps=50", "--num-envs=16", "--actor-rate=0.005", "--total-steps=400000"],
    "ppo": ["--total-steps=5000000"],
}
"""SHAC's windows are whole episodes. PPO has the default values of its script."""


def main() -> None:
    args = parse_args()
    curves = []
    for name, flags in FLAGS.items():
        folders = [(args.out / name / str(seed)).resolve() for seed in args.seeds]
        for seed, folder in zip(args.seeds, folders, strict=True):
            task = ["--env-id=string_shape:String-v0", "--env-kwargs={}", f"--seed={seed}"]
            limits = [f"--max-seconds={args.max_seconds}", "--eval-steps=60", f"--out={folder}"]
            command = [sys.executable, HERE / f"{name}.py", *task, *flags, *limits]
            subprocess.run(command, check=True, cwd=HERE)
        curves += ["--curve", name.upper(), *folders]
    picture = ["--title=String-v0", "--bottom=-40", f"--out={args.out}/curves.png"]
    subprocess.run([sys.executable, HERE / "compare_curves.py", *curves, *picture], check=True)


if __name__ == "__main__":
    main()
