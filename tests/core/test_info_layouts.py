"""Outcomes are laid out as `step` and `reset` return them, sparse or with the same keys always."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gymbridge.core.actions import NumpyReader
from gymbridge.core.arrays.adapter import ArrayAdapter, Converter, identity, map_arrays
from gymbridge.core.episode import StepResult, TimeStep
from gymbridge.core.infos import (
    DenseInfos,
    SparseInfos,
    make_final_infos,
    make_info_layout,
    make_infos,
    mask_info,
)
from tests.support.trees import assert_same

CARRY = object()
ALL = np.ones(3, np.bool_)
NONE = ~ALL
FIRST = np.array([True, False, False])
LAST = np.array([False, False, True])


def make_adapter(arrays: str, to_user: Converter = identity) -> ArrayAdapter:
    return ArrayAdapter(arrays, to_user, NumpyReader)


def make_time_step(
    first: int, terminated: np.ndarray = NONE, truncated: np.ndarray = NONE
) -> TimeStep:
    rows = np.arange(first, first + 3)
    info = {"lives": rows.astype(np.int32), "inner": {"image": rows[:, None].repeat(2, 1) / 2}}
    return TimeStep({"x": rows}, rows + 0.5, terminated.copy(), truncated.copy(), info)


def to_gymnasium(adapter: ArrayAdapter, outcome: StepResult, *, has_final: bool = True) -> Any:
    layout = make_info_layout(adapter, 3, has_final=has_final)
    arranged = layout.collect_infos(outcome)
    assert arranged.carry is CARRY
    return layout.to_gymnasium(arranged)


def test_make_info_layout__is_dense_on_a_device() -> None:
    assert type(make_info_layout(make_adapter("numpy"), 3, has_final=True)) is SparseInfos
    assert type(make_info_layout(make_adapter("torch"), 3, has_final=True)) is DenseInfos


@pytest.mark.parametrize("arrays", ["numpy", "jax"])
@pytest.mark.parametrize("has_final", [False, True])
def test_reset__speaks_of_the_rows_that_began(arrays: str, has_final: bool) -> None:
    time_step, shown = make_time_step(4), FIRST.copy()
    outcome = StepResult(CARRY, time_step, shown=shown)
    *seen, infos = to_gymnasium(make_adapter(arrays), outcome, has_final=has_final)
    assert_same(seen, list(time_step[:4]))
    assert_same(infos, make_infos(mask_info(time_step.info, FIRST), FIRST))
    infos["_lives"][:] = True
    infos["lives"][:] = 9
    assert shown.tolist() == FIRST.tolist()
    assert time_step.info["lives"].tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("over", "final"),
    [(NONE, None), (NONE, make_time_step(7)), (FIRST, None)],
    ids=["nothing", "no_end", "no_restart"],
)
def test_sparse_step__without_an_end_or_a_restart_has_no_final_keys(
    over: np.ndarray, final: TimeStep | None
) -> None:
    time_step = make_time_step(4, over)
    *seen, infos = to_gymnasium(make_adapter("numpy"), StepResult(CARRY, time_step, final))
    assert_same(seen, list(time_step[:4]))
    assert_same(infos, make_infos(time_step.info, ALL))


@pytest.mark.parametrize(("terminated", "truncated"), [(FIRST, NONE), (NONE, LAST), (FIRST, LAST)])
def test_sparse_step__has_the_final_keys_of_the_rows_that_ended(
    terminated: np.ndarray, truncated: np.ndarray
) -> None:
    time_step, final = make_time_step(4, terminated, truncated), make_time_step(7)
    *seen, infos = to_gymnasium(make_adapter("numpy"), StepResult(CARRY, time_step, final))
    assert_same(seen, list(time_step[:4]))
    finals = make_final_infos(final, terminated | truncated)
    assert_same(infos, {**make_infos(time_step.info, ALL), **finals})


@pytest.mark.parametrize(("terminated", "truncated"), [(FIRST, NONE), (NONE, LAST), (NONE, NONE)])
@pytest.mark.parametrize("restarts", [False, True])
def test_dense_step__has_final_keys_of_every_row(
    terminated: np.ndarray, truncated: np.ndarray, restarts: bool
) -> None:
    time_step = make_time_step(4, terminated, truncated)
    final = make_time_step(7) if restarts else None
    *seen, infos = to_gymnasium(make_adapter("torch"), StepResult(CARRY, time_step, final))
    assert_same(seen, list(time_step[:4]))
    over, shown = terminated | truncated, final or time_step
    finals = {"final_obs": shown.obs, "_final_obs": over, "_final_info": over}
    finals["final_info"] = make_infos(shown.info, over)
    assert_same(infos, {**make_infos(time_step.info, ALL), **finals})
    assert not np.shares_memory(infos["final_obs"]["x"], shown.obs["x"])
    assert not np.shares_memory(infos["final_info"]["lives"], shown.info["lives"])
    masks = [infos[key] for key in ("_lives", "_inner", "_final_obs", "_final_info")]
    assert len({mask.ctypes.data for mask in masks}) == 4


@pytest.mark.parametrize("arrays", ["torch", "jax"])
def test_dense_step__shares_masks_where_nobody_can_write_into_them(arrays: str) -> None:
    infos = to_gymnasium(make_adapter(arrays), StepResult(CARRY, make_time_step(4, FIRST)))[-1]
    levels = infos, infos["inner"], infos["final_info"], infos["final_info"]["inner"]
    masks = [x for level in levels for key, x in level.items() if key.startswith("_")]
    assert len({id(mask) for mask in masks}) == (2 if arrays == "jax" else 8)


def test_dense_step__may_be_packed_between_its_two_parts() -> None:
    packed: list[Any] = []

    def pack(tree: Any) -> str:
        packed.append(tree)
        return "packed"

    def to_user(tree: Any) -> Any:
        return tuple(packed[-1] if isinstance(part, str) else part for part in tree)

    outcome = StepResult(CARRY, make_time_step(4, FIRST))
    adapter = make_adapter("torch", to_user)._replace(pack=pack)
    assert_same(to_gymnasium(adapter, outcome), to_gymnasium(make_adapter("torch"), outcome))
    assert len(packed) == 1


def test_dense_step__of_a_mode_that_restarts_nothing_has_no_final_keys() -> None:
    time_step = make_time_step(4, FIRST)
    infos = to_gymnasium(make_adapter("jax"), StepResult(CARRY, time_step), has_final=False)[-1]
    assert_same(infos, make_infos(time_step.info, ALL))


@pytest.mark.parametrize("arrays", ["jax", "torch"])
def test_dense_layouts__give_what_the_adapter_makes_of_the_arrays(arrays: str) -> None:
    time_step, final = make_time_step(4, FIRST), make_time_step(7)
    adapter = make_adapter(arrays, lambda tree: map_arrays(np.copy, tree))
    *seen, infos = to_gymnasium(adapter, StepResult(CARRY, time_step, final))
    for mine, theirs in zip(seen, time_step[:4], strict=True):
        mine = mine["x"] if isinstance(mine, dict) else mine
        theirs = theirs["x"] if isinstance(theirs, dict) else theirs
        assert not np.shares_memory(mine, theirs)
    assert not np.shares_memory(infos["lives"], time_step.info["lives"])
