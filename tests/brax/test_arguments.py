from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("brax")

import jax
import jax.numpy as jnp
from brax import envs as brax_envs
from gymnasium import spaces

from gymbridge import BraxVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError, SimulationError, UnknownTaskError
from tests.support.brax_samples import SampleEnv, count_on, start


def test_action_space__of_the_env_comes_before_the_default() -> None:
    def step(state: brax_envs.State, action: Any) -> brax_envs.State:
        reward = action["push"].sum() + 10.0 * action["gear"]
        return count_on(state, jnp.zeros(1), reward=reward)

    space = spaces.Dict(push=spaces.Box(-2, 2, (3,), np.float32), gear=spaces.Discrete(4))
    envs = BraxVectorEnv(SampleEnv(step=step, action_space=space), 2)
    assert envs.single_action_space == space
    envs.reset(seed=0)
    rewards = envs.step({"push": np.ones((2, 3), np.float32), "gear": np.array([0, 3])})[1]
    assert rewards.tolist() == [3.0, 33.0]


def test_action_space__given_is_used_where_the_env_has_none() -> None:
    space = spaces.MultiDiscrete([3, 4])
    env = SampleEnv(step=lambda state, act: count_on(state, act, reward=1.0 * act.sum()))
    envs = BraxVectorEnv(env, 2, action_space=space)
    assert envs.single_action_space == space
    envs.reset(seed=0)
    assert envs.step([[2, 3], [0, 1]])[1].tolist() == [5.0, 1.0]


@pytest.mark.parametrize("space", [spaces.Tuple([spaces.Discrete(2)]), spaces.Text(3), "Box"])
def test_action_space__that_no_array_can_hold_is_refused(space: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="`action_space` of SampleEnv must be"):
        BraxVectorEnv(SampleEnv(), action_space=space)


def test_spaces__are_not_sampled_while_the_batch_is_built() -> None:
    space, untouched = spaces.Discrete(1000, seed=3), spaces.Discrete(1000, seed=3)
    env = SampleEnv(step=lambda state, act: count_on(state, act, reward=1.0))
    BraxVectorEnv(env, action_space=space)
    assert space.sample() == untouched.sample()


def test_spaces__declared_twice_may_agree_and_must_not_differ() -> None:
    space = spaces.Box(-2, 2, (1,), np.float32)
    env = SampleEnv(action_space=space)
    same = BraxVectorEnv(env, 2, action_space=spaces.Box(-2, 2, (1,), np.float32))
    assert same.single_action_space == space
    with pytest.raises(ArgumentError, match="`action_space` is declared by the environment as Box"):
        BraxVectorEnv(env, 2, action_space=spaces.Box(-1, 1, (1,), np.float32))


def test_observation_space__given_bounds_are_kept() -> None:
    space = spaces.Box(0, 1000, (2,), np.float32)
    assert BraxVectorEnv(SampleEnv(), observation_space=space).single_observation_space == space
    assert BraxVectorEnv(SampleEnv(observation_space=space)).single_observation_space == space


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (3,), np.float32),
        spaces.Box(-1, 1, (2,), np.int64),
        spaces.Discrete(2),
        spaces.Dict(a=spaces.Box(-1, 1, (2,), np.float32)),
    ],
)
def test_observation_space__that_does_not_fit_is_refused(space: spaces.Space[Any]) -> None:
    with pytest.raises(ArgumentError, match="`observation` of `reset` must fit"):
        BraxVectorEnv(SampleEnv(), observation_space=space)


BITS_64 = {"a": spaces.Discrete(4, start=1), "b": spaces.MultiDiscrete([3, 4])}
BITS_32 = {
    "a": spaces.Discrete(4, start=1, dtype=np.int32),
    "b": spaces.MultiDiscrete([3, 4], dtype=np.int32),
}


@pytest.mark.parametrize(
    ("declared", "found", "obs"),
    [
        (spaces.Box(-1, 1, (2,), np.float64), spaces.Box(-1, 1, (2,), np.float32), np.zeros(2)),
        (spaces.Dict(BITS_64), spaces.Dict(BITS_32), {"a": 2, "b": np.array([1, 2])}),
    ],
)
def test_observation_space__of_64_bits_becomes_one_of_32(
    declared: Any, found: Any, obs: Any
) -> None:
    def reset(rng: Any) -> brax_envs.State:
        return start(rng, obs=jax.tree.map(jnp.asarray, obs))

    env = SampleEnv(reset, lambda state, action: state, observation_space=declared)
    envs = BraxVectorEnv(env, 2)
    assert envs.single_observation_space == found
    assert envs.observation_space.contains(envs.reset(seed=0)[0])


ARGUMENTS = {
    "misspelt keyword": ({"bakend": "spring"}, "unexpected keyword argument 'bakend'"),
    "nearest keyword": ({"n_frame": 2}, "Did you mean 'n_frames'"),
    "nearest own keyword": ({"action_repeats": 2}, "Did you mean 'action_repeat'"),
    "bad nonfinite": ({"nonfinite": "explode"}, "`nonfinite` must be one of"),
    "raise on a device": (
        {"nonfinite": "raise", "arrays": "jax"},
        "`nonfinite='raise'` reads values on the host",
    ),
    "bad residuals": ({"residuals": "keep"}, "must be one of ('store', 'recompute'), got 'keep'"),
    "residuals without gradients": (
        {"residuals": "recompute", "arrays": "torch"},
        "`residuals='recompute'` needs `differentiable=True`",
    ),
    "gradients of numpy's": ({"differentiable": True}, "needs `arrays='torch'`, got 'numpy'"),
    "no repeats": ({"action_repeat": 0}, "`action_repeat` must be at least 1"),
}


@pytest.mark.parametrize(("kwargs", "message"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments__bad_ones_are_named(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(message)):
        BraxVectorEnv("fast", **kwargs)


@pytest.mark.parametrize("value", ["yes", "", 1, 0, None, [True]])
def test_flags__are_bools(value: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="`differentiable` must be True or False, got"):
        BraxVectorEnv("fast", arrays="torch", differentiable=value)


def test_flags__may_be_numpy_s() -> None:
    assert not BraxVectorEnv("fast", differentiable=np.False_).closed  # pyright: ignore[reportArgumentType]


def test_arguments__an_unknown_backend_is_named() -> None:
    with pytest.raises(SimulationError, match=r"'backend': 'warp'.*backend should be in"):
        BraxVectorEnv("inverted_pendulum", backend="warp")


@pytest.mark.parametrize(
    ("name", "hint"), [("antt", "did you mean 'ant'"), ("zzz", "known: 'ant'")]
)
def test_arguments__an_unknown_name_gets_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UnknownTaskError, match=hint):
        BraxVectorEnv(name)


@pytest.mark.parametrize("brax_env", [3, None, SampleEnv])
def test_arguments__something_else_than_an_env_is_refused(brax_env: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="`brax_env` must be the name of a registered"):
        BraxVectorEnv(brax_env)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"action_repeats": 2}, r"keyword argument 'action_repeats' .*'action_repeat'"),
        ({"backend": "spring"}, r"argument 'backend' for a built SampleEnv\. Give .*constr"),
    ],
)
def test_arguments__keywords_of_an_env_object_are_refused_with_the_way_out(
    kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        BraxVectorEnv(SampleEnv(), **kwargs)


def test_set_attr__of_physics_is_an_error() -> None:
    envs = BraxVectorEnv("inverted_pendulum", 2, backend="spring")
    # Brax keeps `n_frames` under a name of its own.
    for name in (
        "gravity",
        "opt.gravity",
        "timestep",
        "sys",
        "dt",
        "n_frames",
        "_n_frames",
        "nonfinite",
    ):
        with pytest.raises(ArgumentError, match=f"`{name}` belongs to the simulation and is fixed"):
            envs.set_attr(name, 3)
    envs.set_attr("label", "mine")
    assert envs.get_attr("label") == ("mine", "mine")


class CostlyEnv(SampleEnv):
    """An environment with a property that must not be read by the way, and a computed attribute."""

    @property
    def cost(self) -> float:
        raise RuntimeError("this property was run")

    def __getattr__(self, name: str) -> int:
        if name == "any":
            return 42
        raise AttributeError(name)


class Around(brax_envs.Wrapper):
    """A wrapper, which finds the attributes of what is inside by `__getattr__`."""

    def step(self, state: brax_envs.State, action: Any) -> brax_envs.State:
        stepped = self.env.step(state, action)
        return stepped.replace(reward=2 * stepped.reward)


@pytest.mark.parametrize("wrap", [lambda env: env, Around])
def test_has_wrapper_attr__runs_no_property(wrap: Any) -> None:
    space = spaces.Box(-3, 3, (1,), np.float32)
    envs = BraxVectorEnv(wrap(CostlyEnv(gain=2, action_space=space)), 2)
    found = {name: envs.call("has_wrapper_attr", name) for name in ("cost", "gain", "price", "any")}
    yes, no = (True, True), (False, False)
    assert found == {"cost": yes, "gain": yes, "price": no, "any": yes}
    with pytest.raises(ArgumentError, match="`cost` belongs to the simulation"):
        envs.set_attr("cost", 1)
    with pytest.raises(RuntimeError, match="this property was run"):
        envs.get_attr("cost")
    assert envs.single_action_space == space
    envs.reset(seed=0)
    reward = 2 if wrap is Around else 1
    assert envs.step(np.ones((2, 1), np.float32))[1].tolist() == [reward] * 2
