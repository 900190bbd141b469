"""Playground's physics in a batch, compiled."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("mujoco_playground")

from mujoco_playground import registry

from gymbridge import PlaygroundVectorEnv
from tests.support.oracle import Oracle, Row
from tests.support.playground_samples import OwnPlayground, draw_actions

pytestmark = pytest.mark.slow

SEEDS = [3, 2**32 - 1]


def test_physics__is_that_of_a_plain_loop_over_several_episodes() -> None:
    env = registry.load("CartpoleBalance", config_overrides={"impl": "jax"})
    envs = PlaygroundVectorEnv("CartpoleBalance", 2, max_episode_steps=6, autoreset_mode="SameStep")
    rows = [Row(OwnPlayground(env, seed, ("time_out",)), 6) for seed in SEEDS]
    oracle = Oracle(envs, rows, rtol=1e-4, atol=1e-5)
    actions = draw_actions(envs, 40)
    oracle.play(40, actions.__getitem__, seed=SEEDS, rng=np.random.default_rng(0))
    assert oracle.ends["truncated"] > 3


@pytest.mark.parametrize("name", ["BallInCup", "FishSwim"])
def test_task__runs_and_stays_finite(name: str) -> None:
    """Two of 25, since compiling takes half a minute each and the others add no code to them.

    Every class has the same fields, but for metrics and the cart's own info; none ends an episode
    but by NaN, repeats actions or runs with pictures. So one is here with metrics and one without:
    a fish, which moves in a fluid, and a ball, which hangs on a tendon and has contacts. The cart
    is above. test_dm_control.py traces every task.
    """
    envs = PlaygroundVectorEnv(name, 2, autoreset_mode="Disabled")
    first, infos = envs.reset(seed=0)
    assert first in envs.observation_space
    assert not infos["nonfinite"].any()
    obs, rewards, terminations, truncations, infos = envs.step(draw_actions(envs, 1)[0])
    assert obs in envs.observation_space
    assert not (terminations | truncations | infos["nonfinite"]).any()
    for values in (first, obs, rewards):
        assert np.isfinite(values).all()
    assert (obs != first).any(axis=1).all()
    assert any(key.startswith("reward/") for key in infos) == (name == "FishSwim")
