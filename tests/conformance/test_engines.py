"""What every engine keeps, in every kind of arrays and in every mode."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from tensors import SIMULATORS, draw_actions, shared_batch, to_kind, to_numpy

MODES = ("NextStep", "SameStep", "Disabled")
KINDS = ("numpy", "torch", "jax")
LIMIT = 4


@pytest.fixture(params=SIMULATORS)
def simulator(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=KINDS)
def arrays(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return request.param


class Moment(NamedTuple):
    """One step of one environment's episode, or its beginning."""

    obs: np.ndarray
    reward: float
    terminated: bool
    truncated: bool


Stories = list[list[list[Moment]]]


def tell(envs: Any, num_steps: int, seed: int = 3) -> Stories:
    """Return the episodes of each environment, told without the mode's way of showing them.

    Actions are those of the step within the episode, so that modes can be compared.
    """
    mode, size = envs.autoreset_mode, envs.num_envs
    plan = [to_numpy(draw_actions(envs, np.random.default_rng(step))) for step in range(LIMIT + 1)]
    obs, _ = to_numpy(envs.reset(seed=seed))
    stories: Stories = [[[Moment(obs[row], 0, False, False)]] for row in range(size)]
    for _ in range(num_steps):
        actions = np.stack([plan[len(story[-1]) - 1][row] for row, story in enumerate(stories)])
        ended = [story[-1][-1].terminated or story[-1][-1].truncated for story in stories]
        obs, rewards, terminated, truncated, infos = envs.step(to_kind(actions, envs.arrays))
        final = final_obs(infos, size)
        values = [to_numpy(part) for part in (obs, rewards, terminated, truncated)]
        over = values[2] | values[3]
        for row, story in enumerate(stories):
            moment = Moment(*(part[row] for part in values))
            if ended[row]:  # NEXT_STEP
                story.append([moment])
            elif over[row] and mode == AutoresetMode.SAME_STEP:
                story[-1].append(moment._replace(obs=final[row]))
                story.append([Moment(moment.obs, 0, False, False)])
            else:
                story[-1].append(moment)
        if mode == AutoresetMode.DISABLED and over.any():
            obs, _ = envs.reset(options={"reset_mask": over})
            for row in over.nonzero()[0]:
                stories[row].append([Moment(to_numpy(obs)[row], 0, False, False)])
    return stories


def final_obs(infos: Any, size: int) -> list[Any]:
    found = infos.get("final_obs", [None] * size)
    return [None if found[row] is None else to_numpy(found[row]) for row in range(size)]


def compare(left: Stories, right: Stories, *, complete: int) -> None:
    """Raise unless the complete episodes are equal, at least `complete` of each environment."""
    for one, other in zip(left, right, strict=True):
        count = min(len(one), len(other)) - 1
        assert count >= complete
        for episode, like in zip(one[:count], other[:count], strict=True):
            assert [moment[2:] for moment in episode] == [moment[2:] for moment in like]
            for moment, wanted in zip(episode, like, strict=True):
                np.testing.assert_allclose(moment.obs, wanted.obs, rtol=1e-5, atol=1e-5)
                np.testing.assert_allclose(moment.reward, wanted.reward, rtol=1e-5, atol=1e-5)


def test_modes__tell_the_same_episodes(simulator: str, arrays: str) -> None:
    told = [
        tell(shared_batch(simulator, arrays, mode, max_episode_steps=LIMIT), 16) for mode in MODES
    ]
    compare(told[1], told[0], complete=2)
    compare(told[2], told[0], complete=2)
    for story in told[0]:
        for *before, last in story[:-1]:
            assert not any(moment.terminated or moment.truncated for moment in before)
            assert last.terminated != last.truncated
            assert len(before) <= LIMIT


def test_kinds_of_arrays__tell_the_same_episodes(simulator: str, mode: str) -> None:
    wanted = tell(shared_batch(simulator, "numpy", mode, max_episode_steps=LIMIT), 12)
    for arrays in ("torch", "jax"):
        pytest.importorskip(arrays)
        told = tell(shared_batch(simulator, arrays, mode, max_episode_steps=LIMIT), 12)
        compare(told, wanted, complete=1)


def test_seed__begins_the_same_episodes_again(simulator: str, arrays: str, mode: str) -> None:
    envs = shared_batch(simulator, arrays, mode, max_episode_steps=LIMIT)
    first, other = tell(envs, 9, seed=11), tell(envs, 9, seed=12)
    compare(tell(envs, 9, seed=11), first, complete=1)
    # Environment i of seed 12 is environment i + 1 of seed 11, until an action differs.
    beginnings = [[story[0][0].obs for story in stories[:3]] for stories in (other, first[1:])]
    if simulator != "host":  # whose script belongs to the row
        np.testing.assert_allclose(*beginnings, rtol=1e-6, atol=1e-6)


def test_partial_reset__leaves_the_others_as_they_are(
    simulator: str, arrays: str, mode: str
) -> None:
    envs = shared_batch(simulator, arrays, mode, max_episode_steps=LIMIT)
    envs.reset(seed=5)
    rng = np.random.default_rng(0)
    obs, _, terminated, truncated, _ = envs.step(to_kind(draw_actions(envs, rng), arrays))
    if mode == "Disabled":  # those that ended with their first step have to be reset
        over = to_numpy(terminated) | to_numpy(truncated)
        obs = envs.reset(options={"reset_mask": over})[0] if over.any() else obs
    before = to_numpy(obs)
    mask = np.array([True, False, False, True])
    options = {"reset_mask": to_kind(mask, arrays)}
    again, infos = envs.reset(options=options)
    np.testing.assert_array_equal(to_numpy(again)[~mask], before[~mask])
    assert options.keys() == {"reset_mask"}
    for key, value in infos.items():
        if key.startswith("_"):
            np.testing.assert_array_equal(to_numpy(value), mask)
    stepped = to_numpy(envs.step(to_kind(draw_actions(envs, rng), arrays))[0])
    assert stepped.shape == before.shape
