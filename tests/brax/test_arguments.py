from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("brax")

import jax.numpy as jnp
from brax import envs as brax_envs
from brax_samples import SampleEnv, count_on
from gymnasium import spaces

from gymbridge import BraxVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError, SimulationError, UnknownTaskError


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


@pytest.mark.parametrize("space", [spaces.Tuple([spaces.Discrete(2)]), spaces.Text(3)])
def test_action_space__that_no_array_can_hold_is_refused(space: spaces.Space[Any]) -> None:
    with pytest.raises(ArgumentError, match="`action_space` must be"):
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
    with pytest.raises(ArgumentError, match="`observation_space` must hold what the environment"):
        BraxVectorEnv(SampleEnv(), observation_space=space)


ARGUMENTS = {
    "misspelt keyword": (
        {"bakend": "spring"},
        ArgumentError,
        "unexpected keyword argument 'bakend'",
    ),
    "nearest keyword": ({"n_frame": 2}, ArgumentError, "Did you mean 'n_frames'"),
    "nearest own keyword": ({"action_repeats": 2}, ArgumentError, "Did you mean 'action_repeat'"),
    "bad nonfinite": ({"nonfinite": "explode"}, ArgumentError, "`nonfinite` must be one of"),
    "raise on a device": (
        {"nonfinite": "raise", "arrays": "jax"},
        ArgumentError,
        "`nonfinite='raise'` reads values on the host",
    ),
    "residuals without gradients": (
        {"residuals": "recompute"},
        ArgumentError,
        "`residuals='recompute'` needs `differentiable=True`",
    ),
    "residuals of plain tensors": (
        {"residuals": "recompute", "arrays": "torch"},
        ArgumentError,
        "`residuals='recompute'` needs `differentiable=True`",
    ),
    "unknown info key": ({"info_keys": ["sped"]}, ArgumentError, "`info_keys` names 'sped'"),
    "info keys as a name": ({"info_keys": "speed"}, ArgumentError, "`info_keys` must be None,"),
    "info keys as a number": ({"info_keys": 3}, ArgumentTypeError, "`info_keys` must be None,"),
    "no repeats": ({"action_repeat": 0}, ArgumentError, "`action_repeat` must be at least 1"),
    "half repeats": ({"action_repeat": 1.5}, ArgumentTypeError, "`action_repeat` must be an int"),
    "no envs": ({"num_envs": 0}, ArgumentError, "`num_envs` must be at least 1"),
    "envs as a float": ({"num_envs": 4.0}, ArgumentTypeError, "`num_envs` must be an int"),
    "bad mode": ({"autoreset_mode": "Never"}, ArgumentError, "`autoreset_mode` must be"),
    "bad limit": ({"max_episode_steps": 0}, ArgumentError, "`max_episode_steps` must be"),
}


@pytest.mark.parametrize(("kwargs", "error", "message"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments__bad_ones_are_named(
    kwargs: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        BraxVectorEnv("fast", **kwargs)


def test_arguments__hints_name_nothing_that_cannot_be_given() -> None:
    with pytest.raises(ArgumentError) as caught:
        BraxVectorEnv("fast", zzz=1)
    for hidden in ("simulator", "'self'", "'sys'", "'brax_env'", "'kwargs'"):
        assert hidden not in str(caught.value)


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


def test_arguments__keywords_of_an_env_object_are_refused_with_the_nearest() -> None:
    with pytest.raises(ArgumentError, match=r"keyword argument 'action_repeats' .*'action_repeat'"):
        BraxVectorEnv(SampleEnv(), action_repeats=2)
    with pytest.raises(
        ArgumentError, match=r"argument 'backend' for a built SampleEnv\. Give .*constr"
    ):
        BraxVectorEnv(SampleEnv(), backend="spring")


def test_residuals__by_their_default_need_no_gradients() -> None:
    assert BraxVectorEnv("fast", residuals="store").num_envs == 1


@pytest.mark.parametrize("name", ["gravity", "opt.gravity", "timestep", "sys", "dt", "n_frames"])
def test_set_attr__of_physics_is_an_error(name: str) -> None:
    envs = BraxVectorEnv("inverted_pendulum", 2, backend="spring")
    if name == "n_frames":  # Brax's own name for it
        name = "_n_frames"
    with pytest.raises(ArgumentError, match=f"`{name}` belongs to the simulation and is fixed"):
        envs.set_attr(name, 3)
    envs.set_attr("label", "mine")
    assert envs.get_attr("label") == ("mine", "mine")


class CostlyEnv(SampleEnv):
    """An environment with a property that must not be read by the way."""

    @property
    def cost(self) -> float:
        raise RuntimeError("this property was run")


class Around(brax_envs.Wrapper):
    """A wrapper, which finds the attributes of what is inside by `__getattr__`."""


@pytest.mark.parametrize("wrap", [lambda env: env, Around])
def test_has_wrapper_attr__runs_no_property(wrap: Any) -> None:
    envs = BraxVectorEnv(wrap(CostlyEnv(gain=2)), 2)
    assert envs.call("has_wrapper_attr", "cost") == (True, True)
    assert envs.call("has_wrapper_attr", "gain") == (True, True)
    assert envs.call("has_wrapper_attr", "price") == (False, False)
    with pytest.raises(ArgumentError, match="`cost` belongs to the simulation"):
        envs.set_attr("cost", 1)
    with pytest.raises(RuntimeError, match="this property was run"):
        envs.get_attr("cost")


def test_has_wrapper_attr__finds_what_is_computed_by_name() -> None:
    class Dynamic(SampleEnv):
        def __getattr__(self, name: str) -> int:
            if name == "answer":
                return 42
            raise AttributeError(name)

    envs = BraxVectorEnv(Dynamic(), 2)
    assert envs.call("has_wrapper_attr", "answer") == (True, True)
    assert envs.call("has_wrapper_attr", "question") == (False, False)
