"""Ways to step the same task: bare engines, other libraries' classes, and gymbridge.

A route is a function of what varies, which is the number of environments or something else of a
task. It returns a function of the step number, with actions drawn beforehand. Each route is built
in a process of its own, so that a machine without one library measures the others.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from steps import (
    Contest,
    Physics,
    Step,
    balance,
    brax_task,
    brax_wrapper,
    draw_batch,
    own_step,
    play,
    reset_rows,
    spread_ends,
    step_of,
    torchrl_step,
    uniform,
)

Route = Callable[[int], Step]

NUM_ACTIONS = 64
CART_POLE = "CartPole-v1"

KINDS = ("numpy", "torch", "jax")
MODES = ("NextStep", "SameStep")
LARGEST = {"AsyncVectorEnv": 64, "SB3 SubprocVecEnv": 64, "TorchRL SerialEnv of GymEnv": 1024}
"""Sizes up to which a route is measured: a process for each environment, or a very slow step."""


def routes_to(value: int, _: str, *, task: str) -> Contest:
    """Return the routes to a task, each for a process of its own."""
    routes = TASKS[task].items()
    fitting = {name: route for name, route in routes if value <= LARGEST.get(name, value)}
    return Contest({name: partial(route, value) for name, route in fitting.items()})


def of_gymnasium(make: Callable[[int], Any], value: int, *, is_staggered: bool = False) -> Step:
    """Step any batch with numpy arrays that restarts by itself; for SB3's `VecEnv`, too."""
    envs = make(value)
    space = getattr(envs, "single_action_space", envs.action_space)
    step = step_of(envs, draw_batch(space, envs.num_envs))
    if is_staggered:
        spread_ends(step, envs.num_envs, value, partial(reset_rows, envs))
    return step


def _of_gymnasium_s(env_id: str, mode: str) -> Route:
    return partial(of_gymnasium, partial(gym.make_vec, env_id, vectorization_mode=mode))


def of_gymbridge(env_id: str, num_envs: int, **options: Any) -> Step:
    """Step a batch of ours; with autoreset disabled, what ended is reset at once."""
    return play(gym.make_vec(env_id, num_envs=num_envs, **options))


def of_torchrl(make: Callable[[int], Any], num_envs: int) -> Step:
    """Step an environment of TorchRL, which resets what ended."""
    import torch

    env = make(num_envs)
    torch.manual_seed(0)
    actions = [env.full_action_spec["action"].rand() for _ in range(NUM_ACTIONS)]
    return torchrl_step(env, lambda index, _: actions[index % NUM_ACTIONS])


def of_jax(make: Callable[[], Physics], num_envs: int, *, wrapped: bool = False) -> Step:
    """Step a task of Brax or Playground, alone or in a wrapper of its library."""
    task = make()
    actions = uniform(NUM_ACTIONS, num_envs, task.env.action_size)
    return own_step(*task.functions(wrapped), num_envs, actions, plain)


def plain(state: Any) -> Any:
    """Return what a user sees of a state of Brax or Playground, without infos."""
    return state.obs, state.reward, state.done


def _ours(env_id: str, *, cores: bool = False, **options: Any) -> dict[str, Route]:
    """Return our routes by arrays and mode, and over all cores."""
    chosen = {f"{arrays}, {mode}": {"arrays": arrays} for arrays in KINDS for mode in MODES}
    chosen["numpy, Disabled"] = {}
    if cores:
        chosen |= {f"all cores, numpy, {mode}": {"device": "cpu:all"} for mode in MODES}
    return {
        f"gymbridge, {name}": partial(
            of_gymbridge, env_id, autoreset_mode=name.split(", ")[-1], **given, **options
        )
        for name, given in chosen.items()
    }


def _of_brax(name: str, backend: str, **options: Any) -> dict[str, Route]:
    make = partial(brax_task, name, backend)
    return {
        "bare jitted step": partial(of_jax, make),
        "Brax training.wrap": partial(of_jax, make, wrapped=True),
        "TorchRL BraxWrapper": partial(of_torchrl, lambda size: brax_wrapper(make().env, size)),
        **_ours(f"Brax/{name}-v0", backend=backend, **options),
    }


def _sb3(kind: str, num_envs: int) -> Any:
    from stable_baselines3.common import vec_env

    return getattr(vec_env, kind)([partial(gym.make, CART_POLE)] * num_envs)


def _serial(num_envs: int) -> Any:
    from torchrl.envs import GymEnv, SerialEnv

    return SerialEnv(num_envs, partial(GymEnv, CART_POLE))


def _pool(task: str, num_envs: int, **options: Any) -> Any:
    import envpool

    return envpool.make_gymnasium(task, num_envs=num_envs, **options)


def own_pool(num_envs: int) -> Step:
    actions = np.random.default_rng(0).integers(0, 2, (NUM_ACTIONS, num_envs))
    return step_of(_pool(CART_POLE, num_envs), actions)


def _staggered_pool(limit: int) -> Step:
    """Step EnvPool's own class, whose episodes of equal length are staggered as ours are."""
    pool = _pool("Pendulum-v1", 64, max_episode_steps=limit)
    step = step_of(pool, 2 * uniform(NUM_ACTIONS, 64, 1))
    spread_ends(step, 64, limit, lambda mask: pool.reset(np.flatnonzero(mask).astype(np.int32)))
    return step


def _wrapped_reacher(limit: int) -> Step:
    """Step Brax's own wrappers, whose restarts are of states drawn once."""
    task = brax_task("reacher", "spring")
    env = task.wrap(task.env, episode_length=limit)

    def reset(keys: Any) -> Any:
        state = env.reset(keys)
        # The wrapper counts steps as floats, in the state.
        state.info["steps"] = np.arange(256, dtype=np.float32) % limit
        return state

    return own_step(reset, env.step, 256, uniform(64, 256, 2), plain)


def _restarts(env_id: str, num_envs: int, **options: Any) -> dict[str, Route]:
    def make(mode: str, limit: int) -> Any:
        given = {"autoreset_mode": mode, "max_episode_steps": limit, **options}
        return gym.make_vec(env_id, num_envs=num_envs, **given)

    return {
        f"gymbridge, numpy, {mode}": partial(of_gymnasium, partial(make, mode), is_staggered=True)
        for mode in MODES
    }


class Informed(gym.Env[Any, Any]):
    """A task of one number without physics, which returns so many numbers as infos."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, num_keys: int) -> None:
        self.keys = [f"metric_{index}" for index in range(num_keys)]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.position = np.zeros(1, np.float32)
        return self.position, dict.fromkeys(self.keys, 0.0)

    def step(self, action: Any) -> Any:
        self.position = self.position + action
        return self.position, 0.0, False, False, dict.fromkeys(self.keys, float(action[0]))


def _informed_brax(mode: str, num_keys: int) -> Any:
    import jax
    import jax.numpy as jnp
    from brax.envs import Env, State

    from gymbridge import BraxVectorEnv

    class BraxInformed(Env):
        """`Informed` in JAX."""

        observation_size, action_size, backend = 1, 1, "none"

        def reset(self, rng: jax.Array) -> State:
            zero = jnp.zeros(())
            metrics = {f"metric_{index}": zero for index in range(num_keys)}
            return State(None, jnp.zeros(1), zero, zero, metrics)

        def step(self, state: State, action: jax.Array) -> State:
            metrics = dict.fromkeys(state.metrics, action[0])
            return state.replace(obs=state.obs + action, metrics=metrics)

    return BraxVectorEnv(BraxInformed(), 64, autoreset_mode=mode, info_keys="all")


TASKS: dict[str, dict[str, Route]] = {
    CART_POLE: {
        "SyncVectorEnv": _of_gymnasium_s(CART_POLE, "sync"),
        "AsyncVectorEnv": _of_gymnasium_s(CART_POLE, "async"),
        "SB3 DummyVecEnv": partial(of_gymnasium, partial(_sb3, "DummyVecEnv")),
        "SB3 SubprocVecEnv": partial(of_gymnasium, partial(_sb3, "SubprocVecEnv")),
        "TorchRL SerialEnv of GymEnv": partial(of_torchrl, _serial),
        "Gymnasium FunctionalJaxVectorEnv": _of_gymnasium_s(
            "phys2d/CartPole-v1", "vector_entry_point"
        ),
        "EnvPool's own class": own_pool,
        **_ours("EnvPool/CartPole-v1"),
    },
    "inverted_pendulum (Brax, generalized)": _of_brax("inverted_pendulum", "generalized"),
    "ant (Brax, spring)": _of_brax("ant", "spring", cores=True),
    "CartpoleBalance (Playground)": {
        "bare jitted step": partial(of_jax, balance),
        "Playground wrap_for_brax_training": partial(of_jax, balance, wrapped=True),
        **_ours("Playground/CartpoleBalance-v0"),
    },
    "restarts of Pendulum (EnvPool, 64 environments)": {
        "EnvPool's own class": _staggered_pool,
        "SyncVectorEnv": partial(
            of_gymnasium,
            lambda limit: gym.make_vec("Pendulum-v1", 64, "sync", max_episode_steps=limit),
            is_staggered=True,
        ),
        **_restarts("EnvPool/Pendulum-v1", 64),
    },
    "restarts of reacher (Brax, spring, 256 environments)": {
        "Brax training.wrap": _wrapped_reacher,
        **_restarts("Brax/reacher-v0", 256, backend="spring"),
    },
    "infos (no physics, 64 environments)": {
        "SyncVectorEnv": partial(
            of_gymnasium, lambda count: gym.vector.SyncVectorEnv([partial(Informed, count)] * 64)
        ),
        **{
            f"gymbridge, numpy, {mode}": partial(of_gymnasium, partial(_informed_brax, mode))
            for mode in MODES
        },
    },
}
"""Routes by task and name, of the number of environments or of something else that varies."""
