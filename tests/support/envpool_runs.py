"""Batches of EnvPool's tasks, their actions, and checks of what they return."""

from __future__ import annotations

import warnings
from typing import Any

import envpool
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from gymbridge import BridgeVectorEnv, EnvPoolVectorEnv
from gymbridge.envpool.simulator import EnvPoolSimulator
from tests.support.episode_runs import row_of
from tests.support.trees import walk_infos

MODES = ("Disabled", "SameStep", "NextStep")


def make(task_id: str, num_envs: int = 3, mode: str = "NextStep", **kwargs: Any) -> BridgeVectorEnv:
    """Return an `EnvPoolVectorEnv`."""
    return EnvPoolVectorEnv(task_id, num_envs, autoreset_mode=mode, **kwargs)


def make_own(task_id: str, **kwargs: Any) -> Any:
    """Return EnvPool's own batch, without its warnings on Box precision."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool: Any = envpool.make_gymnasium(task_id, **kwargs)
        assert None not in (pool.observation_space, pool.action_space)  # made where first asked for
        return pool


def make_plain(
    task_id: str, num_envs: int = 3, mode: str = "NextStep", max_episode_steps: int | None = None
) -> BridgeVectorEnv:
    """Return the same on a `HostRunner`, which calls the rule as it is written."""
    simulator = EnvPoolSimulator("EnvPoolVectorEnv", task_id, num_envs, max_episode_steps, None, {})
    return BridgeVectorEnv(simulator, max_episode_steps=max_episode_steps, autoreset_mode=mode)


def act(space: spaces.Space[Any], env: int, episode: int, step: int) -> Any:
    """Return an action that depends on nothing but the arguments."""
    rng = np.random.default_rng([env, episode, step])
    if isinstance(space, spaces.Discrete):
        return space.start + rng.integers(space.n, dtype=space.dtype)
    assert isinstance(space, spaces.Box), f"{space} is not known here"
    if space.dtype.kind in "iu":
        return rng.integers(space.low, space.high, dtype=space.dtype, endpoint=True)
    if np.isfinite(space.low).all() and np.isfinite(space.high).all():
        return rng.uniform(space.low, space.high).astype(space.dtype)
    return rng.integers(0, 2, space.shape).astype(space.dtype)  # buttons, held or not


def act_all(envs: VectorEnv, episodes: Any, steps: Any) -> np.ndarray:
    """Return the batch of `act`; `episodes` and `steps` hold or are an int per environment."""
    episodes, steps = np.broadcast_arrays(episodes, steps, np.zeros(envs.num_envs, int))[:2]
    moments = zip(range(envs.num_envs), episodes, steps, strict=True)
    return np.stack([np.asarray(act(envs.single_action_space, *moment)) for moment in moments])


def leaves_of(tree: Any) -> list[Any]:
    """Return the arrays, or the spaces, in nested dicts, in the order of sorted keys."""
    if isinstance(tree, dict | spaces.Dict):
        return [leaf for key in sorted(tree.keys()) for leaf in leaves_of(tree[key])]
    return [tree]


def as_ints(obs: Any) -> list[np.ndarray]:
    """Return the arrays of a batch, the bits as `MultiBinary` has them."""
    return [leaf.view(np.int8) if leaf.dtype == np.bool_ else leaf for leaf in leaves_of(obs)]


def check_results(envs: VectorEnv, log: list[Any]) -> None:
    """Raise unless all that a run returned fits the spaces, with the same infos in each call."""
    size, single = envs.num_envs, leaves_of(envs.single_observation_space)
    names = {*log[0][-1]}
    for obs, *results, infos in log:
        assert envs.observation_space.contains(obs)
        for array, space in zip(leaves_of(obs), single, strict=True):
            assert (array.dtype, array.shape) == (space.dtype, (size, *space.shape))
        assert {key for key in infos if "final_" not in key} == names
        for name, value, mask in walk_infos(infos):
            assert (mask.dtype, mask.shape) == (np.bool_, (size,)), name
            assert isinstance(value, dict) or len(value) == size, name
        if results:
            rewards, terminated, truncated = results
            assert [part.dtype for part in results] == [np.float32, np.bool_, np.bool_]
            assert [part.shape for part in results] == [(size,)] * 3
            assert np.isfinite(rewards).all()
            assert not (terminated & truncated).any()


def take(returned: Any, row: int) -> Any:
    """Return copies of one row of what a call returned, without masks."""
    return [row_of(part, row) for part in returned]
