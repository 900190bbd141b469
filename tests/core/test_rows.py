"""Vector infos come apart into one dict per environment, sharing nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from hypothesis import given
from hypothesis import strategies as st

from gymbridge.core.rows import split_infos, take_infos

NUM_ENVS = 3


def kinds() -> st.SearchStrategy[Any]:
    scalars = {"count": st.integers(-9, 9), "share": st.floats(0, 1), "name": st.text(max_size=3)}
    leaves = {**scalars, "flag": st.booleans(), "_hidden": st.integers(0, 3)}
    inner = st.fixed_dictionaries({}, optional=leaves)
    return st.fixed_dictionaries({}, optional={**leaves, "deep": inner})


@given(st.lists(kinds(), min_size=NUM_ENVS, max_size=NUM_ENVS))
def test_split_infos__undoes_what_gymnasium_packs(dicts: list[dict[str, Any]]) -> None:
    envs: Any = VectorEnv()
    envs.num_envs = NUM_ENVS
    infos: dict[str, Any] = {}
    for index, own in enumerate(dicts):
        infos = envs._add_info(infos, own, index)
    assert split_infos(infos, NUM_ENVS) == dicts
    ids = np.array([2, 0])
    assert split_infos(take_infos(infos, ids), 2) == [dicts[2], dicts[0]]


def test_split_infos__gives_rows_of_arrays_that_are_copies() -> None:
    place = np.arange(6.0).reshape(3, 2)
    notes = np.array([["a"], ["b"], None], dtype=object)
    notes[:2] = [["a"], ["b"]]
    infos = {"place": place, "notes": notes, "_notes": np.array([True, True, False])}
    rows = split_infos(infos, 3)
    rows[0]["place"][:] = -1
    rows[0]["notes"].append("more")
    np.testing.assert_array_equal(place, np.arange(6.0).reshape(3, 2))
    assert notes[0] == ["a"]
    assert rows[1]["place"].tolist() == [2, 3]
    assert "notes" not in rows[2]


def test_split_infos__leaves_the_final_keys_out() -> None:
    infos = {"final_obs": np.empty(2, object), "_final_obs": np.ones(2, bool), "x": np.arange(2)}
    assert split_infos(infos, 2) == [{"x": 0}, {"x": 1}]
    assert sorted(infos) == ["_final_obs", "final_obs", "x"]


def test_split_infos__gives_each_what_is_true_of_the_batch() -> None:
    shared = {"log": [1, 2, 3, 4], "time": 0.5}
    rows = split_infos(shared, 2)
    assert rows == [shared, shared]
    rows[0]["log"].append(5)
    assert rows[1] == shared


def test_split_infos__takes_keys_of_any_type() -> None:
    infos = {1: np.array([3, 4]), "_1": np.array([True, False]), "d": {2: np.array([5, 6])}}
    rows = split_infos(infos, 2)
    assert rows == [{1: 3, "d": {2: 5}}, {"d": {2: 6}}]
