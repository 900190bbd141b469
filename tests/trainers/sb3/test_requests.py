"""What the view asks of a batch: seeds and options reach it, and what it cannot read is refused."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation, TransformObservation

from gymbridge.errors import ArgumentError, ArgumentTypeError
from tests.support.sb3_samples import SEED, KindsEnv, assert_like, scripted, scripted_dummy, sync


def test_seed__is_used_once() -> None:
    view, reference = scripted(), scripted_dummy()
    for env in (view, reference):
        assert env.seed(SEED) == [SEED + index for index in range(4)]
        env.reset()
    first = [info["draw"] for info in view.reset_infos]
    view.reset()
    reference.reset()
    assert_like(view.reset_infos, reference.reset_infos)
    assert [info["draw"] for info in view.reset_infos] != first
    assert view.get_attr("np_random_seed") == [SEED + index for index in range(4)]


@pytest.mark.parametrize("seed", [0, 2**31, 2**32 - 2])
@pytest.mark.parametrize("is_drawn", [False, True])
def test_seed__of_any_size_is_kept(
    seed: int, is_drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = scripted()
    monkeypatch.setattr(np.random, "randint", lambda *args, **kwargs: seed)
    seeds = view.seed(None if is_drawn else seed)
    assert seeds == list(range(seed, seed + 4))
    view.reset()
    assert view.get_attr("np_random_seed") == seeds


@pytest.mark.parametrize(("seed", "error"), [(-1, ArgumentError), ([5, 9], ArgumentTypeError)])
def test_wrong_seed__is_refused_and_changes_nothing(seed: Any, error: Any) -> None:
    view = scripted()
    view.seed(7)
    with pytest.raises(error, match="`seed` must be"):
        view.seed(seed)
    view.reset()
    assert view.get_attr("np_random_seed") == [7, 8, 9, 10]


def test_options__reach_the_next_reset_alone() -> None:
    view = sync(KindsEnv, 2)
    for options in ({"level": 3}, [{"level": 3}, {"level": 3}]):
        view.set_options(options)
        view.reset()
        assert view.get_attr("options") == [{"level": 3}, {"level": 3}]
        view.reset()
        assert view.get_attr("options") == [None, None]
    for nothing in (None, [None, None]):
        view.set_options({"place": np.arange(2)})
        view.set_options(nothing)
        view.reset()
        assert view.get_attr("options") == [None, None]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ([{"level": 1}, {"level": 2}], "must be the same for all environments"),
        ([{"at": np.arange(2)}, {"at": np.ones(2)}], "must be the same"),
        ({"reset_mask": np.ones(2, bool)}, "must not have 'reset_mask'"),
    ],
)
def test_options__that_a_batch_cannot_take_are_refused(options: Any, rule: str) -> None:
    view = sync(KindsEnv, 2)
    view.set_options({"level": 9})
    with pytest.raises(ArgumentError, match=rule):
        view.set_options(options)
    view.reset()
    assert view.get_attr("options") == [{"level": 9}] * 2


def test_nested_observations__are_refused_with_a_way_out() -> None:
    def nested() -> gym.Env[Any, Any]:
        space = spaces.Dict({"outer": KindsEnv().observation_space})
        return TransformObservation(KindsEnv(), lambda obs: {"outer": obs}, space)

    with pytest.raises(ArgumentError, match=r"nested once at most.*FlattenObservation"):
        sync(nested)
    assert sync(lambda: FlattenObservation(nested()), 1).reset().shape == (1, 71)
