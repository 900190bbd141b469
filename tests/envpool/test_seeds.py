"""A seed fixes every episode of an environment, as it does in EnvPool's own pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")

from envpool_runs import act_all, leaves_of, make, make_own, play, row_of
from trees import assert_same

from gymbridge.errors import ArgumentError, ArgumentTypeError

TASKS = ("Blackjack-v1", "CartPole-v1", "FrozenLake-v1", "LunarLander-v3", "Pendulum-v1")


def test_seed__given_again_repeats_the_run(mode: str) -> None:
    envs = make("LunarLander-v3", 3, mode, max_episode_steps=15)
    log = play(envs, 40, seed=8)
    play(envs, 7, seed=9)
    assert_same(play(envs, 40, seed=8), log)
    assert_same(play(make("LunarLander-v3", 3, mode, max_episode_steps=15), 40, seed=8), log)


def test_seed__of_another_number_begins_elsewhere() -> None:
    envs = make("CartPole-v1", 3)
    first, second = envs.reset(seed=8)[0], envs.reset(seed=9)[0]
    np.testing.assert_array_equal(first[1:], second[:2])  # environment i has seed + i
    assert len(np.unique(np.concatenate([first, second[2:]]), axis=0)) == 4


@pytest.mark.parametrize("seed", [[4, 5, 6], np.array([4, 5, 6]), (4, 5, 6), np.int64(4)], ids=repr)
def test_seed__of_each_environment_may_be_listed(seed: Any) -> None:
    envs = make("CartPole-v1", 3)
    log = play(envs, 30, seed=4)
    assert_same(play(envs, 30, seed=seed), log)
    assert envs.np_random_seed == (4, 5, 6)


def test_seed__lists_need_no_order() -> None:
    envs = make("CartPole-v1", 3)
    alone = [make("CartPole-v1", 1).reset(seed=seed)[0][0] for seed in (90, 2, 90)]
    np.testing.assert_array_equal(envs.reset(seed=[90, 2, 90])[0], alone)


@pytest.mark.parametrize("task_id", TASKS)
def test_environment__has_the_same_run_among_other_neighbours(task_id: str, mode: str) -> None:
    few = make(task_id, 2, mode, max_episode_steps=9)
    many = make(task_id, 5, mode, max_episode_steps=9)
    assert_same(few.reset(seed=6)[0], many.reset(seed=6)[0][:2])
    compared = 0
    for step in range(40):
        shown = [envs.step(act_all(envs, 0, step)) for envs in (few, many)]
        assert_same(*([part[:2] for part in outcome[:4]] for outcome in shown))
        if mode == "Disabled":
            overs = [outcome[2] | outcome[3] for outcome in shown]
            compared += overs[0].sum()
            for envs, over in zip((few, many), overs, strict=True):
                if over.any():
                    envs.reset(options={"reset_mask": over})
        else:
            compared += (shown[0][2] | shown[0][3]).sum()
    assert compared > 3


# Steps with no tie: those the pool calls truncated, and the package terminated.
@pytest.mark.parametrize("task_id", [*TASKS, "Catch-v0", "MiniGrid-Empty-5x5-v0", "HalfCheetah-v5"])
def test_seed__shows_what_envpools_own_pool_shows(task_id: str) -> None:
    envs, pool = make(task_id, 3), make_own(task_id, num_envs=3, seed=21)
    assert_same(_leaves(envs.reset(seed=21)[0]), _leaves(pool.reset()[0]))
    for step in range(230):
        actions = act_all(envs, 0, step)
        obs, *results, infos = envs.step(actions)
        own_obs, *own_results, own_infos = pool.step(actions)
        assert_same([_leaves(obs), *results], [_leaves(own_obs), *own_results])
        np.testing.assert_array_equal(infos["elapsed_step"], own_infos["elapsed_step"])


def _leaves(obs: Any) -> list[np.ndarray]:
    return [leaf.view(np.int8) if leaf.dtype == np.bool_ else leaf for leaf in leaves_of(obs)]


def test_first_reset__without_a_seed_draws_one_and_tells_it() -> None:
    batches = [make("CartPole-v1", 3) for _ in range(2)]
    logs = [play(envs, 5, seed=None) for envs in batches]
    seeds = [envs.np_random_seed for envs in batches]
    assert seeds[0] != seeds[1]
    assert (logs[0][0][0] != logs[1][0][0]).any(axis=1).all()
    for log, seed in zip(logs, seeds, strict=True):
        assert_same(play(make("CartPole-v1", 3), 5, seed=list(seed)), log)


def test_first_reset__keeps_the_seed_that_was_told_before_it() -> None:
    envs = make("CartPole-v1", 2)
    told = envs.np_random_seed
    obs, _ = envs.reset()
    assert envs.np_random_seed == told
    np.testing.assert_array_equal(make("CartPole-v1", 2).reset(seed=list(told))[0], obs)


def test_first_reset__draws_the_seeds_that_a_list_leaves_open() -> None:
    envs = make("CartPole-v1", 3)
    obs, _ = envs.reset(seed=[7, None, 9])
    first, drawn, last = envs.np_random_seed
    assert (first, last) == (7, 9)
    np.testing.assert_array_equal(make("CartPole-v1", 3).reset(seed=[7, drawn, 9])[0], obs)
    other = make("CartPole-v1", 3)
    np.testing.assert_array_equal((other.reset(seed=[7, None, 9])[0] != obs).any(1), [0, 1, 0])


def test_reset__without_a_seed_draws_on(mode: str) -> None:
    envs, twin = (make("CartPole-v1", 3, mode) for _ in range(2))
    begun = [envs.reset(seed=5)[0], envs.reset()[0], envs.reset(seed=None)[0]]
    assert len(np.unique(np.concatenate(begun), axis=0)) == 9
    assert envs.np_random_seed == (5, 6, 7)
    twin.reset(seed=5)
    everyone = {"reset_mask": np.ones(3, np.bool_)}
    assert_same([twin.reset(options=everyone)[0], twin.reset()[0]], begun[1:])


def test_seed__may_be_given_with_a_mask_of_all() -> None:
    envs = make("CartPole-v1", 2)
    obs, _ = envs.reset(seed=5)
    everyone = {"reset_mask": np.ones(2, np.bool_)}
    np.testing.assert_array_equal(envs.reset(seed=5, options=everyone)[0], obs)


@pytest.mark.parametrize("seed", [0, 2**31 - 3, [2**31 - 1, 0, 2**31 - 1]], ids=str)
def test_seed__reaches_both_ends_of_its_range(seed: Any) -> None:
    envs = make("CartPole-v1", 3)
    obs, _ = envs.reset(seed=seed)
    for row, value in enumerate(envs.np_random_seed):
        np.testing.assert_array_equal(make("CartPole-v1", 1).reset(seed=value)[0][0], obs[row])


@pytest.mark.parametrize("seed", [2**31 - 2, 2**31, 2**32 - 1, 2**33, [1, 2**80, 2]], ids=str)
def test_seed__above_the_range_is_one_that_the_pool_takes(seed: Any) -> None:
    envs = make("CartPole-v1", 3)
    log = play(envs, 30, seed=seed)
    wanted = seed if isinstance(seed, list) else [seed, seed + 1, seed + 2]
    assert envs.np_random_seed == tuple(wanted)
    assert_same(play(make("CartPole-v1", 3), 30, seed=list(envs.np_random_seed)), log)
    for row, value in enumerate(wanted):
        own = value
        if value >= 2**31:
            own = int(np.random.SeedSequence(value).generate_state(1)[0]) % 2**31
        pool = make_own("CartPole-v1", num_envs=1, seed=own)
        np.testing.assert_array_equal(pool.reset()[0][0], log[0][0][row])
    assert len(np.unique(log[0][0], axis=0)) == 3


@pytest.mark.parametrize("seed", [-1, [1, -2, 2]], ids=str)
@pytest.mark.parametrize("is_first", [True, False])
def test_seed__below_0_changes_nothing(seed: Any, is_first: bool) -> None:
    envs, twin = make("CartPole-v1", 3), make("CartPole-v1", 3)
    if not is_first:
        assert_same(play(envs, 12), play(twin, 12))
    with pytest.raises(ArgumentError, match=r"`seed` must be 0 or more, got -\d"):
        envs.reset(seed=seed)
    how = {"seed": 3} if is_first else {"seed": "go on"}
    assert_same(play(envs, 30, **how), play(twin, 30, **how))


def test_seed__of_a_wrong_type_is_refused() -> None:
    envs = make("CartPole-v1", 2)
    for seed in (1.5, "1", [1, 2.0], True):
        with pytest.raises(ArgumentTypeError, match="`seed` must"):
            envs.reset(seed=seed)  # type: ignore[arg-type]


REFUSED = {
    "an int under a mask": {"seed": 4, "options": {"reset_mask": np.array([True, False, True])}},
    "a list under a mask": {
        "seed": [4, None, 5],
        "options": {"reset_mask": np.array([True, False, True])},
    },
    "None in a list": {"seed": [4, None, 5]},
}


@pytest.mark.parametrize("case", REFUSED)
def test_seed__of_some_rows_of_a_pool_is_refused_and_changes_nothing(case: str, mode: str) -> None:
    envs, twin = make("CartPole-v1", 3, mode), make("CartPole-v1", 3, mode)
    assert_same(play(envs, 25), play(twin, 25))
    with pytest.raises(ArgumentError, match=r"`seed` .*EnvPool fixes seeds when the pool is"):
        envs.reset(**REFUSED[case])
    assert envs.np_random_seed == (3, 4, 5)
    assert_same(play(envs, 40, seed="go on"), play(twin, 40, seed="go on"))


def test_row_of_nones__under_a_mask_draws_on() -> None:
    envs, twin = make("CartPole-v1", 2), make("CartPole-v1", 2)
    play(envs, 3), play(twin, 3)
    mask = np.array([True, False])
    shown = envs.reset(seed=[None, None], options={"reset_mask": mask})
    assert_same(shown, twin.reset(options={"reset_mask": mask}))
    assert (row_of(shown[0], 0) != row_of(shown[0], 1)).all()
