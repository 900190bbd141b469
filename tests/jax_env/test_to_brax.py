"""`to_brax` beside the environment that it translates, and under Brax's own wrappers."""

from __future__ import annotations

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brax.envs.wrappers import training
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Space

from gymbridge import BraxVectorEnv, JaxEnv, JaxVectorEnv
from gymbridge.errors import ArgumentTypeError, EnvContractError
from gymbridge.jax_env import to_brax
from gymbridge.jax_env.rows import STEP_STREAM
from tests.support.trees import assert_same

NUM_ENVS = 3
KEYS = jax.random.split(jax.random.PRNGKey(7), NUM_ENVS)
ACTIONS = np.linspace(-1, 1, 12 * NUM_ENVS * 2, dtype=np.float32).reshape(12, NUM_ENVS, 2)


class Kicked(JaxEnv):
    """A point that random kicks move; it ends above 2, and is cut off below -2 and above 3."""

    observation_space: Space[Any] = Dict(
        state=Box(-np.inf, np.inf, (2,)), pixels=Box(0, 255, (2, 1, 1), np.uint8)
    )
    action_space: Space[Any] = Box(
        np.array([-3, -1], "float32"), np.array([1, 3], "float32")
    )  # not around zero
    max_episode_steps = 9

    def reset(self, key: Any) -> Any:
        state = {"place": jax.random.uniform(key), "steps": jnp.zeros((), int)}
        return state, self._see(state), {"steps": 0, "size": 0.0, "length": 1.0, "more": {"a": 1.0}}

    def step(self, key: Any, state: Any, action: Any) -> Any:
        push = (jnp.full(2, 0.3, action.dtype) * action).sum()
        place = state["place"] + push.astype("float32") + 0.3 * jax.random.normal(key)
        after = {"place": place, "steps": state["steps"] + 1}
        info = {"steps": after["steps"], "size": abs(place), "length": 2.0, "more": {"a": place}}
        return after, self._see(after), place, place > 2, (place < -2) | (place > 3), info

    def _see(self, state: Any) -> Any:
        pixels = jnp.full((2, 1, 1), state["steps"], jnp.uint8)
        return {"state": jnp.stack([state["place"], 1.0]), "pixels": pixels}


class Changed(Kicked):
    """With other attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def _see(self, state: Any) -> Any:
        def zeros(seen: Any) -> Any:
            return jnp.zeros(seen.shape, jax.dtypes.canonicalize_dtype(seen.dtype))

        return jax.tree.map(zeros, self.observation_space.sample())


def test_env__has_the_sizes_that_brax_asks_for() -> None:
    env: Any = to_brax(Kicked())
    assert env.observation_size == {"state": (2,), "pixels": (2, 1, 1)}
    assert (env.action_size, env.backend, env.episode_length) == (2, "jax", 9)
    assert env.unwrapped is env
    flat: Any = to_brax(Changed(observation_space=Box(0, 1, (4,)), max_episode_steps=None))
    assert (flat.observation_size, flat.episode_length) == (4, None)


@pytest.mark.parametrize(
    "space", [Box(-1, 1, (2,), np.float16), Box(-3e38, 3e38, (2,))], ids=["float16", "wide"]
)
def test_actions__of_any_float_and_bounds_are_scaled(space: Any) -> None:
    env = to_brax(Changed(action_space=space))
    state = env.reset(KEYS[0])
    moved = [float(env.step(state, jnp.full(2, action, "float32")).reward) for action in (0.0, 0.5)]
    assert moved[0] - state.pipeline_state["place"] == pytest.approx(0, abs=2)
    assert moved[1] - moved[0] == pytest.approx(0.3 * space.high[0], rel=1e-2)


def test_episodes__are_those_of_the_environment(mode: str) -> None:
    """In a batch of Brax's protocol and in one of ours, actions scaled from -1 to 1 among them."""
    options: Any = {"num_envs": NUM_ENVS, "autoreset_mode": mode, "max_episode_steps": 9}
    ours = JaxVectorEnv(Kicked(), **options)
    theirs = BraxVectorEnv(to_brax(Kicked()), info_keys=["infos"], **options)
    returned = [ours.reset(seed=3), theirs.reset(seed=3)]
    assert_same(returned[1][0], returned[0][0])
    seen = np.zeros(2, int)
    for actions in ACTIONS:
        scaled = np.array([-1, 1], "float32") + 2 * actions
        values, others = ours.step(scaled), theirs.step(actions)
        assert_same(others[:4], values[:4])
        assert_same(others[4]["infos"]["more"], values[4]["more"])
        assert_same(others[4]["infos"]["size"], values[4]["size"])
        ends = values[2] | values[3]
        seen += values[2].sum(), values[3].sum()
        if mode == "Disabled" and ends.any():
            for envs in (ours, theirs):
                envs.reset(options={"reset_mask": ends})
    assert all(seen), "both kinds of ends occur"


def test_state__says_what_brax_can_express() -> None:
    env = to_brax(Kicked())
    state = jax.jit(env.reset)(jax.random.PRNGKey(0))
    assert set(state.metrics) == {"size"}  # `length` is a metric of Brax's own
    assert state.info["infos"]["length"] == 1
    step, kinds = jax.jit(env.step), set()
    for push in (1, 0.5, -1):
        state = env.reset(jax.random.PRNGKey(0))
        for _ in range(9):
            state = step(state, jnp.full(2, push))
            place = float(state.pipeline_state["place"])
            assert state.done == (abs(place) > 2)
            assert state.info["truncation"] == state.info["time_out"] == (place < -2)
            assert state.metrics["size"] == abs(place)
            kinds.add(tuple(np.digitize([place], [-2, 2, 3])))
    assert len(kinds) == 4


def test_wrappers__of_brax_limit_and_restart_it() -> None:
    """Its restarts put the first state back, and the steps after it draw anew."""
    env = training.EvalWrapper(training.wrap(to_brax(Kicked()), episode_length=3))
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    state = first = reset(KEYS)
    places, rewards = [], np.zeros(NUM_ENVS)
    for number in range(1, 7):
        state = step(state, jnp.zeros((NUM_ENVS, 2)))
        is_last = number % 3 == 0
        assert_same(np.asarray(state.done), np.full(NUM_ENVS, is_last, np.float32))
        assert_same(np.asarray(state.info["truncation"]), np.asarray(state.done))
        places.append(np.asarray(state.reward))
        rewards += state.reward if number <= 3 else 0
        if is_last:
            assert_same(jax.device_get(state.obs), jax.device_get(first.obs))
            assert_same(jax.device_get(state.pipeline_state), jax.device_get(first.pipeline_state))
    for row, key in enumerate(KEYS):
        stream, began = jax.random.fold_in(key, STEP_STREAM), jax.random.uniform(key)
        for number, seen in enumerate(places):
            kick = jax.random.normal(jax.random.fold_in(stream, number))
            began = jax.random.uniform(key) if number == 3 else began
            began += 0.3 * kick
            np.testing.assert_allclose(seen[row], began, rtol=1e-5)
    totals = state.info["eval_metrics"]
    np.testing.assert_allclose(totals.episode_metrics["reward"], rewards, rtol=1e-5)
    assert_same(np.asarray(totals.episode_steps), np.full(NUM_ENVS, 3, np.float32))


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"action_space": Discrete(3)}, "actions in a Box .* got Discrete"),
        ({"action_space": Box(-1, np.inf, (2,))}, "finite bounds"),
        ({"action_space": Box(-1, 1, (2, 1))}, "actions in a Box"),
        ({"action_space": Box(-1, 1, (2,), np.int32)}, "of floats"),
        ({"action_space": Dict(a=Box(-1, 1, (2,)))}, "actions in a Box"),
        ({"observation_space": Discrete(3)}, "observations in a Box .* got Discrete"),
        ({"observation_space": Box(0, 1, (2, 2))}, "observations in a Box"),
        ({"observation_space": Dict(a=Box(0, 1, ()))}, "an axis at least"),
        ({"observation_space": Dict(a=MultiBinary(2))}, "Dict of Boxes"),
        ({"carried": {"steps": Box(0, 9, (), np.int32)}}, r"without `carried`, got \['steps'\]"),
    ],
)
def test_env__that_brax_cannot_have_is_refused(attributes: Any, says: str) -> None:
    class Carrying(Changed):
        def reset(self, key: Any, steps: Any = 0) -> Any:
            state, seen, info = super().reset(key)
            return state, seen, {**info, "steps": steps}

        def step(self, key: Any, state: Any, action: Any) -> Any:
            return super().step(key, state, jnp.zeros(2))

    with pytest.raises(EnvContractError, match=says):
        to_brax(Carrying(**attributes))


def test_copy__is_the_same_environment() -> None:
    first = to_brax(Kicked())
    second = copy.deepcopy(first)
    assert_same(jax.device_get(second.reset(KEYS[0]).obs), jax.device_get(first.reset(KEYS[0]).obs))


def test_env__is_one_of_ours() -> None:
    envs: Any = JaxVectorEnv(Kicked())
    with pytest.raises(ArgumentTypeError, match="pass what it was built with"):
        to_brax(envs)
