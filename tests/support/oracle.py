"""What a batch has to return, by environments that an engine steps one at a time.

The rules of docs/reference/semantics.md are written here once more, for one environment after the
other and without anything of gymbridge. An `Oracle` compares with them all that a batch returns.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from tests.support.batches import to_numpy
from tests.support.player import Call, calls, draw_at


class Answer(NamedTuple):
    """What one environment answers, without a leading dimension."""

    obs: Any  # arrays in nested dicts
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any] | None  # arrays in nested dicts; None where they are not compared


class OwnEnv(Protocol):
    """One environment as its engine has it, which knows no time limit of the user's."""

    def begin(self) -> Answer:
        """Begin an episode."""
        ...

    def step(self, action: Any) -> Answer:
        """Take one step."""
        ...


class Row:
    """One environment of a batch, under the user's time limit.

    Attributes:
        env: As its engine has it.
        elapsed: Steps of the episode.
        now: What the environment answered last.
    """

    def __init__(self, env: OwnEnv, limit: int | None) -> None:
        self.env, self._limit = env, limit
        self.elapsed = 0
        self.now: Answer  # from the first `begin` on

    @property
    def is_over(self) -> bool:
        return self.now.terminated or self.now.truncated

    @property
    def is_tie(self) -> bool:
        """Whether the task ended on the last allowed step."""
        return self.now.terminated and self.elapsed == self._limit

    def begin(self) -> None:
        self.elapsed = 0
        self.now = self.env.begin()._replace(reward=0.0, terminated=False, truncated=False)

    def step(self, action: Any) -> None:
        answer = self.env.step(action)
        self.elapsed += 1
        is_late = self._limit is not None and self.elapsed >= self._limit
        truncated = (answer.truncated or is_late) and not answer.terminated
        self.now = answer._replace(truncated=truncated)

    def stay(self) -> None:
        self.now = self.now._replace(reward=0.0)


class Oracle:
    """Raises where a batch does not return what its rows say.

    Args:
        envs: The batch, in any mode.
        rows: Its environments, by the engine alone.
        rtol: Relative tolerance of floats.
        atol: Absolute tolerance of floats.

    Attributes:
        rows: The environments as they are now.
        steps: Steps of environments that were compared.
        ends: How many episodes ended, by "terminated", "truncated", "tie".
    """

    def __init__(
        self, envs: VectorEnv, rows: Sequence[Row], *, rtol: float = 0, atol: float = 0
    ) -> None:
        self.envs, self.rows = envs, rows
        self.steps, self.ends = 0, Counter[str]()
        self._mode = envs.metadata["autoreset_mode"]
        self._is_dense = getattr(envs, "arrays", "numpy") != "numpy"
        self._tolerance = {"rtol": rtol, "atol": atol}

    @property
    def over(self) -> np.ndarray:
        return np.array([row.is_over for row in self.rows])

    def check(self, call: Call) -> None:
        """Raise unless a call returned what it has to."""
        if call.is_reset:
            self.check_reset(call.found, call.rows)
        else:
            self.check_step(call.found, to_numpy(call.args[0]), call.rows)

    def check_reset(self, returned: tuple[Any, dict[str, Any]], mask: np.ndarray) -> None:
        """Raise unless a reset of the environments under a mask returned that, in numpy."""
        obs, infos = returned
        for row in self._under(mask):
            row.begin()
        self._compare("observations", obs, [row.now.obs for row in self.rows])
        self._compare_infos(infos, mask)

    def check_step(
        self, returned: tuple[Any, ...], actions: np.ndarray, moves: np.ndarray | None = None
    ) -> None:
        """Raise unless a step, of all or those under a mask, returned that, in numpy."""
        for index, row in enumerate(self.rows):
            is_held = moves is not None and not moves[index]
            if is_held or (row.is_over and self._mode == AutoresetMode.DISABLED):
                row.stay()
            elif row.is_over:
                row.begin()
            else:
                row.step(_take(actions, index))
                self._count(row)
        self._compare_step(*returned)

    def _count(self, row: Row) -> None:
        self.steps += 1
        self.ends["terminated"] += row.now.terminated
        self.ends["truncated"] += row.now.truncated
        self.ends["tie"] += row.is_tie

    def _compare_step(
        self, obs: Any, rewards: Any, terminations: Any, truncations: Any, infos: dict[str, Any]
    ) -> None:
        flags = terminations.dtype, truncations.dtype
        assert (rewards.dtype, *flags) == (np.float32, np.bool_, np.bool_)
        self._compare("rewards", rewards, [row.now.reward for row in self.rows])
        self._compare("terminations", terminations, [row.now.terminated for row in self.rows])
        self._compare("truncations", truncations, [row.now.truncated for row in self.rows])
        infos, over = dict(infos), self.over
        if self._mode == AutoresetMode.SAME_STEP and (over.any() or self._is_dense):
            self._compare_finals(over, *(infos.pop(key) for key in FINAL_KEYS))
            for row in self._under(over):
                row.begin()
        self._compare("observations", obs, [row.now.obs for row in self.rows])
        self._compare_infos(infos, np.ones_like(over))

    def _compare_finals(
        self, over: np.ndarray, obs: Any, has_obs: Any, infos: dict[str, Any], has_infos: Any
    ) -> None:
        np.testing.assert_array_equal([has_obs, has_infos], [over, over])
        self._compare_infos(infos, over)
        if self._is_dense:
            self._compare("final_obs", obs, [row.now.obs for row in self.rows])
            return
        for index, row in enumerate(self.rows):
            if over[index]:
                for found, wanted in zip(_leaves(obs[index]), _leaves(row.now.obs), strict=True):
                    self._compare("final_obs", found[1][None], [wanted[1]])
            else:
                assert obs[index] is None

    def _compare_infos(self, infos: dict[str, Any], mask: np.ndarray) -> None:
        """Compare the infos of the rows under a mask, and their masks with it."""
        under = self._under(mask)
        if not under or under[0].now.info is None:
            return
        rows = [dict(_leaves(row.now.info)) for row in under]
        found = {name: (values, has) for name, values, has in _masked_leaves(infos)}
        assert {*found} == {*rows[0]}, f"infos {sorted(found)}, not {sorted(rows[0])}"
        for name, (values, has) in found.items():
            np.testing.assert_array_equal(has, mask, err_msg=f"mask of {name}")
            self._compare(name, values[mask], [row[name] for row in rows])

    def _compare(self, what: str, found: Any, wanted: list[Any]) -> None:
        """Compare a batch with what its rows have."""
        leaves = zip(*(_leaves(tree) for tree in wanted), strict=True)
        for (path, batch), rows in zip(_leaves(found), leaves, strict=True):
            assert {path} == {own_path for own_path, _ in rows}, f"{what} {path}"
            stacked = np.stack([np.asarray(row) for _, row in rows])
            if not np.array_equal(batch, stacked, equal_nan=batch.dtype.kind == "f"):
                where = f"{what}{path} after {self.steps} steps, {self._mode}"
                np.testing.assert_allclose(batch, stacked, err_msg=where, **self._tolerance)

    def _under(self, mask: np.ndarray) -> list[Row]:
        return [row for row, is_meant in zip(self.rows, mask, strict=True) if is_meant]


def check_run(
    oracle: Oracle,
    num_steps: int,
    *,
    seed: Any,
    act: Callable[[int], Any] | None = None,
    draw: Any = 0,
) -> None:
    """Play the batch until that many steps of environments were compared.

    In the first half, environments are also reset while they run and, with autoreset disabled,
    held. The second half begins with a reset of all, without seeds.

    Args:
        oracle: What the batch is compared with.
        num_steps: How many.
        seed: Of the first reset.
        act: As `calls` takes it.
        draw: Seed of the draws of what is reset and held.
    """
    act = act or partial(draw_at, oracle.envs)
    rng, numbers = np.random.default_rng(draw), itertools.count()
    halves = (num_steps // 2, {"seed": seed, "disturb": rng}), (num_steps, {"seed": None})
    for until, options in halves:
        for call in calls(oracle.envs, act=lambda _: act(next(numbers)), **options):
            oracle.check(call)
            if oracle.steps >= until:
                break


FINAL_KEYS = ("final_obs", "_final_obs", "final_info", "_final_info")


def _take(tree: Any, index: int) -> Any:
    """Return a row of arrays in nested dicts."""
    if isinstance(tree, dict):
        return {key: _take(value, index) for key, value in tree.items()}
    return tree[index]


def _leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield path and array of every leaf of nested dicts, in the order of sorted keys."""
    if isinstance(tree, dict):
        for key in sorted(tree):
            yield from _leaves(tree[key], f"{path}.{key}")
    else:
        yield path, tree


def _masked_leaves(infos: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield path, values and mask of every info."""
    for key, value in infos.items():
        if isinstance(value, dict):
            yield from _masked_leaves(value, f"{path}.{key}")
        elif not (key[0] == "_" and key[1:] in infos):
            yield f"{path}.{key}", value, infos[f"_{key}"]
