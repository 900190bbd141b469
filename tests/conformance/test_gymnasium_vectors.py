"""Ids of ours do what Gymnasium's own tests ask of vector environments.

The assertions are those of Gymnasium 1.4's `tests/vector`, in our words. Modes and infos are
compared with `SyncVectorEnv` in the other files of this folder. Left out is what no id of ours has:
environments that differ within a batch, spaces of another project's own, and worker processes.
"""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from batches import make_task
from gymnasium.error import InvalidAction
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper
from trees import assert_same

pytest.importorskip("envpool.registration")

CARTPOLE = "EnvPool/CartPole-v1"
BRAX = "Brax/fast-v0"


class CountResets(VectorWrapper):
    """Counts the calls of `reset`, and has metadata of its own when they are set."""

    resets = 0

    def reset(self, **kwargs: Any) -> Any:
        self.resets += 1
        return self.env.reset(**kwargs)


@pytest.mark.parametrize("env_id", [CARTPOLE, BRAX])
def test_vector_wrapper__forwards_to_the_batch(env_id: str) -> None:
    envs = make_task(env_id)
    wrapped = CountResets(envs)
    wrapped.reset()
    assert wrapped.resets == 1
    assert wrapped.unwrapped is envs
    wrapped.env.set_attr("note", [1, 2, 3])
    assert wrapped.env.get_attr("note") == envs.get_attr("note") == (1, 2, 3)
    assert wrapped.metadata == envs.metadata
    assert wrapped.np_random_seed == envs.np_random_seed
    envs.metadata = {"render_modes": ["rgb_array"]}
    assert wrapped.metadata == envs.metadata
    wrapped.metadata = {}
    assert wrapped.metadata != envs.metadata


@pytest.mark.parametrize("env_id", [CARTPOLE, BRAX])
def test_actions__are_one_per_environment(env_id: str) -> None:
    envs = make_task(env_id, 4, autoreset_mode="Disabled")
    envs.reset()
    actions = envs.action_space.sample()
    assert [len(x) for x in envs.step(actions)[:-1]] == [4] * 4
    for wrong in (actions[:3], np.concatenate([actions, actions[:1]])):
        with pytest.raises(ValueError, match="one action per environment") as caught:
            envs.step(wrong)
        assert isinstance(caught.value, InvalidAction)
    with pytest.raises(TypeError):
        envs.step(0)


BAD_MASKS = [
    (np.array([True]), ValueError, "must have shape `(3,)`, got (1,)"),
    (np.ones(4, bool), ValueError, "must have shape `(3,)`, got (4,)"),
    (np.ones((1, 3), bool), ValueError, "must have shape `(3,)`, got (1, 3)"),
    (np.zeros(3, bool), ValueError, "True"),
    (np.array([1, 1, 0]), TypeError, "must have `dtype=np.bool_`, got int64"),
    (np.array([1.0, 1.0, 0.0]), TypeError, "must have `dtype=np.bool_`, got float64"),
]


@pytest.mark.parametrize("env_id", [CARTPOLE, BRAX])
def test_partial_reset__takes_the_seeds_of_the_masked_and_refuses_bad_masks(env_id: str) -> None:
    envs = make_task(env_id, autoreset_mode="Disabled")
    envs.reset(options={"reset_mask": np.ones(3, bool)})
    for mask, error, text in BAD_MASKS:
        with pytest.raises(error, match=re.escape("`options['reset_mask']`")) as caught:
            envs.reset(options={"reset_mask": mask})
        assert text in str(caught.value)
    first, _ = envs.reset(seed=[0, 1, 2])
    *_, last = (envs.step(envs.action_space.sample())[0] for _ in range(3))
    options = {"reset_mask": np.array([True, True, False])}
    if env_id == CARTPOLE:  # fixes its seeds when a pool is built
        with pytest.raises(ValueError, match="seed"):
            envs.reset(seed=[0, 1, 0], options=options)
        obs, _ = envs.reset(options=options)
        assert (obs[:2] != first[:2]).any()
    else:
        obs, _ = envs.reset(seed=[0, 1, 0], options=options)
        np.testing.assert_array_equal(obs[:2], first[:2])
    np.testing.assert_array_equal(obs[2], last[2])


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
def test_make_vec__takes_the_mode_as_a_keyword_of_ours(mode: AutoresetMode) -> None:
    for given in (mode, mode.value):
        assert make_task(CARTPOLE, autoreset_mode=given).metadata["autoreset_mode"] is mode
        sync = {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": given}}
        envs = make_task(CARTPOLE, **sync)
        assert isinstance(envs, SyncVectorEnv)
        assert envs.metadata["autoreset_mode"] == mode
        envs.close()
    with pytest.raises(gym.error.Error, match="only through kwargs"):
        make_task(CARTPOLE, vector_kwargs={"autoreset_mode": mode})
    with pytest.raises(TypeError, match="observation_mode"):
        make_task(CARTPOLE, observation_mode="different")


@pytest.mark.parametrize("env_id", [CARTPOLE, pytest.param(BRAX, marks=pytest.mark.slow)])
def test_processes_of_gymnasium__have_an_environment_each(env_id: str) -> None:
    spawn = {"context": "spawn"}  # JAX, which other tests have started, does not fork
    apart = make_task(env_id, 2, vectorization_mode="async", vector_kwargs=spawn)
    together = make_task(env_id, 2, vectorization_mode="sync")
    assert_same(list(apart.reset(seed=3)), list(together.reset(seed=3)))
    together.action_space.seed(0)
    for _ in range(12):
        actions = together.action_space.sample()
        assert_same(list(apart.step(actions)), list(together.step(actions)))
    apart.close()
    together.close()
