"""A seed fixes every episode of an environment, as it does in EnvPool's own pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")

from gymbridge.errors import ArgumentError
from tests.support.envpool_runs import act_all, as_ints, make, make_own
from tests.support.trees import assert_same

TASKS = ("Blackjack-v1", "CartPole-v1", "FrozenLake-v1", "LunarLander-v3", "Pendulum-v1")


@pytest.mark.parametrize(
    "task_id", ["CartPole-v1", pytest.param("MazeEasy-v0", marks=pytest.mark.needs_qt5)]
)
def test_seed__means_the_same_in_an_int_a_list_of_any_order_and_alone(task_id: str) -> None:
    """EnvPool's own Procgen begins other games for an int than for a list of the same seeds."""
    by_int = make(task_id, 3).reset(seed=90)[0]
    by_list = make(task_id, 4).reset(seed=[92, 90, 91, 90])[0]
    alone = [make(task_id, 1).reset(seed=seed)[0][0] for seed in (90, 91, 92)]
    np.testing.assert_array_equal(by_int, alone)
    np.testing.assert_array_equal(by_list[[1, 2, 0]], alone)
    np.testing.assert_array_equal(by_list[3], alone[0])


# Steps with no tie: those the pool calls truncated, and the package terminated.
@pytest.mark.parametrize(
    "task_id", [*TASKS, "Catch-v0", "MiniGrid-Empty-5x5-v0", "HalfCheetah-v5", "Play2048-v1"]
)
def test_seed__makes_the_run_of_envpools_own_pool(task_id: str) -> None:
    envs, pool = make(task_id, 3), make_own(task_id, num_envs=3, seed=21)
    assert_same(as_ints(envs.reset(seed=21)[0]), as_ints(pool.reset()[0]))
    for step in range(230):
        actions = act_all(envs, 0, step)
        obs, *results, infos = envs.step(actions)
        own_obs, *own_results, own_infos = pool.step(actions)
        assert_same([as_ints(obs), *results], [as_ints(own_obs), *own_results])
        np.testing.assert_array_equal(infos["elapsed_step"], own_infos["elapsed_step"])


def test_reset__without_a_seed_draws_on(mode: str) -> None:
    envs, twin = (make("CartPole-v1", 3, mode) for _ in range(2))
    begun = [envs.reset(seed=5)[0], envs.reset()[0], envs.reset(seed=None)[0]]
    assert len(np.unique(np.concatenate(begun), axis=0)) == 9
    assert envs.np_random_seed == (5, 6, 7)
    twin.reset(seed=5)
    everyone = {"reset_mask": np.ones(3, np.bool_)}
    assert_same([twin.reset(options=everyone)[0], twin.reset()[0]], begun[1:])
    assert_same(twin.reset(seed=5, options=everyone)[0], begun[0])


@pytest.mark.parametrize("seed", [0, 2**31 - 2, 2**32 - 1, [1, 2**80, 2]], ids=str)
def test_seed__is_used_as_it_is_in_the_pools_range_and_folded_above_it(seed: Any) -> None:
    envs = make("CartPole-v1", 3)
    begun, _ = envs.reset(seed=seed)
    wanted = seed if isinstance(seed, list) else [seed, seed + 1, seed + 2]
    assert envs.np_random_seed == tuple(wanted)
    for row, value in enumerate(wanted):
        own = value
        if value >= 2**31:
            own = int(np.random.SeedSequence(value).generate_state(1)[0]) % 2**31
        pool = make_own("CartPole-v1", num_envs=1, seed=own)
        np.testing.assert_array_equal(pool.reset()[0][0], begun[row])
    assert len(np.unique(begun, axis=0)) == 3


def test_seed__of_some_rows_of_a_pool_is_refused_with_the_reason() -> None:
    """conformance/test_fuzz.py shows that a refused call changes nothing."""
    envs = make("CartPole-v1", 3)
    envs.reset(seed=3)
    mask = {"reset_mask": np.array([True, False, True])}
    for case in ({"seed": 4, "options": mask}, {"seed": [4, None, 5]}):
        with pytest.raises(ArgumentError, match=r"`seed` .*EnvPool fixes seeds when the pool is"):
            envs.reset(**case)
    assert envs.np_random_seed == (3, 4, 5)
