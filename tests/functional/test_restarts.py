from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

pytest.importorskip("brax")

import jax
from brax_samples import SampleEnv, count_on, episode_key, episodes_of, start, under
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from gymbridge import BraxVectorEnv
from gymbridge.brax.contract import Contract
from gymbridge.brax.translation import BraxFunctionalEnv
from gymbridge.core.episode import EpisodeRule, Seeds
from gymbridge.errors import ArgumentError
from gymbridge.functional.simulator import FunctionalSimulator
from gymbridge.testing.scripted_brax import ScriptedBraxEnv, episode_draw

LENGTHS = [1, 2, 3, 6, 8]
TOP = 2**32 - 1
ZERO = np.int64(0)


@pytest.fixture(scope="module")
def ten() -> BraxVectorEnv:
    """Ten scripted environments that never end: no chunk but 1, 2, 5 and 10 divides them."""
    return BraxVectorEnv(ScriptedBraxEnv([10**6]), 10, autoreset_mode="Disabled")


def _draws(seeds: list[int], episode: int | list[int]) -> list[np.uint32]:
    episodes = np.broadcast_to(episode, len(seeds)).tolist()
    return [episode_draw(seed, number) for seed, number in zip(seeds, episodes, strict=True)]


def test_first_state__is_the_envs_own_of_the_seeds_first_episode() -> None:
    env = SampleEnv()
    envs = BraxVectorEnv(env, 3)
    obs, _ = envs.reset(seed=40)
    expected = [env.reset(episode_key(40 + index, 0)).obs for index in range(3)]
    np.testing.assert_array_equal(obs, np.stack(expected), strict=True)


@pytest.mark.parametrize("reset_first", [False, True])
def test_seeds__an_int_counts_up_and_a_list_gives_each_its_own(
    ten: BraxVectorEnv, reset_first: bool
) -> None:
    if reset_first:
        ten.reset(seed=1)
    seeds = [0, TOP, 2**31, 2**31 - 1, 5, 5, 6, 7, 8, 9]
    assert ten.reset(seed=seeds)[1]["draw"].tolist() == _draws(seeds, 0)
    assert ten.np_random_seed == tuple(seeds)
    counted = list(range(100, 110))
    assert ten.reset(seed=100)[1]["draw"].tolist() == _draws(counted, 0)
    assert ten.np_random_seed == tuple(counted)


def test_seeds__beyond_32_bits_are_hashed(ten: BraxVectorEnv) -> None:
    ten.reset(seed=3)
    for bad in (-1, [*range(9), -1]):
        with pytest.raises(ArgumentError, match="`seed` must be 0 or more, got -1"):
            ten.reset(seed=bad)
    assert ten.np_random_seed == tuple(range(3, 13))
    assert ten.reset()[1]["draw"].tolist() == _draws(list(range(3, 13)), 1)
    last = list(range(TOP - 9, TOP + 1))
    assert ten.reset(seed=TOP - 9)[1]["draw"].tolist() == _draws(last, 0)
    assert ten.reset()[1]["draw"].tolist() == _draws(last, 1)
    hashed = [int(np.random.SeedSequence(TOP + 1 + i).generate_state(1)[0]) for i in range(10)]
    assert ten.reset(seed=TOP + 1)[1]["draw"].tolist() == _draws(hashed, 0)
    assert ten.np_random_seed == tuple(range(TOP + 1, TOP + 11))


def test_seeds__a_none_in_a_list_keeps_drawing(ten: BraxVectorEnv) -> None:
    ten.reset(seed=50)
    seeds = [7, None] * 5
    expected = [seed if seed is not None else 50 + index for index, seed in enumerate(seeds)]
    assert ten.reset(seed=seeds)[1]["draw"].tolist() == _draws(expected, [0, 1] * 5)
    assert ten.reset()[1]["draw"].tolist() == _draws(expected, [1, 2] * 5)
    assert ten.np_random_seed == tuple(expected)


def test_seeds__of_a_first_reset_without_any_are_told() -> None:
    batches = [BraxVectorEnv(ScriptedBraxEnv([9]), 3) for _ in range(2)]
    draws = [envs.reset()[1]["draw"].tolist() for envs in batches]
    assert draws[0] != draws[1]
    for envs, drawn in zip(batches, draws, strict=True):
        assert drawn == _draws(list(envs.np_random_seed), 0)


def test_seeds__under_a_mask_are_true_of_its_rows(ten: BraxVectorEnv) -> None:
    ten.reset(seed=0)
    infos = ten.reset(seed=70, options=under(10, 2, 9))[1]
    assert infos["draw"].tolist() == [
        episode_draw(70 + row, 0) if row in (2, 9) else 0 for row in range(10)
    ]
    expected = [70 + row if row in (2, 9) else row for row in range(10)]
    assert ten.np_random_seed == tuple(expected)
    assert ten.reset()[1]["draw"].tolist() == _draws(expected, 1)


def test_partial_resets__begin_exactly_the_rows_under_any_mask(ten: BraxVectorEnv) -> None:
    """Every count of rows, so that whole chunks, parts of one and padding are all met."""
    rng = np.random.default_rng(0)
    ten.reset(seed=0)
    episodes = np.zeros(10, int)
    for count in [*range(1, 11), 10, 1, 9]:
        obs = ten.step([ZERO] * 10)[0]
        mask = rng.permutation(np.arange(10) < count)
        episodes += mask
        again, infos = ten.reset(options={"reset_mask": mask})
        drawn = np.array(_draws(list(range(10)), episodes.tolist()))
        np.testing.assert_array_equal(infos["draw"], np.where(mask, drawn, 0).astype(np.uint32))
        np.testing.assert_array_equal(again, np.where(mask, 0, obs))
        np.testing.assert_array_equal(ten.step([ZERO] * 10)[-1]["draw"], drawn.astype(np.uint32))


def test_simulator__holds_rows_as_they_are() -> None:
    """What the rule of `DISABLED` asks for where nothing may be raised."""
    simulator = FunctionalSimulator(BraxFunctionalEnv(Contract(ScriptedBraxEnv([2]))), 3)
    rule = EpisodeRule(simulator, AutoresetMode.DISABLED, None)
    everyone = np.ones(3, bool)
    carry = rule.reset(None, everyone, Seeds(np.arange(3, dtype=np.uint32), everyone)).carry
    carry = rule.step(carry, np.ones(3, np.int32)).carry
    nothing = Seeds(np.zeros(3, np.uint32), ~everyone)
    carry = rule.reset(carry, np.array([False, True, False]), nothing).carry
    script = {(1.5, 1.25, 1.5): (1, 0, 1), (0, 1.5, 0): (1, 1, 1), (0, 0, 0): (1, 1, 1)}
    for rewards, ended in script.items():
        carry, time_step, _ = rule.step(carry, np.ones(3, np.int32))
        np.testing.assert_array_equal(time_step.reward, rewards)
        np.testing.assert_array_equal(time_step.terminated, ended)
        np.testing.assert_array_equal(carry.ended, ended)
        assert not time_step.truncated.any()
    assert time_step.obs.tolist() == [2] * 3
    assert time_step.info["script"]["total"].tolist() == [2] * 3
    assert carry.elapsed.tolist() == [2] * 3


def _choose(env: int, episode: int, step: int) -> np.int64:
    return np.int64((env + episode + step) % 3)


@pytest.fixture(scope="module")
def episodes() -> dict[tuple[int, str], Any]:
    """The episodes that ten, four and one environments see in each mode."""

    def play(num_envs: int, mode: str) -> Any:
        env = ScriptedBraxEnv(LENGTHS, [False, True, False, False, True])
        envs = BraxVectorEnv(env, num_envs, autoreset_mode=mode, max_episode_steps=6)
        return episodes_of(envs, _choose, 60)

    sizes = {"NextStep": (1, 4, 10), "SameStep": (1, 10), "Disabled": (1, 10)}
    return {(size, mode): play(size, mode) for mode in sizes for size in sizes[mode]}


def test_episodes__are_those_of_the_script(episodes: dict[tuple[int, str], Any]) -> None:
    ends = Counter()
    for env, past in enumerate(episodes[10, "NextStep"]):
        for number, episode in enumerate(past):
            kind = int(episode_draw(7 + env, number)) % len(LENGTHS)
            assert len(episode) - 1 == min(LENGTHS[kind], 6)
            terminated, truncated = episode[-1][2:]
            assert (terminated, truncated) == ((kind in (0, 2, 3)), kind in (1, 4))
            assert not any(flag for step in episode[1:-1] for flag in step[2:])
            ends[kind] += 1
    assert set(ends) == set(range(len(LENGTHS)))


def test_episodes__are_the_same_in_every_mode(episodes: dict[tuple[int, str], Any]) -> None:
    for env in range(10):
        played = [episodes[10, mode][env] for mode in ("NextStep", "SameStep", "Disabled")]
        shared = min(map(len, played))
        assert shared >= 6
        assert played[0][:shared] == played[1][:shared] == played[2][:shared]


def test_episodes__are_the_same_in_every_batch_size(episodes: dict[tuple[int, str], Any]) -> None:
    for (size, mode), played in episodes.items():
        for mine, other in zip(played, episodes[10, mode][:size], strict=True):
            assert len(mine) == len(other)
            assert mine == other


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_restarts__cost_nothing_without_ends_and_at_most_about_one_full_reset(mode: str) -> None:
    """The environment reports each of its resets that is really run, and ends on command."""
    run: list[Any] = []

    def reset(rng: jax.Array) -> Any:
        jax.debug.callback(lambda draw: run.append(draw), jax.random.bits(rng))
        return start(rng)

    env = SampleEnv(
        reset,
        lambda state, act: count_on(state, 1.0 * act, done=1.0 * act[0]),
        action_space=spaces.MultiBinary(1),
    )
    envs = BraxVectorEnv(env, 64, autoreset_mode=mode)
    envs.reset(seed=0)
    costs = []
    for ends in (0, 1, 20, 64):
        jax.effects_barrier()
        run.clear()
        actions = (np.arange(64) < ends)[:, None].astype(np.int8)
        envs.step(actions)
        if mode == "NextStep":
            envs.step(np.zeros((64, 1), np.int8))
        jax.effects_barrier()
        costs.append(len(run))
    nothing, one, some, full = costs
    assert nothing == 0
    assert 1 <= one < some < full
    assert 64 <= full <= 64 + one
