"""Tianshou: `TianshouVectorEnv`, a batch as its ``BaseVectorEnv``, and `make_tianshou` for an id.

Example::

    from gymbridge.trainers.tianshou import make_tianshou

    collector = Collector(algorithm, make_tianshou("EnvPool/CartPole-v1", 16))
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.core.extras import needs
from gymbridge.core.requests import read_ids
from gymbridge.core.rows import split_infos, split_rows
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.trainers.batches import check_batch, check_spaces, make_own
from gymbridge.trainers.zero_based import from_zero, zero_based_space

with needs("tianshou", "gymbridge.trainers.tianshou"):
    from tianshou.env import BaseVectorEnv  # pyright: ignore[reportMissingImports]

__all__ = ["TianshouVectorEnv", "make_tianshou"]


def make_tianshou(env_id: str, num_envs: int, **kwargs: Any) -> TianshouVectorEnv:
    """Return a batch of one of gymbridge's ids for Tianshou.

    Args:
        env_id: The id, such as "EnvPool/CartPole-v1".
        num_envs: Size of the batch.
        **kwargs: Keywords of the batch, such as ``max_episode_steps=``.

    Raises:
        ArgumentError: The id is of another package, or `TianshouVectorEnv` refuses the batch.
    """
    hint = "for others use Tianshou's own `DummyVectorEnv`"
    envs = make_own(env_id, num_envs, AutoresetMode.DISABLED, kwargs, hint, arrays="numpy")
    return TianshouVectorEnv(envs)


class TianshouVectorEnv(BaseVectorEnv):
    """A ``BaseVectorEnv`` (Tianshou 2) view of a batch in Disabled mode.

    Args:
        envs: The batch, with numpy arrays. Wrappers of `gymbridge.wrappers` may be around it.

    Attributes:
        envs: The batch.

    Raises:
        ArgumentTypeError: `envs` is not a batch of gymbridge, or is inside a wrapper of another
            package.
        ArgumentError: `envs` gives other arrays, has another autoreset mode, or has spaces that
            Tianshou's policies do not support.

    Collectors step and reset the environments that they name; the others stay as they are. The next
    observation of an ended episode is its final one. Discrete actions are numbered from 0.
    """

    # Tianshou's own `__init__` makes a worker for each environment.
    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        hint = "build one with `make_tianshou`"
        check_batch("envs", envs, "TianshouVectorEnv", AutoresetMode.DISABLED, hint)
        if not hasattr(envs, "step_some"):
            raise ArgumentTypeError(
                "`envs` must be a batch of gymbridge, with wrappers of `gymbridge.wrappers` or "
                f"none, got {type(envs).__name__}, which cannot step a part of the batch; {hint}."
            )
        kinds = spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary
        check_spaces(envs, "Tianshou", kinds, (*kinds, spaces.Dict))
        self.envs: Any = envs
        self.env_num = envs.num_envs
        self.is_async = self.is_closed = False
        self._space = zero_based_space(envs.single_action_space)
        self._to_env = from_zero(envs.single_action_space)
        # Wrappers change spaces and have no `get_attr`; that of the batch reads the engine's.
        ours = {"action_space": self._space, "observation_space": envs.single_observation_space}
        self._spaces = {key: (space,) * self.env_num for key, space in ours.items()}

    __copy__ = copy.deepcopy  # around a copied batch, not around the same one

    def get_env_attr(self, key: str, id: Any = None) -> list[Any]:
        """Return an attribute of each environment, such as "action_space", in a list."""
        ids = self._read_ids(id)
        values = self._spaces.get(key) or self.envs.unwrapped.get_attr(key)
        return [values[index] for index in ids]

    def reset(self, env_id: Any = None, **kwargs: Any) -> tuple[Any, np.ndarray]:
        """Begin new episodes, in every environment or in those of `env_id`.

        Args:
            env_id: An index, or (count,) ints, each once.
            **kwargs: ``seed`` and ``options`` of the batch's `reset`. An int s seeds environment i
                with s + i; Tianshou's own classes seed each of them with s.

        Returns:
            observations: (count, ...); for a `Dict` space (count,) dicts.
            infos: (count,) dicts.
        """
        ids = self._read_ids(env_id)
        if env_id is not None:
            mask = np.isin(np.arange(self.env_num), ids)
            kwargs["options"] = {**(kwargs.get("options") or {}), "reset_mask": mask}
        obs, infos = self.envs.reset(**kwargs)
        return self._pick(obs, ids), self._pick_infos(infos, ids)

    def step(self, action: Any, id: Any = None) -> tuple[Any, ...]:
        """Take one step, in every environment or in those of `id`.

        Args:
            action: (count, ...), in the order of `id`.
            id: As in `reset`.

        Returns:
            observations: As of `reset`, the final one where an episode ended.
            rewards: (count,) float.
            terminations: (count,) bool.
            truncations: (count,) bool.
            infos: (count,) dicts, each with its "env_id".

        Raises:
            ArgumentError: There are more or fewer actions than environments. Other errors are
                those of the batch's `step_some`.
        """
        ids = self._read_ids(id)
        actions = self._to_env(np.asarray(action))
        if actions.shape[:1] != ids.shape:
            raise ArgumentError(
                f"`action` must have one row for each of {len(ids)} environments, got shape "
                f"{actions.shape}."
            )
        # The others need actions of their space, which are ignored.
        every = np.repeat(actions[:1], self.env_num, axis=0)
        every[ids] = actions
        mask = np.isin(np.arange(self.env_num), ids)
        results = self.envs.step(every) if mask.all() else self.envs.step_some(every, mask)
        obs, rewards, terminations, truncations, infos = results
        rows = self._pick_infos(infos, ids)
        for index, row in zip(ids.tolist(), rows, strict=True):
            row["env_id"] = index
        flags = terminations[ids], truncations[ids]
        return self._pick(obs, ids), rewards[ids], *flags, rows

    def seed(self, seed: Any = None) -> list[list[int] | None]:
        """Begin new episodes everywhere from seeds, one for each environment or ``seed + i``."""
        self.envs.reset(seed=seed)
        seeds = self.envs.unwrapped.np_random_seed
        self._space.seed(seeds[0])
        return [[one] for one in seeds]

    def render(self, **kwargs: Any) -> list[Any]:
        """Return a frame of each environment; Nones without a render mode."""
        return list(self.envs.unwrapped.call("render"))

    def close(self) -> None:
        """Close the batch."""
        self.envs.close()
        self.is_closed = True

    def _read_ids(self, id: Any) -> np.ndarray:
        """Return indices, (count,) intp, for an index, for several or for None, which is all."""
        if id is None:
            return np.arange(self.env_num)
        return read_ids("The ids", np.atleast_1d(id), self.env_num)

    def _pick(self, obs: Any, ids: np.ndarray) -> Any:
        """Return rows of observations; dicts as an array of objects, as `np.stack` makes them."""
        return np.array(split_rows(obs, ids), object) if isinstance(obs, dict) else obs[ids]

    def _pick_infos(self, infos: dict[str, Any], ids: np.ndarray) -> np.ndarray:
        return np.array(split_infos(infos, self.env_num), object)[ids]
