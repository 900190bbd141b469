"""EnvPool's spaces, and its flat lists of arrays, as trees."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")

from gymnasium import spaces

from gymbridge.envpool.layout import Layout, to_space
from tests.support.trees import assert_same


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_box__has_no_bounds_where_envpool_declares_the_smallest_positive_float(dtype: Any) -> None:
    limits = np.finfo(dtype)
    space = to_space(spaces.Box(limits.tiny, limits.max, (3,), dtype))
    assert space == spaces.Box(-np.inf, np.inf, (3,), dtype)


def fake_spec(**parts: Any) -> Any:
    """Return what `Layout` reads of a spec; EnvPool has no single-player task with Dict actions."""
    keys = ["info:env_id", "info:players.env_id", "elapsed_step", "done", "reward", "trunc"]
    keys += parts["obs"]
    dtypes = {key: np.dtype(np.bool_ if "bits" in key else np.float32) for key in keys}
    return SimpleNamespace(
        _state_keys=keys,
        _action_keys=["env_id", "players.env_id", *parts.get("actions", ["action"])],
        state_array_spec={key: SimpleNamespace(dtype=dtype) for key, dtype in dtypes.items()},
        gymnasium_observation_space=parts.get("space", spaces.Dict()),
    )


def test_layout__takes_dict_actions_apart_in_the_order_of_the_pool() -> None:
    layout = Layout(fake_spec(obs=["obs"], actions=["turn", "arm.lift", "arm.grip"]), None)
    turn, lift, grip = np.arange(2), np.arange(6.0).reshape(3, 2).T, np.arange(2) > 0
    leaves = layout.action_leaves({"arm": {"grip": grip, "lift": lift}, "turn": turn})
    for leaf, expected in zip(leaves, (turn, lift, grip), strict=True):
        np.testing.assert_array_equal(leaf, expected)
        assert leaf.flags.c_contiguous


def test_layout__gives_a_pool_actions_that_are_contiguous_and_writable() -> None:
    layout = Layout(fake_spec(obs=["obs"]), None)
    for actions in (np.arange(6)[::2], np.frombuffer(b"read only", np.uint8)):
        (leaf,) = layout.action_leaves(actions)
        np.testing.assert_array_equal(leaf, actions)
        assert leaf.flags.c_contiguous
        assert leaf.flags.writeable


def test_layout__nests_observations_by_their_names() -> None:
    layout = Layout(fake_spec(obs=["obs:arm.angle", "obs:arm.bits", "obs:eye"]), [])
    values = [np.full(2, place, np.bool_ if place == 7 else np.float32) for place in range(9)]
    obs, info = layout.read_obs(values), layout.read_info(values)
    assert_same(obs, {"arm": {"angle": values[6], "bits": np.ones(2, np.int8)}, "eye": values[8]})
    assert info == {}


def test_layout__shows_a_lone_observation_bare_however_deep_it_lies() -> None:
    layout = Layout(fake_spec(obs=["obs:players.obs"], space=spaces.Box(0, 1)), [])
    values = [np.full(2, place) for place in range(7)]
    assert layout.read_obs(values) is values[6]


def test_dict_space__has_no_row_ids() -> None:
    ids = {name: spaces.Box(0, 9, (), np.int32) for name in ("env_id", "players")}
    inner = spaces.Dict({"eye": spaces.Discrete(3), **ids})
    expected = spaces.Dict({"inner": spaces.Dict({"eye": spaces.Discrete(3, dtype=np.int32)})})
    assert to_space(spaces.Dict({"inner": inner, **ids})) == expected
