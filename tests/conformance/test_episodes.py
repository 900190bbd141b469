"""Episodes are the same whatever steps them: mode, arrays, batch size, neighbours, earlier runs."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from batches import MODES, QUICK, Cell, cells, draw_actions, play, to_kind, to_numpy
from episode_runs import compare, episodes, episodes_elsewhere, lengths
from trees import assert_same

from gymbridge import BridgeVectorEnv
from gymbridge.errors import ResetNeededError
from gymbridge.testing import ScriptedSimulator

every_cell = pytest.mark.parametrize("cell", cells())
every_quick_cell = pytest.mark.parametrize("cell", cells(QUICK))


@pytest.mark.parametrize("cell", cells(modes=["NextStep"]))
def test_modes__have_the_same_episodes(cell: Cell) -> None:
    runs = [episodes(cell._replace(mode=mode).batch(), 16) for mode in MODES]
    compare(runs[1], runs[0], complete=2)
    compare(runs[2], runs[0], complete=2)


@every_cell
def test_seed__begins_the_same_run_at_any_time(cell: Cell) -> None:
    envs = cell.batch()
    run, other = play(envs, 9, seed=11), play(envs, 9, seed=12)
    assert_same(play(envs, 9, seed=11), run)
    # Environment i of seed 12 is environment i + 1 of seed 11.
    if cell.engine != "host":  # whose script belongs to the row
        np.testing.assert_allclose(other[0][0][:3], run[0][0][1:], rtol=1e-6, atol=1e-6)


@every_cell
def test_partial_reset__leaves_the_others_as_they_are(cell: Cell) -> None:
    envs = cell.batch()
    envs.reset(seed=5)
    rng = np.random.default_rng(0)
    obs, _, terminated, truncated, _ = envs.step(
        to_kind(draw_actions(envs, rng), cell.kind, envs.device)
    )
    over = to_numpy(terminated) | to_numpy(truncated)
    if cell.mode == "Disabled" and over.any():
        obs = envs.reset(options={"reset_mask": over})[0]
    before, mask = to_numpy(obs), np.array([True, False, False, True])
    options = {"reset_mask": to_kind(mask, cell.kind, envs.device)}
    again, infos = to_numpy(envs.reset(options=options))
    np.testing.assert_array_equal(again[~mask], before[~mask])
    assert options.keys() == {"reset_mask"}
    for key in infos:
        if key.startswith("_"):
            np.testing.assert_array_equal(infos[key], mask)
    stepped = to_numpy(envs.step(to_kind(draw_actions(envs, rng), cell.kind, envs.device))[0])
    assert stepped.shape == before.shape


@every_quick_cell
def test_environment__has_the_same_episodes_in_a_larger_batch(cell: Cell) -> None:
    small, large = (episodes(cell.batch(num_envs=size), 20) for size in (4, 8))
    compare(large[:4], small, complete=3, digits=0)


@pytest.mark.parametrize("cell", cells(QUICK, modes=["NextStep"]))
def test_pickled_batch__has_the_same_episodes(cell: Cell) -> None:
    envs = cell.batch()
    twin = pickle.loads(pickle.dumps(envs))
    with pytest.raises(ResetNeededError):
        twin.step(envs.action_space.sample())
    compare(episodes(twin, 16), episodes(envs, 16), complete=2, digits=0)
    twin.close()
    pickle.loads(pickle.dumps(twin)).reset()


@pytest.mark.slow
def test_other_process__has_the_same_episodes() -> None:
    quick = [param.values[0] for param in cells(QUICK)[::3]]
    options = [{"mode": cell.mode, "limit": 4, "arrays": cell.kind} for cell in quick]
    wanted = [episodes(cell.batch(), 16) for cell in quick]
    names = [cell.engine for cell in quick]
    found = episodes_elsewhere([*zip(names, options, strict=True)], 16)
    for here, there in zip(wanted, found, strict=True):
        compare(there, here, complete=2, digits=0)


@pytest.mark.parametrize(("limit", "in_force"), [(None, 4), (-1, None), (2, 2), (6, 6)])
def test_limit__is_the_task_s_own_unless_given(
    mode: str, limit: int | None, in_force: int | None
) -> None:
    simulator = ScriptedSimulator([9, 9, 9], task_limit=4)
    envs = BridgeVectorEnv(simulator, max_episode_steps=limit, autoreset_mode=mode)
    assert envs.max_episode_steps == in_force
    assert {*lengths(episodes(envs, 30))} == {in_force or 9}
