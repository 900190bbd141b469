"""Vector infos come apart into one dict per environment, sharing nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import VectorEnv
from hypothesis import given
from hypothesis import strategies as st

from gymbridge.core.rows import has_rows, is_mask, split_info, split_infos, split_rows, take_infos

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


@pytest.mark.parametrize("byte", [0, 1, 2, 128, 255])
@pytest.mark.parametrize("num_envs", [1, 5, 300])
def test_has_rows__takes_every_byte_but_zero_for_true(byte: int, num_envs: int) -> None:
    for row in (0, num_envs - 1):
        data = np.zeros(num_envs, np.uint8)
        data[row] = byte
        assert has_rows(data.view(np.bool_)) == (byte != 0)


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


@pytest.mark.parametrize(
    ("keeps", "kinds"), [(False, (int, float)), (True, (np.int32, np.float32))]
)
def test_split_infos__has_numbers_of_python_or_numpy_and_bools_of_python(
    keeps: bool, kinds: tuple[type, type]
) -> None:
    inner = {"speed": np.ones(2, np.float32), "on": np.array([True, False])}
    infos = {"lives": np.ones(2, np.int32), "inner": inner}
    row = split_infos(infos, 2, keeps_dtypes=keeps)[0] if keeps else split_infos(infos, 2)[0]
    assert (type(row["lives"]), type(row["inner"]["speed"])) == kinds
    assert row["inner"]["on"] is True


def test_split_rows__of_objects_are_copies() -> None:
    batch = np.array([{"x": [1]}, {"x": [2]}])
    (row,) = split_rows(batch, np.array([1]))
    assert row == {"x": [2]}
    row["x"].append(3)
    assert batch[1] == {"x": [2]}


def test_is_mask__of_another_key_alone() -> None:
    infos = {"a": 1, "_a": 2, "_xa": 3, "_": 4, 5: 6, "_5": 7}
    assert [key for key in infos if is_mask(key, infos)] == ["_a", "_5"]


def test_split_info__gives_each_its_row_of_every_array() -> None:
    image = np.arange(4.0).reshape(2, 2)
    info = {"lives": np.array([3, 4]), "image": image, "inner": {"on": np.array([True, False])}}
    first, second = split_info(info, 2)
    assert (first["lives"], first["inner"]) == (3, {"on": True})
    assert (second["lives"], second["inner"]) == (4, {"on": False})
    assert type(second["lives"]) is int
    assert second["image"].tolist() == [2, 3]
    second["image"][:] = 9
    assert image.tolist() == [[0, 1], [2, 3]]


def test_split_info__without_keys_is_an_empty_dict_for_each() -> None:
    first, second = split_info({}, 2)
    assert first == second == {}
    assert first is not second
    assert split_info({"x": np.arange(2), "inner": {}}, 2) == [
        {"x": 0, "inner": {}},
        {"x": 1, "inner": {}},
    ]
