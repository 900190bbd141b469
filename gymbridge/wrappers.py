"""Wrappers for batches of torch or jax arrays; Gymnasium's own are made for numpy."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from gymbridge.core.snapshots import SavesState, Snapshot, check_snapshot
from gymbridge.core.spaces import keep_apart
from gymbridge.errors import ArgumentError, ArgumentTypeError

__all__ = ["RecordEpisodeStatistics"]


class _Running(NamedTuple):
    """The episodes that run; every field is (num_envs,)."""

    returns: Any  # float, sum of rewards
    lengths: Any  # int, steps
    seconds: Any  # float, since the episode began
    over: Any  # bool, ended and not yet begun again


class RecordEpisodeStatistics(SavesState, VectorWrapper):
    """Return, length and duration of each episode in the step that ends it, on the batch's device.

    Each step adds these infos, without synchronising with the host::

        infos["episode"] = {"r": returns, "l": lengths, "t": seconds}   each (num_envs,)
        infos["_episode"]                                               (num_envs,) bool

    The keys are those of `gymnasium.wrappers.vector.RecordEpisodeStatistics`; values are 0 where no
    episode ended, and each episode is reported once. Returns have the dtype of rewards, lengths are
    integers, seconds are float64 in torch and float32 in jax without x64. A return has no gradient.
    `unroll` is called on ``envs.unwrapped``, so its steps are not counted. `get_state` and
    `save_state` include the statistics of the running episodes.

    Args:
        env: A batch with ``arrays="torch"`` or ``arrays="jax"``.
        stats_key: Key of the statistics in the infos.

    Raises:
        ArgumentTypeError: `env` is not a vector environment.
        ArgumentError: `env` has numpy arrays; use Gymnasium's own wrapper for those.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], stats_key: str = "episode") -> None:
        if not isinstance(env, VectorEnv):
            raise ArgumentTypeError(
                f"`env` must be a gymnasium.vector.VectorEnv, got {type(env).__name__}."
            )
        arrays = getattr(env.unwrapped, "arrays", None)
        if arrays not in _TOOLS:
            raise ArgumentError(
                f"`env` must be a batch with `arrays='torch'` or 'jax', got {arrays!r}; for numpy "
                "use gymnasium.wrappers.vector.RecordEpisodeStatistics."
            )
        super().__init__(env)
        keep_apart(self)
        self._key = stats_key
        self._tools = _TOOLS[arrays]()
        self._count = self._tools.compile(
            _count_same_step
            if env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
            else _count_step
        )
        self._forget = self._tools.compile(_forget)
        self._running: _Running | None = None
        self._last_call = time.perf_counter()

    def __reduce__(self) -> Any:
        """Pickle and copy as the construction, as the batch does."""
        return type(self), (self.env, self._key)

    __copy__ = copy.deepcopy  # around a copied batch, not around the same one

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes; see `BridgeVectorEnv.reset`."""
        returned = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        passed = self._pass_time()
        if not options or "reset_mask" not in options:
            self._running = None
        elif self._running is not None:
            mask = self._tools.to_array(options["reset_mask"], self._running.over)
            self._running = self._forget(self._tools, self._running, mask, passed)
        return returned

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step; see `BridgeVectorEnv.step`."""
        obs, rewards, terminations, truncations, infos = self.env.step(actions)
        ended, plain = terminations | truncations, self._tools.detach(rewards)
        if self._running is None:
            zeros = self._tools.zeros
            self._running = _Running(
                zeros(plain), zeros(ended, dtype=int), zeros(ended, dtype=float), zeros(ended)
            )
        passed = self._pass_time()
        self._running, counted = self._count(self._tools, self._running, plain, ended, passed)
        infos[self._key], infos[f"_{self._key}"] = counted
        return obs, rewards, terminations, truncations, infos

    def get_state(self) -> Snapshot:
        """Return the state of the batch, with the statistics of the running episodes.

        Raises:
            ArgumentError: Two wrappers have the same `stats_key`, or there is a wrapper of another
                kind between this one and the batch.
            ResetNeededError: Before the first `reset`.
        """
        state, running = self._inner().get_state(), self._running
        fields = [np.empty(0)] * 4 if running is None else map(self._tools.to_numpy, running)
        leaves = dict(zip(self._names(), fields, strict=True))
        if leaves.keys() & state.leaves.keys():
            raise ArgumentError(
                f"Two wrappers here have the `stats_key` {self._key!r}; give each its own."
            )
        batch = {**state.batch, f"statistics {self._key!r}": "recorded"}
        return Snapshot(batch, state.seeds, {**state.leaves, **leaves})

    def set_state(self, state: Snapshot) -> Any:
        """Restore batch and statistics from a snapshot, and return the current observation.

        Raises:
            ArgumentTypeError: `state` is not a `Snapshot`.
            ArgumentError: `state` lacks the statistics of this wrapper, or breaks a rule of
                `FunctionalVectorEnv.set_state`.
        """
        check_snapshot(state)
        running = self._read_running(state.leaves)
        others = {name: x for name, x in state.leaves.items() if name not in self._names()}
        batch = {name: x for name, x in state.batch.items() if name != f"statistics {self._key!r}"}
        obs = self._inner().set_state(Snapshot(batch, state.seeds, others))
        self._running, self._last_call = running, time.perf_counter()
        return obs

    def _inner(self) -> Any:
        if isinstance(self.env, VectorWrapper) and not isinstance(self.env, SavesState):
            raise ArgumentError(
                f"A snapshot would lose the state of {type(self.env).__name__}; put "
                "`RecordEpisodeStatistics` around the batch itself."
            )
        return self.env

    def _names(self) -> list[str]:
        return [f"statistics.{self._key}.{field}" for field in _Running._fields]

    def _read_running(self, leaves: Mapping[str, Any]) -> _Running | None:
        """Return the statistics in a snapshot; None where no episode ran before it."""
        fields: list[Any] = [leaves.get(name) for name in self._names()]
        shapes = {np.shape(field) for field in fields if field is not None}
        if any(field is None for field in fields) or shapes not in ({(0,)}, {(self.num_envs,)}):
            raise ArgumentError(
                f"`state` must have the statistics {self._names()} of {self.num_envs} "
                "environments, as `get_state` of such a wrapper returns them; restore a snapshot "
                "of the batch alone with `envs.unwrapped.set_state`."
            )
        if not len(fields[0]):
            return None
        device = cast("Any", self.unwrapped).device
        pairs = zip(fields, (None, int, float, None), strict=True)
        return _Running(*(self._tools.from_numpy(*x, device) for x in pairs))

    def _pass_time(self) -> float:
        """Return the seconds since the last call; sums of them keep their digits for weeks."""
        before, self._last_call = self._last_call, time.perf_counter()
        return self._last_call - before


class _Tools(NamedTuple):
    where: Callable[..., Any]
    zeros: Callable[..., Any]  # (like, dtype=of like)
    compile: Callable[[Any], Any]
    detach: Callable[[Any], Any]  # array -> the same values without a graph
    to_array: Callable[[Any, Any], Any]  # (mask, like)
    to_numpy: Callable[[Any], np.ndarray]  # array -> its values, in memory of their own
    from_numpy: Callable[[np.ndarray, Any, Any], Any]  # (values, dtype or None, device), the same


def _torch_tools() -> _Tools:
    import torch

    def to_array(mask: Any, like: Any) -> Any:
        return torch.as_tensor(mask, device=like.device)

    def to_numpy(array: Any) -> np.ndarray:
        return array.detach().cpu().numpy().copy()

    def from_numpy(values: np.ndarray, dtype: Any, device: Any) -> Any:
        kinds = {None: None, int: torch.int64, float: torch.float64}
        return torch.tensor(values, dtype=kinds[dtype], device=device)

    where, zeros = torch.where, torch.zeros_like
    return _Tools(where, zeros, lambda run: run, torch.detach, to_array, to_numpy, from_numpy)


def _jax_tools() -> _Tools:
    import jax
    import jax.numpy as jnp

    def to_array(mask: Any, like: Any) -> Any:
        # A copy, since the user may write into the mask before JAX has read it.
        return jnp.array(mask)

    compile_with = partial(jax.jit, static_argnums=0)

    def from_numpy(values: np.ndarray, dtype: Any, device: Any) -> Any:
        return jax.device_put(jnp.array(values, dtype), device)

    where, zeros = jnp.where, jnp.zeros_like
    return _Tools(where, zeros, compile_with, lambda x: x, to_array, np.array, from_numpy)


_TOOLS = {"torch": _torch_tools, "jax": _jax_tools}


def _forget(tools: _Tools, running: _Running, mask: Any, passed: float) -> _Running:
    return _Running(
        tools.where(mask, 0, running.returns),
        tools.where(mask, 0, running.lengths),
        tools.where(mask, 0, running.seconds + passed),
        running.over & ~mask,
    )


def _count_step(tools: _Tools, running: _Running, rewards: Any, ended: Any, passed: float) -> Any:
    """Count a step that begins or holds the rows that were over; return it and what it ended."""
    idle = running.over
    counted = _Running(
        tools.where(idle, 0, running.returns + rewards),
        tools.where(idle, 0, running.lengths + 1),
        tools.where(idle, 0, running.seconds + passed),
        ended,
    )
    return counted, _sum_up(tools, counted, ended & ~idle)


def _count_same_step(
    tools: _Tools, running: _Running, rewards: Any, ended: Any, passed: float
) -> Any:
    """Count a step that restarts what it ends; return it and what it ended."""
    returns, lengths, seconds, over = running
    counted = _Running(returns + rewards, lengths + 1, seconds + passed, over)
    return _forget(tools, counted, ended, 0.0), _sum_up(tools, counted, ended)


def _sum_up(tools: _Tools, counted: _Running, mask: Any) -> Any:
    """Return the statistics of the rows under `mask`, 0 elsewhere, and the mask."""
    statistics = {
        "r": tools.where(mask, counted.returns, 0),
        "l": tools.where(mask, counted.lengths, 0),
        "t": tools.where(mask, counted.seconds, 0),
    }
    return statistics, mask
