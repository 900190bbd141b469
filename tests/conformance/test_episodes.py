"""Episodes are the same whatever shows them: mode, batch size, neighbours, time of the seeding."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from batches import make_batch, play, shared_batch
from gymnasium.vector import AutoresetMode, VectorEnv
from trees import assert_same

from gymbridge import BridgeVectorEnv
from gymbridge.testing import ScriptedSimulator

MODES = ("NextStep", "SameStep", "Disabled")


class Moment(NamedTuple):
    """One step of one environment's episode, or its beginning."""

    obs: float
    draw: int
    reward: float
    terminated: bool
    truncated: bool


def episodes(envs: VectorEnv, num_steps: int, seed: int = 3) -> list[list[list[Moment]]]:
    """Return the episodes of each environment, told without the mode's way of showing them."""
    told: list[list[list[Moment]]] = [[] for _ in range(envs.num_envs)]
    mode = envs.metadata["autoreset_mode"]
    ended = np.ones(envs.num_envs, np.bool_)
    for obs, *results, infos in play_constant(envs, num_steps, seed):
        rewards, terminated, truncated = results or np.zeros((3, envs.num_envs))
        over = (terminated + truncated) > 0
        for row, story in enumerate(told):
            if not infos["_draw"][row]:
                continue  # a partial reset of others
            moment = (rewards[row], bool(terminated[row]), bool(truncated[row]))
            if mode == AutoresetMode.SAME_STEP and over[row]:
                last = infos["final_obs"][row], infos["final_info"]["draw"][row]
                story[-1].append(Moment(*last, *moment))
                story.append([Moment(obs[row], infos["draw"][row], 0, False, False)])
                continue
            if ended[row]:
                story.append([])
            story[-1].append(Moment(obs[row], infos["draw"][row], *moment))
            ended[row] = over[row]
    return told


def play_constant(envs: VectorEnv, num_steps: int, seed: int) -> list[Any]:
    """Return the calls of a run whose actions depend on the environment alone."""
    actions = np.arange(envs.num_envs) % 3
    log: list[Any] = [envs.reset(seed=seed)]
    for _ in range(num_steps):
        log.append(envs.step(actions))
        over = log[-1][2] | log[-1][3]
        if envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED and over.any():
            log.append(envs.reset(options={"reset_mask": over}))
    return log


@pytest.mark.parametrize("limit", [None, 3])
def test_modes__see_the_same_episodes(simulator: str, limit: int | None) -> None:
    told = [episodes(shared_batch(simulator, mode=mode, limit=limit), 30) for mode in MODES]
    for stories in zip(*told, strict=True):
        complete = min(map(len, stories)) - 1
        assert complete >= 4
        first, *others = (story[:complete] for story in stories)
        assert all(other == first for other in others)


def test_final_obs__is_next_step_s_terminal_observation(simulator: str) -> None:
    ends = []
    for mode in ("NextStep", "SameStep"):
        log = play_constant(shared_batch(simulator, mode=mode), 30, 3)[1:]
        ends.append([[] for _ in range(4)])
        for obs, _, terminated, truncated, infos in log:
            for row in np.flatnonzero(terminated | truncated):
                last = infos["final_obs"][row] if mode == "SameStep" else obs[row]
                total = infos.get("final_info", infos)["script"]["total"][row]
                ends[-1][row].append((float(last), int(total)))
    for next_step, same_step in zip(*ends, strict=True):
        complete = min(len(next_step), len(same_step))
        assert complete >= 4
        assert next_step[:complete] == same_step[:complete]


def test_environment__has_the_same_episodes_in_a_larger_batch(simulator: str, mode: str) -> None:
    small, large = (episodes(shared_batch(simulator, size, mode), 20) for size in (4, 8))
    assert sum(map(len, small)) > 12
    assert large[:4] == small


def test_environment__has_the_same_episodes_whatever_its_neighbours(
    simulator: str, mode: str
) -> None:
    envs = shared_batch(simulator, mode=mode)
    runs = []
    for seeds in ([9, 10, 11, 12], [70, 10, 5, 12]):
        envs.reset(seed=seeds)
        runs.append([])
        for _ in range(6):
            shown, ended = envs.reset(options={"reset_mask": np.array([False, True, False, True])})
            runs[-1].append((shown[[1, 3]], ended["draw"][[1, 3]]))
    assert_same(*runs)


def test_every_episode__draws_anew(simulator: str, mode: str) -> None:
    told = episodes(shared_batch(simulator, mode=mode), 30)
    stories = [story for row in told for story in row]
    draws = [{moment.draw for moment in story} for story in stories]
    assert len(draws) > 30
    assert all(len(draw) == 1 for draw in draws)
    assert len(set.union(*draws)) == len(draws)
    assert all(story[0].obs == 0 for story in stories)


def test_seed__begins_the_same_run_at_any_time(simulator: str, mode: str) -> None:
    envs = shared_batch(simulator, mode=mode)
    first = play(envs, 10, seed=3)
    play(envs, 7, seed=40)
    assert_same(play(envs, 10, seed=3), first)


def test_seed__as_an_int_counts_up(simulator: str) -> None:
    envs = shared_batch(simulator)
    assert_same(envs.reset(seed=5), envs.reset(seed=[5, 6, 7, 8]))
    assert envs.np_random_seed == (5, 6, 7, 8)


def test_unseeded_reset__draws_on_and_keeps_the_seeds(simulator: str) -> None:
    envs = shared_batch(simulator)
    draws = [envs.reset(seed=5)[1]["draw"], envs.reset()[1]["draw"], envs.reset()[1]["draw"]]
    assert envs.np_random_seed == (5, 6, 7, 8)
    assert len(np.unique(draws)) == 12
    again = [envs.reset(seed=5)[1]["draw"], envs.reset()[1]["draw"], envs.reset()[1]["draw"]]
    assert_same(again, draws)


@pytest.mark.parametrize("seed", [None, [None] * 4, [8, None, None, 9]])
def test_first_reset__reports_seeds_that_reproduce_it(simulator: str, seed: Any) -> None:
    envs = make_batch(simulator)
    first = [envs.reset(seed=seed), envs.step([0] * 4)]
    seeds = envs.np_random_seed
    assert len(set(seeds)) == 4
    assert all(type(number) is int and 0 <= number <= 2**32 - 1 for number in seeds)
    wanted = seed or [None] * 4
    assert all(given in (None, found) for given, found in zip(wanted, seeds, strict=True))
    envs = shared_batch(simulator)
    assert_same([envs.reset(seed=list(seeds)), envs.step([0] * 4)], first)


def test_unseeded_batches__differ(simulator: str) -> None:
    assert make_batch(simulator).np_random_seed != make_batch(simulator).np_random_seed


def test_np_random_seed__before_the_first_reset_is_what_it_uses(simulator: str) -> None:
    envs = make_batch(simulator)
    seeds = envs.np_random_seed
    envs.reset()
    assert envs.np_random_seed == seeds


def test_partial_seeding__touches_rows_under_the_mask_alone(simulator: str) -> None:
    envs = shared_batch(simulator)
    before = envs.reset(seed=5)[1]["draw"]
    options = {"reset_mask": np.array([True, False, True, False])}
    draws = envs.reset(seed=50, options=options)[1]["draw"]
    assert envs.np_random_seed == (50, 6, 52, 8)
    assert_same(draws[[0, 2]], envs.reset(seed=50)[1]["draw"][[0, 2]])
    assert draws[[1, 3]].tolist() == [0, 0]  # infos speak of the rows under the mask
    envs.reset(seed=5)
    envs.reset(seed=50, options=options)
    shown = envs.step([0] * 4)[-1]["draw"]
    assert_same(shown[[1, 3]], before[[1, 3]])


LARGE = [2**32 - 2, 2**32, 2**33 + 1, 2**80]


@pytest.mark.parametrize("seed", [*LARGE, np.uint64(2**63), np.int64(2**40)], ids=repr)
def test_large_seed__is_a_seed_like_any_and_shown_as_given(simulator: str, seed: Any) -> None:
    envs = shared_batch(simulator)
    shown = [envs.reset(seed=seed), envs.step([0] * 4), envs.reset()]
    assert envs.np_random_seed == tuple(int(seed) + row for row in range(4))
    assert all(type(number) is int for number in envs.np_random_seed)
    assert len(np.unique(shown[0][1]["draw"])) == 4
    envs.reset(seed=1)
    again = [envs.reset(seed=[int(seed) + row for row in range(4)]), envs.step([0] * 4)]
    assert_same([*again, envs.reset()], shown)
    assert_same(envs.reset(seed=list(envs.np_random_seed)), shown[0])


def test_large_seeds__within_a_list_leave_the_others_as_they_are(simulator: str) -> None:
    envs = shared_batch(simulator)
    plain = envs.reset(seed=[1, 2, 3, 4])[1]["draw"]
    mixed = envs.reset(seed=[1, 2**40, 3, None])[1]["draw"]
    assert envs.np_random_seed == (1, 2**40, 3, 4)
    assert (mixed == plain).tolist() == [True, False, True, False]


def test_large_seed__under_a_mask_touches_the_rows_under_it(simulator: str) -> None:
    envs = shared_batch(simulator)
    expected = envs.reset(seed=2**40)[1]["draw"]
    envs.reset(seed=5)
    draws = envs.reset(seed=2**40, options={"reset_mask": np.array([True, False, True, False])})
    assert envs.np_random_seed == (2**40, 6, 2**40 + 2, 8)
    assert_same(draws[1]["draw"][[0, 2]], expected[[0, 2]])


def test_tie__is_terminated_only(simulator: str, mode: str) -> None:
    ties = cuts = 0
    for stories in episodes(shared_batch(simulator, mode=mode, limit=3), 30):
        for story in stories[:-1]:
            *_, last = story
            assert last.terminated != last.truncated
            assert len(story) - 1 <= 3
            ties += last.terminated and len(story) - 1 == 3
            cuts += last.truncated and len(story) - 1 == 3
    assert ties > 2
    assert cuts > 2


@pytest.mark.parametrize("limit", [1, 2])
def test_limit__counts_the_steps_of_each_environment(simulator: str, mode: str, limit: int) -> None:
    envs = shared_batch(simulator, mode=mode, limit=limit)
    assert envs.max_episode_steps == limit
    told = episodes(envs, 12)
    for stories in told:
        assert len(stories) > 3
        assert all(len(story) - 1 <= limit for story in stories)
    assert any(story[-1].truncated for stories in told for story in stories)


def test_limit__begins_again_under_a_reset_mask(simulator: str, mode: str) -> None:
    envs = shared_batch(simulator, mode=mode, limit=1)
    envs.reset(seed=3)
    for _ in range(3):
        *_, terminated, truncated, _ = envs.step([0] * 4)
        assert (terminated | truncated).all()
        envs.reset(options={"reset_mask": np.ones(4, np.bool_)})


@pytest.mark.parametrize("limit", [None, -1])
def test_limit__is_none_for_a_task_without_one(simulator: str, limit: int | None) -> None:
    assert make_batch(simulator, limit=limit).max_episode_steps is None


@pytest.mark.parametrize(("limit", "in_force"), [(None, 4), (-1, None), (2, 2), (6, 6)])
def test_limit__is_the_task_s_own_unless_given(
    mode: str, limit: int | None, in_force: int | None
) -> None:
    simulator = ScriptedSimulator([9, 9, 9], task_limit=4)
    envs = BridgeVectorEnv(simulator, max_episode_steps=limit, autoreset_mode=mode)
    assert envs.max_episode_steps == in_force
    lengths = {len(story) - 1 for stories in episodes(envs, 30) for story in stories[:-1]}
    assert lengths == {in_force or 9}
