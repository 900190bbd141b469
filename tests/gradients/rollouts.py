"""Windows of steps with a loss over all that has a gradient, through a batch and by hand in JAX."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch
from point_mass import SIZE, PointMass, first_states

from gymbridge import BraxVectorEnv

__all__ = [
    "NUM_ENVS",
    "SEED",
    "Weights",
    "draw_actions",
    "draw_weights",
    "expected",
    "loss_of",
    "play_steps",
    "run",
    "small_actions",
]

NUM_ENVS = 4
SEED = 5


class Weights(NamedTuple):
    """Weights of a loss; each leads with (T, num_envs)."""

    obs: np.ndarray  # (…, 4)
    reward: np.ndarray
    final: np.ndarray  # (…, 4), of `final_obs`


def draw_weights(num_steps: int, num_envs: int) -> Weights:
    rng = np.random.default_rng(1)
    shape = (num_steps, num_envs)
    drawn = (rng.normal(size=(*shape, 4)), rng.normal(size=shape), rng.normal(size=(*shape, 4)))
    return Weights(*[part.astype(np.float32) for part in drawn])


def draw_actions(num_steps: int, num_envs: int, scale: float = 2.0) -> torch.Tensor:
    """Return actions that let some episodes end, (T, num_envs, 2) float32."""
    rng = np.random.default_rng(2)
    drift = rng.uniform(-scale, scale, (1, num_envs, SIZE))
    noise = rng.uniform(-1, 1, (num_steps, num_envs, SIZE))
    return torch.tensor(drift + noise, dtype=torch.float32)


def small_actions(num_steps: int = 3) -> torch.Tensor:
    """Return actions that end nothing, (T, NUM_ENVS, 2) float32."""
    return draw_actions(num_steps, NUM_ENVS, scale=0.2).requires_grad_()


def play_steps(envs: BraxVectorEnv, actions: Any) -> list[Any]:
    """Return what a step for each action shows."""
    return [envs.step(action) for action in actions]


def run(envs: BraxVectorEnv, actions: torch.Tensor) -> torch.Tensor:
    """Return the sum of the last observation and all rewards."""
    shown = play_steps(envs, actions)
    return shown[-1][0].sum() + torch.stack([rewards.sum() for _, rewards, *_ in shown]).sum()


def loss_of(shown: list[Any], weights: Weights) -> torch.Tensor:
    """Return the weighted sum of all that has a gradient."""
    loss = torch.zeros(())
    for step, (obs, rewards, _, _, infos) in enumerate(shown):
        loss = loss + (torch.from_numpy(weights.obs[step]) * obs).sum()
        loss = loss + (torch.from_numpy(weights.reward[step]) * rewards).sum()
        if "final_obs" in infos:
            loss = loss + (torch.from_numpy(weights.final[step]) * infos["final_obs"]).sum()
    return loss


def expected(
    mode: str, actions: np.ndarray, ended: np.ndarray, weights: Weights
) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's loss (num_envs,) and its gradient (T, num_envs, 2), by hand in JAX.

    Args:
        mode: Value of the autoreset mode.
        actions: (T, num_envs, 2).
        ended: (T, num_envs) bool, the flags that the batch showed.
        weights: Of the loss.
    """
    pull = jax.value_and_grad(_row_loss)
    found = [
        pull(jnp.asarray(actions[:, row]), mode, row, ended[:, row], weights)
        for row in range(actions.shape[1])
    ]
    losses, gradients = zip(*found, strict=True)
    return np.asarray(losses), np.stack([np.asarray(part) for part in gradients], 1)


def _row_loss(actions: Any, mode: str, row: int, ended: np.ndarray, weights: Weights) -> Any:
    env, episode, is_over, total = PointMass(), 0, False, jnp.zeros(())

    def begin(episode: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[0], first_states([SEED + row], episode))

    state = begin(0)
    for step in range(len(ended)):
        reward: Any = 0.0
        if is_over and mode == "NextStep":
            episode, is_over = episode + 1, False
            state = begin(episode)
        elif not is_over:
            state = env.step(state, actions[step])
            reward, is_over = state.reward, bool(ended[step])
        final = state.obs
        if is_over and mode == "SameStep":
            episode, is_over = episode + 1, False
            state = begin(episode)
        total += (weights.obs[step, row] * state.obs).sum() + weights.reward[step, row] * reward
        if mode == "SameStep":
            total += (weights.final[step, row] * final).sum()
    return total
