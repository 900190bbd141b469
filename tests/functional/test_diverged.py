from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("brax")

import jax
import jax.numpy as jnp
from brax_samples import SampleEnv, count_on, episode_key, start, under
from flax import struct
from gymnasium import spaces

from gymbridge import BraxVectorEnv
from gymbridge.errors import DivergedError

FINE, OBS, REWARD, POSITION, VELOCITY, OTHER, CUT = range(7)
"""Actions: what becomes NaN or infinite in this step; `CUT` is the position in a cut episode."""


@struct.dataclass
class BraxPhysics:
    """Physics whose positions have the names that Brax gives them."""

    q: Any
    qd: Any
    other: Any


@struct.dataclass
class MujocoPhysics:
    """Physics whose positions have the names that MuJoCo gives them."""

    qpos: Any
    qvel: Any
    other: Any


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
        shown = position.at[0].set(spoil(position[0], OBS))
        info = {
            "steps": state.info["steps"] + 1,
            "trail": jnp.stack([1.0, spoil(2.0, OBS), -spoil(jnp.inf, OBS)]),
            "truncation": 1.0 * (action == CUT),
        }
        return count_on(
            state,
            action,
            pipeline_state=after,
            obs=observe(shown),
            reward=jnp.where(action == REWARD, -jnp.inf, position.sum()),
            done=1.0 * (action == CUT),
            info=info,
            metrics={"energy": spoil(position[0], OBS, POSITION)},
        )

    space = spaces.Discrete(7)
    return SampleEnv(reset, step, action_space=space)


def _first_obs(seed: int, episode: int) -> np.ndarray:
    return np.asarray(jax.random.uniform(episode_key(seed, episode), (2,)))


@pytest.fixture(scope="module")
def batches() -> dict[str, BraxVectorEnv]:
    """One batch of three per mode, and a twin on which nothing ever diverges."""
    modes = ("NextStep", "SameStep", "Disabled")
    built = {mode: BraxVectorEnv(_bomb(), 3, autoreset_mode=mode) for mode in modes}
    twins = {f"{m} twin": BraxVectorEnv(_bomb(), 3, autoreset_mode=m) for m in modes}
    return {**built, **twins}


@pytest.mark.parametrize("cause", [OBS, REWARD, POSITION, VELOCITY, CUT])
def test_diverged_row__ends_with_its_last_finite_observation(
    batches: dict[str, BraxVectorEnv], mode: str, cause: int
) -> None:
    envs = batches[mode]
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
    assert ended["truncation"].tolist() == [0, 0, 0], "it terminated"
    assert np.isfinite(obs).all()


def test_diverged_row__keeps_the_finite_part_of_its_infos(
    batches: dict[str, BraxVectorEnv], mode: str
) -> None:
    envs = batches[mode]
    envs.reset(seed=3)
    envs.step([FINE] * 3)
    infos = envs.step([FINE, OBS, FINE])[-1]
    assert infos["trail"][0].tolist() == [1, 2, -np.inf]  # a neighbour's values come as they are
    last = infos["final_info"] if mode == "SameStep" else infos
    assert last["trail"][1].tolist() == [1, 0, 0]
    assert (last["energy"][1], last["steps"][1], last["nonfinite"][1]) == (0, 2, True)


def test_diverged_row__begins_afresh_and_neighbours_do_not_notice(
    batches: dict[str, BraxVectorEnv], mode: str
) -> None:
    envs, twin = batches[mode], batches[f"{mode} twin"]
    envs.reset(seed=3)
    twin.reset(seed=3)
    for index in range(8):
        actions = [FINE, POSITION if index == 2 else FINE, FINE]
        obs, rewards, terminations, _, infos = envs.step(actions)
        if index == 2 and mode == "Disabled":
            obs, fresh_infos = envs.reset(options=under(3, 1))
            assert not fresh_infos["nonfinite"].any()
        elif index == 2 and mode == "NextStep":
            assert terminations[1]
        same_obs, same_rewards, *_, same_infos = twin.step([FINE] * 3)
        np.testing.assert_array_equal(obs[[0, 2]], same_obs[[0, 2]], strict=True)
        np.testing.assert_array_equal(rewards[[0, 2]], same_rewards[[0, 2]], strict=True)
        np.testing.assert_array_equal(infos["energy"][[0, 2]], same_infos["energy"][[0, 2]])
        if index == (3 if mode == "NextStep" else 2):
            np.testing.assert_array_equal(obs[1], _first_obs(3 + 1, 1), strict=True)
            assert infos["nonfinite"][1] == (mode != "NextStep")
        if index > 3:
            assert rewards[1] > 0
            assert infos["nonfinite"].tolist() == [False] * 3
    assert infos["steps"].tolist() == [8, 4 if mode == "NextStep" else 5, 8]


def test_diverged_rows__may_be_all_of_them(batches: dict[str, BraxVectorEnv], mode: str) -> None:
    envs = batches[mode]
    first, _ = envs.reset(seed=3)
    obs, rewards, terminations, _, infos = envs.step([OBS, REWARD, VELOCITY])
    assert rewards.tolist() == [0] * 3
    assert terminations.all()
    assert infos["nonfinite"].all()
    last = np.stack(infos["final_obs"]) if mode == "SameStep" else obs
    np.testing.assert_array_equal(last, first, strict=True)


def test_diverged_row__on_the_last_allowed_step_is_terminated_only(mode: str) -> None:
    envs = BraxVectorEnv(_bomb(), 2, max_episode_steps=1, autoreset_mode=mode)
    envs.reset(seed=0)
    _, _, terminations, truncations, infos = envs.step([FINE, POSITION])
    assert (terminations.tolist(), truncations.tolist()) == ([False, True], [True, False])
    assert infos["nonfinite"].tolist() == [False, True]


def test_divergence__of_other_state_is_nobodys_business(batches: dict[str, BraxVectorEnv]) -> None:
    envs = batches["NextStep"]
    envs.reset(seed=0)
    _, rewards, terminations, _, infos = envs.step([OTHER] * 3)
    assert rewards.all()
    assert not terminations.any()
    assert not infos["nonfinite"].any()


@pytest.mark.parametrize("cause", [POSITION, VELOCITY])
def test_divergence__is_seen_in_mujocos_names_too(cause: int) -> None:
    envs = BraxVectorEnv(_bomb(MujocoPhysics), 2)
    before, _ = envs.reset(seed=0)
    obs, rewards, terminations, _, infos = envs.step([cause, FINE])
    np.testing.assert_array_equal(obs[0], before[0], strict=True)
    assert rewards[0] == 0
    assert terminations.tolist() == infos["nonfinite"].tolist() == [True, False]


def test_divergence__of_one_part_of_a_dict_observation_keeps_the_whole_last_one() -> None:
    envs = BraxVectorEnv(_bomb(as_dict=True), 2)
    before, _ = envs.reset(seed=0)
    obs, _, terminations, *_ = envs.step([FINE, OBS])
    assert terminations.tolist() == [False, True]
    for name in ("at", "pixel"):
        np.testing.assert_array_equal(obs[name][1], before[name][1], strict=True)
        assert (obs[name][0] != before[name][0]).all()


def test_divergence__in_a_repeated_step_ends_it_with_the_observation_before() -> None:
    envs = BraxVectorEnv(_bomb(), 2, action_repeat=3)
    before, _ = envs.reset(seed=0)
    obs, rewards, terminations, _, infos = envs.step([FINE, OBS])
    np.testing.assert_array_equal(obs[1], before[1], strict=True)
    assert rewards[1] == 0
    assert terminations.tolist() == infos["nonfinite"].tolist() == [False, True]


def test_raise__names_the_rows_and_goes_on_from_before_the_step(mode: str) -> None:
    envs, twin = (
        BraxVectorEnv(_bomb(), 4, nonfinite=nonfinite, autoreset_mode=mode, max_episode_steps=4)
        for nonfinite in ("raise", "terminate")
    )
    envs.reset(seed=3)
    twin.reset(seed=3)
    for index in range(8):
        if index in (1, 6):
            with pytest.raises(DivergedError, match=r"Environments \[1, 3\] produced NaN or Inf"):
                envs.step(
                    [FINE, OBS, FINE, POSITION] if index == 1 else [FINE, VELOCITY, FINE, REWARD]
                )
        ours, theirs = envs.step([FINE] * 4), twin.step([FINE] * 4)
        for mine, other in zip(ours[:4], theirs[:4], strict=True):
            np.testing.assert_array_equal(mine, other, strict=True)
        assert not ours[-1]["nonfinite"].any()
        np.testing.assert_array_equal(ours[-1]["steps"], theirs[-1]["steps"], strict=True)
        if mode == "Disabled" and ours[3].any():
            envs.reset(options={"reset_mask": ours[3]})
            twin.reset(options={"reset_mask": ours[3]})


def test_raise__lets_the_row_be_reset_instead() -> None:
    envs = BraxVectorEnv(_bomb(), 2, nonfinite="raise")
    first, _ = envs.reset(seed=3)
    with pytest.raises(DivergedError, match=r"\[1\]"):
        envs.step([FINE, VELOCITY])
    obs, _ = envs.reset(options=under(2, 1))
    np.testing.assert_array_equal(obs, [first[0], _first_obs(4, 1)], strict=True)
    assert np.isfinite(envs.step([FINE, FINE])[0]).all()


def test_ignore__hands_the_values_on(mode: str) -> None:
    envs = BraxVectorEnv(_bomb(), 2, nonfinite="ignore", autoreset_mode=mode, max_episode_steps=2)
    for cause in (OBS, REWARD):
        envs.reset(seed=3)
        obs, rewards, terminations, _, infos = envs.step([FINE, cause])
        assert np.isnan(obs).any(1).tolist() == [False, cause == OBS]
        assert np.isfinite(rewards).tolist() == [True, cause == OBS]
        assert not terminations.any()
        assert "nonfinite" not in infos
        assert np.isnan(infos["energy"]).tolist() == [False, cause == OBS]
        obs, _, _, truncations, _ = envs.step([FINE, FINE])
        assert truncations.all()
        if mode == "NextStep":
            obs, *_ = envs.step([FINE, FINE])
        elif mode == "Disabled":
            obs, _ = envs.reset(options=under(2, 0, 1))
        np.testing.assert_array_equal(obs, [_first_obs(3, 1), _first_obs(4, 1)], strict=True)
