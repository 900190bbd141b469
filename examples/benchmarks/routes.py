"""Ways to step the same task: bare engines, other libraries' classes, and gymbridge.

A route is a function of what varies, which is the number of environments or something else of a
task. It returns a function of the step number, with actions drawn beforehand. Each route is built
in a process of its own, so that a machine without one library measures the others.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from steps import Contest, Physics, Step, balance, brax_task, own_step, play, uniform

Route = Callable[[int], Step]

NUM_ACTIONS = 64
CART_POLE = "CartPole-v1"

KINDS = ("numpy", "torch", "jax")
MODES = ("NextStep", "SameStep")
LARGEST = {
    "AsyncVectorEnv": 64,
    "SB3 SubprocVecEnv": 64,
    "TorchRL SerialEnv of GymEnv": 1024,
    "TorchRL BraxWrapper": 1024,
}
"""Sizes up to which a route is measured: a process for each environment, or a very slow step."""


def routes_to(value: int, device: str, *, task: str, only: str = "") -> Contest:
    """Return the routes to a task whose names match a regular expression."""
    routes = {name: route for name, route in TASKS[task].items() if re.search(only, name)}
    if task in BY_SIZE:
        routes = {name: one for name, one in routes.items() if value <= LARGEST.get(name, value)}
    return Contest({name: partial(route, value) for name, route in routes.items()})


def cycle(step: Callable[[Any], Any], actions: Any) -> Step:
    """Return a function that steps with each of the actions in turn."""
    return lambda index: step(actions[index % len(actions)])


def of_gymnasium(make: Callable[[int], Any], value: int) -> Step:
    """Step any batch with numpy arrays that restarts by itself; for SB3's `VecEnv`, too."""
    envs = make(value)
    envs.reset()
    space = envs.action_space
    if not hasattr(envs, "single_action_space"):
        space = gym.vector.utils.batch_space(space, envs.num_envs)
    space.seed(0)
    return cycle(envs.step, [space.sample() for _ in range(NUM_ACTIONS)])


def _of_gymnasium_s(env_id: str, mode: str) -> Route:
    return partial(of_gymnasium, partial(gym.make_vec, env_id, vectorization_mode=mode))


def of_gymbridge(env_id: str, num_envs: int, *, stagger: int = 0, **options: Any) -> Step:
    """Step a batch of ours; with autoreset disabled, what ended is reset at once."""
    return play(gym.make_vec(env_id, num_envs=num_envs, **options), stagger)


def of_torchrl(make: Callable[[int], Any], num_envs: int) -> Step:
    """Step an environment of TorchRL, which resets what ended."""
    import torch

    env = make(num_envs)
    torch.manual_seed(0)
    actions, now = [env.full_action_spec["action"].rand() for _ in range(NUM_ACTIONS)], env.reset()

    def step(action: Any) -> object:
        nonlocal now
        now["action"] = action
        returned, now = env.step_and_maybe_reset(now)
        return returned

    return cycle(step, actions)


def of_jax(make: Callable[[], Physics], num_envs: int, *, wrapped: bool = False) -> Step:
    """Step a task of Brax or Playground, alone or in a wrapper of its library."""
    import jax

    task = make()
    env, reset, step = task.env, jax.vmap(task.env.reset), jax.vmap(task.env.step)
    if wrapped:
        env = task.wrap(env)
        reset, step = env.reset, env.step
    actions = uniform(NUM_ACTIONS, num_envs, env.action_size)
    return own_step(reset, step, num_envs, actions, lambda s: (s.obs, s.reward, s.done))


def _brax_wrapper(make: Callable[[], Physics], num_envs: int) -> Any:
    from torchrl.envs import BraxWrapper

    return BraxWrapper(make().env, batch_size=[num_envs], device="cpu")


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
        "TorchRL BraxWrapper": partial(of_torchrl, partial(_brax_wrapper, make)),
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
    pool = _pool(CART_POLE, num_envs)
    pool.reset()
    return cycle(pool.step, np.random.default_rng(0).integers(0, 2, (NUM_ACTIONS, num_envs)))


def _staggered_pool(limit: int) -> Step:
    """Step EnvPool's own class, whose episodes of equal length are staggered as ours are."""
    pool = _pool("Pendulum-v1", 64, max_episode_steps=limit)
    pool.reset()
    actions, ids = 2 * uniform(NUM_ACTIONS, 64, 1), np.arange(64, dtype=np.int32)
    for index in range(min(limit, 64)):
        if index:
            pool.reset(ids[ids % min(limit, 64) == index])
        for _ in range(max(limit // 64, 1)):
            pool.step(actions[index])
    return cycle(pool.step, actions)


def _wrapped_reacher(limit: int) -> Step:
    """Step Brax's own wrappers, whose restarts are of states drawn once."""
    import jax

    task = brax_task("reacher", "spring")
    env = task.wrap(task.env, episode_length=limit)

    def reset(keys: Any) -> Any:
        state = env.reset(keys)
        # The wrapper counts steps as floats, in the state.
        state.info["steps"] = jax.numpy.arange(256) % limit * 1.0
        return state

    return own_step(reset, env.step, 256, uniform(64, 256, 2), lambda s: (s.obs, s.reward, s.done))


def _restarts(env_id: str, num_envs: int, **options: Any) -> dict[str, Route]:
    def restart(mode: str, limit: int) -> Step:
        given = {"autoreset_mode": mode, "max_episode_steps": limit, **options}
        return of_gymbridge(env_id, num_envs, stagger=limit, **given)

    return {f"gymbridge, numpy, {mode}": partial(restart, mode) for mode in MODES}


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


BY_SIZE: dict[str, dict[str, Route]] = {
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
}
"""Routes of the number of environments, by task and name."""

TASKS: dict[str, dict[str, Route]] = BY_SIZE | {
    "restarts of Pendulum (EnvPool, 64 environments)": {
        "EnvPool's own class": _staggered_pool,
        "SyncVectorEnv": lambda limit: play(
            gym.make_vec("Pendulum-v1", 64, "sync", max_episode_steps=limit), limit
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
"""And routes of something else that varies."""
