"""Values on the GPU are those of the CPU, to rounding, and arrays are on the device asked for."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import torch

from tests.support.batches import leaves, make_batch, to_kind, to_numpy
from tests.support.falling_ball import make_ball
from tests.support.player import play
from tests.support.trees import assert_same

pytestmark = pytest.mark.gpu

DIGITS = 1e-5
ENGINES = ("host", "brax", "func_env", "fast")
POOLS = ("envpool", "pendulum")
"""EnvPool runs on the CPU, so that its values are equal to the bit."""

MASK = np.array([True, False, True, False])


def play_all(envs: Any, seeds: Any, touch: Any = lambda call: None) -> list[Any]:
    """Return all of a run: seeds, steps, ends, and partial resets with these seeds."""
    log = play(envs, 14, touch=touch)
    for seed in seeds:
        mask = to_kind(MASK, envs.arrays, envs.device)
        returned = envs.reset(seed=seed, options={"reset_mask": mask})
        touch((returned, mask))
        log.append(to_numpy(returned))
        zeros = np.zeros_like(envs.action_space.sample())
        log.append(to_numpy(envs.step(to_kind(zeros, envs.arrays, envs.device))))
        log.append(to_numpy(envs.reset()))
    return [*log, envs.np_random_seed]


def place_of(leaf: Any) -> Any:
    return leaf.device if isinstance(leaf, torch.Tensor) else next(iter(leaf.devices()))


RUNS = [(engine, kind) for engine in ENGINES for kind in ("numpy", "torch", "jax")]
RUNS.remove(("host", "numpy"))  # which are on the CPU alone
RUNS += [(engine, kind) for engine in POOLS for kind in ("torch", "jax")]


@pytest.mark.parametrize(("engine", "kind"), RUNS)
def test_run__is_that_of_the_cpu(
    engine: str, kind: str, mode: str, device: str, torch_device: Any, jax_device: Any
) -> None:
    seeds: Any = [None] if engine in POOLS else [None, [7, None, 9, None]]
    wanted = play_all(make_batch(engine, mode, limit=5, arrays=kind, device="cpu"), seeds)
    places = set()

    def note(call: Any) -> None:
        returned, _ = call
        if kind != "numpy":
            places.update(map(place_of, leaves(returned)))

    envs = make_batch(engine, mode, limit=5, arrays=kind, device=device)
    found = play_all(envs, seeds, note)
    assert_same(found, wanted, digits=0 if engine in POOLS else DIGITS)
    assert places == {"numpy": set(), "torch": {torch_device}, "jax": {jax_device}}[kind]
    ends = [step[2] | step[3] for step in wanted if len(step) == 5]
    assert np.any(ends)
    assert not np.all(ends)


def test_physics_that_episodes_draw__is_that_of_the_cpu(kind: str, device: str) -> None:
    options = {"arrays": kind, "autoreset_mode": "SameStep", "max_episode_steps": 6}
    wanted, found = (play(make_ball(device=one, **options), 14) for one in ("cpu", device))
    assert_same(found, wanted, digits=DIGITS)
    masses = np.stack([infos["randomization"]["link.mass"] for *_, infos in wanted])
    assert len(np.unique(masses.round(3))) > 8, "each episode draws its own"


def test_default_device__is_that_of_jax(device: str, torch_device: Any) -> None:
    envs = make_batch("fast", arrays="torch")
    if device in ("cuda", "cpu"):
        assert envs.device == torch_device
    assert envs.reset(seed=0)[0].device == envs.device
    assert make_batch("fast", arrays="torch", device="cpu").device.type == "cpu"
    assert make_batch("fast", arrays="jax", device=jax.devices()[0]).device == jax.devices()[0]


@pytest.mark.parametrize("engine", ["brax", "host"])
def test_actions_elsewhere__are_refused_and_numpy_ones_uploaded(
    engine: str, device: str, is_cuda: bool
) -> None:
    envs = make_batch(engine, arrays="torch", device=device)
    twin = make_batch(engine, arrays="torch", device=device)
    for batch in (envs, twin):
        batch.reset(seed=0)
    actions = np.array([0, 1, 2, 9])  # clipped into the space
    given = torch.from_numpy(actions)
    if is_cuda:
        with pytest.raises(ValueError, match=r"use actions.to\('cuda:"):
            envs.step(given)
    found, wanted = envs.step(actions), twin.step(given.to(twin.device))
    assert_same(to_numpy(found), to_numpy(wanted))
    assert found[1].cpu().tolist()[3] == 2.25
