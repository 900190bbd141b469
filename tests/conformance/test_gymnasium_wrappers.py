"""Gymnasium's vector wrappers and processes do on ids of ours what its own tests ask of them.

The assertions are those of Gymnasium 1.4's `tests/wrappers/vector` and `tests/vector`, in our
words.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers as single
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector

from tests.support.batches import MODES
from tests.support.player import calls
from tests.support.trees import assert_same

pytest.importorskip("envpool.registration")
pytest.importorskip("brax.envs")

CARTPOLE = "EnvPool/CartPole-v1"
CAR = "EnvPool/CarRacing-v3"
HILL = "EnvPool/MountainCarContinuous-v0"
BRAX = "Brax/fast-v0"

EQUAL = [
    ("EnvPool/MiniGrid-Empty-5x5-v0", "FilterObservation", {"filter_keys": ["direction"]}),
    (CARTPOLE, "FlattenObservation", {}),
    (CAR, "GrayscaleObservation", {}),
    (CAR, "ResizeObservation", {"shape": (35, 45)}),
    (CAR, "ReshapeObservation", {"shape": (96, 48, 6)}),
    (
        CARTPOLE,
        "RescaleObservation",
        {
            "min_obs": np.array([0, -np.inf, 0, -np.inf], np.float32),
            "max_obs": np.array([1, np.inf, 1, np.inf], np.float32),
        },
    ),
    (CAR, "DtypeObservation", {"dtype": np.int32}),
    (HILL, "ClipAction", {}),
    (HILL, "RescaleAction", {"min_action": 1, "max_action": 2}),
    (CARTPOLE, "ClipReward", {"min_reward": -0.25, "max_reward": 0.75}),
    (CARTPOLE, "RecordEpisodeStatistics", {}),
    (BRAX, "FlattenObservation", {}),
    (BRAX, "RescaleAction", {"min_action": 1, "max_action": 2}),
    (BRAX, "RecordEpisodeStatistics", {}),
]

BARE = [
    *("EnvPool/Acrobot-v1", "EnvPool/FetchReach-v4", "EnvPool/FrozenLake-v1", CARTPOLE, BRAX),
    *("EnvPool/LunarLander-v3", "EnvPool/MiniGrid-Empty-5x5-v0", "EnvPool/Play2048-v1"),
]

IN_MODES = [(*case, "NextStep") for case in EQUAL] + [
    (*case, mode)
    for case in EQUAL
    for mode in ("SameStep", "Disabled")
    # Gymnasium refuses wrappers of observations in SAME_STEP, and has statistics elsewhere there.
    if mode == "Disabled" or case[1] in ("ClipAction", "RescaleAction", "ClipReward")
]
IN_MODES += [(env_id, "", {}, mode) for env_id in BARE for mode in MODES]

TERMINATES = ("EnvPool/FrozenLake-v1", CARTPOLE)
"""Bare tasks whose episodes end by themselves within the limit."""


def assert_alike(found: Any, expected: Any) -> None:
    """Raise unless all is equal but for documented differences, and durations.

    Rewards are float32 (on Brax equal to rounding, as sizes of a batch differ), a tie of both ends
    is terminated alone, last observations that are whole numbers are Python's, and statistics of a
    `SyncVectorEnv` have masks within the mask.
    """
    obs, *outcome, infos = expected
    if outcome:
        rewards, terminated, truncated = outcome
        np.testing.assert_allclose(found[1], rewards, rtol=1e-6)
        outcome = [found[1], terminated, truncated & ~terminated]
    if "episode" in infos:
        statistics, wanted = found[-1].pop("episode"), infos.pop("episode")
        assert statistics["t"].shape == wanted["t"].shape
        assert statistics["t"].dtype == wanted["t"].dtype
        np.testing.assert_array_equal(statistics["l"], wanted["l"])
        np.testing.assert_allclose(statistics["r"], wanted["r"], rtol=1e-6)
    for given in (infos, found[-1]):
        if "final_obs" in given:
            given["final_obs"] = [_with_ints(last) for last in given["final_obs"]]
    assert_same([*found], [obs, *outcome, infos])


def _with_ints(obs: Any) -> Any:
    if isinstance(obs, dict):
        return {key: _with_ints(value) for key, value in obs.items()}
    return int(obs) if isinstance(obs, np.integer) else obs


@pytest.mark.parametrize(("env_id", "name", "kwargs", "mode"), IN_MODES)
def test_batch__and_its_wrapper_are_those_of_each_environment(
    env_id: str, name: str, kwargs: dict[str, Any], mode: str
) -> None:
    if name == "ResizeObservation":
        pytest.importorskip("cv2")
    num_envs, wrappers = 3, ()
    limit, num_steps = (9, 25) if name else (25, 60)
    envs: Any = gym.make_vec(env_id, num_envs, autoreset_mode=mode, max_episode_steps=limit)
    if name:
        envs = getattr(vector, name)(envs, **kwargs)
        wrappers = (lambda env: getattr(single, name)(env, **kwargs),)
    each = gym.make_vec(
        env_id,
        num_envs,
        vectorization_mode="sync",
        wrappers=wrappers,
        vector_kwargs={"autoreset_mode": AutoresetMode(mode)},
        max_episode_steps=limit,
    )
    for space in ("action_space", "observation_space"):
        assert getattr(envs, space) == getattr(each, space)
        assert getattr(envs, f"single_{space}") == getattr(each, f"single_{space}")
    assert envs.num_envs == each.num_envs == num_envs
    envs.action_space.seed(1)
    terminations = 0
    for call in calls(envs, num_steps, seed=123, act=lambda _: envs.action_space.sample()):
        terminations += np.count_nonzero(call.found[2]) if len(call.found) > 2 else 0
        assert_alike(call.found, call.again(each))
    assert terminations or name or env_id not in TERMINATES
    each.close()


@pytest.mark.parametrize("env_id", [CARTPOLE, pytest.param(BRAX, marks=pytest.mark.slow)])
def test_processes_of_gymnasium__have_an_environment_each(env_id: str) -> None:
    spawn = {"context": "spawn"}  # JAX, which other tests have started, does not fork
    options: Any = {"num_envs": 2, "max_episode_steps": 9}
    apart = gym.make_vec(env_id, vectorization_mode="async", vector_kwargs=spawn, **options)
    together = gym.make_vec(env_id, vectorization_mode="sync", **options)
    assert_same(list(apart.reset(seed=3)), list(together.reset(seed=3)))
    together.action_space.seed(0)
    for _ in range(12):
        actions = together.action_space.sample()
        assert_same(list(apart.step(actions)), list(together.step(actions)))
    apart.close()
    together.close()
