"""Environments that a user writes, in a batch."""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, MultiBinary

from gymbridge import JaxVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError, KeywordError
from gymbridge.testing import check_vector_env
from tests.support.batches import to_numpy
from tests.support.jax_samples import Drift, Glide
from tests.support.oracle import check_run
from tests.support.own_jax import make_oracle
from tests.support.trees import assert_same

NUM_ENVS = 4
MASK = np.array([True, False, True, False])


@cache
def shared(mode: str = "SameStep") -> JaxVectorEnv:
    """A batch of a drifting point; seed it first."""
    return JaxVectorEnv(Drift(), NUM_ENVS, autoreset_mode=mode, render_mode="rgb_array")


def draw(envs: Any, num_steps: int, seed: int = 1) -> Any:
    envs.action_space.seed(seed)
    drawn = [envs.action_space.sample() for _ in range(num_steps)]
    return jax.tree.map(lambda *steps: np.stack(steps), *drawn)


def at(tree: Any, index: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def test_batch__equals_the_environment_s_own_functions() -> None:
    """Random steps of their own keys, ends of both kinds, and Inf in states and infos."""
    env, envs = Drift(), shared()
    envs.action_space.seed(1)

    def step(key: Any, state: Any, action: Any) -> Any:
        return jax.tree.map(jnp.asarray, env.step(key, state, action)[:5])

    oracle = make_oracle(envs, lambda key: env.reset(key)[:2], step, range(3, 3 + NUM_ENVS))
    check_run(oracle, 60 * NUM_ENVS, seed=3, act=lambda _: envs.action_space.sample())
    assert min(oracle.ends["terminated"], oracle.ends["truncated"]) >= 4


@pytest.mark.parametrize("names", [["best"], []])
def test_info_keys__choose_infos(names: Any) -> None:
    envs, full = JaxVectorEnv(Drift(), NUM_ENVS, info_keys=names), shared("NextStep")
    _, infos = envs.reset(seed=0)
    assert {key for key in infos if not key.startswith("_")} == {*names, "nonfinite"}
    full.reset(seed=1)
    envs.set_state(full.get_state())
    actions = at(draw(envs, 1), 0)
    *found, stepped = envs.step(actions)
    assert stepped.keys() == infos.keys()
    assert_same(to_numpy(found), to_numpy(full.step(actions)[:4]))
    with pytest.raises(ArgumentError, match=r"`info_keys` has 'bset'.*'best'"):
        JaxVectorEnv(Drift(), 2, info_keys=["bset"])


def test_infos__have_the_keys_of_both_methods() -> None:
    envs = shared("NextStep")
    _, infos = envs.reset(seed=0)
    assert infos["best"].tolist() == [np.inf] * NUM_ENVS
    assert infos["weather"]["wind"].tolist() == [0.25] * NUM_ENVS
    assert infos["weather"]["gust"].tolist() == [-1] * NUM_ENVS
    assert infos["weather"]["sky"]["cloud"].tolist() == [-2] * NUM_ENVS
    assert infos["wave"]["height"].tolist() == [-3] * NUM_ENVS
    stepped = envs.step(at(draw(envs, 1), 0))[-1]
    assert stepped.keys() == infos.keys()
    assert stepped["weather"].keys() == infos["weather"].keys()
    assert -1 not in stepped["weather"]["gust"]
    assert stepped["weather"]["sky"]["cloud"].tolist() == [2] * NUM_ENVS
    assert stepped["wave"]["height"].tolist() == [3] * NUM_ENVS
    assert not infos["nonfinite"].any()


def test_spaces__are_the_environment_s_in_the_dtypes_of_jax() -> None:
    envs = shared()
    assert envs.get_attr("info_defaults") == (Drift.info_defaults,) * NUM_ENVS
    assert envs.single_observation_space == Dict(
        place=Box(-np.inf, np.inf, ()),
        board=Box(-1, 5, (2, 2), np.int8),
        action_mask=MultiBinary(3),
    )
    obs, _ = envs.reset(seed=0)
    assert obs in envs.observation_space
    assert obs["action_mask"].dtype == obs["board"].dtype == np.int8


def test_checker__finds_no_broken_rule() -> None:
    def make(autoreset_mode: Any = "SameStep") -> JaxVectorEnv:
        return JaxVectorEnv(Drift(), NUM_ENVS, autoreset_mode=autoreset_mode, max_episode_steps=10)

    check_vector_env(make, steps=40).raise_if_broken()


def test_options_of_reset__arrive_by_name_for_the_episodes_that_begin() -> None:
    """Values outside the mask are not looked at."""
    envs = shared("NextStep")
    envs.reset(seed=0)
    wind, level = np.linspace(0, 1, 4), [0, 1, 2, 4]
    for options in 2 * ({"level": level}, {"wind": wind}, {"wind": wind, "level": level}):
        obs, infos = envs.reset(options=dict(options))
        assert obs["board"][:, 0, 0].tolist() == options.get("level", [1] * 4)
        expected = np.float32(options.get("wind", [0.25] * 4))
        np.testing.assert_array_equal(infos["weather"]["wind"], expected)
    given = {"level": torch.tensor([3] * 4), "wind": [1, 99, 1, np.nan]}
    obs, infos = envs.reset(options={**given, "reset_mask": MASK})
    assert obs["board"][:, 0, 0].tolist() == [3, 1, 3, 4]
    assert infos["weather"]["wind"].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"wnid": [0.0] * 4}, ArgumentError, "unknown key 'wnid'; did you mean 'wind'"),
        ({"wind": [0.0] * 3}, ArgumentError, r"`options\['wind'\]` must have shape \(4,\)"),
        ({"wind": [0, 1, 1.5, 1]}, ArgumentError, r"`options\['wind'\]` must lie in Box\(0.0, 1.0"),
        ({"wind": [0, 1, np.nan, 1]}, ArgumentError, "must lie in"),
        ({"level": [0, 1, 5, 1]}, ArgumentError, r"must lie in Discrete\(5, "),
        ({"level": [0.0] * 4}, ArgumentTypeError, "must be castable to int32, got float64"),
        ({"wind": None}, ArgumentTypeError, "must be castable to float32, got object"),
    ],
)
def test_options_of_reset__that_do_not_fit_change_nothing(
    options: Any, error: type[Exception], text: str
) -> None:
    envs = shared("NextStep")
    envs.reset(seed=0)
    action = at(draw(envs, 1), 0)
    wanted = to_numpy(envs.step(action))
    envs.reset(seed=0)
    with pytest.raises(error, match=text):
        envs.reset(seed=5, options=options)
    assert_same(to_numpy(envs.step(action)), wanted)


def test_render__draws_by_the_environment_s_own_function() -> None:
    envs = shared("NextStep")
    envs.reset(seed=0, options={"level": [0, 1, 2, 3]})
    assert [frame.shape for frame in envs.render()] == [(4, 6, 3)] * NUM_ENVS
    assert [frame.max() for frame in envs.render()] == [0, 10, 20, 30]
    assert JaxVectorEnv(Glide()).metadata["render_modes"] == []
    with pytest.raises(KeywordError, match=r"'render_mode' for Glide.*no method `render\(state\)`"):
        JaxVectorEnv(Glide(), render_mode="rgb_array")


class Burst(Glide):
    """Its state overflows where the action is 1, and its observation does not show it."""

    def reset(self, key: Any) -> Any:
        return jnp.ones(2), jnp.ones(2), {"size": jnp.float32(1)}

    def step(self, key: Any, state: Any, action: Any) -> Any:
        after = jnp.where(action >= 1, jnp.inf, state)
        reward = after.sum() * 0 if self.shows else 0.0
        return after, action, reward, False, False, {"size": after[0]}

    shows = False


class Guarded(Burst):
    """It says that a part of its state must be finite."""

    def positions(self, state: Any) -> Any:
        return state[0]


class Shown(Burst):
    """Its reward is NaN there."""

    shows = True


@pytest.mark.parametrize(("kind", "ends"), [(Burst, False), (Guarded, True), (Shown, True)])
def test_finiteness__is_asked_of_rewards_and_of_what_the_class_names(kind: Any, ends: bool) -> None:
    envs = JaxVectorEnv(kind(), 2, autoreset_mode="Disabled")
    envs.reset(seed=0)
    obs, rewards, terminations, _, infos = envs.step(np.float32([[0.5, 0.5], [1, 1]]))
    assert terminations.tolist() == infos["nonfinite"].tolist() == [False, ends]
    assert rewards.tolist() == [0, 0]
    assert obs[1].tolist() == [1, 1]
    assert infos["size"].tolist() == [1, 0 if ends else np.inf]


def test_registered_environment__is_made_by_its_id() -> None:
    gym.register(
        "Tests/Glide-v0", vector_entry_point="gymbridge:JaxVectorEnv", kwargs={"env": Glide()}
    )
    envs: Any = gym.make_vec("Tests/Glide-v0", 3, arrays="torch")
    assert envs.reset(seed=0)[0].shape == (3, 2)
    assert envs.spec.id == "Tests/Glide-v0"
    assert envs.max_episode_steps == 4
