"""The stack of CleanRL's continuous PPO on a batch is that of Gymnasium's wrappers on each row."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers

from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.testing import scripted_vector_env
from gymbridge.trainers.cleanrl import CleanRLVectorEnv, make_cleanrl
from gymbridge.trainers.cleanrl.scaling import ScaledVectorEnv
from tests.support.references import OldStep, OldSync, WalkEnv, sync

NUM_ENVS = 4
DOUBLE = gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
"""Gymnasium 1.x keeps the statistics in the dtype of the space; 0.29 kept them in double always."""


def make_raw() -> CleanRLVectorEnv:
    return CleanRLVectorEnv(sync([WalkEnv] * NUM_ENVS))


def make_view(statistics: str = "env") -> ScaledVectorEnv:
    return ScaledVectorEnv(make_raw(), statistics=statistics, gamma=0.9)


def make_stack(gamma: float) -> gym.Env[Any, Any]:
    """Return one environment wrapped as scripts wrap it, by Gymnasium's own wrappers."""
    env: Any = wrappers.RecordEpisodeStatistics(WalkEnv(DOUBLE))
    env = wrappers.ClipAction(env)
    env = wrappers.NormalizeObservation(env)
    env = wrappers.TransformObservation(env, lambda obs: np.clip(obs, -10, 10), None)
    env = wrappers.NormalizeReward(env, gamma=gamma)
    return wrappers.TransformReward(env, lambda reward: np.clip(reward, -10, 10))


def actions_of(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(0, 1, (NUM_ENVS, 2)).astype(np.float32)  # half of them out of bounds


def assert_close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def assert_scaled_as_by_wrappers(step: Any, old: OldStep) -> None:
    obs, rewards, terminations, truncations, infos = step
    assert_close(obs, np.stack(old.obs))
    assert_close(rewards, old.rewards)
    np.testing.assert_array_equal(terminations, old.terminations)
    np.testing.assert_array_equal(truncations, old.truncations)
    for index, (final_obs, info) in enumerate(zip(old.final_obs, old.final_info, strict=True)):
        if info is None:
            assert "final_info" not in infos or infos["final_info"][index] is None
            continue
        assert_close(infos["final_observation"][index], final_obs)
        assert infos["final_observation"][index].dtype == obs.dtype
        record = infos["final_info"][index]["episode"]
        assert_close(record["r"], info["episode"]["r"])
        assert record["l"] == info["episode"]["l"]
        assert infos["final_info"][index]["end"] == info["end"]


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_env_statistics__are_those_of_wrappers_around_each_environment(gamma: float) -> None:
    view = CleanRLVectorEnv(sync([lambda: WalkEnv(DOUBLE)] * NUM_ENVS))
    view = ScaledVectorEnv(view, statistics="env", gamma=gamma)
    old = OldSync([make_stack(gamma) for _ in range(NUM_ENVS)], records=False)
    assert_close(view.reset(seed=1)[0], np.stack(old.reset([1, 2, 3, 4])))
    rng, ends, cuts = np.random.default_rng(0), 0, 0
    for _ in range(150):
        actions = actions_of(rng)
        step = old.step(actions)
        assert_scaled_as_by_wrappers(view.step(actions), step)
        ends, cuts = ends + sum(step.terminations), cuts + sum(step.truncations)
    assert min(ends, cuts) > 30


def test_batch_statistics__are_of_all_that_was_seen_and_scale_every_row_alike() -> None:
    view, raw = make_view("batch"), make_raw()
    view.reset(seed=1)
    seen = [raw.reset(seed=1)[0]]
    rng, returns, sums = np.random.default_rng(0), np.zeros(NUM_ENVS), []
    moments, return_moments = view.observation_moments, view.return_moments
    for _ in range(200):
        actions = actions_of(rng)
        scaled_obs, scaled_rewards, *_ = view.step(actions)
        obs, rewards, terminations, _, infos = raw.step(actions.clip(-0.5, 0.5))
        over = infos.get("_final_observation", np.zeros(NUM_ENVS, np.bool_))
        finals = [final[None] for final in infos.get("final_observation", ()) if final is not None]
        seen += [obs[~over], *finals, obs[over]]
        returns = returns * 0.9 * (1 - terminations) + rewards
        sums.append(returns)
        if not over.any():  # else new episodes changed the moments after other rows were scaled
            centred = obs - moments.center(0)
            assert_close(scaled_obs, (centred / moments.scale(0)).clip(-10, 10))
            assert_close(scaled_rewards, (rewards / return_moments.scale(0)).clip(-10, 10))
    everything = np.concatenate(seen).astype(np.float64)
    assert moments.count.item() == pytest.approx(len(everything), abs=0.01)
    np.testing.assert_allclose(moments.mean[0], everything.mean(0), rtol=1e-3)
    np.testing.assert_allclose(moments.var[0], everything.var(0), rtol=1e-3)
    assert return_moments.var[0] == pytest.approx(np.var(sums), rel=1e-3)


def test_observations__fit_a_space_of_their_own() -> None:
    view = make_view()
    assert view.single_observation_space == gym.spaces.Box(-10, 10, (3,), np.float32)
    obs, _ = view.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert obs in view.observation_space
        obs, rewards, *_ = view.step(actions_of(rng))
        assert np.abs(rewards).max() <= 10
    view.single_observation_space.dtype = np.float64
    assert view.step(actions_of(rng))[0].dtype == np.float64


def test_outliers__are_clipped() -> None:
    """One value far from 200 equal ones lies 14 deviations away, however far it is."""

    class Leap(WalkEnv):
        count = 0

        def step(self, action: Any) -> Any:
            self.count += 1
            far = 1e6 if self.count > 200 else 0.0
            return np.full(3, far, np.float32), -far, False, self.count > 201, {}

        def reset(self, **kwargs: Any) -> Any:
            return np.zeros(3, np.float32), {}

    view = ScaledVectorEnv(CleanRLVectorEnv(sync([Leap])))
    view.reset(seed=0)
    for _ in range(200):
        view.step(np.zeros((1, 2), np.float32))
    obs, rewards, *_ = view.step(np.zeros((1, 2), np.float32))
    assert obs.tolist() == [[10, 10, 10]]
    assert rewards.tolist() == [-10]
    infos = view.step(np.zeros((1, 2), np.float32))[-1]
    assert infos["final_observation"][0].max() <= 10


@pytest.mark.parametrize("statistics", ["env", "batch"])
def test_partial_reset__counts_and_changes_its_own_rows_alone(statistics: str) -> None:
    view, mask = make_view(statistics), np.array([True, False, False, True])
    view.reset(seed=0)
    before, _, _, _, _ = view.step(np.zeros((NUM_ENVS, 2), np.float32))
    count = view.observation_moments.count.ravel().copy()
    obs, _ = view.reset(options={"reset_mask": mask})
    grown = view.observation_moments.count.ravel() - count
    assert_close(grown, [1, 0, 0, 1] if statistics == "env" else [2])
    if statistics == "env":
        assert (obs == before).all(1).tolist() == (~mask).tolist()


def test_integer_observations__become_floats() -> None:
    space = gym.spaces.Box(-99, 99, (3,), np.int32)
    view = ScaledVectorEnv(CleanRLVectorEnv(sync([lambda: WalkEnv(space)])))
    assert view.reset(seed=0)[0].dtype == np.float32
    assert view.step(np.zeros((1, 2), np.float32))[0].dtype == np.float32


def test_scaled__refuses_what_it_cannot_serve() -> None:
    """Around other batches it would leave final observations as they are."""
    view = CleanRLVectorEnv(sync([WalkEnv]))
    with pytest.raises(ArgumentError, match=r"`statistics` must be 'env'.*'batch'.*got 'rows'"):
        ScaledVectorEnv(view, statistics="rows")
    with pytest.raises(ArgumentError, match=r"`gamma`.*got nan"):
        ScaledVectorEnv(view, gamma=float("nan"))
    frozen = make_cleanrl("FrozenLake-v1", 1)
    with pytest.raises(ArgumentError, match=r"`normalize` needs Box observations, got Discrete"):
        ScaledVectorEnv(frozen)
    for envs in (
        scripted_vector_env([2, 3], autoreset_mode="SameStep"),
        sync([WalkEnv]),
        wrappers.vector.FlattenObservation(gym.make_vec("CartPole-v1", 2)),
    ):
        with pytest.raises(ArgumentError, match=r"`envs` must be a CleanRLVectorEnv.*CleanRLVec"):
            ScaledVectorEnv(envs)
    with pytest.raises(ArgumentTypeError, match="`envs` must be a CleanRLVectorEnv, got"):
        ScaledVectorEnv("Pendulum-v1")


def test_scaled__takes_a_wrapper_around_the_view() -> None:
    view = CleanRLVectorEnv(sync([WalkEnv]))
    ScaledVectorEnv(wrappers.vector.ClipReward(view, -1, 1)).reset(seed=0)


def test_make__puts_the_stack_around_the_view() -> None:
    rewards = []
    for gamma in (0.5, 0.99):
        view = make_cleanrl("Pendulum-v1", 2, normalize="env", gamma=gamma)
        assert view.observation_moments.mean.shape == (2, 3)
        view.reset(seed=0)
        rewards.append([view.step(np.zeros((2, 1), np.float32))[1] for _ in range(5)])
    assert not np.allclose(*rewards)
    view = make_cleanrl("Pendulum-v1", 2, normalize="batch")
    assert view.observation_moments.mean.shape == (1, 3)


def test_scaled__counts_actions_that_are_taken_alone_and_keeps_dtypes() -> None:
    view = ScaledVectorEnv(CleanRLVectorEnv(scripted_vector_env([2, 3], autoreset_mode="SameStep")))
    view.reset(seed=0)
    before = view.observation_moments.count.copy(), view.return_moments.count.copy()
    with pytest.raises(ValueError, match="actions"):
        view.step(np.array([7, 0]))
    after = view.observation_moments.count, view.return_moments.count
    np.testing.assert_array_equal(np.stack(before), np.stack(after))
    assert view.step(np.array([1, 0]))[1].dtype == np.float32
