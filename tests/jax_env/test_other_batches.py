"""A snapshot of another batch is refused, and the error names what differs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from brax.envs import Wrapper
from mujoco_playground import dm_control_suite

from gymbridge import BraxVectorEnv, PlaygroundVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError
from tests.support.brax_samples import SampleEnv
from tests.support.player import play
from tests.support.playground_samples import SampleMjxEnv, make_config
from tests.support.trees import assert_same


@cache
def another(**options: Any) -> Any:
    """Return a batch that differs in one thing, one for each: it is reset here."""
    settings = {"num_envs": 4, "max_episode_steps": 3} | options
    envs = BraxVectorEnv(SampleEnv(), **settings)
    envs.reset(seed=0)
    return envs


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"num_envs": 5}, "num_envs=5"),
        ({"autoreset_mode": "SameStep"}, "autoreset_mode=SameStep"),
        ({"max_episode_steps": 4}, "max_episode_steps=4"),
        ({"action_repeat": 2}, "action_repeat=2"),
        ({"nonfinite": "ignore"}, "nonfinite='ignore'"),
    ],
)
def test_snapshot__of_another_batch_is_refused(
    options: dict[str, Any], difference: str, tmp_path: Path
) -> None:
    left, right = another(), another(**options)
    wanted = play(right, 2, seed=0)
    right.reset(seed=0)
    left.save_state(tmp_path / "state")
    rule = f"must be of a batch like this one, which has.*{difference}"
    for restore, state in (
        (right.set_state, left.get_state()),
        (right.load_state, tmp_path / "state"),
    ):
        with pytest.raises(ArgumentError, match=rule):
            restore(state)
    assert_same(play(right, 2, begins=False), wanted[1:])


class Other(SampleEnv):
    """The same shapes, another environment."""


def test_snapshot__of_another_environment_or_version_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    envs = another()
    state = envs.get_state()
    with pytest.raises(ArgumentError, match=r"environment=Other.*environment=SampleEnv"):
        BraxVectorEnv(Other(), 4, max_episode_steps=3).set_state(state)
    with pytest.raises(ArgumentTypeError, match="what `get_state` returned, got dict"):
        envs.set_state({})
    monkeypatch.setattr("gymbridge.jax_env.vector_env.__version__", "0.0.9")
    with pytest.raises(ArgumentError, match=r"gymbridge=0\.0\.9.*gymbridge=0\.1\.0"):
        BraxVectorEnv(SampleEnv(), 4, max_episode_steps=3).set_state(state)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda leaves: leaves.pop("elapsed"),
        lambda leaves: leaves.update(elapsed=[0] * 4),
        lambda leaves: leaves["elapsed"].delete(),
    ],
    ids=["missing", "list", "donated"],
)
def test_snapshot__with_other_leaves_is_refused(spoil: Any) -> None:
    envs = another()
    leaves = dict(envs.get_state().leaves)
    spoil(leaves)
    with pytest.raises(ArgumentError, match=r"whose leaf 'elapsed' is"):
        envs.set_state(envs.get_state()._replace(leaves=leaves))


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"batch": None}, ArgumentTypeError, r"`state\.batch` must .* a mapping, got NoneType"),
        ({"leaves": [1]}, ArgumentTypeError, r"`state\.leaves` must .* a mapping, got list"),
        ({"seeds": None}, ArgumentTypeError, r"`state\.seeds` must .* a tuple, got NoneType"),
        ({"seeds": ("a",) * 4}, ArgumentTypeError, "must be None or an int, got 'a'"),
        ({"seeds": (0, 1, 2, None)}, ArgumentTypeError, "must hold ints, got None"),
        ({"seeds": (0, 1, 2, -3)}, ArgumentError, "must be 0 or more, got -3"),
        ({"seeds": (1,)}, ArgumentError, "must have 4 seeds, got 1"),
    ],
)
def test_snapshot__put_together_from_other_types_is_refused(
    fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    envs = another()
    state = envs.get_state()
    with pytest.raises(error, match=message):
        envs.set_state(state._replace(**fields))
    assert envs.np_random_seed == state.seeds


def test_tasks_of_one_class__are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("One", "Other"):
        for table in (dm_control_suite._envs, dm_control_suite._cfgs):
            monkeypatch.setitem(table, name, None)
        dm_control_suite.register_environment(name, lambda **_: SampleMjxEnv(), make_config)
    one, other = (PlaygroundVectorEnv(name, 2) for name in ("One", "Other"))
    assert one._about["environment"] == other._about["environment"]
    one.reset(seed=0)
    with pytest.raises(ArgumentError, match=r"task='Other'.*task='One'"):
        other.set_state(one.get_state())
    state = another().get_state()
    with pytest.raises(ArgumentError, match=r"task=.*of SampleEnv"):
        BraxVectorEnv(Wrapper(SampleEnv()), 4, max_episode_steps=3).set_state(
            state._replace(batch=another()._about)
        )


def test_equal_batches__are_equal_however_they_are_built() -> None:
    options = {"backend": "spring", "debug": False}
    envs = gym.make_vec("Brax/fast-v0", 2, **options)
    alike = [
        gym.make_vec(envs.spec),
        BraxVectorEnv("fast", np.int64(2), action_repeat=np.int64(1), arrays="jax", **options),
        BraxVectorEnv(brax_env="fast", num_envs=2, max_episode_steps=1000, **options),
    ]
    for other in alike:
        assert other.unwrapped._about == envs.unwrapped._about
