"""EnvPool's asynchronous mode: the environments that are ready first are received first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from gymbridge.core import requests
from gymbridge.core.actions import make_action_reader, make_numpy_reader
from gymbridge.core.processes import OneThread, note_batch
from gymbridge.envpool.simulator import make_simulator
from gymbridge.errors import (
    ArgumentError,
    ClosedError,
    ResetNeededError,
    SimulationError,
)

__all__ = ["AsyncEnvPool"]


class AsyncEnvPool:
    """Environments of one EnvPool task, of which `batch_size` are received at a time.

    No `VectorEnv`: which environments come is decided by who is ready. One that was received waits
    for `send`. The episodes of each environment are those of `EnvPoolVectorEnv` in NEXT_STEP: the
    answer that ends an episode has the final observation and its flags; the next `send` ignores the
    action, and the answer to it has the next initial observation, with reward 0.

    Args:
        task_id: EnvPool's name of the task, such as "Pong-v5".
        num_envs: Environments in all.
        batch_size: Environments that `recv` returns, fewer than `num_envs`.
        max_episode_steps: Time limit in steps of each environment; None for the task's own, -1 for
            none.
        info_keys: Which infos are carried beside "env_id"; as in `EnvPoolVectorEnv`.
        **kwargs: Keywords of `envpool.make`, such as ``num_threads=``.

    Attributes:
        num_envs, batch_size: As given.
        max_episode_steps: The limit in force, or None.
        single_observation_space, single_action_space: Of one environment.
        seed_range: Largest seed that is used as it is.
        closed: After `close`.

    Raises:
        ArgumentError, KeywordError, SimulationError, UnknownTaskError: As `EnvPoolVectorEnv`, or
            `batch_size` is not smaller than `num_envs`.

    Example:
        >>> pool = AsyncEnvPool("CartPole-v1", num_envs=8, batch_size=3)
        >>> pool.async_reset(seed=0)
        >>> observations, rewards, terminations, truncations, infos = pool.recv()
        >>> observations.shape, infos["env_id"].shape
        ((3, 4), (3,))
        >>> pool.send([0, 1, 0], infos["env_id"])
        >>> pool.close()
    """

    _is_forked = False
    _carry: Any = None

    def __init__(
        self,
        task_id: str,
        num_envs: int,
        batch_size: int,
        *,
        max_episode_steps: int | None = None,
        info_keys: Sequence[str] | str | None = None,
        **kwargs: Any,
    ) -> None:
        self.num_envs = requests.read_count("num_envs", num_envs)
        self.batch_size = requests.read_count("batch_size", batch_size)
        if self.batch_size >= self.num_envs:
            raise ArgumentError(
                f"`batch_size` must be smaller than `num_envs`, got {batch_size} of {num_envs}; "
                "EnvPoolVectorEnv steps all environments at once."
            )
        simulator = make_simulator(
            "AsyncEnvPool",
            task_id,
            self.num_envs,
            max_episode_steps,
            info_keys,
            kwargs,
            batch_size=self.batch_size,
        )
        self.max_episode_steps = requests.read_limit(max_episode_steps, simulator.task_limit)
        self.single_observation_space = simulator.single_observation_space
        self.single_action_space = space = simulator.single_action_space
        self.seed_range, self.closed = simulator.seed_range, False
        self._pool, self._layout = simulator.pool, simulator.layout
        self._limit = 2**31 if self.max_episode_steps is None else self.max_episode_steps
        self._seeds: tuple[int, ...] | None = None
        self._make_reader = cache(
            lambda count: make_action_reader(space, (count,), make_numpy_reader)
        )
        self._one_thread, self._is_lost, self._coming = OneThread(), True, 0
        self._forget()
        note_batch(self)

    @property
    def np_random_seed(self) -> tuple[int, ...]:
        """The seed given to each environment; drawn from the operating system before the first."""
        if self._seeds is None:
            self._seeds = requests.draw_seeds(self.num_envs, self.seed_range)
        return self._seeds

    def async_reset(
        self, *, seed: int | list[int | None] | None = None, env_ids: Any = None
    ) -> None:
        """Begin new episodes, whose initial observations `recv` returns.

        Args:
            seed: An int s to seed environment i with s + i, or a list with one int per environment;
                None for those of `np_random_seed`. EnvPool fixes seeds when a pool is built, so the
                pool is built anew, and answers that were not received are lost.
            env_ids: (count,) int, environments that wait for `send`, in which new episodes begin
                and continue their random streams; None for all.

        Raises:
            ArgumentError: Both arguments, a None in a list of seeds, environments that do not wait,
                or neither argument while episodes run.
            ArgumentTypeError, BusyError, ClosedError, ResetNeededError: As in `send`.
        """
        with self._one_thread:
            self._check_open()
            if env_ids is None:
                self._build(seed)
            elif seed is None:
                self._begin(self._read_ids(env_ids))
            else:
                raise ArgumentError(
                    "`seed` cannot be given with `env_ids`: EnvPool fixes seeds when the pool is "
                    "built."
                )

    def recv(self) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Wait until `batch_size` environments are ready, and return them.

        Returns:
            observations: (batch_size, ...).
            rewards: (batch_size,) float32, 0 where an episode begins.
            terminations: (batch_size,) bool, ended by the task's own rule.
            truncations: (batch_size,) bool, cut by a limit and not terminated.
            infos: The task's own, without masks, and "env_id", (batch_size,) int32.

        Raises:
            ArgumentError: Fewer environments are under way, so it would wait for ever.
            BusyError, ClosedError, ResetNeededError: As in `send`.
        """
        with self._one_thread:
            self._check_running()
            if self._coming < self.batch_size:
                raise ArgumentError(
                    f"`recv` needs {self.batch_size} environments under way, and "
                    f"{self._coming} are; send actions to those that wait."
                )
            self._is_lost = True  # until all is noted
            values, layout = self._pool.receive(), self._layout
            ids, ended = values[layout.id_place], values[layout.done_place]
            rows = ids.astype(np.intp)
            rewards = values[layout.reward_place]
            rewards[~self._goes_on[rows]] = 0  # some tasks repeat one, or have NaN, as they begin
            truncations = values[layout.trunc_place] & ended
            terminations = ended & ~truncations
            is_late = self._elapsed[rows] >= self._limit
            if b"\x01" in is_late.tobytes():
                self._cut[rows] = is_late & ~ended
                truncations |= is_late & ~terminations
                ended = ended | is_late
            self._ended[rows], self._waits[rows] = ended, True
            self._coming -= self.batch_size
            self._is_lost = False
            infos = {**layout.read_info(values), "env_id": ids}
            return layout.read_obs(values), rewards, terminations, truncations, infos

    def send(self, actions: Any, env_ids: Any) -> None:
        """Step environments that wait; `recv` returns them when they are ready.

        Args:
            actions: (count, ...) in the action space, one per environment.
            env_ids: (count,) int, such as ``infos["env_id"]``.

        Raises:
            ActionError: The actions have another shape or lie outside a discrete space.
            ArgumentError: An environment that does not wait, or one that is named twice.
            ArgumentTypeError: Ids that are no integers, or actions of another type.
            ResetNeededError: Before `async_reset`, or after an interrupted call.
            BusyError, ClosedError: Another call of the pool is running; after `close`.
        """
        with self._one_thread:
            ids = self._read_ids(env_ids)
            leaves = self._layout.action_leaves(self._make_reader(len(ids))(actions))
            is_cut = self._cut[ids]
            if b"\x01" in is_cut.tobytes():  # these the pool would step
                self._reset(ids[is_cut])
                ids, leaves = ids[~is_cut], [leaf[~is_cut] for leaf in leaves]
            if len(ids):
                # Copies, since the pool reads them later, when the user may have changed the array.
                self._send(ids, [leaf.copy() for leaf in leaves])

    def close(self) -> None:
        """Release the environments."""
        if self.closed or self._is_forked:
            return
        with self._one_thread:
            self.closed = True
            self._pool.close()

    def _build(self, seed: Any) -> None:
        given = requests.read_seeds(seed, self.num_envs)
        if seed is None and not self._is_lost:
            raise ArgumentError(
                "`async_reset` needs `seed` or `env_ids` while episodes run: EnvPool fixes seeds "
                "when the pool is built."
            )
        if seed is not None and None in given:
            raise ArgumentError(f"`seed` must have an int for every environment, got {seed}.")
        everyone = np.ones(self.num_envs, np.bool_)
        seeds = requests.merge_seeds(given, everyone, self.np_random_seed)
        self._is_lost = True
        self._pool.build(requests.fold_seeds(seeds, self.seed_range).values.tolist())
        self._seeds = seeds
        self._forget()
        self._reset(np.arange(self.num_envs))

    def _begin(self, ids: np.ndarray) -> None:
        """Begin new episodes; a reset by id would begin a new game where a life was lost."""
        renews = self._ended[ids] & ~self._cut[ids]
        if renews.any():
            self._send(ids[renews], self._pool.idle_actions(ids[renews]))
        if not renews.all():
            self._reset(ids[~renews])

    def _send(self, ids: np.ndarray, leaves: list[np.ndarray]) -> None:
        """Step environments; those that the pool ended begin anew by it."""
        self._is_lost = True  # until all is noted
        self._pool.send(ids.astype(np.int32), leaves)
        goes_on = ~self._ended[ids]
        self._goes_on[ids] = goes_on
        self._elapsed[ids] = (self._elapsed[ids] + 1) * goes_on
        self._note(ids)

    def _reset(self, ids: np.ndarray) -> None:
        """Begin new episodes by id."""
        self._is_lost = True
        self._pool.send_reset(ids.astype(np.int32))
        self._goes_on[ids], self._elapsed[ids], self._cut[ids] = False, 0, False
        self._note(ids)

    def _note(self, ids: np.ndarray) -> None:
        """Note environments that are under way."""
        self._waits[ids] = False
        self._coming += len(ids)
        self._is_lost = False

    def _forget(self) -> None:
        """Note that all environments are new."""
        nobody = np.zeros(self.num_envs, np.bool_)
        self._elapsed, self._coming = np.zeros(self.num_envs, np.int32), 0
        self._goes_on, self._waits, self._ended, self._cut = (nobody.copy() for _ in range(4))

    def _read_ids(self, env_ids: Any) -> np.ndarray:
        """Return ids of environments that wait, (count,) intp."""
        self._check_running()
        ids = requests.read_ids("`env_ids`", env_ids, self.num_envs)
        if b"\x00" in self._waits[ids].tobytes():
            raise ArgumentError(
                "`env_ids` must be environments that `recv` returned and that wait, got "
                f"{ids[~self._waits[ids]].tolist()}, which are under way."
            )
        return ids

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("This AsyncEnvPool is closed; build a new one.")
        if self._is_forked:
            raise SimulationError(
                "This AsyncEnvPool was built before this process was forked, and engine threads "
                "do not survive `fork()`. Build it inside the worker."
            )

    def _check_running(self) -> None:
        self._check_open()
        if self._is_lost:
            raise ResetNeededError(
                "No episodes run, or a call was interrupted and its result is lost. Call "
                "`async_reset(seed=...)`."
            )
