"""Work that keeps a GPU busy, so that what does not wait for it is found out; nothing on a CPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import torch

from tests.support.batches import make_batch
from tests.support.point_mass import make_batch as make_masses


def make(
    engine: str, mode: str, device: str, *, num_envs: int = 4, limit: int = 5, arrays: str = "torch"
) -> Any:
    """Return a batch of `batches`, or of point masses: "plain", or with "gradients"."""
    options: Any = {"num_envs": num_envs, "arrays": arrays, "device": device}
    if engine not in ("plain", "gradients"):
        return make_batch(engine, mode, limit=limit, **options)
    options |= {"autoreset_mode": mode, "max_episode_steps": limit}
    return make_masses(differentiable=engine == "gradients", **options)


def busy_torch(device: torch.device, cycles: int = 100_000_000) -> None:
    """Keep torch's current stream busy, for 50 to 100 ms unless `cycles` of the clock are given.

    On a CPU, where torch has no streams, return at once.
    """
    if device.type == "cuda":
        torch.cuda._sleep(cycles)


def busy_jax(device: Any) -> Any:
    """Keep JAX's stream on a GPU busy for some 50 ms, and return the array that ends it."""
    size, rounds = (4096, 30) if device.platform == "gpu" else (8, 1)
    array = jax.device_put(_ones(size), device)
    for _ in range(rounds):  # no loop of XLA's, which may wait for its condition on the host
        array = _once(array)
    return array


@cache
def _ones(size: int) -> Any:
    return jnp.full((size, size), 1 / size)


@jax.jit
def _once(array: jax.Array) -> jax.Array:
    return array @ array


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Let torch work on a stream that is not its default one; on a CPU change nothing."""
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)


@contextmanager
def unordered_stream(device: torch.device) -> Iterator[None]:
    """Let torch work on a stream that waits for no other, after 5 ms; on a CPU change nothing."""
    if device.type != "cuda":
        yield
        return
    time.sleep(0.005)
    with torch.cuda.stream(torch.cuda.Stream(device)):
        yield


def finish(device: torch.device) -> None:
    """Wait for all work on a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
