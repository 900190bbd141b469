"""The views for trainers, beside our own step and beside the trainers' own environments."""

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from steps import Contest, Step, over, play, repeat, share_of_ends, step_of, uniform
from tasks import brax_task, brax_wrapper

from gymbridge.trainers.cleanrl import make_cleanrl
from gymbridge.trainers.rsl_rl import RslRlVecEnv, make_rsl_rl
from gymbridge.trainers.sb3 import Sb3VecEnv, make_atari_env, make_vec_env
from gymbridge.trainers.torchrl import make_torchrl

CART_POLE = "CartPole-v1"


def steered(envs: Any) -> Step:
    """Return the step of CartPoles in a `VecEnv`, whose actions keep the pole up."""
    obs = envs.reset()

    def step(_: int) -> None:
        nonlocal obs
        angles, speeds = obs[:, 2], obs[:, 3]
        obs, *_ = envs.step((angles + 0.5 * speeds > 0).astype(np.int64))

    return step


def bare_pool(num_envs: int, actions: Any) -> Step:
    """Return EnvPool's own step, and the restart of as many as end in one of 64 random poles."""
    import envpool

    few = np.arange(min(3, num_envs), dtype=np.int32)
    pool: Any = envpool.make_gymnasium(CART_POLE, num_envs=num_envs, num_threads=1)
    step = step_of(pool, actions)
    return lambda index: (step(index), pool.reset(few))


def sb3(
    num_envs: int, _: str, *, bar: float | None = None, over_step: float | None = None
) -> Contest:
    """Compare the view for Stable-Baselines3 with our step and with `DummyVecEnv`."""
    from stable_baselines3.common.env_util import make_vec_env as make_sb3
    from stable_baselines3.common.vec_env import DummyVecEnv

    make_batch = partial(gym.make_vec, "EnvPool/CartPole-v1", num_envs, autoreset_mode="SameStep")
    make_dummy = partial(DummyVecEnv, [partial(gym.make, CART_POLE)] * num_envs)
    actions = np.random.default_rng(0).integers(0, 2, (64, num_envs))
    steps = {
        "our step": step_of(make_batch(), actions),
        "view": step_of(Sb3VecEnv(make_batch()), actions),
        "DummyVecEnv": step_of(make_dummy(), actions),
        "view, the pole kept up": steered(Sb3VecEnv(make_batch())),
        "DummyVecEnv, the pole kept up": steered(make_dummy()),
        "pool alone": bare_pool(num_envs, actions),
        "make_vec_env": step_of(make_vec_env("EnvPool/CartPole-v1", num_envs), actions),
        "SB3's, monitors and all": step_of(make_sb3(CART_POLE, num_envs), actions),
    }
    pairs = {
        ("view", "our step"): over_step,
        ("view", "DummyVecEnv"): bar,
        ("view, the pole kept up", "DummyVecEnv, the pole kept up"): bar,
        ("pool alone", "DummyVecEnv"): None,
        ("make_vec_env", "SB3's, monitors and all"): None,
    }
    return Contest(steps, pairs)


def pong(num_envs: int, _: str, *, n_steps: int = 128) -> Contest:
    """Compare steps and updates of SB3's PPO on Pong, and our numpy batch with ale-py's.

    All make frames of 84 by 84 with a stack of four, clip rewards and end episodes at lost lives.
    An update is 128 steps of each game and four epochs, with SB3's hyperparameters for Atari.
    """
    import ale_py
    from ale_py.vector_env import AtariVectorEnv
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_atari_env as make_sb3
    from stable_baselines3.common.vec_env import VecFrameStack

    gym.register_envs(ale_py)

    def theirs() -> Any:
        return VecFrameStack(make_sb3("PongNoFrameskip-v4", num_envs, seed=0), 4)

    def ours() -> Any:
        return make_atari_env("EnvPool/Pong-v5", num_envs, seed=0, env_kwargs={"stack_num": 4})

    def updates(envs: Any) -> Step:
        options = {"n_epochs": 4, "learning_rate": 2.5e-4, "clip_range": 0.1, "ent_coef": 0.01}
        options |= {"n_steps": n_steps, "batch_size": min(256, n_steps * num_envs)}
        model = PPO("CnnPolicy", envs, seed=0, device="cpu", **options)
        return lambda _: model.learn(n_steps * num_envs, reset_num_timesteps=False)

    actions = np.random.default_rng(0).integers(0, 6, (64, num_envs))
    batch = gym.make_vec("EnvPool/Pong-v5", num_envs=num_envs, episodic_life=True, reward_clip=True)
    ale = AtariVectorEnv("pong", num_envs, episodic_life=True, reward_clipping=True)
    steps = {
        "make_atari_env, step": step_of(ours(), actions),
        "SB3's make_atari_env, step": step_of(theirs(), actions),
        "make_atari_env, update of PPO": updates(ours()),
        "SB3's make_atari_env, update of PPO": updates(theirs()),
        "batch, NextStep": step_of(batch, actions),
        "ale-py's AtariVectorEnv": step_of(ale, actions),
    }
    names = iter(steps)
    return Contest(steps, dict.fromkeys(zip(names, names, strict=True)))


def rollout_of(env: Any, num_steps: int) -> Step:
    """Return rollouts of an environment of TorchRL."""
    env.set_seed(0)
    return lambda _: env.rollout(num_steps, break_when_any_done=False)


def pendulums(num_envs: int) -> Any:
    """Return our view for TorchRL of Brax's inverted pendulum."""
    return make_torchrl("Brax/inverted_pendulum-v0", num_envs, backend="generalized")


def torchrl_loop(num_envs: int, _: str, *, num_steps: int = 100) -> Contest:
    """Compare rollouts of the view for TorchRL with a loop over our step."""
    view, batch = pendulums(num_envs), pendulums(num_envs).envs
    steps = {
        "view": rollout_of(view, num_steps),
        "our step in a loop": repeat(play(batch), num_steps),
    }
    return Contest(steps, over("our step in a loop", {"view": 1.50}), num_steps)


def torchrl_brax(num_envs: int, _: str, *, num_steps: int = 100) -> Contest:
    """Compare them with TorchRL's `BraxWrapper`, which clears what JAX compiled every 20 steps."""

    def theirs() -> Any:
        return brax_wrapper(brax_task("inverted_pendulum", "generalized").env, num_envs)

    steps = {
        "view": lambda: rollout_of(pendulums(num_envs), num_steps),
        "BraxWrapper": lambda: rollout_of(theirs(), num_steps),
    }
    return Contest(steps, over("BraxWrapper", {"view": 0.05}), num_steps, apart=True)


def torchrl_pong(num_envs: int, _: str, *, num_steps: int = 100) -> Contest:
    """Compare rollouts of Pong with TorchRL's `GymWrapper` of a numpy batch."""
    from torchrl.envs import GymWrapper

    env_id = "EnvPool/Pong-v5"
    batch = gym.make_vec(env_id, num_envs=num_envs, autoreset_mode="Disabled")
    steps = {
        "view": rollout_of(make_torchrl(env_id, num_envs), num_steps),
        "GymWrapper of a numpy batch": rollout_of(GymWrapper(batch), num_steps),
    }
    return Contest(steps, over("GymWrapper of a numpy batch", {"view": 1.05}), num_steps)


def rsl_rl(num_envs: int, _: str) -> Contest:
    """Compare steps of the view for rsl_rl with our own."""
    import torch

    options = {"autoreset_mode": "SameStep", "arrays": "torch"}
    make = partial(gym.make_vec, "EnvPool/HalfCheetah-v4", num_envs, **options)
    actions = torch.from_numpy(uniform(64, num_envs, 6))
    both = {"RslRlVecEnv": RslRlVecEnv(make()), "our step": make()}
    steps = {name: step_of(envs, actions) for name, envs in both.items()}
    return Contest(steps, over("our step", {"RslRlVecEnv": 1.10}))


def cleanrl(num_envs: int, _: str, *, task: str = CART_POLE, bar: float | None = None) -> Contest:
    """Compare CleanRL's view, with and without statistics of observations, with our step."""
    env_id = f"EnvPool/{task}"
    batch: Any = gym.make_vec(env_id, num_envs=num_envs, autoreset_mode="SameStep")
    views = {
        "view": make_cleanrl(env_id, num_envs),
        "view, normalize='batch'": make_cleanrl(env_id, num_envs, normalize="batch"),
    }
    steps = {"our step": play(batch)} | {name: play(envs) for name, envs in views.items()}
    bars = {"view": bar, "view, normalize='batch'": None}
    return Contest(steps, over("our step", bars), note=share_of_ends(batch))


def on_cores(num_envs: int, _: str, *, trainer: str) -> Contest:
    """Compare a trainer's view of ants over all cores with one device; TorchRL's takes 8 steps."""
    import torch

    actions, env_id = uniform(64, num_envs, 8), "Brax/ant-v0"
    tensors, steps = torch.from_numpy(actions), {}
    for name, place in (("all cores", "cpu:all"), ("one device", "cpu")):
        options: dict[str, Any] = {"backend": "spring", "device": place}
        make = {
            "TorchRL": lambda given: rollout_of(make_torchrl(env_id, num_envs, **given), 8),
            "rsl_rl": lambda given: step_of(make_rsl_rl(env_id, num_envs, **given), tensors),
            "CleanRL": lambda given: step_of(make_cleanrl(env_id, num_envs, **given), actions),
            "Stable-Baselines3": lambda given: step_of(
                make_vec_env(env_id, num_envs, env_kwargs=given), actions
            ),
        }[trainer]
        steps[name] = make(options)
    num_steps = 8 if trainer == "TorchRL" else 1
    return Contest(steps, over("one device", {"all cores": None}), num_steps)
