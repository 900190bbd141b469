"""Write a Brax environment, wrap it unchanged, and train PPO on it; results go to `runs/docking/`.

    python examples/custom_brax_env.py

A spacecraft in a plane has to reach a dock and stop there. `Docking` has no `sys` and no physics
pipeline, its observation is a dict, and its episodes end by themselves: a `brax.envs.Env` is all
that `BraxVectorEnv` needs. The trainer is that of `ppo.py`, beside this file.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import torch
from brax.envs import Env, State
from gymnasium.wrappers import vector as wrappers
from ppo import Agent, Args, evaluate, train, write_results

from gymbridge import BraxVectorEnv


class Docking(Env):
    """A craft with two thrusters; it terminates where it docks and where it leaves the plane."""

    dt = 0.1

    def reset(self, rng: jax.Array) -> State:
        """Return a state at rest, with craft and dock at random places in [-1, 1]."""
        place, dock = jax.random.uniform(rng, (2, 2), minval=-1.0, maxval=1.0)
        obs = {"craft": jnp.concatenate([place, jnp.zeros(2)]), "dock": dock}
        zero = jnp.zeros(())
        return State(None, obs, reward=zero, done=zero, metrics={"distance": _distance(obs)})

    def step(self, state: State, action: jax.Array) -> State:
        """Return the state after `dt` seconds of thrust, (2,) in [-1, 1]."""
        place, velocity = jnp.split(state.obs["craft"], 2)
        velocity = velocity + self.dt * action
        place = place + self.dt * velocity
        obs = {"craft": jnp.concatenate([place, velocity]), "dock": state.obs["dock"]}
        distance = _distance(obs)
        is_docked = (distance < 0.1) & (jnp.linalg.norm(velocity) < 0.3)
        is_lost = jnp.abs(place).max() > 2.0
        reward = 10.0 * is_docked - 10.0 * is_lost - self.dt * distance
        done = (is_docked | is_lost).astype(jnp.float32)
        return state.replace(obs=obs, reward=reward, done=done, metrics={"distance": distance})

    @property
    def observation_size(self) -> dict[str, int]:
        """Length of each part of an observation."""
        return {"craft": 4, "dock": 2}

    @property
    def action_size(self) -> int:
        """Number of thrusters; each takes [-1, 1], the default for an environment's actions."""
        return 2

    @property
    def backend(self) -> str:
        """No physics of Brax's."""
        return ""


def _distance(obs: dict[str, jax.Array]) -> jax.Array:
    return jnp.linalg.norm(obs["craft"][:2] - obs["dock"])


def parse_args() -> Args:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--total-steps", type=int, default=200_000, help="steps at most")
    parser.add_argument("--num-envs", type=int, default=64, help="environments stepped at once")
    parser.add_argument("--eval-steps", type=int, default=200, help="of the greedy policy, or 0")
    parser.add_argument("--seed", type=int, default=1, help="of networks and environments")
    parser.add_argument("--out", default="runs/docking", help="folder for results")
    return Args(**vars(parser.parse_args()))


def make_envs(args: Args) -> wrappers.NormalizeReward:
    envs = BraxVectorEnv(Docking(), args.num_envs, max_episode_steps=100)
    print(envs.single_observation_space)
    flat = wrappers.FlattenObservation(envs)  # the networks take one array
    recorded = wrappers.RecordEpisodeStatistics(flat, buffer_length=args.last_episodes)
    return wrappers.NormalizeReward(recorded, gamma=args.gamma)


def main() -> None:
    args = parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = make_envs(args)
    agent = Agent(envs.single_observation_space, envs.single_action_space)
    progress = train(args, envs, agent)
    write_results(Path(args.out), "Docking", progress)
    print(f"Wrote progress.csv and learning_curve.png to {args.out}")
    if greedy := evaluate(envs, agent, args):
        print(f"Greedy policy: mean return {np.mean(greedy):.2f} over {len(greedy)} episodes")
    envs.close()


if __name__ == "__main__":
    main()
