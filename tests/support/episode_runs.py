"""Episodes of a run, without the mode's way of returning them, and those of other processes."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from tests.support.batches import draw_actions
from tests.support.player import calls
from tests.support.python_runs import run_python

Act = Callable[[list[int], list[int]], np.ndarray]
"""From the numbers of each environment's episode and step to the actions of all."""


class Moment(NamedTuple):
    """One environment after a step, or as its episode begins."""

    obs: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    @property
    def is_over(self) -> bool:
        return bool(self.terminated or self.truncated)


Episodes = list[list[list[Moment]]]


def episodes(
    envs: Any, num_steps: int, seed: int = 3, *, act: Act | None = None, complete: int | None = None
) -> Episodes:
    """Return the episodes of each environment, without the mode's way of returning them.

    Args:
        envs: The batch, in any mode; reset here.
        num_steps: Steps to take, at most.
        seed: Of environment 0; environment i gets ``seed + i``.
        act: Chooses actions. By default they are those of the step within the episode.
        complete: Number of episodes of each environment, after which the run ends and to which it
            is cut. Without it, the last episode of each is open.
    """
    choose, mode = act or _plan_actions(envs), envs.metadata["autoreset_mode"]
    found: Episodes = [[] for _ in range(envs.num_envs)]

    def act_now(_: int) -> np.ndarray:
        return choose([len(own) for own in found], [len(own[-1]) for own in found])

    for call in calls(envs, num_steps, seed=seed, act=act_now):
        for row in call.rows.nonzero()[0]:
            if call.is_reset:
                found[row].append([_begin(call.found, row)])
            else:
                _go_on(found[row], call.found, row, mode)
        if complete and min(map(len, found)) > complete:
            break
    for own in found:
        _check(own, envs.max_episode_steps)
    assert min(map(len, found)) > (complete or 0), "the steps did not suffice"
    return [own[:complete] for own in found]


def _plan_actions(envs: Any) -> Act:
    @cache
    def plan(step: int) -> np.ndarray:
        return draw_actions(envs, np.random.default_rng(step - 1))

    return lambda _, steps: np.stack([plan(step)[row] for row, step in enumerate(steps)])


def _go_on(own: list[list[Moment]], returned: Any, row: int, mode: AutoresetMode) -> None:
    """Add what a step returned to the episodes of one environment."""
    obs, rewards, terminated, truncated, infos = returned
    flags = bool(terminated[row]), bool(truncated[row])
    after = Moment(row_of(obs, row), float(rewards[row]), *flags, row_of(_of_engine(infos), row))
    if own[-1][-1].is_over:  # NextStep
        assert after[1:4] == (0, False, False), "a restart has a reward or an end"
        own.append([after])
    elif after.is_over and mode == AutoresetMode.SAME_STEP:
        final = row_of(infos["final_obs"][row], ...), row_of(infos["final_info"], row)
        own[-1].append(after._replace(obs=final[0], info=final[1]))
        own.append([_begin((obs, infos), row)])
    else:
        own[-1].append(after)


def _begin(returned: Any, row: int) -> Moment:
    obs, infos = returned
    return Moment(row_of(obs, row), 0.0, False, False, row_of(_of_engine(infos), row))


def _of_engine(infos: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in infos.items() if not key.lstrip("_").startswith("final_")}


def row_of(tree: Any, row: Any) -> Any:
    """Return a row of arrays in nested dicts, without the masks; of a row, ``...`` is all."""
    if isinstance(tree, dict):
        kept = [key for key in tree if not (key[0] == "_" and key[1:] in tree)]
        return {key: row_of(tree[key], row) for key in kept}
    return np.array(tree[row])


def _check(own: list[list[Moment]], limit: int | None) -> None:
    """Raise unless complete episodes end once, by the limit at the latest."""
    last = 0
    for *before, end in own[:-1]:
        assert not any(moment.is_over for moment in before)
        assert end.terminated != end.truncated
        assert limit is None or len(before) <= limit
        if "elapsed_step" in end.info:  # of EnvPool, whose tasks here are cut by the limit alone
            counted = [int(moment.info["elapsed_step"]) for moment in (*before, end)]
            assert counted[0] in (0, last), "a game of several lives goes on"
            assert counted == [*range(counted[0], counted[0] + len(counted))]
            assert end.terminated or len(before) == limit
            last = counted[-1]


def compare(left: Episodes, right: Episodes, *, complete: int, digits: float = 1e-5) -> None:
    """Raise unless the complete episodes are equal, at least `complete` of each environment.

    Args:
        left: The episodes.
        right: What they should be.
        complete: Number of episodes.
        digits: Relative and absolute tolerance of observations and rewards; 0 for equal bits, once
            they have the dtype of `left`.
    """
    for one, other in zip(left, right, strict=True):
        count = min(len(one), len(other)) - 1
        assert count >= complete
        for episode, like in zip(one[:count], other[:count], strict=True):
            assert [moment[2:4] for moment in episode] == [moment[2:4] for moment in like]
            for moment, wanted in zip(episode, like, strict=True):
                for found, value in zip(moment[:2], wanted[:2], strict=True):
                    value = np.asarray(value, np.asarray(found).dtype)
                    np.testing.assert_allclose(found, value, rtol=digits, atol=digits)


def episodes_elsewhere(
    batches: list[tuple[str, dict[str, Any]]], num_steps: int, **environ: str
) -> list[Episodes]:
    """Return the episodes of batches that a new process builds.

    Args:
        batches: Name and options of each, as `make_batch` takes them.
        num_steps: To take.
        **environ: Variables of that process, beside those of this one.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "work")
        file.write_bytes(pickle.dumps((batches, num_steps)))
        run_python("-c", _ELSEWHERE, file, seconds=500, **environ)
        return pickle.loads(file.read_bytes())


_ELSEWHERE = """
import pickle, sys
from pathlib import Path
from tests.support.batches import make_batch
from tests.support.episode_runs import episodes
file = Path(sys.argv[1])
batches, num_steps = pickle.loads(file.read_bytes())
found = [episodes(make_batch(name, **options), num_steps) for name, options in batches]
file.write_bytes(pickle.dumps(found))
"""
