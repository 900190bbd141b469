"""What a CleanRL script puts in place of its ``gym.vector.SyncVectorEnv([...])``.

The scripts read the infos of gymnasium 0.29, which told of each ended environment as that
environment had told it itself. Gymnasium 1.x gives the same facts as a batch; the view here turns
them back, in the steps that end an episode, and adds the return and length that
``RecordEpisodeStatistics`` gave, kept as arrays.
"""

from __future__ import annotations

import copy
import time
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from gymbridge.core.requests import read_seed
from gymbridge.core.rows import split_infos, take_infos
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.trainers.batches import check_batch, check_final_obs, make_same_step
from gymbridge.trainers.cleanrl_scaling import ScaledVectorEnv, check_scaling

__all__ = ["CleanRLVectorEnv", "make_cleanrl"]

Step = tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]

_RECORD = {"r": np.float32, "l": np.int32, "t": np.float32}
"""What an episode's record holds: return, length and seconds, each (1,), as in gymnasium 0.29."""


def make_cleanrl(
    env_id: str,
    num_envs: int = 1,
    *,
    seed: int | None = None,
    normalize: str | None = None,
    gamma: float = 0.99,
    **kwargs: Any,
) -> CleanRLVectorEnv | ScaledVectorEnv:
    """Return the batch that a CleanRL script builds, in one line.

    Args:
        env_id: Any id of Gymnasium's registry, such as "EnvPool/CartPole-v1".
        num_envs: Size of the batch.
        seed: Seeds `single_action_space`, from which the off-policy scripts draw their first
            actions; the episodes' seed goes to `reset`, as in every script.
        normalize: None for a script that has only ``RecordEpisodeStatistics`` in its ``make_env``.
            "env" for all that ppo_continuous_action and rpo_continuous_action have there; "batch"
            for the same with one set of statistics for all environments. See `ScaledVectorEnv`.
        gamma: Discount of the return that scales rewards; read with `normalize` alone.
        **kwargs: Of the environment.

    Returns:
        A batch in SAME_STEP mode with the infos of gymnasium 0.29; see `CleanRLVectorEnv`.

    Raises:
        ArgumentError: `seed`, `normalize` or `gamma` breaks its rule, or a space or mode does that
            of `CleanRLVectorEnv`.
        ArgumentTypeError: `env_id` is no string, or `seed` no int.
        gymnasium.error.Error: There is no such id.
    """
    if not isinstance(env_id, str):
        raise ArgumentTypeError(
            f"`env_id` must be an id such as 'EnvPool/CartPole-v1', got {type(env_id).__name__}; a "
            "batch that exists goes to `CleanRLVectorEnv(envs)`."
        )
    check_scaling(normalize, gamma)
    seed = read_seed(seed)
    view = CleanRLVectorEnv(make_same_step(env_id, num_envs, kwargs))
    if seed is not None:
        view.single_action_space.seed(seed)
    return view if normalize is None else ScaledVectorEnv(view, statistics=normalize, gamma=gamma)


class CleanRLVectorEnv(VectorWrapper):
    """A view of a SAME_STEP batch with the infos of gymnasium 0.29, as CleanRL's scripts read them.

    Args:
        envs: Any `gymnasium.vector.VectorEnv` in SAME_STEP mode, ours or another.

    Raises:
        ArgumentError: `envs` is in another mode or gives no numpy arrays, its observations are a
            Dict with members that cannot be joined to one float vector, or its actions do not
            count from 0.
        ArgumentTypeError: `envs` is no `VectorEnv`.

    Steps that end an episode carry these infos; the others have none of them::

        final_info            (num_envs,) object, the last info of an ended row as a dict, or None
        final_observation     (num_envs,) object, the last observation of an ended row, or None
        _final_info           (num_envs,) bool, the rows that ended
        _final_observation    (num_envs,) bool, the same

    Each dict has ``"episode"``: ``r`` (1,) float32, the sum of the rewards; ``l`` (1,) int32, the
    number of steps; ``t`` (1,) float32, seconds. Where the environment gave an ``"episode"``
    itself, because of a `RecordEpisodeStatistics` inside, that one stays.

    Observations that are a Dict of Boxes are joined to one vector, since the scripts know Boxes
    alone. Discrete actions are int64, as the scripts' ``gather`` needs them. The dtype of
    `single_observation_space` may be assigned; observations have it from then on.

    Example:
        >>> from gymbridge.testing import scripted_vector_env
        >>> envs = CleanRLVectorEnv(scripted_vector_env([2, 3], autoreset_mode="SameStep"))
        >>> _ = envs.reset(seed=0)
        >>> _ = envs.step(np.array([1, 0]))
        >>> infos = envs.step(np.array([1, 0]))[-1]
        >>> infos["final_info"][0]["episode"]["r"], infos["final_observation"]
        (array([2.75], dtype=float32), array([array(2., dtype=float32), None], dtype=object))
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        hint = "`make_cleanrl(env_id, num_envs)` builds one"
        check_batch("envs", envs, "CleanRL", AutoresetMode.SAME_STEP, hint)
        super().__init__(envs)
        self._is_joined = isinstance(envs.single_observation_space, spaces.Dict)
        self.single_observation_space = _to_script_observations(envs.single_observation_space)
        self.single_action_space = _to_script_actions(envs.single_action_space)
        self.observation_space = batch_space(self.single_observation_space, envs.num_envs)
        self.action_space = batch_space(self.single_action_space, envs.num_envs)
        self._given_dtype = self.single_observation_space.dtype
        self._lead = (envs.num_envs,)
        self._clock = 0
        self._returns = np.zeros(self._lead)
        # Lists, since a step reads few of their entries, one by one.
        self._first_steps = [0] * envs.num_envs
        self._first_times = [0.0] * envs.num_envs

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin new episodes; see the batch's own `reset`, whose arguments these are.

        Statistics begin anew with the episodes; under a ``reset_mask``, in its rows alone.
        """
        given = None if options is None else dict(options)  # `SyncVectorEnv` takes the mask out
        obs, infos = self.env.reset(seed=seed, options=given)
        mask = (options or {}).get("reset_mask", np.ones(self._lead, np.bool_))
        self._begin(mask.nonzero()[0].tolist(), time.perf_counter())
        return self._show(obs, self._lead), infos

    def step(self, actions: Any) -> Step:
        """Take one step; see the batch's own `step` for arguments, errors and the first four.

        Raises:
            EnvContractError: An episode ended and the batch does not show its last observation.
        """
        obs, rewards, terminations, truncations, infos = self.env.step(actions)
        self._clock += 1
        self._returns += rewards
        over = terminations | truncations
        if b"\x01" in over.tobytes():  # a scan of bytes costs a tenth of `over.any()`
            self._tell_ends(infos, over)
        return self._show(obs, self._lead), rewards, terminations, truncations, infos

    def _begin(self, ids: list[int], now: float) -> None:
        for index in ids:
            self._returns[index] = 0
            self._first_steps[index] = self._clock
            self._first_times[index] = now

    def _tell_ends(self, infos: dict[str, Any], over: np.ndarray) -> None:
        """Take 1.x's batch of last infos and observations in `infos` apart by row."""
        ids, now = over.nonzero()[0], time.perf_counter()
        check_final_obs("envs", infos, ids)
        final_obs, final_info = infos.pop("final_obs"), infos.pop("final_info", {})
        infos.pop("_final_obs", None)
        last_infos = np.empty(self._lead, object)
        ended = ids.tolist()
        lasts = split_infos(take_infos(final_info, ids), len(ids), keeps_dtypes=True)
        for index, last in zip(ended, lasts, strict=True):
            own = last.get("episode")
            last["episode"] = self._record(index, now) if own is None else _to_record(own)
            last_infos[index] = last
        self._begin(ended, now)
        last_obs = self._show_lasts(final_obs, ended)
        infos["final_observation"], infos["_final_observation"] = last_obs, over
        infos["final_info"], infos["_final_info"] = last_infos, over.copy()

    def _record(self, index: int, now: float) -> dict[str, np.ndarray]:
        """Return the record of the episode that runs in an environment."""
        return {
            "r": self._returns[index : index + 1].astype(np.float32),
            "l": np.array([self._clock - self._first_steps[index]], np.int32),
            "t": np.array([now - self._first_times[index]], np.float32),
        }

    def _show(self, obs: Any, lead: tuple[int, ...]) -> Any:
        """Return observations as `single_observation_space` has them; `lead` comes before."""
        if self._is_joined:
            obs = _join(self.env.single_observation_space, obs, lead)
        dtype = self.single_observation_space.dtype
        return obs if dtype == self._given_dtype else obs.astype(dtype)

    def _show_lasts(self, final_obs: np.ndarray, ids: list[int]) -> np.ndarray:
        """Return (num_envs,) object, the last observations of the rows `ids` as a script has them.

        `final_obs` is 1.x's array of objects, or one of (num_envs, ...), as ALE's batch has it.
        """
        is_given = self.single_observation_space.dtype == self._given_dtype
        if is_given and not self._is_joined and final_obs.dtype == object:
            return final_obs
        lasts = np.empty(self._lead, object)
        for index in ids:
            lasts[index] = self._show(final_obs[index], ())
        return lasts


def _to_script_observations(space: Space[Any]) -> Space[Any]:
    if not isinstance(space, spaces.Dict):
        return copy.deepcopy(space)
    for key, member in space.items():
        if not isinstance(member, spaces.Box | spaces.Dict):
            raise ArgumentError(
                "`envs` must have Box observations or a Dict of such for CleanRL's scripts, got "
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
            f"`envs` must count its actions from 0, as CleanRL's argmax does, got {space}; shift "
            "them with `gymnasium.wrappers.vector.TransformAction`."
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
