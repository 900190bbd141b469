"""A batch with the infos of gymnasium 0.29, which CleanRL's scripts read."""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from gymbridge.core.rows import has_rows, split_infos, take_infos
from gymbridge.errors import ArgumentError
from gymbridge.trainers.batches import check_batch, check_final_obs

__all__ = ["CleanRLVectorEnv"]

_RECORD = {"r": np.float32, "l": np.int32, "t": np.float32}
"""What an episode's record holds: return, length and seconds, each (1,), as in gymnasium 0.29."""


class CleanRLVectorEnv(VectorWrapper):
    """A view of a SameStep batch with the infos of gymnasium 0.29, as CleanRL's scripts read them.

    Args:
        envs: Any `gymnasium.vector.VectorEnv` in SameStep mode, ours or another.

    Raises:
        ArgumentError: `envs` has another autoreset mode or gives no numpy arrays, its observations
            are a Dict with other leaves than Boxes, or its Discrete actions do not start at 0.
        ArgumentTypeError: `envs` is not a `VectorEnv`.

    Steps that end an episode carry these infos; the others have none of them::

        final_info            (num_envs,) object, a dict where an episode ended, else None
        final_observation     (num_envs,) object, an observation where one ended, else None
        _final_info           (num_envs,) bool, where an episode ended
        _final_observation    (num_envs,) bool, the same

    Each dict has ``"episode"``: ``r`` (1,) float32, the sum of the rewards; ``l`` (1,) int32, the
    number of steps; ``t`` (1,) float32, seconds. If a `RecordEpisodeStatistics` inside gives an
    ``"episode"``, of an environment or of the batch, that one is kept.

    Observations that are a Dict of Boxes are joined to one vector, since the scripts support only
    Boxes. Discrete actions are int64, as the scripts' ``gather`` needs them. A script may assign
    the dtype of `single_observation_space`; observations are cast to it from then on.

    Example:
        >>> from gymbridge.testing import scripted_vector_env
        >>> envs = CleanRLVectorEnv(scripted_vector_env([2, 3], autoreset_mode="SameStep"))
        >>> _ = envs.reset(seed=0)
        >>> _ = envs.step(np.array([1, 0]))
        >>> infos = envs.step(np.array([1, 0]))[-1]
        >>> infos["final_info"][0]["episode"]["r"], infos["final_observation"]
        (array([2.75], dtype=float32), array([array(2., dtype=float32), None], dtype=object))
    """

    __copy__ = copy.deepcopy  # around a copied batch, not around the same one

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        hint = "`make_cleanrl(env_id, num_envs)` builds one"
        check_batch("envs", envs, "CleanRL", AutoresetMode.SAME_STEP, hint)
        super().__init__(envs)
        self.metadata = copy.deepcopy(envs.metadata)
        self.single_observation_space = _to_script_observations(envs.single_observation_space)
        self.single_action_space = _to_script_actions(envs.single_action_space)
        self.observation_space = batch_space(self.single_observation_space, envs.num_envs)
        self.action_space = batch_space(self.single_action_space, envs.num_envs)
        self._given_dtype = self.single_observation_space.dtype
        self._returns = np.zeros(envs.num_envs)
        self._lengths = np.zeros(envs.num_envs, np.int32)
        self._start_times = np.zeros(envs.num_envs)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin new episodes; the arguments are those of the batch's own `reset`.

        The statistics of the environments that are reset begin anew.
        """
        given = None if options is None else dict(options)  # `SyncVectorEnv` takes the mask out
        obs, infos = self.env.reset(seed=seed, options=given)
        self._begin((options or {}).get("reset_mask", slice(None)), time.perf_counter())
        return self._to_script(obs, (self.num_envs,)), infos

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one step; see the batch's own `step` for arguments, errors and all but the infos.

        Raises:
            EnvContractError: An episode ended and the batch does not give its final observation.
        """
        obs, rewards, terminations, truncations, infos = self.env.step(actions)
        self._returns += rewards
        self._lengths += 1
        over = terminations | truncations
        if has_rows(over):
            self._split_final(infos, over)
        obs = self._to_script(obs, (self.num_envs,))
        return obs, rewards, terminations, truncations, infos

    def _begin(self, rows: Any, now: float) -> None:
        self._returns[rows] = 0
        self._lengths[rows] = 0
        self._start_times[rows] = now

    def _split_final(self, infos: dict[str, Any], over: np.ndarray) -> None:
        """Take 1.x's arrays of final infos and observations in `infos` apart by environment."""
        ids, now = over.nonzero()[0], time.perf_counter()
        check_final_obs("envs", infos, ids)
        of_batch = {key: infos[key] for key in ("episode", "_episode") if key in infos}
        final_obs, final_info = infos.pop("final_obs"), of_batch | infos.pop("final_info", {})
        infos.pop("_final_obs", None)
        script_obs, script_infos = (np.empty(self.num_envs, object) for _ in range(2))
        records = {"r": self._returns, "l": self._lengths, "t": now - self._start_times}
        finals = split_infos(take_infos(final_info, ids), len(ids), keeps_dtypes=True)
        for index, info in zip(ids.tolist(), finals, strict=True):
            own = {key: values[index] for key, values in records.items()}
            info["episode"] = _to_record(info.get("episode") or own)
            script_infos[index] = info
            script_obs[index] = self._to_script(final_obs[index], ())
        self._begin(ids, now)
        infos["final_observation"], infos["_final_observation"] = script_obs, over
        infos["final_info"], infos["_final_info"] = script_infos, over.copy()

    def _to_script(self, obs: Any, lead: tuple[int, ...]) -> Any:
        """Return observations as `single_observation_space` has them; `lead` comes before."""
        if isinstance(obs, dict):
            obs = _join(self.env.single_observation_space, obs, lead)
        dtype = self.single_observation_space.dtype
        return obs if dtype == self._given_dtype else obs.astype(dtype)


def _to_script_observations(space: Space[Any]) -> Space[Any]:
    if not isinstance(space, spaces.Dict):
        return copy.deepcopy(space)
    for key, member in space.items():
        if not isinstance(member, spaces.Box | spaces.Dict):
            raise ArgumentError(
                "`envs` must have Box observations or a Dict of Boxes for CleanRL's scripts, got "
                f"{type(member).__name__} under {key!r}; leave it out with "
                "`gymnasium.wrappers.FilterObservation`."
            )
        _to_script_observations(member)
    return spaces.flatten_space(space)


def _to_script_actions(space: Space[Any]) -> Space[Any]:
    if not isinstance(space, spaces.Discrete):
        return copy.deepcopy(space)
    if space.start != 0:
        raise ArgumentError(
            "`envs` must have Discrete actions that start at 0, as CleanRL's argmax does, got "
            f"{space}; shift them with `gymnasium.wrappers.vector.TransformAction`."
        )
    return spaces.Discrete(int(space.n))


def _join(space: Space[Any], obs: Any, lead: tuple[int, ...]) -> np.ndarray:
    """Return (*lead, size), the leaves of `obs` side by side in the order of the space."""
    if isinstance(space, spaces.Dict):
        return np.concatenate([_join(sub, obs[key], lead) for key, sub in space.items()], axis=-1)
    return np.reshape(obs, (*lead, -1))


def _to_record(episode: dict[str, Any]) -> dict[str, Any]:
    return {
        key: np.atleast_1d(np.asarray(value, _RECORD.get(key))) for key, value in episode.items()
    }
