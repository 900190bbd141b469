"""Windows of steps with a loss over all that has a gradient, through a batch and by hand in JAX."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from gymbridge import BraxVectorEnv
from tests.support.point_mass import NUM_ENVS, SIZE, PointMass

SEED = 5
NUM_STEPS = 9
IN_EACH_MODE = [("NextStep", "store"), ("SameStep", "recompute"), ("Disabled", "store")]

_RNG = np.random.default_rng(1)
_OBS, _REWARD, _FINAL = (
    _RNG.normal(size=(NUM_STEPS, NUM_ENVS, *shape)).astype(np.float32) for shape in ((4,), (), (4,))
)
"""Weights of the loss."""


def draw_actions(num_steps: int = NUM_STEPS, scale: float = 2.0) -> torch.Tensor:
    """Return actions that let some episodes end, (T, NUM_ENVS, 2) float32."""
    rng = np.random.default_rng(2)
    drift = rng.uniform(-scale, scale, (1, NUM_ENVS, SIZE))
    noise = rng.uniform(-1, 1, (num_steps, NUM_ENVS, SIZE))
    return torch.tensor(drift + noise, dtype=torch.float32).requires_grad_()


def small_actions(num_steps: int = 3) -> torch.Tensor:
    """Return actions that end nothing, (T, NUM_ENVS, 2) float32."""
    return draw_actions(num_steps, scale=0.2)


def play_steps(envs: BraxVectorEnv, actions: Any) -> list[Any]:
    """Return the results of a step for each action."""
    return [envs.step(action) for action in actions]


def steps_of(window: Any) -> list[Any]:
    """Return the results of each step, given those of `unroll`."""
    return [jax.tree.map(itemgetter(step), window) for step in range(len(window[1]))]


def ends_of(results: list[Any]) -> np.ndarray:
    """Return which rows ended in each step, (T, NUM_ENVS) bool."""
    return torch.stack(
        [terminated | truncated for _, _, terminated, truncated, _ in results]
    ).numpy(force=True)


def run(envs: BraxVectorEnv, actions: torch.Tensor) -> torch.Tensor:
    """Return the sum of the last observation and all rewards."""
    results = play_steps(envs, actions)
    return results[-1][0].sum() + torch.stack([rewards.sum() for _, rewards, *_ in results]).sum()


def loss_of(results: list[Any]) -> torch.Tensor:
    """Return the weighted sum of all that has a gradient."""
    loss: Any = 0.0
    for step, (obs, rewards, _, _, infos) in enumerate(results):
        loss = loss + (torch.from_numpy(_OBS[step]).to(obs) * obs).sum()
        loss = loss + (torch.from_numpy(_REWARD[step]).to(rewards) * rewards).sum()
        if "final_obs" in infos:
            loss = loss + (torch.from_numpy(_FINAL[step]).to(obs) * infos["final_obs"]).sum()
    return loss


def expected(mode: str, actions: torch.Tensor, ended: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's loss (NUM_ENVS,) and its gradient (T, NUM_ENVS, 2), by hand in JAX.

    Args:
        mode: Value of the autoreset mode.
        actions: (T, NUM_ENVS, 2).
        ended: (T, NUM_ENVS) bool, the flags that the batch returned.
    """
    pull = jax.value_and_grad(row_loss)
    plain = jnp.asarray(actions.detach().numpy())
    found = [pull(plain[:, row], mode, row, ended[:, row]) for row in range(NUM_ENVS)]
    losses, gradients = zip(*found, strict=True)
    return np.asarray(losses), np.stack([np.asarray(part) for part in gradients], 1)


def row_loss(actions: Any, mode: str, row: int, ended: np.ndarray) -> Any:
    """Return one row's loss by hand, given its actions (T, 2) and flags (T,)."""
    env, episode, is_over, total = PointMass(), 0, False, jnp.zeros(())

    def begin(episode: int) -> Any:
        return env.reset(jax.random.fold_in(jax.random.PRNGKey(SEED + row), episode))

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
        total += (_OBS[step, row] * state.obs).sum() + _REWARD[step, row] * reward
        if mode == "SameStep":
            total += (_FINAL[step, row] * final).sum()
    return total
