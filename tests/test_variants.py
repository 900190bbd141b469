"""Variants of the step, beside the benchmarks: the same episodes, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gymbridge import JaxVectorEnv
from tests.support.example_runs import EXAMPLES, load_script
from tests.support.falling_ball import make_ball
from tests.support.jax_samples import Drift, Glide
from tests.support.trees import assert_same

pytestmark = pytest.mark.slow

NUM_ENVS = 5


@pytest.fixture(scope="module")
def variants() -> Any:
    pytest.importorskip("torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES / "benchmarks")
        return load_script(EXAMPLES / "benchmarks" / "variants.py")


drift = partial(JaxVectorEnv, Drift(), NUM_ENVS)
ball = partial(make_ball, NUM_ENVS)
glide = partial(JaxVectorEnv, Glide(), 2, arrays="jax")


def play(envs: Any, options: dict[str, Any]) -> list[Any]:
    """Return all that a batch returns in a life with every kind of reset, and a step back."""
    envs.action_space.seed(0)
    rng, mask = np.random.default_rng(0), np.arange(NUM_ENVS) % 2 == 0
    found: list[Any] = [envs.reset(seed=[3, 1, 4, 1, 2**32 - 1])]
    begin = {
        5: lambda: envs.reset(options={"reset_mask": mask}),
        9: lambda: envs.reset(seed=[8, 9, 10, 11, 12], options={"reset_mask": ~mask}),
        14: lambda: envs.reset(options=options),
        18: lambda: envs.reset(options={"reset_mask": mask} | options),
        23: envs.reset,
        27: lambda: envs.set_state(saved),
        32: lambda: envs.reset(seed=3),
    }
    saved = envs.get_state()
    for step in range(40):
        if step in begin:
            found.append(begin[step]())
        if step == 20:
            saved = envs.get_state()
        found.append(envs.step(envs.action_space.sample()))
        over = np.asarray(found[-1][2] | found[-1][3]) & (rng.random(NUM_ENVS) < 0.8)
        if envs.autoreset_mode.value == "Disabled" and over.any():
            found.append(envs.reset(options={"reset_mask": over}))
    return jax.device_get(found)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (drift, {"wind": np.full(NUM_ENVS, 0.5, np.float32)}),
        (ball, {"randomization": {"gravity": np.full((NUM_ENVS, 3), -7, np.float32)}}),
    ],
)
def test_variants__play_the_same_episodes_to_the_bit(
    variants: Any, make: Callable[..., Any], options: Any, mode: str
) -> None:
    # In 8 steps an episode of at most 3 ends twice.
    plain = make(arrays="jax", autoreset_mode=mode, max_episode_steps=3)
    expected = play(plain, options)
    for variant in (variants.Variant(refill_every=8), variants.Variant({}, True, 2)):
        assert_same(play(variants.vary(plain, variant), options), expected)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_initial_states_drawn_ahead__are_used_once(variants: Any, mode: str) -> None:
    plain = glide(autoreset_mode=mode, max_episode_steps=1)
    envs = variants.vary(plain, variants.Variant(refill_every=8))
    actions, begun = jnp.zeros((2, 2)), 1
    envs.reset(seed=0)
    plain.reset(seed=0)
    for count in range(6):
        found, expected = envs.step(actions)[0], plain.step(actions)[0]
        if count == 0:  # what is drawn ahead from now on is marked
            ahead, episode = envs._runner._ahead, plain.get_state().leaves["episode"]
            rows = jax.tree.map(jnp.zeros_like, ahead.rows)
            envs._runner._ahead = ahead._replace(rows=rows, episode=episode + 1)
        elif mode != "NextStep" or count % 2:
            begun += 1
            assert np.array_equal(found, expected if begun > 2 else 0 * expected)


@pytest.mark.parametrize("place", ["in the step", "after it"])
def test_a_step_with_spare_buffers_that_fails__loses_nothing(
    variants: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = glide(autoreset_mode="SameStep")
    envs = variants.vary(plain, variants.Variant(has_spares=True, refill_every=2))
    actions = jnp.full((2, 2), 0.3)
    assert_same(*jax.device_get([envs.reset(seed=0), plain.reset(seed=0)]))
    carries = []
    for count in range(12):
        if count % 3 == 2:
            fail_in(envs, place, actions, monkeypatch)
        carries.append(envs._carry)
        assert_same(*jax.device_get([envs.step(actions), plain.step(actions)]))
    # Step 10 wrote over what step 9 took; step 11 came after a failure.
    assert carries[9].state.rows.leaves[0].is_deleted()
    assert not carries[11].state.rows.leaves[0].is_deleted()
    assert len(envs._runner.compiled.steps) == 2


def fail_in(envs: Any, place: str, actions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a step that an interrupt ends."""

    def interrupt(*given: Any) -> Any:
        raise KeyboardInterrupt

    compiled = envs._runner.compiled
    failing = [lambda *given, step=step: interrupt(step(*given)) for step in compiled.steps]
    with monkeypatch.context() as patch:
        if place == "after it":
            patch.setattr(envs._infos, "to_gymnasium", interrupt)
        else:
            patch.setattr(envs._runner, "compiled", compiled._replace(steps=failing))
        with pytest.raises(KeyboardInterrupt):
            envs.step(actions)


def test_compile_options_of_a_gpu__are_known_to_xla(variants: Any) -> None:
    assert jax.jit(jnp.negative, compiler_options=variants.GPU_OPTIONS)(1.0) == -1
