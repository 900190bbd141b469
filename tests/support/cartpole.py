"""The law of CartPole, as the source of `gymnasium.envs.classic_control.CartPoleEnv` has it."""

from __future__ import annotations

import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv


def next_states(states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what follows on each state, (count, 4), and whether it is a terminal one."""
    env, found = CartPoleEnv(), []
    for state, action in zip(states, actions, strict=True):
        env.reset()
        env.state = tuple(state.astype(np.float64))
        obs, _, terminated, *_ = env.step(int(action))
        found.append((obs, terminated))
    obs, terminated = zip(*found, strict=True)
    return np.stack(obs), np.array(terminated)


def check_transitions(
    obs: np.ndarray,
    actions: np.ndarray,
    next_obs: np.ndarray,
    terminations: np.ndarray,
    truncations: np.ndarray,
) -> None:
    """Assert that transitions, ends of both kinds among them, are CartPole's."""
    wanted, is_over = next_states(obs, actions)
    np.testing.assert_allclose(next_obs, wanted, rtol=0, atol=2e-6)
    np.testing.assert_array_equal(terminations, is_over)
    assert terminations.sum() > 5
    assert (truncations & ~terminations).sum() > 5
    assert not (truncations & terminations).any()
