"""`envs.functional()`: the batch as pure functions that JAX compiles, scans and maps."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gymbridge import BraxVectorEnv
from tests.support.batches import KIND_LENGTHS, KIND_TRUNCATES, MODES, to_numpy
from tests.support.brax_samples import under
from tests.support.falling_ball import make_ball
from tests.support.player import calls, draw_at
from tests.support.scripted_brax import ScriptedBraxEnv
from tests.support.trees import assert_same

NUM_ENVS = 5
NUM_STEPS = 40


def _make_scripted(mode: str) -> BraxVectorEnv:
    """A batch of integers and halves, in which every sum is exact."""
    env = ScriptedBraxEnv(KIND_LENGTHS, KIND_TRUNCATES)
    return BraxVectorEnv(
        env, NUM_ENVS, autoreset_mode=mode, arrays="jax", max_episode_steps=4, info_keys="all"
    )


def _make_ball(mode: str) -> BraxVectorEnv:
    return make_ball(NUM_ENVS, autoreset_mode=mode, arrays="jax", max_episode_steps=9)


@cache
def shared(name: str, mode: str) -> BraxVectorEnv:
    return {"scripted": _make_scripted, "ball": _make_ball}[name](mode)


def _draw_actions(envs: BraxVectorEnv, num_steps: int = NUM_STEPS) -> jax.Array:
    return jnp.asarray(np.stack([draw_at(envs, index) for index in range(num_steps)]))


def _at(tree: Any, index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _check(found: Any, expected: Any, digits: float = 0) -> None:
    """Raise unless both have the same values; floats to rounding where `digits` says so."""
    assert_same(to_numpy(found), to_numpy(expected), digits=digits)


@pytest.mark.parametrize(
    ("name", "mode"),
    [*(("scripted", mode) for mode in MODES), ("ball", "SameStep")],
)
def test_scan__returns_what_the_class_does(name: str, mode: str) -> None:
    """With observations in a dict, test_devices.py has the same."""
    envs = shared(name, mode)
    actions = _draw_actions(envs)
    is_disabled, digits = mode == "Disabled", 0 if name == "scripted" else 1e-5
    envs.reset(seed=1)
    carry, reset, step = envs.functional()

    def body(carry: Any, action: jax.Array) -> Any:
        carry, returned = step(carry, action)
        if not is_disabled:
            return carry, (returned, ())
        carry, begun = reset(carry, returned[2] | returned[3])
        return carry, (returned, begun)

    _, scanned = jax.jit(lambda carry: jax.lax.scan(body, carry, actions))(carry)
    ends, index = 0, -1
    for call in calls(envs, NUM_STEPS, begins=False, act=actions.__getitem__):
        index += not call.is_reset
        _check(_at(scanned, index)[call.is_reset], call.found, digits)
        ends += 0 if call.is_reset else (call.found[2] | call.found[3]).sum()
    assert ends > NUM_STEPS / 10


def test_reset__under_jit_takes_mask_and_seeds() -> None:
    envs = shared("ball", "SameStep")
    envs.reset(seed=1)
    carry, reset, step = envs.functional()
    compiled = jax.jit(reset)
    mask = under(NUM_ENVS, 1, 4)["reset_mask"]
    seeds = np.arange(7, 7 + NUM_ENVS, dtype=np.uint32)
    carry, found = compiled(carry, mask, seeds)
    _check(found, envs.reset(seed=seeds.tolist(), options={"reset_mask": mask}))
    carry, found = compiled(carry, ~mask, None)
    _check(found, envs.reset(options={"reset_mask": ~mask}))
    action = _draw_actions(envs, 1)[0]
    _check(jax.jit(step)(carry, action)[1], envs.step(action), 1e-5)


def test_vmap__steps_two_carries() -> None:
    envs = shared("scripted", "SameStep")
    actions = _draw_actions(envs, 12)
    carries, logs = [], []
    for seed in (1, 50):
        envs.reset(seed=seed)
        carry, _, step = envs.functional()
        carries.append(carry)
        logs.append([to_numpy(envs.step(action)) for action in actions])
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), *carries)
    mapped = jax.jit(jax.vmap(step, in_axes=(0, None)))
    for index, action in enumerate(actions):
        both, returned = mapped(both, action)
        for which, log in enumerate(logs):
            _check(_at(returned, which), log[index])
    assert not np.array_equal(logs[0][-1][0], logs[1][-1][0])


def test_carry__is_a_copy() -> None:
    envs, twin = (shared("scripted", "NextStep"), _make_scripted("NextStep"))
    actions = _draw_actions(envs, 6)
    for batch in (envs, twin):
        batch.reset(seed=4)
        batch.step(actions[0])
    carry, reset, step = envs.functional()
    kept = to_numpy(jax.tree.map(jnp.copy, carry))
    donating = jax.jit(step, donate_argnums=0)
    for action in actions[1:]:
        carry, _ = donating(carry, action)
    reset(carry, np.ones(NUM_ENVS, bool), np.zeros(NUM_ENVS, np.uint32))
    assert envs.np_random_seed == twin.np_random_seed
    again = envs.functional()[0]
    assert_same(to_numpy(jax.tree.leaves(again)), to_numpy(jax.tree.leaves(kept)))
    for action in actions[1:]:
        _check(envs.step(action), twin.step(action))
