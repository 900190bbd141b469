"""`functional()` of an EnvPool batch: the exact steps inside functions that JAX compiles."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")
pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from gymbridge.errors import (
    ActionError,
    ArgumentError,
    ArgumentTypeError,
    ClosedError,
    ResetNeededError,
)
from tests.support.batches import MODES, make_batch, to_numpy
from tests.support.envpool_runs import act_all, make
from tests.support.trees import assert_same

NUM_ENVS, NUM_STEPS = 5, 200

OLD = "`carry` must be the newest"

LeftBehind: Any = jax.errors.JaxRuntimeError
"""What JAX makes of an error inside a callback; its text has that of ours."""


def make_jax(task_id: str = "CartPole-v1", mode: str = "NextStep", **kwargs: Any) -> Any:
    return make(task_id, NUM_ENVS, mode, arrays="jax", **kwargs)


def make_pair(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Return two equal batches whose episodes have begun."""
    envs, twin = (make_jax(*args, **kwargs) for _ in range(2))
    assert_same(to_numpy(envs.reset(seed=3)), to_numpy(twin.reset(seed=3)))
    return envs, twin


def draw_actions(envs: Any, num_steps: int) -> jax.Array:
    return jnp.asarray(np.stack([act_all(envs, 0, step) for step in range(num_steps)]))


def everyone(value: bool = True) -> np.ndarray:
    return np.full(NUM_ENVS, value)


def play(envs: Any, actions: jax.Array, masks: np.ndarray) -> tuple[list[Any], int, int]:
    """Return what the class returns in each step and reset, and how many rows ended and were held.

    Nobody resets ended rows but the masks, until all have ended. With autoreset disabled, they are
    held until then.
    """
    log, ended, num_ended, num_held = [], everyone(False), 0, 0
    is_manual = envs.autoreset_mode.value == "Disabled"
    for action, mask in zip(actions, masks, strict=True):
        returned = envs.step_some(action, ~ended) if is_manual else envs.step(action)
        num_held += ended.sum() if is_manual else 0
        ended = np.asarray(returned[2] | returned[3])
        num_ended += ended.sum()
        mask = mask | ended.all()
        begun = envs.reset(options={"reset_mask": mask}) if mask.any() else None
        ended = ended & ~mask
        log.append(to_numpy((returned, begun)))
    return log, num_ended, num_held


@pytest.mark.parametrize(
    ("task_id", "limit", "mode"),
    [
        *(("CartPole-v1", 11, mode) for mode in MODES),
        ("LunarLander-v3", 15, "Disabled"),
        ("Blackjack-v1", None, "SameStep"),
        ("MiniGrid-LavaGapS5-v0", 7, "SameStep"),  # observations in a dict
        ("Pendulum-v1", 9, "NextStep"),  # actions are floats
    ],
)
def test_scan__returns_what_the_class_does(task_id: str, limit: int | None, mode: str) -> None:
    envs, twin = make_pair(task_id, mode, max_episode_steps=limit)
    actions, rng = draw_actions(envs, NUM_STEPS), np.random.default_rng(3)
    masks = (rng.random((NUM_STEPS, NUM_ENVS)) < 0.5) & (rng.random((NUM_STEPS, 1)) < 0.15)
    masks[50] = True
    carry, reset, step = envs.functional()

    def body(carry: Any, given: Any) -> Any:
        carry, returned = step(carry, given[0])
        carry, begun = reset(carry, given[1] | (returned[2] | returned[3]).all())
        return carry, (returned, begun)

    _, scanned = jax.jit(lambda carry: jax.lax.scan(body, carry, (actions, masks)))(carry)
    log, num_ended, num_held = play(twin, actions, masks)
    for index, (returned, begun) in enumerate(log):
        found = to_numpy(jax.tree.map(lambda leaf, index=index: leaf[index], scanned))
        assert_same(found[0], returned, f"step {index}")
        if begun is None:
            obs, infos = found[1]
            assert_same(obs, returned[0])
            assert not any(leaf.any() for leaf in jax.tree.leaves(infos))
        else:
            assert_same(found[1], begun, f"reset {index}")
    assert num_ended > 30
    assert num_held > 30 or mode != "Disabled"


@jax.jit
def compute_slowly(matrix: jax.Array) -> jax.Array:
    """Return 0; JAX runs what takes the result while it is not there yet asynchronously."""
    for _ in range(3):
        matrix = jnp.tanh(matrix @ matrix)
    return jnp.clip(matrix.sum(), 0, 0).astype(int)


def test_asynchronous_runs__are_waited_for_and_survive_errors() -> None:
    envs, twin = make_pair()
    old, _, step = envs.functional()
    actions, matrix = draw_actions(envs, 5), jnp.ones((700, 700))
    run = jax.jit(lambda carry, more: jax.lax.scan(step, carry, actions + more))
    jax.block_until_ready(compute_slowly(matrix))  # compiles
    second, _ = run(old, compute_slowly(matrix))
    with pytest.raises(ResetNeededError, match="gone on"):
        envs.step(actions[0])
    failed, last = run(old, compute_slowly(matrix)), run(second, compute_slowly(matrix))
    with pytest.raises(LeftBehind, match=OLD):
        jax.block_until_ready(failed)
    expected = [twin.step(action) for _ in range(2) for action in actions]
    for index, returned in enumerate(expected[5:]):
        found = jax.tree.map(lambda leaf, index=index: leaf[index], last[1])
        assert_same(to_numpy(found), to_numpy(returned))
    run(old, compute_slowly(matrix))
    assert_same(to_numpy(envs.reset(seed=4)), to_numpy(twin.reset(seed=4)))
    jax.block_until_ready(run(envs.functional()[0], 0))


def test_class_and_functions__each_say_that_the_other_went_on() -> None:
    envs, twin = make_pair()
    actions = draw_actions(envs, 4)
    carry, reset, step = envs.functional()
    newest, _ = jax.lax.scan(step, carry, actions)
    for call in (lambda: envs.step(actions[0]), envs.functional):
        with pytest.raises(ResetNeededError, match="`functional\\(\\)` have gone on"):
            call()
    _, returned = step(newest, actions[0])
    expected = [twin.step(action) for action in (*actions, actions[0])]
    assert_same(to_numpy(returned), to_numpy(expected[-1]))
    for batch in (envs, twin):
        batch.reset()
    carry, _, _ = envs.functional()
    envs.step(actions[0])
    step, mask = jax.jit(step), np.arange(NUM_ENVS) < 2
    for call in (lambda: step(carry, actions[0]), lambda: jax.jit(reset)(carry, mask)):
        with pytest.raises(LeftBehind, match=OLD):
            jax.block_until_ready(call())
    assert_same(to_numpy(envs.step(actions[1])), to_numpy([twin.step(a) for a in actions[:2]][1]))
    _, (_, infos) = reset(carry, everyone())
    assert infos["elapsed_step"].tolist() == [0] * NUM_ENVS


def test_callers_mistakes__are_errors_before_anything_moves() -> None:
    envs, twin = make_pair("Pendulum-v1")
    carry, reset, step = envs.functional()
    actions, mask = draw_actions(envs, 1)[0], everyone()
    both = jnp.stack([carry, carry])
    refused = {
        "`seeds` must be None": lambda: jax.jit(reset)(carry, mask, jnp.arange(NUM_ENVS)),
        "`jax.vmap` cannot map": lambda: jax.vmap(step, in_axes=(0, None))(both, actions),
        "`jax.vmap` cannot": lambda: jax.jit(jax.vmap(reset, (None, 0)))(carry, mask[None]),
        "`jax.grad`": lambda: jax.grad(lambda given: step(carry, given)[1][1].sum())(actions),
        r"`mask` must have shape": lambda: reset(carry, mask[1:]),
    }
    for text, call in refused.items():
        with pytest.raises(ArgumentError, match=text):
            call()
    with pytest.raises(ArgumentTypeError, match="`mask` must have `dtype"):
        reset(carry, jnp.ones(NUM_ENVS))
    for nothing in (None, "abc", object()):
        with pytest.raises(ArgumentTypeError, match="`mask` must be an array of bools"):
            reset(carry, nothing)
    for wrong in (both, None, (carry, carry), 0.5):
        with pytest.raises(ArgumentTypeError, match="`carry` must be the number that"):
            jax.jit(step)(wrong, actions)
    with pytest.raises(ActionError, match="`actions` must have shape"):
        jax.jit(step)(carry, actions[1:])
    with pytest.raises(ArgumentTypeError, match="`actions` must be castable"):
        step(carry, actions.astype(complex))
    assert_same(to_numpy(step(carry, actions)[1]), to_numpy(twin.step(actions)))


def test_gradients__pass_beside_discrete_actions() -> None:
    """A loss may contain the rollout: whole numbers carry no derivative."""
    envs = make_jax()
    obs, _ = envs.reset(seed=3)
    carry, _, step = envs.functional()

    def loss(weights: jax.Array) -> jax.Array:
        scores = obs @ weights
        _, returned = step(carry, (scores > 0).astype(int))
        return (scores * returned[1]).sum()

    np.testing.assert_allclose(jax.grad(loss)(jnp.ones(4)), np.asarray(obs).sum(0), rtol=1e-5)


def test_integer_actions__are_clipped_as_in_the_class() -> None:
    envs, twin = make_pair()
    carry, _, step = envs.functional()
    actions = jnp.asarray([-3, 0, 1, 2, 99])
    assert_same(to_numpy(step(carry, actions)[1]), to_numpy(twin.step(actions)))


@pytest.mark.parametrize("engine", ["brax", "envpool"])
def test_functional__needs_jax_arrays_a_reset_and_an_open_batch(engine: str) -> None:
    for kind in ("numpy", *(["torch"] if find_spec("torch") else [])):
        with pytest.raises(ArgumentError, match=f"batch built with `arrays='jax'`, got '{kind}"):
            make_batch(engine, arrays=kind).functional()
    envs = make_batch(engine, arrays="jax")
    with pytest.raises(ResetNeededError, match="`functional` needs running episodes"):
        envs.functional()
    envs.reset(seed=0)
    carry, reset, _ = envs.functional()
    envs.close()
    with pytest.raises(ClosedError):
        envs.functional()
    if engine == "envpool":  # the episodes of others live in the carry
        with pytest.raises(LeftBehind, match="is closed"):
            jax.block_until_ready(reset(carry, np.ones(4, bool)))


def test_interrupted_callback__asks_for_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    envs: Any = make_jax()
    envs.reset(seed=3)
    carry, reset, step = envs.functional()
    actions = draw_actions(envs, 1)[0]

    def cut_short() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(envs._simulator.pool, "receive", cut_short)
        with pytest.raises(LeftBehind, match="KeyboardInterrupt"):
            jax.block_until_ready(step(carry, actions))
    with pytest.raises(LeftBehind, match=OLD):
        jax.block_until_ready(step(carry, actions))
    carry, (_, infos) = reset(carry, everyone())
    assert infos["elapsed_step"].tolist() == [0] * NUM_ENVS
    assert step(carry, actions)[1][-1]["elapsed_step"].tolist() == [1] * NUM_ENVS
