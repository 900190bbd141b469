"""EnvPool: its asynchronous pool, and pools inside of JAX."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import envpool
import numpy as np
from steps import Contest, draw_batch, over, play, repeat, scan_of

from gymbridge import EnvPoolVectorEnv
from gymbridge.envpool import AsyncEnvPool


def in_jax(num_envs: int, _: str, *, mode: str) -> Contest:
    """Compare CartPoles with jax arrays, and in a scan, with numpy arrays."""
    num_steps = 200
    make = partial(EnvPoolVectorEnv, "CartPole-v1", num_envs, autoreset_mode=mode)
    steps: dict[str, Any] = {
        f"{arrays} arrays": repeat(play(make(arrays=arrays)), num_steps)
        for arrays in ("numpy", "jax")
    }
    actions = np.random.default_rng(0).integers(0, 2, (num_steps, num_envs), np.int32)
    steps["functional(), one scan"] = scan_of(make(arrays="jax"), actions)
    bars = {"jax arrays": 2.0, "functional(), one scan": 2.5}
    return Contest(steps, over("numpy arrays", bars), num_steps)


def turn_of(pool: Any, actions: list[Any]) -> Callable[[int], None]:
    """Return a function that receives as many environments as have actions, and sends them on."""

    def turn(index: int) -> None:
        *_, infos = pool.recv()
        pool.send(actions[index % len(actions)], infos["env_id"])

    return turn


def turns(num_envs: int, _: str, *, task: str = "CartPole-v1") -> Contest:
    """Compare turns with EnvPool's own, one thread each; every process has pools of its own."""
    size = max(num_envs // 2, 1)
    options = {"num_envs": num_envs, "batch_size": size, "num_threads": 1}
    ours = AsyncEnvPool(task, **options)
    ours.async_reset(seed=0)
    own: Any = envpool.make_gymnasium(task, seed=0, **options)
    own.async_reset()
    actions = draw_batch(ours.single_action_space, size)
    steps = {"AsyncEnvPool": turn_of(ours, actions), "send and recv": turn_of(own, actions)}
    return Contest(steps, over("send and recv", {"AsyncEnvPool": 1.15}), note="one thread each")


def as_ready(num_envs: int, _: str, *, task: str, part: int) -> Contest:
    """Compare as many steps in the order they are ready with a step of the whole batch."""
    threads = os.cpu_count() or 1
    pool = AsyncEnvPool(task, num_envs + part, part, num_threads=threads)
    pool.async_reset(seed=0)
    actions = draw_batch(pool.single_action_space, part)
    steps = {
        "as they are ready": repeat(turn_of(pool, actions), max(num_envs // part, 1)),
        "all together": play(EnvPoolVectorEnv(task, num_envs, num_threads=threads)),
    }
    pairs = over("all together", {"as they are ready": None})
    return Contest(steps, pairs, note=f"{threads} threads")
