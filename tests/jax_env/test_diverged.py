from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from gymbridge import BraxVectorEnv
from gymbridge.errors import DivergedError
from tests.support.brax_samples import SampleEnv, count_on, episode_key, start, under
from tests.support.episode_runs import episodes
from tests.support.trees import assert_same

FINE, OBS, REWARD, POSITION, VELOCITY, OTHER, CUT = range(7)
"""Actions: what becomes NaN or infinite in this step; `CUT` is the position in a cut episode."""


BraxPhysics = namedtuple("BraxPhysics", ("q", "qd", "other"))
MujocoPhysics = namedtuple("MujocoPhysics", ("qpos", "qvel", "other"))
"""Physics whose positions have the names that Brax and MuJoCo give them."""


def _bomb(physics: Any = BraxPhysics, as_dict: bool = False) -> SampleEnv:
    """Return an environment that leaves the finite numbers where its action says so."""

    def observe(position: Any) -> Any:
        return {"at": position, "pixel": jnp.uint8(position[0] * 255)} if as_dict else position

    def reset(rng: jax.Array) -> Any:
        position = jax.random.uniform(rng, (2,))
        info = {"steps": 0, "trail": jnp.zeros(3), "truncation": 0.0}
        state = physics(position, jnp.zeros(2), jnp.zeros(()))
        parts = {"obs": observe(position), "info": info, "metrics": {"energy": 0.0}}
        return start(rng, pipeline_state=state, **parts)

    def step(state: Any, action: jax.Array) -> Any:
        def spoil(value: Any, *when: int) -> Any:
            return jnp.where(jnp.isin(action, jnp.array(when)), jnp.nan, value)

        first, second, _ = jax.tree.leaves(state.pipeline_state)
        position = 3.7 * first * (1 - first)
        after = physics(
            spoil(position, POSITION, CUT),
            jnp.where(action == VELOCITY, jnp.inf, second + 0.1),
            spoil(jnp.zeros(()), OTHER),
        )
        seen = position.at[0].set(spoil(position[0], OBS))
        info = {
            "steps": state.info["steps"] + 1,
            "trail": jnp.stack([1.0, spoil(2.0, OBS), -spoil(jnp.inf, OBS)]),
            "truncation": 1.0 * (action == CUT),
        }
        return count_on(
            state,
            action,
            pipeline_state=after,
            obs=observe(seen),
            reward=jnp.where(action == REWARD, -jnp.inf, position.sum()),
            done=1.0 * (action == CUT),
            info=info,
            metrics={"energy": spoil(position[0], OBS, POSITION)},
        )

    return SampleEnv(reset, step, action_space=spaces.Discrete(7))


def _first_obs(seed: int, episode: int) -> np.ndarray:
    return np.asarray(jax.random.uniform(episode_key(seed, episode), (2,)))


@cache
def _batch(mode: str, nonfinite: str = "terminate", limit: int | None = None) -> BraxVectorEnv:
    """Return a batch of three, compiled once for all tests: seed it first."""
    options: dict[str, Any] = {"nonfinite": nonfinite, "max_episode_steps": limit}
    return BraxVectorEnv(_bomb(), 3, autoreset_mode=mode, **options)


@pytest.mark.parametrize("cause", [OBS, REWARD, POSITION, VELOCITY, CUT])
def test_diverged_row__ends_with_its_last_finite_observation(mode: str, cause: int) -> None:
    envs = _batch(mode)
    envs.reset(seed=3)
    before = envs.step([FINE] * 3)[0]
    obs, rewards, terminations, truncations, infos = envs.step([FINE, cause, FINE])
    assert rewards[1] == 0
    assert rewards[[0, 2]].all()
    assert terminations.tolist() == [False, True, False]
    assert not truncations.any()
    assert infos["nonfinite"].tolist() == [False, True, False]
    assert infos["_nonfinite"].tolist() == [True] * 3
    last = infos["final_obs"][1] if mode == "SameStep" else obs[1]
    np.testing.assert_array_equal(last, before[1], strict=True)
    ended = infos["final_info"] if mode == "SameStep" else infos
    assert ended["truncation"].tolist() == [0, cause == CUT, 0], "the environment's own"
    assert np.isfinite(obs).all()
    assert infos["trail"][0].tolist() == [1, 2, -np.inf]  # a neighbour's values come as they are
    assert (ended["steps"][1], ended["nonfinite"][1]) == (2, True)
    if cause == OBS:  # the finite part is kept
        assert ended["trail"][1].tolist() == [1, 0, 0]
        assert ended["energy"][1] == 0


def test_diverged_row__begins_afresh(mode: str) -> None:
    envs = _batch(mode)
    envs.reset(seed=3)
    envs.step([FINE] * 3)
    obs, _, terminations, _, infos = envs.step([FINE, POSITION, FINE])
    assert terminations[1]
    if mode == "Disabled":
        obs, infos = envs.reset(options=under(3, 1))
    elif mode == "NextStep":
        obs, *_, infos = envs.step([FINE] * 3)
    np.testing.assert_array_equal(obs[1], _first_obs(3 + 1, 1), strict=True)
    assert infos["nonfinite"][1] == (mode == "SameStep")  # a flag of the step, not of the episode
    for _ in range(3):
        _, rewards, terminations, _, infos = envs.step([FINE] * 3)
        assert rewards.all()
        assert not terminations.any()
        assert not infos["nonfinite"].any()
    assert infos["steps"][1] == 3


def test_diverged_row__is_not_noticed_by_its_neighbours(mode: str) -> None:
    def run(cause: int) -> Any:
        def act(numbers: list[int], steps: list[int]) -> np.ndarray:
            return np.array([FINE, cause if steps[1] == 3 else FINE, FINE])

        return episodes(_batch(mode), 6, act=act)

    spoilt, fine = run(POSITION), run(FINE)
    assert len(spoilt[1]) > len(fine[1])
    assert_same(spoilt[::2], fine[::2])


def test_divergence__of_other_state_is_nobodys_business() -> None:
    envs = _batch("NextStep")
    envs.reset(seed=0)
    _, rewards, terminations, _, infos = envs.step([OTHER] * 3)
    assert rewards.all()
    assert not terminations.any()
    assert not infos["nonfinite"].any()


@pytest.mark.parametrize(
    ("env", "action_repeat", "actions", "lost"),
    [
        (_bomb(MujocoPhysics), 1, [POSITION, VELOCITY, FINE], [True, True, False]),
        (_bomb(as_dict=True), 1, [FINE, OBS, FINE], [False, True, False]),
        (_bomb(), 3, [FINE, OBS, FINE], [False, True, False]),
    ],
    ids=["MuJoCo's names", "dict", "repeated"],
)
def test_divergence__of_any_part_keeps_the_whole_last_observation(
    env: SampleEnv, action_repeat: int, actions: list[int], lost: list[bool]
) -> None:
    """Of a step that is repeated, it is the observation before the first time."""
    envs = BraxVectorEnv(env, 3, action_repeat=action_repeat)
    before, _ = envs.reset(seed=0)
    obs, rewards, terminations, _, infos = envs.step(actions)
    assert terminations.tolist() == infos["nonfinite"].tolist() == lost
    assert (rewards == 0).tolist() == lost
    for now, then in zip(jax.tree.leaves(obs), jax.tree.leaves(before), strict=True):
        np.testing.assert_array_equal(now[lost], then[lost], strict=True)
        assert (now[~np.array(lost)] != then[~np.array(lost)]).all()


def test_divergence__where_the_observation_never_was_finite_leaves_zero() -> None:
    def lost_start(rng: jax.Array) -> Any:
        return start(rng, obs=jnp.array([jnp.nan, 3.0]))

    envs = BraxVectorEnv(SampleEnv(lost_start, lambda state, action: state), 2)
    envs.reset(seed=0)
    obs, rewards, terminations, _, infos = envs.step(np.ones((2, 1), np.float32))
    assert obs.tolist() == [[0, 3], [0, 3]]
    assert rewards.tolist() == [0, 0]
    assert terminations.all()
    assert infos["nonfinite"].all()


def test_raise__names_the_rows_and_goes_on_from_before_the_step(mode: str) -> None:
    envs = _batch(mode, "raise", limit=4)

    def play(bad: dict[int, list[int]]) -> list[np.ndarray]:
        envs.reset(seed=3)
        seen = []
        for index in range(8):
            if index in bad:
                with pytest.raises(DivergedError, match=r"ments \[0, 2\] produced NaN or Inf"):
                    envs.step(bad[index])
            *values, infos = envs.step([FINE] * 3)
            assert not infos["nonfinite"].any()
            seen.append(np.column_stack([*values, infos["steps"]]))
            if mode == "Disabled" and values[3].any():
                envs.reset(options={"reset_mask": values[3]})
        return seen

    bad = {1: [OBS, FINE, POSITION], 6: [VELOCITY, FINE, REWARD]}
    np.testing.assert_array_equal(play(bad), play({}), strict=True)


def test_raise__lets_the_row_be_reset_instead() -> None:
    envs = _batch("NextStep", "raise", limit=4)
    first, _ = envs.reset(seed=3)
    with pytest.raises(DivergedError, match=r"\[1\]"):
        envs.step([FINE, VELOCITY, FINE])
    obs, _ = envs.reset(options=under(3, 1))
    np.testing.assert_array_equal(obs, [first[0], _first_obs(4, 1), first[2]], strict=True)
    assert np.isfinite(envs.step([FINE] * 3)[0]).all()


def test_ignore__hands_the_values_on(mode: str) -> None:
    envs = _batch(mode, "ignore", limit=2)
    envs.reset(seed=3)
    obs, rewards, terminations, _, infos = envs.step([FINE, OBS, REWARD])
    assert np.isnan(obs).any(1).tolist() == [False, True, False]
    assert np.isnan(infos["energy"]).tolist() == [False, True, False]
    assert np.isfinite(rewards).tolist() == [True, True, False]
    assert not terminations.any()
    assert "nonfinite" not in infos
    obs, _, _, truncations, _ = envs.step([FINE] * 3)
    assert truncations.all()
    if mode == "NextStep":
        obs, *_ = envs.step([FINE] * 3)
    elif mode == "Disabled":
        obs, _ = envs.reset()
    np.testing.assert_array_equal(obs, [_first_obs(3 + row, 1) for row in range(3)], strict=True)
