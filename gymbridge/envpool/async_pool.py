"""EnvPool's asynchronous mode: `recv` returns the environments that are ready first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from gymbridge.core import requests
from gymbridge.core.actions import make_action_reader, make_numpy_reader
from gymbridge.core.extras import needs
from gymbridge.core.processes import OneThread, check_open, note_batch
from gymbridge.core.rows import has_rows
from gymbridge.errors import ArgumentError, ResetNeededError

with needs("envpool", "AsyncEnvPool"):
    from gymbridge.envpool.pool import Pool
    from gymbridge.envpool.progress import Progress
    from gymbridge.envpool.simulator import EnvPoolSimulator

__all__ = ["AsyncEnvPool"]


class AsyncEnvPool:
    """An asynchronous pool of one EnvPool task: `recv` returns `batch_size` environments at a time.

    This is not a `VectorEnv`. `recv` returns the environments that are ready first, and these wait
    until `send` gives them an action. Episodes run as in `EnvPoolVectorEnv` with NextStep: the
    result that ends an episode has the final observation and its flags. The next `send` ignores the
    action, and its result has the initial observation of the next episode, with reward 0.

    Args:
        task_id: EnvPool's name of the task, such as "Pong-v5".
        num_envs: Number of environments in the pool.
        batch_size: Number of environments that `recv` returns, smaller than `num_envs`.
        max_episode_steps: Time limit in steps of each environment; None for the task's own, -1 for
            none.
        info_keys: Which infos are carried beside "env_id"; as in `EnvPoolVectorEnv`.
        **kwargs: Keywords of `envpool.make`, such as ``num_threads=``.

    Attributes:
        num_envs, batch_size: As given.
        max_episode_steps: The limit in force, or None.
        single_observation_space, single_action_space: Of one environment.
        seed_range: Largest seed that is passed to EnvPool unchanged.
        np_random_seed: The seed of each environment, a tuple of ints; drawn from the operating
            system if none was given.
        closed: True after `close`.

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

    closed, is_forked = False, False
    _running: Pool | None = None  # The pool while episodes run, and None after an interrupted call.

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
        self.num_envs = num_envs = requests.read_count("num_envs", num_envs)
        self.batch_size = batch_size = requests.read_count("batch_size", batch_size)
        if batch_size >= num_envs:
            raise ArgumentError(
                f"`batch_size` must be smaller than `num_envs`, got {batch_size} of {num_envs}; "
                "to step all environments at once, use EnvPoolVectorEnv."
            )
        simulator = EnvPoolSimulator(
            "AsyncEnvPool", task_id, num_envs, max_episode_steps, info_keys, kwargs, batch_size
        )
        self.max_episode_steps = requests.read_limit(max_episode_steps, simulator.task_limit)
        self.single_observation_space = simulator.single_observation_space
        self.single_action_space = space = simulator.single_action_space
        self.seed_range = simulator.seed_range
        self._pool, self._layout = simulator.pool, simulator.layout
        self.np_random_seed = requests.draw_seeds(num_envs, self.seed_range)
        self._make_reader = cache(
            lambda count: make_action_reader(space, (count,), make_numpy_reader)
        )
        self._one_thread = OneThread()
        note_batch(self)

    def __repr__(self) -> str:
        return f"AsyncEnvPool with {self.num_envs} environments"

    def async_reset(
        self, *, seed: int | list[int | None] | None = None, env_ids: Any = None
    ) -> None:
        """Begin new episodes, whose initial observations `recv` returns.

        Args:
            seed: An int s to seed environment i with s + i, or a list with one int per environment;
                None for the seeds in `np_random_seed`. EnvPool fixes seeds when a pool is built, so
                the pool is built anew, and results that were not received are lost.
            env_ids: (count,) int, environments that wait for `send`. They begin new episodes and
                continue their random streams. None to begin episodes in all environments.

        Raises:
            ArgumentError: Both arguments are given, a list of seeds has a None, an environment does
                not wait for `send`, or neither argument is given while episodes run.
            ArgumentTypeError, BusyError, ClosedError, ResetNeededError: As in `send`.
        """
        with self._one_thread:
            check_open(self)
            if env_ids is None:
                self._build(seed)
            elif seed is None:
                rows = self._read_rows(env_ids)
                # A reset by id would begin a new game where a life was lost.
                self._move(rows, self._progress.need_reset(rows), self._pool.idle_actions(rows))
            else:
                raise ArgumentError(
                    "`seed` cannot be given with `env_ids`: EnvPool fixes seeds when the pool is "
                    "built. Call `async_reset(seed=...)` without `env_ids`."
                )

    def recv(self) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Wait until `batch_size` environments are ready, and return them.

        Returns:
            observations: (batch_size, ...).
            rewards: (batch_size,) float32, 0 where an episode begins.
            terminations: (batch_size,) bool, True where the task's own rule ended the episode.
            truncations: (batch_size,) bool, True where only a time limit ended the episode.
            infos: The task's own, without masks, and "env_id", (batch_size,) int32.

        Raises:
            ArgumentError: Fewer than `batch_size` environments are being stepped or reset, so the
                call would never return.
            BusyError, ClosedError, ResetNeededError: As in `send`.
        """
        with self._one_thread:
            pool, layout = self._check_running(), self._layout
            if self._progress.coming < self.batch_size:
                raise ArgumentError(
                    f"`recv` must wait for {self.batch_size} environments, but only "
                    f"{self._progress.coming} are being stepped or reset; call `send` for more."
                )
            # An interrupted call leaves None.
            self._running = None
            values = pool.receive()
            ids, rewards = values[layout.id_place], values[layout.reward_place]
            terminations, truncations = self._progress.note_answers(
                ids, values[layout.done_place], values[layout.trunc_place], rewards
            )
            self._running = pool
            infos = layout.read_info(values)
            infos["env_id"] = ids
            return layout.read_obs(values), rewards, terminations, truncations, infos

    def send(self, actions: Any, env_ids: Any) -> None:
        """Step environments that wait; `recv` returns them when they are ready.

        Args:
            actions: (count, ...) in the action space, one per environment; they are copied.
            env_ids: (count,) int, such as ``infos["env_id"]``.

        Raises:
            ActionError: The actions have another shape or lie outside a discrete space.
            ArgumentError: An environment does not wait for `send`, or an id is given twice.
            ArgumentTypeError: The ids are not integers, or the actions have a wrong type.
            ResetNeededError: `async_reset` was not called, or a call was interrupted.
            BusyError: Another call of the pool is running.
            ClosedError: The pool is closed.
        """
        with self._one_thread:
            rows = self._read_rows(env_ids)
            leaves = self._layout.action_leaves(self._make_reader(len(rows))(actions))
            # Where the limit cut an episode, of which the pool does not know, it has to be reset.
            self._move(rows, self._progress.is_cut[rows], leaves)

    def after_fork(self) -> None:
        """Become a pool of the parent, in a forked child; see `core.processes`."""
        self.is_forked, self._running, self._one_thread = True, None, OneThread()

    def close(self) -> None:
        """Release the environments."""
        if self.closed or self.is_forked:
            return
        with self._one_thread:
            self.closed, self._running = True, None
            self._pool.close()

    def _build(self, seed: Any) -> None:
        given = requests.read_seeds(seed, self.num_envs)
        if seed is None and self._running is not None:
            raise ArgumentError(
                "`async_reset` needs `seed` or `env_ids` while episodes run. Give `seed` to build "
                "the pool anew, or `env_ids` to begin new episodes in environments that wait."
            )
        if seed is not None and None in given:
            raise ArgumentError(f"`seed` must have an int for every environment, got {seed}.")
        everyone = np.ones(self.num_envs, np.bool_)
        seeds = requests.merge_seeds(given, everyone, self.np_random_seed)
        self._running = None
        self._pool.build(requests.fold_seeds(seeds, self.seed_range).values.tolist())
        self.np_random_seed = seeds
        self._progress = Progress(self.num_envs, self.batch_size, self.max_episode_steps)
        self._move(np.arange(self.num_envs), everyone, [])

    def _move(self, rows: np.ndarray, resets: np.ndarray, leaves: list[np.ndarray]) -> None:
        """Reset environments under a mask of the rows, and step the others with actions by leaf.

        Where the pool ended an episode, a step begins the next one.
        """
        self._running = None
        if has_rows(resets):
            begun = rows[resets]
            self._pool.send_reset(begun.astype(np.int32))
            self._progress.note_resets(begun)
            rows, leaves = rows[~resets], [leaf[~resets] for leaf in leaves]
        if len(rows):
            # Copies, since the pool reads them later, when the user may have changed the array.
            self._pool.send(rows.astype(np.int32), [leaf.copy() for leaf in leaves])
            self._progress.note_sent(rows)
        self._running = self._pool

    def _read_rows(self, env_ids: Any) -> np.ndarray:
        """Return ids of environments that wait, (count,) intp, the quickest index of numpy."""
        self._check_running()
        rows = requests.read_ids("`env_ids`", env_ids, self.num_envs)
        is_away = self._progress.is_away[rows]
        if has_rows(is_away):
            raise ArgumentError(
                "`env_ids` must be environments that `recv` returned, got "
                f"{rows[is_away].tolist()}, which are still being stepped or reset."
            )
        return rows

    def _check_running(self) -> Pool:
        if self._running is None:
            check_open(self)
            raise ResetNeededError(
                "No episodes are running: `async_reset` was not called, or a call was interrupted "
                "and its result is lost. Call `async_reset(seed=...)`."
            )
        return self._running
