"""The time limit of an id is what the user's keywords say, by every route to an environment."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

pytest.importorskip("mujoco_playground")

from mujoco_playground import dm_control_suite

from gymbridge import PlaygroundVectorEnv
from tests.support.playground_samples import SampleMjxEnv

NAME = "CartpoleBalance"
ENV_ID = f"Playground/{NAME}-v0"


class Counter(SampleMjxEnv):
    """What stands in for the robot of the id: it compiles in a moment, and never ends by itself."""

    def __init__(self, config: Any, config_overrides: dict[str, Any]) -> None:
        config.update_from_flattened_dict(config_overrides)
        super().__init__(config)

    def step(self, state: Any, action: Any) -> Any:
        stepped = super().step(state, action)
        return stepped.replace(done=0 * stepped.done)

    def _observe(self, info: dict[str, Any]) -> Any:
        return super()._observe(info)["state"]


@pytest.fixture(autouse=True)
def _counter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dm_control_suite._envs, NAME, Counter)


def helper(module: str, name: str) -> Any:
    """Return a trainer's helper, where its library is installed."""
    pytest.importorskip({"sb3": "stable_baselines3", "cleanrl": "gymnasium"}.get(module, module))
    return getattr(import_module(f"gymbridge.trainers.{module}"), name)


def in_json(spec: EnvSpec | None) -> EnvSpec:
    assert spec is not None
    return EnvSpec.from_json(spec.to_json())


def make_vec(**kwargs: Any) -> Any:
    return gym.make_vec(ENV_ID, 2, **kwargs)


ROUTES: dict[str, Callable[..., Any]] = {
    "class": lambda **kwargs: PlaygroundVectorEnv(NAME, 2, **kwargs),
    "make_vec": make_vec,
    "module:id": lambda **kwargs: gym.make_vec(f"gymbridge:{ENV_ID}", 2, **kwargs),
    "spec": lambda **kwargs: gym.make_vec(in_json(make_vec(**kwargs).spec)),
    "pickle": lambda **kwargs: pickle.loads(pickle.dumps(make_vec(**kwargs))),
    "copy": lambda **kwargs: copy.copy(make_vec(**kwargs)),
    "sb3": lambda **kwargs: helper("sb3", "make_vec_env")(ENV_ID, 2, env_kwargs=kwargs).vector_env,
    "cleanrl": lambda **kwargs: helper("cleanrl", "make_cleanrl")(ENV_ID, 2, **kwargs),
    "rsl_rl": lambda **kwargs: helper("rsl_rl", "make_rsl_rl")(ENV_ID, 2, **kwargs).envs,
    "torchrl": lambda **kwargs: helper("torchrl", "make_torchrl")(ENV_ID, 2, **kwargs).envs,
    "skrl": lambda **kwargs: helper("skrl", "SkrlWrapper")(
        make_vec(arrays="torch", autoreset_mode="SameStep", **kwargs)
    ),
}
"""Routes to a batch."""

SHORT = {"config_overrides": {"episode_length": 50}}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("kwargs", "limit"),
    [
        ({}, 1000),
        (SHORT, 50),
        ({"action_repeat": 4}, 250),
        ({"config_overrides": {"episode_length": 50, "action_repeat": 4}}, 13),
        ({**SHORT, "max_episode_steps": 70}, 70),
        ({**SHORT, "max_episode_steps": -1}, None),
        ({"max_episode_steps": 7}, 7),
    ],
    ids=repr,
)
def test_batch__has_the_limit_that_its_keywords_say(
    route: str, kwargs: dict[str, Any], limit: int | None
) -> None:
    envs = ROUTES[route](**kwargs).unwrapped
    assert envs.max_episode_steps == limit
    assert route == "class" or envs.spec.max_episode_steps == limit
    assert gym.spec(ENV_ID).max_episode_steps is None  # Specs are copied.


def play(env: Any, most: int = 20) -> tuple[int, bool, bool] | None:
    """Return when and how an episode ends, of an environment or of a batch of one."""
    env.reset(seed=0)
    for number in range(1, most + 1):
        action = np.zeros(env.action_space.shape, np.float32)
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            return number, terminated, truncated
    return None


@pytest.mark.parametrize(("given", "limit"), [(None, 5), (3, 3), (9, 5), (-1, 5)], ids=repr)
def test_single_environment__has_that_limit_and_gymnasium_s_only_shortens_it(
    given: int | None, limit: int
) -> None:
    kwargs = {"config_overrides": {"episode_length": 10}, "action_repeat": 2}
    env = gym.make(ENV_ID, max_episode_steps=given, **kwargs)
    assert env.spec is not None
    assert env.spec.max_episode_steps == (9 if given == 9 else limit)  # `TimeLimit` says its own.
    assert env.unwrapped.spec.max_episode_steps == 5
    again = gym.make(in_json(env.spec))
    assert again.spec == env.spec
    assert play(env) == play(again) == (limit, False, True)
    sync = gym.make_vec(ENV_ID, 1, vectorization_mode="sync", max_episode_steps=given, **kwargs)
    assert play(sync) == (limit, False, True)
