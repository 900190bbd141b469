"""Differences between EnvPool's tasks and Gymnasium's that the documentation names."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("envpool")

from gymbridge import EnvPoolVectorEnv


def test_pendulum__advances_its_angle_by_the_speed_before_the_limit() -> None:
    envs, one = EnvPoolVectorEnv("Pendulum-v1", num_envs=8), gym.make("Pendulum-v1").unwrapped
    obs, differences = envs.reset(seed=0)[0], {True: [0.0], False: [0.0]}
    one.reset()
    for _ in range(150):
        actions = np.where(obs[:, 2:] < 0, -2, 2).astype(np.float32)  # full torque: it gets fast
        after = envs.step(actions)[0]
        for (cosine, sine, speed), action, seen in zip(obs, actions, after, strict=True):
            one.state = np.array([np.arctan2(sine, cosine), speed], float)
            expected = one.step(action)[0]
            is_clipped = abs(expected[2]) >= 8
            turned = np.arctan2(seen[1], seen[0]) - np.arctan2(expected[1], expected[0])
            differences[is_clipped].append(abs((turned + np.pi) % (2 * np.pi) - np.pi))
        obs = after
    envs.close()
    assert max(differences[False]) < 1e-5
    assert 0.01 < max(differences[True]) < 0.053
