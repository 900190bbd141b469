"""A replacement for the ``envpool.make(..., env_type="gym")`` of CleanRL's scripts on EnvPool.

Those scripts were written for EnvPool 0.6, whose batches had the interface of old gym. EnvPool 1.x
gives Gymnasium's interface under the same keyword, so the scripts do not run on it.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.core.requests import read_seed
from gymbridge.engines import envpool_id
from gymbridge.errors import ArgumentError
from gymbridge.trainers.batches import check_batch

__all__ = ["OldGymVectorEnv", "make_cleanrl_envpool"]


def make_cleanrl_envpool(
    task_id: str, env_type: str = "gym", num_envs: int = 1, seed: int | None = None, **kwargs: Any
) -> OldGymVectorEnv:
    """Return a pool with the interface that EnvPool 0.6 gave to old gym.

    Args:
        task_id: EnvPool's name of the task, such as "Breakout-v5", or its id here.
        env_type: "gym", the only value that these scripts use.
        num_envs: Size of the batch.
        seed: Environment i gets ``seed + i`` at the first `reset`; None draws from the operating
            system.
        **kwargs: Keywords of `gymbridge.EnvPoolVectorEnv`, such as ``episodic_life=True``.

    Raises:
        ArgumentError: `env_type` is not "gym", or an argument has an invalid value.
        ArgumentTypeError: `seed` is not an int.
        gymnasium.error.Error: There is no such task.
    """
    if env_type != "gym":
        raise ArgumentError(
            f"`env_type` must be 'gym', got {env_type!r}; for Gymnasium's interface use "
            "`gymnasium.make_vec`."
        )
    seed = read_seed(seed)
    task_id = task_id.removeprefix("gymbridge:")
    env_id = task_id if task_id.startswith("EnvPool/") else envpool_id(task_id)
    return OldGymVectorEnv(gym.make_vec(env_id, num_envs, **kwargs), seed=seed)


class OldGymVectorEnv:
    """A view of a NextStep batch with the interface that EnvPool 0.6 gave to old gym.

    Args:
        envs: A batch in NextStep mode, in which EnvPool 0.6 restarted episodes.
        seed: Seed of the first `reset`.

    Attributes:
        num_envs: Size of the batch; like all attributes here, a script may assign it.
        observation_space, single_observation_space: Of one environment.
        action_space, single_action_space: Of one environment. If the script has imported old gym,
            Box and Discrete spaces are those of old gym, which the script tests for.

    Raises:
        ArgumentError: `envs` has another autoreset mode or gives no numpy arrays.
        ArgumentTypeError: `envs` is not a `VectorEnv`.
    """

    is_vector_env = True
    reward_range = (-np.inf, np.inf)
    render_mode = None

    def __init__(self, envs: VectorEnv[Any, Any, Any], *, seed: int | None = None) -> None:
        hint = "`make_cleanrl_envpool(task_id, num_envs=...)` builds one"
        check_batch("envs", envs, "CleanRL", AutoresetMode.NEXT_STEP, hint)
        self.envs = envs
        self.num_envs = envs.num_envs
        self.metadata, self.spec = copy.deepcopy((envs.metadata, envs.spec))
        single_spaces = envs.single_observation_space, envs.single_action_space
        observation_space, action_space = copy.deepcopy(single_spaces)
        self.observation_space = self.single_observation_space = _to_script_space(observation_space)
        self.action_space = self.single_action_space = _to_script_space(action_space)
        self._seed = seed

    def reset(self) -> Any:
        """Begin new episodes everywhere and return the observations, (num_envs, ...)."""
        obs, _ = self.envs.reset(seed=self._seed)
        self._seed = None
        return obs

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one step; an environment that ended in the previous one begins an episode instead.

        Args:
            actions: (num_envs, ...) in the action space.

        Returns:
            observations: (num_envs, ...); the final one where an episode ends.
            rewards: (num_envs,) float32.
            dones: (num_envs,) bool, terminated or truncated.
            infos: The engine's, without masks, and for every task those below.

        Infos of every task::

            reward               (num_envs,) float32, before any clipping
            lives                (num_envs,) int32, 0 where the task has none
            terminated           (num_envs,) int32, 1 where the game is over by its own rule or by
                                 the limit, 0 where only a life was lost; scripts reset their
                                 statistics where it is 1
            TimeLimit.truncated  (num_envs,) bool, True where the limit ended the episode
        """
        obs, rewards, terminations, truncations, infos = self.envs.step(actions)
        dones = terminations | truncations
        infos = {key: value for key, value in infos.items() if not key.startswith("_")}
        infos.setdefault("reward", rewards.copy())
        infos.setdefault("lives", np.zeros(len(dones), np.int32))
        over = infos.get("terminated", terminations) | truncations
        infos["terminated"] = over.astype(np.int32)
        infos["TimeLimit.truncated"] = truncations
        return obs, rewards, dones, infos

    def close(self) -> None:
        """Release the pool."""
        self.envs.close()


def _to_script_space(space: Space[Any]) -> Any:
    """Return the space as one of old gym's, if the script has imported that."""
    old = sys.modules.get("gym")
    if old is None:
        return space
    if isinstance(space, spaces.Discrete):
        return old.spaces.Discrete(int(space.n))
    if isinstance(space, spaces.Box):
        return old.spaces.Box(space.low, space.high, space.shape, space.dtype)
    return space
