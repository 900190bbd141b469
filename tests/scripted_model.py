"""What a batch of the scripted task must return, in plain Python: one `ScriptedEnv` per row."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from batches import HOST_LENGTHS, HOST_TRUNCATES, KIND_LENGTHS, KIND_TRUNCATES

from gymbridge.testing import ScriptedEnv, draw_number

__all__ = ["Expected", "ScriptedModel", "check_expected"]


class Expected(NamedTuple):
    """What a call returns; every field is (num_envs,)."""

    obs: np.ndarray
    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray
    infos: list[dict[str, Any]]
    of: np.ndarray  # bool, rows that infos are of
    final_obs: np.ndarray  # of this step, before restarts


@cache
def _draw_on_brax(seed: int, episode: int) -> np.uint32:
    from gymbridge.testing.scripted_brax import episode_draw

    return episode_draw(seed, episode)


def _make_row(engine: str, row: int, limit: int | None) -> ScriptedEnv:
    def plan_host(seed: int, episode: int) -> tuple[int, bool]:
        column = episode % len(HOST_LENGTHS[row])
        return HOST_LENGTHS[row][column], HOST_TRUNCATES[row][column]

    def plan_brax(seed: int, episode: int) -> tuple[int, bool]:
        kind = int(_draw_on_brax(seed, episode)) % len(KIND_LENGTHS)
        return KIND_LENGTHS[kind], KIND_TRUNCATES[kind]

    plan: Callable[[int, int], tuple[int, bool]] = plan_host if engine == "host" else plan_brax
    draw: Any = draw_number if engine == "host" else _draw_on_brax
    return ScriptedEnv(plan, draw=draw, limit=limit)


def _fold(seed: int | None) -> int | None:
    """Return a seed as docs/reference/semantics.md says that an engine gets it."""
    if seed is None or seed < 2**32:
        return seed
    return int(np.random.SeedSequence(seed).generate_state(1)[0]) % 2**32


class ScriptedModel:
    """The scripted batch as `tests/batches.py` makes it.

    Args:
        engine: "host" or "brax".
        mode: Value of the autoreset mode.
        num_envs: Size of the batch.
        limit: The user's time limit.
    """

    def __init__(self, engine: str, mode: str, num_envs: int, limit: int | None) -> None:
        self._rows = [_make_row(engine, row, limit) for row in range(num_envs)]
        self._mode = mode
        self._obs = np.zeros(num_envs, np.float32)
        self._flags = np.zeros((2, num_envs), np.bool_)  # terminated and truncated
        self._infos: list[dict[str, Any]] = [{} for _ in self._rows]

    def get_state(self) -> Any:
        """Return a copy of all that changes."""
        return copy.deepcopy((self._rows, self._obs, self._flags, self._infos))

    def set_state(self, state: Any) -> None:
        """Put it back."""
        self._rows, self._obs, self._flags, self._infos = copy.deepcopy(state)

    def reset(self, seeds: Sequence[int | None], mask: np.ndarray) -> Expected:
        """Begin new episodes under `mask`."""
        for row in mask.nonzero()[0]:
            self._begin(row, _fold(seeds[row]))
            self._flags[:, row] = False
        return self._expect(np.zeros(len(mask)), 0 * self._flags, mask, self._obs)

    def step(self, actions: np.ndarray, mask: np.ndarray | None = None) -> Expected:
        """Step the rows under `mask`, or all."""
        held = np.zeros(len(actions), np.bool_) if mask is None else ~mask
        over, shown = self._flags.any(0), self._flags.copy()
        rewards, final_obs = np.zeros(len(actions)), self._obs.copy()
        for row, env in enumerate(self._rows):
            if over[row] and self._mode == "NextStep":
                self._begin(row)
                shown[:, row] = False
            elif not over[row] and not held[row]:
                step = env.step(actions[row])
                self._obs[row], rewards[row], *shown[:, row], self._infos[row] = step
            final_obs[row] = self._obs[row]
            if self._mode == "SameStep" and shown[:, row].any():
                self._begin(row)
        self._flags = shown if self._mode != "SameStep" else self._flags
        return self._expect(rewards, shown, np.ones_like(held), final_obs)

    def _begin(self, row: int, seed: int | None = None) -> None:
        self._obs[row], self._infos[row] = self._rows[row].reset(seed=seed)

    def _expect(self, rewards: Any, flags: Any, of: Any, final_obs: Any) -> Expected:
        parts = (
            self._obs.copy(),
            rewards.astype(np.float32),
            *flags.astype(np.bool_),
            list(self._infos),
        )
        return Expected(*parts, of.copy(), final_obs.copy())


def check_expected(returned: Any, expected: Expected, *, is_dense: bool, has_final: bool) -> None:
    """Raise unless a call returned that.

    Args:
        returned: Of `reset` or `step`, in numpy.
        expected: What it should be.
        is_dense: Whether keys of infos are the same in every step.
        has_final: Whether it is a step that restarts what it ends.
    """
    obs, *rest, infos = returned
    for found, wanted in zip((obs, *rest), expected, strict=False):
        assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist())
    of, rows = expected.of, zip(expected.of, expected.infos, strict=True)
    draws, totals = zip(
        *((info["draw"], info["script"]["total"]) if at else (0, 0) for at, info in rows),
        strict=True,
    )
    assert infos["draw"].tolist() == list(draws)
    assert infos["script"]["total"].tolist() == list(totals)
    assert infos["_draw"].tolist() == infos["script"]["_total"].tolist() == of.tolist()
    over = expected.terminations | expected.truncations
    assert ("final_obs" in infos) == (has_final and bool(is_dense or over.any()))
    if "final_obs" in infos:
        assert infos["_final_obs"].tolist() == over.tolist()
        seen = np.ones_like(over) if is_dense else over
        wanted = [value if at else None for value, at in zip(expected.final_obs, seen, strict=True)]
        assert infos["final_obs"].tolist() == wanted
