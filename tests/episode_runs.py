"""Episodes of a run, without the mode's way of returning them, and those of other processes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from batches import draw_actions, to_kind, to_numpy
from gymnasium.vector import AutoresetMode

__all__ = ["Episodes", "Moment", "compare", "episodes", "episodes_elsewhere", "lengths"]


class Moment(NamedTuple):
    """One step of one environment's episode, or its beginning."""

    obs: np.ndarray
    reward: float
    terminated: bool
    truncated: bool


Episodes = list[list[list[Moment]]]


def episodes(envs: Any, num_steps: int, seed: int = 3) -> Episodes:
    """Return the episodes of each environment, without the mode's way of returning them.

    Actions are those of the step within the episode, so that modes can be compared.
    """
    size, longest = envs.num_envs, num_steps + 1
    rngs = [np.random.default_rng(step) for step in range(longest)]
    plan = [to_numpy(draw_actions(envs, rng)) for rng in rngs]
    obs, _ = to_numpy(envs.reset(seed=seed))
    found: Episodes = [[[Moment(obs[row], 0, False, False)]] for row in range(size)]
    for _ in range(num_steps):
        actions = np.stack([plan[len(own[-1]) - 1][row] for row, own in enumerate(found)])
        ended = [own[-1][-1].terminated or own[-1][-1].truncated for own in found]
        *values, infos = envs.step(to_kind(actions, envs.arrays))
        obs, rewards, terminated, truncated = to_numpy(values)
        for row, own in enumerate(found):
            moment = Moment(obs[row], rewards[row], terminated[row], truncated[row])
            is_over = moment.terminated or moment.truncated
            if ended[row]:  # NEXT_STEP
                own.append([moment])
            elif is_over and envs.autoreset_mode == AutoresetMode.SAME_STEP:
                own[-1].append(moment._replace(obs=to_numpy(infos["final_obs"][row])))
                own.append([Moment(moment.obs, 0, False, False)])
            else:
                own[-1].append(moment)
        over = terminated | truncated
        if envs.autoreset_mode == AutoresetMode.DISABLED and over.any():
            obs = to_numpy(envs.reset(options={"reset_mask": over})[0])
            for row in over.nonzero()[0]:
                found[row].append([Moment(obs[row], 0, False, False)])
    return found


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
            assert [moment[2:] for moment in episode] == [moment[2:] for moment in like]
            for moment, wanted in zip(episode, like, strict=True):
                for found, value in zip(moment[:2], wanted[:2], strict=True):
                    value = np.asarray(value, np.asarray(found).dtype)
                    np.testing.assert_allclose(found, value, rtol=digits, atol=digits)


def lengths(found: Episodes) -> list[int]:
    """Return the steps of each complete episode."""
    return [len(episode) - 1 for own in found for episode in own[:-1]]


def episodes_elsewhere(
    batches: list[tuple[str, dict[str, Any]]], num_steps: int, **environ: str
) -> list[Episodes]:
    """Return the episodes of batches that a new process builds.

    Args:
        batches: Name and options of each, as `make_batch` takes them.
        num_steps: To take.
        **environ: Variables of that process, beside those of this one.
    """
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "work")
        file.write_bytes(pickle.dumps((batches, num_steps)))
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _ELSEWHERE, file],
            env={**os.environ, "PYTHONPATH": path, **environ},
            check=True,
            timeout=500,
        )
        return pickle.loads(file.read_bytes())


_ELSEWHERE = """
import pickle, sys
from pathlib import Path
from batches import make_batch
from episode_runs import episodes
file = Path(sys.argv[1])
batches, num_steps = pickle.loads(file.read_bytes())
found = [episodes(make_batch(name, **options), num_steps) for name, options in batches]
file.write_bytes(pickle.dumps(found))
"""
