"""Tasks for `throughput.py`: those of `routes.py` over the batch size, and four others.

A route is a function of the value that varies: how many environments there are, after how many
steps an episode ends, how many infos a step returns, or how many devices share the batch.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from routes import (
    MODES,
    NUM_ACTIONS,
    ROUTES,
    Route,
    Step,
    cycle,
    draw,
    of_gymbridge,
    of_gymnasium,
)
from timing import wait


class Task(NamedTuple):
    """What is stepped by which routes, and the values at which each is measured."""

    routes: dict[str, Route]
    values: tuple[int, ...] = (64,)
    axis: str = "environments"  # what the values are
    num_steps: int | None = None  # environment steps in one call; None for the value itself


def staggered(make: Any, limit: int) -> Step:
    """Step a batch whose episodes of ``limit`` steps end evenly over the steps."""
    envs = make(limit)
    envs.reset(seed=0)
    actions = draw(envs.action_space)
    for index in range(min(limit, envs.num_envs)):
        if index:
            mask = np.arange(envs.num_envs) % min(limit, envs.num_envs) == index
            envs.reset(options={"reset_mask": mask})
        for _ in range(max(limit // envs.num_envs, 1)):
            envs.step(actions[index % NUM_ACTIONS])
    return cycle(envs.step, actions)


def _ours(limit: int, *, env_id: str, mode: str, num_envs: int, **options: Any) -> Any:
    import gymbridge

    gym.register_envs(gymbridge)
    options |= {"autoreset_mode": mode, "max_episode_steps": limit}
    return gym.make_vec(env_id, num_envs=num_envs, **options)


def _restarts(env_id: str, num_envs: int, **options: Any) -> dict[str, Route]:
    given = {"env_id": env_id, "num_envs": num_envs, **options}
    return {
        f"gymbridge, numpy, {mode}": partial(staggered, partial(_ours, mode=mode, **given))
        for mode in MODES[:2]
    }


def _sync_pendulum(limit: int) -> Any:
    return gym.make_vec("Pendulum-v1", 64, vectorization_mode="sync", max_episode_steps=limit)


def _pool_pendulum(limit: int) -> Step:
    """Step EnvPool's own class, whose episodes of equal length are staggered likewise."""
    import envpool

    pool = envpool.make_gymnasium("Pendulum-v1", num_envs=64, max_episode_steps=limit)
    pool.reset()
    ids, rng = np.arange(64), np.random.default_rng(0)
    actions = list(rng.uniform(-2, 2, (NUM_ACTIONS, 64, 1)).astype(np.float32))
    for index in range(min(limit, 64)):
        if index:
            pool.reset(ids[ids % min(limit, 64) == index].astype(np.int32))
        for _ in range(max(limit // 64, 1)):
            pool.step(actions[index])
    return cycle(pool.step, actions)


def _wrapped_reacher(limit: int) -> Step:
    """Step Brax's own wrappers, whose restarts are of states drawn once."""
    import jax
    from brax import envs as brax_envs
    from brax.envs.wrappers import training

    env = training.wrap(brax_envs.get_environment("reacher", backend="spring"), limit)
    state = jax.jit(env.reset)(jax.random.split(jax.random.PRNGKey(0), 256))
    # The wrapper counts steps as floats, in the state.
    state.info["steps"] = jax.numpy.arange(256) % limit * 1.0
    compiled, rng = jax.jit(env.step), np.random.default_rng(0)

    def step(action: Any) -> object:
        nonlocal state
        state = compiled(state, action)
        return jax.device_get((state.obs, state.reward, state.done))

    return cycle(step, list(rng.uniform(-1, 1, (NUM_ACTIONS, 256, 2)).astype(np.float32)))


class Informed(gym.Env[Any, Any]):
    """A task of one number without physics, which returns numbers as infos.

    Args:
        num_keys: How many.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, num_keys: int) -> None:
        self.keys = [f"metric_{index}" for index in range(num_keys)]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin at 0."""
        super().reset(seed=seed)
        self.position = np.zeros(1, np.float32)
        return self.position, dict.fromkeys(self.keys, 0.0)

    def step(self, action: Any) -> Any:
        """Add the action."""
        self.position = self.position + action
        return self.position, 0.0, False, False, dict.fromkeys(self.keys, float(action[0]))


def _informed_sync(num_keys: int) -> Any:
    return gym.vector.SyncVectorEnv([partial(Informed, num_keys)] * 64)


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


def _spread_ants(arrays: str, num_devices: int) -> Step:
    """Step ants on several devices; without a GPU they are of XLA's making and share the cores."""
    flag = f"--xla_force_host_platform_device_count={num_devices}"
    os.environ["XLA_FLAGS"] = f"{flag} {os.environ.get('XLA_FLAGS', '')}"
    import jax

    devices = jax.devices()[:num_devices]
    if len(devices) < num_devices:
        raise SystemExit(f"{num_devices} devices were asked for, and there are {len(devices)}.")
    options = {"backend": "spring", "device": devices}
    return of_gymbridge("Brax/ant-v0", "NextStep", arrays, 1024, **options)


WINDOW = {"num_envs": 64, "num_steps": 16}


def _window(method: str, _: int) -> Step:
    """Return the gradient of a window with respect to a linear policy or to its actions."""
    from gradients import Window

    window = Window("inverted_pendulum", **WINDOW, device="cpu")
    run = getattr(window, method)
    run = run() if method.startswith("jax") else run
    return lambda: wait(run())


def _torchrl_window(_: int) -> Step:
    from gradients import Window, torchrl_window

    return torchrl_window(Window("inverted_pendulum", **WINDOW, device="cpu"))


LIMITS = (1, 2, 5, 20, 100, 1000)
TASKS: dict[str, Task] = {
    **{name: Task(routes) for name, routes in ROUTES.items()},
    "restarts of Pendulum (EnvPool, 64 environments)": Task(
        {
            "EnvPool's own class": _pool_pendulum,
            "SyncVectorEnv": partial(staggered, _sync_pendulum),
            **_restarts("EnvPool/Pendulum-v1", 64),
        },
        LIMITS,
        "steps of an episode",
        64,
    ),
    "restarts of reacher (Brax, spring, 256 environments)": Task(
        {
            "Brax training.wrap": _wrapped_reacher,
            **_restarts("Brax/reacher-v0", 256, backend="spring"),
        },
        LIMITS,
        "steps of an episode",
        256,
    ),
    "infos (no physics, 64 environments)": Task(
        {
            "SyncVectorEnv": partial(of_gymnasium, _informed_sync),
            **{
                f"gymbridge, numpy, {mode}": partial(of_gymnasium, partial(_informed_brax, mode))
                for mode in MODES[:2]
            },
        },
        (0, 1, 4, 16, 64),
        "infos in a step",
        64,
    ),
    "devices (Brax, ant, spring, 1024 environments)": Task(
        {
            f"gymbridge, {arrays}, NextStep": partial(_spread_ants, arrays)
            for arrays in ("numpy", "jax")
        },
        (1, 2, 4),
        "devices",
        1024,
    ),
    "gradients (Brax, inverted_pendulum, generalized, 64 environments, 16 steps)": Task(
        {
            "one jitted scan, policy": partial(_window, "jax_policy"),
            "gymbridge, step by step, policy": partial(_window, "torch_policy"),
            "one jitted scan, actions": partial(_window, "jax_actions"),
            "gymbridge, unroll, actions": partial(_window, "torch_actions"),
            "TorchRL BraxWrapper, policy": _torchrl_window,
        },
        (1,),
        "windows",
        WINDOW["num_envs"] * WINDOW["num_steps"],
    ),
}
"""By name."""
