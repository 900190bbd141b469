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
from steps import Contest, Step, draw_batch, own_step, play, step_of, torchrl_step, uniform
from tasks import Physics, balance, brax_task, brax_wrapper

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
    steps = {name: partial(route, value) for name, route in fitting.items()}
    return Contest(steps, apart=True)


def of_gymnasium(envs: Any, stagger: int = 0) -> Step:
    """Step any batch with numpy arrays that restarts by itself; for SB3's `VecEnv`, too."""
    space = getattr(envs, "single_action_space", envs.action_space)
    return step_of(envs, draw_batch(space, envs.num_envs), stagger)


def of_gymbridge(env_id: str, num_envs: int, **options: Any) -> Step:
    """Step a batch of ours; with autoreset disabled, what ended is reset at once."""
    return play(gym.make_vec(env_id, num_envs=num_envs, **options))


def of_torchrl(env: Any) -> Step:
    """Step an environment of TorchRL, which resets what ended."""
    import torch

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
        "TorchRL BraxWrapper": lambda size: of_torchrl(brax_wrapper(make().env, size)),
        **_ours(f"Brax/{name}-v0", backend=backend, **options),
    }


def _sb3(kind: str, num_envs: int) -> Any:
    from stable_baselines3.common import vec_env

    return getattr(vec_env, kind)([partial(gym.make, CART_POLE)] * num_envs)


def _serial(num_envs: int) -> Any:
    from torchrl.envs import GymEnv, SerialEnv

    return SerialEnv(num_envs, partial(GymEnv, CART_POLE))


def own_pool(num_envs: int) -> Step:
    import envpool

    pool = envpool.make_gymnasium(CART_POLE, num_envs=num_envs)
    return step_of(pool, np.random.default_rng(0).integers(0, 2, (NUM_ACTIONS, num_envs)))


def _staggered_pool(limit: int) -> Step:
    """Step EnvPool's own class, whose episodes of equal length are staggered as ours are."""
    import envpool

    def reset(pool: Any, mask: np.ndarray) -> None:
        pool.reset(np.flatnonzero(mask).astype(np.int32))

    pool = envpool.make_gymnasium("Pendulum-v1", num_envs=64, max_episode_steps=limit)
    return step_of(pool, 2 * uniform(NUM_ACTIONS, 64, 1), limit, reset)


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


def restarts(env_id: str, num_envs: int, mode: str, limit: int, **options: Any) -> Step:
    """Step a batch of ours, whose episodes of equal length are staggered."""
    options |= {"autoreset_mode": mode, "max_episode_steps": limit}
    return play(gym.make_vec(env_id, num_envs=num_envs, **options), limit)


def by_mode(route: Callable[[str, int], Step]) -> dict[str, Route]:
    """Return our routes with numpy arrays, of a function of the mode and of what varies."""
    return {f"gymbridge, numpy, {mode}": partial(route, mode) for mode in MODES}


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


def informed_brax(mode: str, num_keys: int) -> Step:
    """Step the same task in JAX."""
    import jax
    import jax.numpy as jnp
    from brax.envs import Env, State

    from gymbridge import BraxVectorEnv

    class BraxInformed(Env):
        observation_size, action_size, backend = 1, 1, "none"

        def reset(self, rng: jax.Array) -> State:
            zero = jnp.zeros(())
            metrics = {f"metric_{index}": zero for index in range(num_keys)}
            return State(None, jnp.zeros(1), zero, zero, metrics)

        def step(self, state: State, action: jax.Array) -> State:
            metrics = dict.fromkeys(state.metrics, action[0])
            return state.replace(obs=state.obs + action, metrics=metrics)

    return play(BraxVectorEnv(BraxInformed(), 64, autoreset_mode=mode, info_keys="all"))


TASKS: dict[str, dict[str, Route]] = {
    CART_POLE: {
        "SyncVectorEnv": lambda size: of_gymnasium(gym.make_vec(CART_POLE, size, "sync")),
        "AsyncVectorEnv": lambda size: of_gymnasium(gym.make_vec(CART_POLE, size, "async")),
        "SB3 DummyVecEnv": lambda size: of_gymnasium(_sb3("DummyVecEnv", size)),
        "SB3 SubprocVecEnv": lambda size: of_gymnasium(_sb3("SubprocVecEnv", size)),
        "TorchRL SerialEnv of GymEnv": lambda size: of_torchrl(_serial(size)),
        "Gymnasium FunctionalJaxVectorEnv": lambda size: of_gymnasium(
            gym.make_vec("phys2d/CartPole-v1", size, "vector_entry_point")
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
        "SyncVectorEnv": lambda limit: of_gymnasium(
            gym.make_vec("Pendulum-v1", 64, "sync", max_episode_steps=limit), limit
        ),
        **by_mode(partial(restarts, "EnvPool/Pendulum-v1", 64)),
    },
    "restarts of reacher (Brax, spring, 256 environments)": {
        "Brax training.wrap": _wrapped_reacher,
        **by_mode(partial(restarts, "Brax/reacher-v0", 256, backend="spring")),
    },
    "infos (no physics, 64 environments)": {
        "SyncVectorEnv": lambda count: of_gymnasium(
            gym.vector.SyncVectorEnv([partial(Informed, count)] * 64)
        ),
        **by_mode(informed_brax),
    },
}
"""Routes by task and name, of the number of environments or of something else that varies."""
