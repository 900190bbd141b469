"""Attributes, methods, wrappers and frames of single environments, as SB3 asks for them."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as wrappers
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from gymbridge import BridgeVectorEnv
from gymbridge.errors import ArgumentError
from gymbridge.trainers.sb3 import Sb3VecEnv, make_vec_env
from tests.support.sb3_samples import KindsEnv, dummy, scripted, sync
from tests.support.scripted_rows import EchoSimulator

INDICES = [None, 2, -1, [0], [3, 1], (1, 1), range(2), np.array([2, 0]), iter([1]), []]
"""All that `DummyVecEnv` takes, and what it reads from it."""


def limited() -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(KindsEnv(length=9), 4)


def fresh(indices: Any) -> Any:
    return iter([1]) if hasattr(indices, "__next__") else indices


@pytest.mark.parametrize("indices", INDICES)
def test_members__are_those_that_dummy_vec_env_finds(indices: Any) -> None:
    results = []
    for env in (sync(limited), dummy(limited)):
        env.reset()
        for index in range(4):
            env.get_attr("actions", index)[0].append(index)  # they differ from here on
        sums = env.env_method("add", 1, second=2, indices=fresh(indices))
        env.set_attr("new", "value", indices=fresh(indices))
        names, kinds = ("actions", "new", "_max_episode_steps"), (gym.wrappers.TimeLimit, Monitor)
        found = [env.get_attr(name, fresh(indices)) for name in names]
        wrapped = [env.env_is_wrapped(kind, fresh(indices)) for kind in kinds]
        has = [env.has_attr(name) for name in ("new", "reset", "no_such_thing")]
        results.append((sums, found, wrapped, has))
    assert results[0] == results[1]


def test_set_attr__reaches_the_environment_through_its_wrappers() -> None:
    view = sync(limited)
    view.set_attr("length", 5, indices=[1, 2])
    assert view.env_method("add", 1, second=2) == [12, 8, 8, 12]
    assert [env.unwrapped.length for env in view.vector_env.envs] == [9, 5, 5, 9]
    view.set_attr("length", [1, 2])
    assert view.get_attr("length") == [[1, 2]] * 4


@pytest.mark.parametrize("make", [scripted, lambda: sync(limited), lambda: dummy(limited)])
def test_wrong_requests__raise_the_types_of_sb3(make: Any) -> None:
    env: VecEnv = make()
    env.reset()
    env.set_attr("mark", 1)
    for call in (
        lambda: env.get_attr("no_such_thing"),
        lambda: env.get_attr("no_such_thing", [0]),
        lambda: env.env_method("no_such_thing"),
    ):
        with pytest.raises(AttributeError, match="no_such_thing"):
            call()
    for indices in (4, -5, [0, 4]):
        for method, *args in (
            (env.get_attr, "mark"),
            (env.set_attr, "mark", 7),
            (env.env_method, "render"),
            (env.env_is_wrapped, Monitor),
        ):
            with pytest.raises(IndexError):
                method(*args, indices=indices)
    with pytest.raises(TypeError):
        env.get_attr("mark", 1.5)
    with pytest.raises(TypeError):
        env.env_method("mark")
    if isinstance(env, Sb3VecEnv):  # of `DummyVecEnv`, the first one has changed by then
        assert env.get_attr("mark") == [1, 1, 1, 1]


def test_batch_without_objects__has_attributes_per_environment() -> None:
    view = scripted()
    view.seed(3)
    view.reset()
    assert view.get_attr("np_random_seed", [2, 0]) == [5, 3]
    assert view.get_attr("render_mode") == [None] * 4
    assert view.get_attr("task_limit") == [None] * 4
    assert not view.has_attr("mark")
    with pytest.raises(AttributeError):
        view.set_attr("mark", "a", indices=[1])  # which the others would lack
    view.set_attr("mark", "b")
    view.set_attr("mark", "c", indices=[2])
    assert view.get_attr("mark") == ["b", "b", "c", "b"]
    assert view.vector_env.get_attr("mark") == ("b", "b", "c", "b")
    view.set_attr("mark", [4, 5])
    assert view.get_attr("mark") == [[4, 5]] * 4
    view.set_attr("mark", lambda first: first + 1, indices=1)
    assert view.env_method("mark", 2, indices=[1]) == [3]


def test_batch_without_objects__calls_no_method_that_is_only_looked_up() -> None:
    simulator = EchoSimulator([2, 3])
    view = Sb3VecEnv(BridgeVectorEnv(simulator, autoreset_mode="SameStep"))
    view.reset()
    assert view.has_attr("close")
    assert callable(view.get_attr("close", 0)[0])
    assert not simulator.closed
    assert view.env_method("echo", "rule", indices=[1]) == ["rule"]
    view.close()
    assert simulator.closed


def cart_pole() -> Sb3VecEnv:
    return make_vec_env("EnvPool/CartPole-v1", 2).unwrapped


@pytest.mark.parametrize(
    ("make", "name", "indices"),
    [
        (scripted, "task_limit", None),
        (scripted, "task_limit", [1]),
        (cart_pole, "num_threads", None),  # which the batch lacks
    ],
)
def test_what_the_simulation_is_built_with__cannot_be_set(
    make: Any, name: str, indices: Any
) -> None:
    view = make()
    known = view.has_attr(name)
    with pytest.raises(ArgumentError, match=f"`{name}` belongs to the simulation"):
        view.set_attr(name, 3.0, indices)
    assert view.has_attr(name) == known


class Foreign(CartPoleVectorEnv):
    """A batch of another project: no `call`, no `get_attr`."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012


def test_foreign_batch__shares_its_attributes() -> None:
    view = Sb3VecEnv(Foreign(3))
    assert view.get_attr("gravity", [0, 2]) == [9.8, 9.8]
    assert view.get_attr("action_space") == [gym.spaces.Discrete(2)] * 3
    assert not view.has_attr("no_such_thing")
    assert view.env_is_wrapped(Monitor) == [False] * 3
    view.seed(7)
    np.testing.assert_array_equal(view.reset(), Foreign(3).reset(seed=7)[0])


def test_env_is_wrapped__sees_the_wrappers_of_the_batch() -> None:
    view = Sb3VecEnv(wrappers.RecordEpisodeStatistics(sync(limited, 3).vector_env))
    assert view.env_is_wrapped(wrappers.RecordEpisodeStatistics, [0, 1]) == [True, True]
    assert view.env_is_wrapped(wrappers.NormalizeReward) == [False] * 3
    assert view.env_is_wrapped(gym.wrappers.TimeLimit) == [True] * 3
    assert view.get_attr("length", 1) == [9]


def test_monitored_environments__are_found_by_vec_monitor() -> None:
    assert sync(lambda: Monitor(KindsEnv())).env_is_wrapped(Monitor) == [True] * 4
    with pytest.warns(UserWarning, match="already wrapped with a `Monitor`"):
        VecMonitor(sync(lambda: Monitor(KindsEnv())))


def test_images__are_those_of_every_environment() -> None:
    drawn = partial(KindsEnv, render_mode="rgb_array")
    view, reference = sync(drawn), dummy(drawn)
    for env in (view, reference):
        env.reset()
        env.step(np.zeros(4, np.int64))
    assert view.render_mode == "rgb_array"
    np.testing.assert_array_equal(view.get_images(), reference.get_images())
    np.testing.assert_array_equal(view.render(), reference.render())
    assert view.render().shape == (32, 32, 3)
    np.testing.assert_array_equal(view.env_method("render", indices=2)[0], view.get_images()[2])
    assert view.metadata["render_fps"] == 7


def test_images__are_none_without_a_render_mode() -> None:
    for env in (sync(KindsEnv), scripted(), dummy(KindsEnv)):
        env.reset()
        with pytest.warns(UserWarning, match="render mode is None"):
            assert env.get_images() == [None] * 4


def test_spec__names_the_task_for_monitors() -> None:
    assert cart_pole().spec.id == "EnvPool/CartPole-v1"
    assert scripted().spec is None
