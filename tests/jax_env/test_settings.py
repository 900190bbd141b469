"""What holds under each setting of JAX, torch and numpy that reproducibility.md names."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from gymnasium import spaces

from gymbridge import BraxVectorEnv, EnvPoolVectorEnv, JaxEnv, JaxVectorEnv
from gymbridge.errors import ArgumentError
from tests.support.batches import to_numpy
from tests.support.scripted_brax import ScriptedBraxEnv
from tests.support.trees import assert_same

PAGE = Path(__file__).parents[2] / "docs/reference/reproducibility.md"
SEEDS = [7, 7, 3]

Settings = Callable[[], AbstractContextManager[Any]]


class Walk(JaxEnv):
    """Draws in `reset` and in `step`, with keys that it splits as raw ones."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, key: Any) -> Any:
        start, other = jax.random.split(key)
        obs = jax.random.uniform(start, (2,), jnp.float32)
        return obs, obs, {"draw": jax.random.bits(other, dtype=jnp.uint32)}

    def step(self, key: Any, state: Any, action: Any) -> Any:
        obs = state + jax.random.normal(key, (2,), jnp.float32) + action.astype(jnp.float32)
        over = jnp.abs(obs).sum() > 3
        info = {"draw": jax.random.bits(key, dtype=jnp.uint32)}
        return obs, obs, obs.sum(), over, jnp.zeros((), bool), info


def make_walk(mode: str = "NextStep", arrays: str = "numpy") -> JaxVectorEnv:
    return JaxVectorEnv(Walk(), 3, max_episode_steps=5, autoreset_mode=mode, arrays=arrays)


MAKERS: dict[str, Callable[[], Any]] = {
    "walk": make_walk,
    "walk in torch": lambda: make_walk("Disabled", "torch"),
    "scripted": lambda: BraxVectorEnv(ScriptedBraxEnv([2, 3]), 3, autoreset_mode="SameStep"),
    "fast": lambda: BraxVectorEnv("fast", 3, max_episode_steps=3),
    "pool": lambda: EnvPoolVectorEnv("CartPole-v1", 3, arrays="torch"),
}


@contextmanager
def jax_set(name: str, value: Any) -> Iterator[None]:
    """Set what the whole process reads, as a user does."""
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, before)


@contextmanager
def called(on: Callable[[], Any], off: Callable[[], Any] = lambda: None) -> Iterator[None]:
    on()
    try:
        yield
    finally:
        off()


def play(name: str) -> list[np.ndarray]:
    """Return what a run of a new batch returns, without infos, which differ in layout."""
    envs = MAKERS[name]()
    log: list[Any] = [envs.reset(seed=SEEDS)[0]]
    for step in range(8):
        log += envs.step(np.full(envs.action_space.shape, step % 2, envs.action_space.dtype))[:4]
    if name != "pool":
        mask = np.array([True, False, True])
        log.append(envs.reset(seed=[1, None, 1], options={"reset_mask": mask})[0])
    return [np.asarray(entry) for entry in log]


@cache
def expected(name: str) -> list[np.ndarray]:
    return play(name)


DRAWING = ("walk", "scripted")
EQUAL: list[tuple[str, Any, tuple[str, ...]]] = [
    ("jax_default_prng_impl", "rbg", DRAWING),
    ("jax_default_prng_impl", "unsafe_rbg", ("walk",)),
    ("jax_default_prng_impl", "philox4x32", ("walk",)),
    ("jax_enable_custom_prng", True, DRAWING),
    ("jax_legacy_prng_key", "error", ("walk",)),
    ("jax_random_seed_offset", 5, ("walk",)),
    ("jax_threefry_partitionable", False, ("walk",)),
    ("jax_high_dynamic_range_gumbel", True, ("walk",)),
    ("jax_debug_key_reuse", True, ("walk",)),
    ("jax_numpy_dtype_promotion", "strict", ("walk", "walk in torch", "scripted", "fast")),
    ("jax_numpy_rank_promotion", "raise", ("walk", "fast")),
    ("jax_enable_x64", True, ("walk", "scripted")),
    ("jax_default_matmul_precision", "highest", ("walk",)),
    ("jax_debug_nans", True, ("walk",)),
    ("jax_debug_infs", True, ("walk",)),
    ("jax_check_tracer_leaks", True, ("walk",)),
    ("jax_disable_jit", True, ("walk",)),
    ("torch.set_default_dtype", torch.float64, ("walk in torch", "pool")),
    ("torch.set_default_device", "meta", ("walk in torch", "pool")),
    ("torch.use_deterministic_algorithms", None, ("walk in torch", "pool")),
    ("torch.inference_mode", torch.inference_mode, ("walk in torch", "pool")),
    ("np.random.seed", np.random.seed, ("pool",)),
    ("np.errstate", lambda: np.errstate(all="raise"), ("pool",)),
]


def setting(name: str, value: Any) -> AbstractContextManager[Any]:
    if name.startswith("jax_"):
        return jax_set(name, value)
    if name == "np.random.seed":
        return called(lambda: value(0))
    if callable(value):
        return value()
    if name == "torch.set_default_device":
        return torch.device(value)
    if name == "torch.set_default_dtype":
        return called(
            lambda: torch.set_default_dtype(value), lambda: torch.set_default_dtype(torch.float32)
        )
    # The same without an import of torch's compiler, which takes ten seconds.
    mode = torch.set_deterministic_debug_mode
    return called(lambda: mode("error"), lambda: mode("default"))


@pytest.mark.parametrize(
    ("name", "value", "batch"), [(*case[:2], batch) for case in EQUAL for batch in case[2]]
)
def test_run__is_the_same_whatever_is_set(name: str, value: Any, batch: str) -> None:
    wanted = expected(batch)
    with setting(name, value):
        found = play(batch)
    for here, there in zip(found, wanted, strict=True):
        assert here.dtype == there.dtype or name == "jax_enable_x64"
        np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-5)


def test_generator__may_be_set_between_two_calls_and_around_functions() -> None:
    envs = make_walk(arrays="jax")
    envs.reset(seed=SEEDS)
    with jax_set("jax_default_prng_impl", "rbg"):
        carry, reset, step = envs.functional()
        obs, *_ = envs.step(np.zeros(3, int))
        _, (found, *_) = jax.jit(step)(carry, jnp.zeros(3, jnp.int32))
        _, (begun, _) = jax.jit(reset)(carry, jnp.ones(3, bool), jnp.asarray(SEEDS))
    np.testing.assert_allclose(found, obs, rtol=1e-6)
    np.testing.assert_allclose(begun, expected("walk")[0], rtol=1e-6)
    np.testing.assert_allclose(obs, expected_first_step(), rtol=1e-6)


def expected_first_step() -> np.ndarray:
    envs = make_walk()
    envs.reset(seed=SEEDS)
    return envs.step(np.zeros(3, int))[0]


def test_table__has_every_setting_that_is_tested() -> None:
    section = PAGE.read_text().split("## Settings of JAX, torch and numpy")[1].split("\n## ")[0]
    named = set(re.findall(r"`((?:jax_|torch\.|np\.)\w+(?:\.\w+)*)", section))
    others = {"jax_transfer_guard", "jax_default_device", "np.set_printoptions"}
    assert named == {name for name, *_ in EQUAL} | others


class Breaks(Walk):
    """Its second step is NaN in the environments with an odd draw."""

    def step(self, key: Any, state: Any, action: Any) -> Any:
        after, _, reward, *others = super().step(key, state, action)
        obs = jnp.where(action == 1, jnp.nan, after)
        return obs, obs, reward, *others


def test_debug_nans__stops_a_step_that_nonfinite_would_handle_and_changes_nothing() -> None:
    envs = JaxVectorEnv(Breaks(), 3)
    envs.reset(seed=SEEDS)
    before = envs.get_state()
    with jax_set("jax_debug_nans", True), pytest.raises(FloatingPointError):
        envs.step(np.array([0, 1, 0]))
    after = envs.get_state()
    for name, leaf in before.leaves.items():
        np.testing.assert_array_equal(after.leaves[name], leaf)
    assert envs.step(np.array([0, 1, 0]))[2].tolist() == [False, True, False]


class Drawn(Walk):
    def render(self, state: Any) -> np.ndarray:
        return np.zeros((4, 4, 3), np.uint8)


@pytest.mark.parametrize("arrays", ["numpy", "jax", "torch"])
def test_transfer_guard__lets_a_batch_pass(arrays: str) -> None:
    """A guard against what the user's own code transfers, such as numpy actions unawares."""
    actions = np.array([0, 1, 0])
    free = make_walk("SameStep", arrays)
    free.reset(seed=SEEDS)
    wanted = [to_numpy(free.step(actions)) for _ in range(8)]
    with jax.transfer_guard("disallow"):
        options = {"autoreset_mode": "SameStep", "arrays": arrays, "render_mode": "rgb_array"}
        envs = JaxVectorEnv(Drawn(), 3, max_episode_steps=5, **options)
        envs.reset(seed=SEEDS)
        found = [to_numpy(envs.step(actions)) for _ in range(8)]
        envs.set_state(envs.get_state())
        assert len(envs.render()) == 3
    assert_same(found, wanted)


def test_snapshot__fits_whatever_numpy_prints() -> None:
    class Bounded(Walk):
        def __init__(self, last: float = 1) -> None:
            bounds = np.append(np.linspace(1 / 7, 1 / 3, 2000), last).astype(np.float32)
            self.action_space = spaces.Box(-bounds, bounds)

        def step(self, key: Any, state: Any, action: Any) -> Any:
            return super().step(key, state, action[0])

    envs = JaxVectorEnv(Bounded(), 3)
    obs, _ = envs.reset(seed=SEEDS)
    with np.printoptions(precision=2, threshold=10_000):
        np.testing.assert_array_equal(JaxVectorEnv(Bounded(), 3).set_state(envs.get_state()), obs)
    with pytest.raises(ArgumentError, match="action_space"):
        JaxVectorEnv(Bounded(2), 3).set_state(envs.get_state())


def test_default_device__is_that_of_construction() -> None:
    last = jax.devices()[-1]
    with jax_set("jax_default_device", last):
        envs = make_walk(arrays="jax")
    assert envs.reset(seed=SEEDS)[0].devices() == {last}


@pytest.mark.parametrize("copied", [False, True])
def test_batch__can_be_built_copied_and_reset_inside_a_trace(copied: bool) -> None:
    kept = []
    outer = make_walk(arrays="jax")

    @jax.jit
    def trace(x: Any) -> Any:
        envs = copy.copy(outer) if copied else make_walk(arrays="jax")
        kept.append((envs, envs.reset(seed=SEEDS)[0], envs.get_state()))
        return x

    trace(jnp.zeros(()))
    envs, obs, state = kept[0]
    np.testing.assert_array_equal(obs, expected("walk")[0])
    np.testing.assert_array_equal(envs.set_state(state), obs)
    np.testing.assert_allclose(envs.step(np.zeros(3, int))[0], expected_first_step(), rtol=1e-6)
