"""Ways to step the same task: bare engines, other libraries' classes, and gymbridge.

A route is a function of ``num_envs``. It returns a function that takes one step of the batch, with
actions drawn beforehand. `throughput.py` runs each in a process of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

Step = Callable[[], object]
Route = Callable[[int], Step]

NUM_ACTIONS = 64
MODES = ("NextStep", "SameStep", "Disabled")
KINDS = ("numpy", "torch", "jax")
LARGEST = {
    "AsyncVectorEnv": 64,
    "SB3 SubprocVecEnv": 64,
    "TorchRL SerialEnv of GymEnv": 1024,
    "TorchRL BraxWrapper": 1024,
}
"""Sizes up to which a route is measured: a process for each environment, or a very slow step."""


def cycle(step: Callable[[Any], object], actions: list[Any]) -> Step:
    """Return a function that steps with each of the actions in turn."""
    index = 0

    def run() -> object:
        nonlocal index
        index += 1
        return step(actions[index % len(actions)])

    return run


def draw(space: gym.Space[Any], convert: Callable[[Any], Any] = np.asarray) -> list[Any]:
    """Return random actions of a batch."""
    space.seed(0)
    return [convert(space.sample()) for _ in range(NUM_ACTIONS)]


def of_gymnasium(make: Callable[[int], Any], num_envs: int) -> Step:
    """Step any `VectorEnv` of numpy arrays that restarts by itself."""
    envs = make(num_envs)
    envs.reset(seed=0)
    return cycle(envs.step, draw(envs.action_space))


def of_sb3(make: Callable[[int], Any], num_envs: int) -> Step:
    """Step a `VecEnv` of Stable-Baselines3."""
    envs = make(num_envs)
    envs.reset()
    space = gym.vector.utils.batch_space(envs.action_space, num_envs)
    return cycle(envs.step, draw(space))


def of_torchrl(make: Callable[[int], Any], num_envs: int) -> Step:
    """Step an environment of TorchRL, which resets what ended."""
    import torch

    env = make(num_envs)
    torch.manual_seed(0)
    draw_action = env.full_action_spec["action"].rand
    actions, now = [draw_action() for _ in range(NUM_ACTIONS)], env.reset()

    def step(action: Any) -> object:
        nonlocal now
        now["action"] = action
        returned, now = env.step_and_maybe_reset(now)
        return returned

    return cycle(step, actions)


def of_jax(make: Callable[[int], tuple[Callable[..., Any], Any, int]], num_envs: int) -> Step:
    """Step a jitted function; observation, reward and done are fetched as numpy arrays."""
    import jax

    step, state, size = make(num_envs)
    rng, compiled = np.random.default_rng(0), jax.jit(step)
    actions = rng.uniform(-1, 1, (NUM_ACTIONS, num_envs, size)).astype(np.float32)

    def take(action: Any) -> object:
        nonlocal state
        state = compiled(state, action)
        return jax.device_get((state.obs, state.reward, state.done))

    return cycle(take, list(actions))


def of_gymbridge(env_id: str, mode: str, arrays: str, num_envs: int, **options: Any) -> Step:
    """Step a batch of ours; with autoreset disabled, what ended is reset at once."""
    import gymbridge

    gym.register_envs(gymbridge)
    options |= {"autoreset_mode": mode, "arrays": arrays}
    envs: Any = gym.make_vec(env_id, num_envs=num_envs, **options)
    envs.reset(seed=0)
    to_jax = partial(_to_jax, device=envs.device)
    to_torch = partial(_to_torch, device=envs.device)
    convert = {"numpy": np.asarray, "torch": to_torch, "jax": to_jax}[arrays]

    def step_and_reset(actions: Any) -> object:
        obs, _, terminations, truncations, _ = envs.step(actions)
        if bool((ended := terminations | truncations).any()):
            obs, _ = envs.reset(options={"reset_mask": ended})
        return obs

    step = step_and_reset if mode == "Disabled" else envs.step
    return cycle(step, draw(envs.action_space, convert))


def _to_torch(array: Any, device: Any) -> Any:
    import torch

    return torch.from_numpy(np.asarray(array)).to(device)


def _to_jax(array: Any, device: Any) -> Any:
    import jax

    return jax.device_put(np.asarray(array), device)


def _ours(env_id: str, **options: Any) -> dict[str, Route]:
    return {
        f"gymbridge, {arrays}, {mode}": partial(_run_ours, env_id, mode, arrays, options)
        for arrays in KINDS
        for mode in MODES
    }


def _every_core(env_id: str, **options: Any) -> dict[str, Route]:
    options["device"] = "cpu:all"
    return {
        f"gymbridge, all cores, {arrays}, {mode}": partial(_run_ours, env_id, mode, arrays, options)
        for arrays in ("numpy", "torch")
        for mode in ("NextStep", "SameStep")
    }


def _run_ours(env_id: str, mode: str, arrays: str, options: dict[str, Any], num_envs: int) -> Step:
    return of_gymbridge(env_id, mode, arrays, num_envs, **options)


CART_POLE = "CartPole-v1"
PENDULUM = {"env_name": "inverted_pendulum", "backend": "generalized"}
ANT = {"env_name": "ant", "backend": "spring"}


def _sync(num_envs: int) -> Any:
    return gym.make_vec(CART_POLE, num_envs, vectorization_mode="sync")


def _async(num_envs: int) -> Any:
    return gym.make_vec(CART_POLE, num_envs, vectorization_mode="async")


def _functional(num_envs: int) -> Any:
    from gymnasium.envs.phys2d.cartpole import CartPoleJaxVectorEnv

    return CartPoleJaxVectorEnv(num_envs=num_envs, max_episode_steps=500)


def _pool(num_envs: int) -> Any:
    import envpool

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return envpool.make_gymnasium(CART_POLE, num_envs=num_envs)


def _pool_step(num_envs: int) -> Step:
    pool = _pool(num_envs)
    pool.reset()
    actions = np.random.default_rng(0).integers(0, 2, (NUM_ACTIONS, num_envs))
    return cycle(pool.step, list(actions))


def _dummy(num_envs: int) -> Any:
    from stable_baselines3.common.vec_env import DummyVecEnv

    return DummyVecEnv([partial(gym.make, CART_POLE)] * num_envs)


def _subproc(num_envs: int) -> Any:
    from stable_baselines3.common.vec_env import SubprocVecEnv

    return SubprocVecEnv([partial(gym.make, CART_POLE)] * num_envs)


def _serial(num_envs: int) -> Any:
    from torchrl.envs import GymEnv, SerialEnv

    return SerialEnv(num_envs, partial(GymEnv, CART_POLE))


def _brax_wrapper(named: dict[str, str], num_envs: int) -> Any:
    from brax import envs as brax_envs
    from torchrl.envs import BraxWrapper

    return BraxWrapper(brax_envs.get_environment(**named), batch_size=[num_envs], device="cpu")


def _gym_wrapper_step(num_envs: int) -> Step:
    """Step Brax's class for OpenAI's `gym`, which is no longer maintained: ``pip install gym``."""
    import jax
    from brax import envs as brax_envs
    from brax.envs.wrappers.gym import VectorGymWrapper

    envs = VectorGymWrapper(brax_envs.create(**PENDULUM, batch_size=num_envs), seed=0)
    envs.reset()
    rng = np.random.default_rng(0)
    actions = list(rng.uniform(-1, 1, (NUM_ACTIONS, num_envs, 1)).astype(np.float32))
    return cycle(lambda action: jax.device_get(envs.step(action)[:3]), actions)


def _bare_brax(named: dict[str, str], num_envs: int) -> tuple[Callable[..., Any], Any, int]:
    import jax
    from brax import envs as brax_envs

    env = brax_envs.get_environment(**named)
    keys = jax.random.split(jax.random.PRNGKey(0), num_envs)
    return jax.vmap(env.step), jax.jit(jax.vmap(env.reset))(keys), env.action_size


def _wrapped_brax(named: dict[str, str], num_envs: int) -> tuple[Callable[..., Any], Any, int]:
    import jax
    from brax import envs as brax_envs
    from brax.envs.wrappers import training

    env = training.wrap(brax_envs.get_environment(**named), episode_length=1000)
    keys = jax.random.split(jax.random.PRNGKey(0), num_envs)
    return env.step, jax.jit(env.reset)(keys), env.action_size


def _of_brax(named: dict[str, str]) -> dict[str, Route]:
    """Return the routes of Brax and TorchRL to a task of Brax."""
    return {
        "bare jitted step": partial(of_jax, partial(_bare_brax, named)),
        "Brax training.wrap": partial(of_jax, partial(_wrapped_brax, named)),
        "TorchRL BraxWrapper": partial(of_torchrl, partial(_brax_wrapper, named)),
    }


def _balance(num_envs: int, *, is_wrapped: bool) -> tuple[Callable[..., Any], Any, int]:
    import jax
    from mujoco_playground import registry, wrapper

    # The default, "warp", is made for GPUs.
    env: Any = registry.load("CartpoleBalance", config_overrides={"impl": "jax"})
    if is_wrapped:
        wrapped = wrapper.wrap_for_brax_training(env, episode_length=1000)
        reset, step = wrapped.reset, wrapped.step
    else:
        reset, step = jax.vmap(env.reset), jax.vmap(env.step)
    keys = jax.random.split(jax.random.PRNGKey(0), num_envs)
    return step, jax.jit(reset)(keys), env.action_size


ROUTES: dict[str, dict[str, Route]] = {
    "CartPole-v1": {
        "SyncVectorEnv": partial(of_gymnasium, _sync),
        "AsyncVectorEnv": partial(of_gymnasium, _async),
        "SB3 DummyVecEnv": partial(of_sb3, _dummy),
        "SB3 SubprocVecEnv": partial(of_sb3, _subproc),
        "TorchRL SerialEnv of GymEnv": partial(of_torchrl, _serial),
        "Gymnasium FunctionalJaxVectorEnv": partial(of_gymnasium, _functional),
        "EnvPool's own class": _pool_step,
        **_ours("EnvPool/CartPole-v1"),
    },
    "inverted_pendulum (Brax, generalized)": {
        **_of_brax(PENDULUM),
        "Brax VectorGymWrapper": _gym_wrapper_step,
        **_ours("Brax/inverted_pendulum-v0", backend="generalized"),
        **_every_core("Brax/inverted_pendulum-v0", backend="generalized"),
    },
    "ant (Brax, spring)": {
        **_of_brax(ANT),
        **_ours("Brax/ant-v0", backend="spring"),
        **_every_core("Brax/ant-v0", backend="spring"),
    },
    "CartpoleBalance (Playground)": {
        "bare jitted step": partial(of_jax, partial(_balance, is_wrapped=False)),
        "Playground wrap_for_brax_training": partial(of_jax, partial(_balance, is_wrapped=True)),
        **_ours("Playground/CartpoleBalance-v0"),
        **_every_core("Playground/CartpoleBalance-v0"),
    },
}
"""Routes by task and name."""
