"""Runs of EnvPool tasks, and their episodes told without the mode's way of showing them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import envpool
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge import BridgeVectorEnv, EnvPoolVectorEnv
from gymbridge.core.requests import read_limit
from gymbridge.envpool.keywords import read_config
from gymbridge.envpool.simulator import EnvPoolSimulator
from gymbridge.envpool.tasks import default_limit, limit_rule, load_tasks

__all__ = [
    "Moment",
    "Story",
    "act",
    "act_all",
    "leaves_of",
    "make",
    "make_own",
    "make_plain",
    "play",
    "row_of",
    "tell_episodes",
]


class Moment(NamedTuple):
    """One environment after a step, or as its episode begins."""

    obs: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


Story = list[list[Moment]]
"""The episodes of one environment."""


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
    rule = limit_rule(task_id, load_tasks()[task_id]["family"])
    applies = rule.applies_by_default or max_episode_steps is not None
    simulator = EnvPoolSimulator(
        task_id,
        num_envs,
        task_limit=default_limit(task_id, read_config(task_id, {})["max_episode_steps"]),
        info_keys=None,
        config=rule.keywords(read_limit(max_episode_steps, None), {}) if applies else {},
    )
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


def play(
    envs: VectorEnv,
    num_steps: int,
    *,
    seed: Any = 3,
    touch: Callable[[Any], None] = lambda shown: None,
) -> list[Any]:
    """Return copies of all that a run with fixed actions shows; ended ones are reset if DISABLED.

    Args:
        envs: The batch.
        num_steps: Steps to take.
        seed: To begin with; "go on" to begin where the batch stands.
        touch: Called after each call with what it took and what it returned.
    """
    log: list[Any] = []

    def show(shown: Any, took: Any) -> Any:
        log.append(copy.deepcopy(shown))
        touch((shown, took))
        return log[-1]

    if not isinstance(seed, str):
        show(envs.reset(seed=seed), None)
    for step in range(num_steps):
        actions = act_all(envs, 0, step)
        _, _, terminated, truncated, _ = show(envs.step(actions), actions)
        over = terminated | truncated
        if over.any() and envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED:
            options = {"reset_mask": over}
            show(envs.reset(options=options), options)
    return log


def row_of(tree: Any, row: int) -> Any:
    """Return one row of arrays in nested dicts, without the masks."""
    if isinstance(tree, dict):
        kept = [key for key in tree if not (key[0] == "_" and key[1:] in tree)]
        return {key: row_of(tree[key], row) for key in kept}
    return np.array(tree[row])


def leaves_of(tree: Any) -> list[Any]:
    """Return the arrays, or the spaces, in nested dicts, in the order of sorted keys."""
    if isinstance(tree, dict | spaces.Dict):
        return [leaf for key in sorted(tree.keys()) for leaf in leaves_of(tree[key])]
    return [tree]


def tell_episodes(
    envs: VectorEnv, num_episodes: int, *, seed: int, most: int = 2000
) -> list[Story]:
    """Return the first episodes of each environment, all of them complete.

    Args:
        envs: The batch, in any mode; reset here.
        num_episodes: How many episodes of each environment.
        seed: Of environment 0; environment i gets ``seed + i``.
        most: Steps that must suffice.
    """
    mode = envs.metadata["autoreset_mode"]
    obs, infos = envs.reset(seed=seed)
    told: list[Story] = [[[_begin(obs, infos, row)]] for row in range(envs.num_envs)]
    ended = np.zeros(envs.num_envs, np.bool_)
    for _ in range(most):
        if min(map(len, told)) > num_episodes:
            return [story[:num_episodes] for story in told]
        if mode == AutoresetMode.DISABLED and ended.any():
            obs, infos = envs.reset(options={"reset_mask": ended})
            for row in np.flatnonzero(ended):
                told[row].append([_begin(obs, infos, row)])
        actions = act_all(envs, [len(s) for s in told], [len(s[-1]) for s in told])
        obs, rewards, terminated, truncated, infos = envs.step(actions)
        over = terminated | truncated
        for row, story in enumerate(told):
            if ended[row] and mode == AutoresetMode.NEXT_STEP:
                assert (rewards[row], over[row]) == (0, False), "a restart shows a reward or an end"
                story.append([_begin(obs, infos, row)])
                continue
            last = mode == AutoresetMode.SAME_STEP and over[row]
            seen = row_of(_stacked(infos["final_obs"][row]) if last else obs, 0 if last else row)
            info = row_of(infos["final_info"] if last else _of_engine(infos), row)
            flags = bool(terminated[row]), bool(truncated[row])
            story[-1].append(Moment(seen, float(rewards[row]), *flags, info))
            if last:
                story.append([_begin(obs, infos, row)])
        ended = over
    raise AssertionError(f"{most} steps did not hold {num_episodes} episodes of each environment")


def _begin(obs: Any, infos: dict[str, Any], row: int) -> Moment:
    return Moment(row_of(obs, row), 0.0, False, False, row_of(_of_engine(infos), row))


def _stacked(tree: Any) -> Any:
    """Return one observation as a batch of one."""
    if isinstance(tree, dict):
        return {key: _stacked(value) for key, value in tree.items()}
    return np.asarray(tree)[None]


def _of_engine(infos: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in infos.items() if not key.lstrip("_").startswith("final_")}
