"""EnvPool behind the two verbs: a thread pool of C++ environments as a host `Simulator`.

A pool restarts an ended row by itself on that row's next step. Rows that ended for another reason
must not take that step, since it would draw random numbers and the next episode would begin
elsewhere: they are reset by id, and only the others are stepped by id. Both in one exchange would
land in the same slots, so each is received before the other is sent.
(envpool/core/async_envpool.h, worker loop: ``reset = force_reset || IsDone()``.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import envpool
import numpy as np
from gymnasium import Space
from gymnasium.vector.utils import create_empty_array

from gymbridge.backends.envpool_build import build_pool, check_seeds, name_task
from gymbridge.backends.envpool_layout import Layout, to_space
from gymbridge.backends.envpool_scouts import Scouts, check_late
from gymbridge.backends.envpool_steps import make_fast_step
from gymbridge.episode import AutoresetRule, Outcome, Seeds, Tick
from gymbridge.errors import ResetNeededError

__all__ = ["EnvPoolSimulator", "PoolState"]


class PoolState(NamedTuple):
    """What is kept of a pool's last answers; the episodes themselves live in the pool."""

    values: list[np.ndarray]  # by `Layout` place, each (num_envs, ...); observations are private
    clock: int  # no episode has run for more steps than this
    cut: bool  # some row ended without the pool knowing it
    turn: int  # how many calls had moved episodes by then
    late: np.ndarray | None = None  # (count,) int32, rows that show a restart yet to be made


class EnvPoolSimulator:
    """A batch of one EnvPool task. The pool is built by the first restart and by each new seed.

    Args:
        task_id: EnvPool's name of the task.
        num_envs: Size of the batch.
        task_limit: Default time limit in steps, or None.
        info_keys: Which infos are carried; see `Layout`.
        config: Keywords for `envpool.make`.
        draws_in_reset: Whether what first states depend on is drawn by resets alone, as `Scouts`
            need it.

    Raises:
        SimulationError: EnvPool cannot build the task here.
        ArgumentError: A value of `config` or `info_keys` breaks its rule.
    """

    seed_range = 2**31 - 1
    native = "numpy"

    def __init__(
        self,
        task_id: str,
        num_envs: int,
        *,
        task_limit: int | None,
        info_keys: Sequence[str] | str | None,
        config: dict[str, Any],
        draws_in_reset: bool = False,
    ) -> None:
        self.num_envs = num_envs
        self.task_limit = task_limit
        self.metadata: dict[str, Any] = {"render_modes": []}
        self.pool: Any = None
        self.send: Any = None  # the pool's, of [ids, ids, *actions]
        self.has_scouts = False  # decided with the mode, in `compile`
        self.scouts: Any = None
        self._turn = 0  # counts calls that move episodes
        self._task_id = task_id
        self._config = config
        with name_task("describe", task_id):
            self.spec = envpool.make_spec(task_id, num_envs=num_envs, **config)
            self.layout = Layout(self.spec, info_keys)
            self.single_observation_space: Space[Any] = to_space(
                self.spec.gymnasium_observation_space
            )
            self.single_action_space: Space[Any] = to_space(self.spec.gymnasium_action_space)
        # Only one worker takes what it is sent in order, an environment's restart before its step.
        self._can_scout = draws_in_reset and self.spec.config.num_threads == 1
        self.all_ids = np.arange(num_envs, dtype=np.int32)
        self.nobody = np.zeros(num_envs, np.bool_)
        self._idle = self.layout.action_leaves(
            create_empty_array(self.single_action_space, num_envs, np.zeros)
        )

    @property
    def engine(self) -> Any:
        """EnvPool's spec of the task; calls on the pool itself would move episodes unseen."""
        return self.spec

    def restart(
        self, state: PoolState | None, mask: np.ndarray, seeds: Seeds | None
    ) -> tuple[PoolState, Tick]:
        """Begin new episodes under `mask`; see `gymbridge.episode.Simulator.restart`.

        Raises:
            ArgumentError: Seeds for a part of a pool that exists.
            ResetNeededError: A part of a batch whose last call was cut short.
            SimulationError: Rows began elsewhere than their scouts.
        """
        is_full = bool(mask.all())
        if seeds is not None and seeds.given.any():
            self._build(seeds, is_full)
            state = None
        elif is_full and state is not None and state.turn != self._turn:
            self._drain()
            state = None
        if state is None:
            values = self.reset_rows(self.all_ids)
        else:
            self.begin_turn(state)
            self._catch_up(state)
            parts = self.begin_rows(mask, self.layout.done(state.values))
            if self.scouts:
                for ids, answers in parts:
                    self.scouts.check(ids, answers)
            values = _join(state.values, parts)
        self.layout.reward(values)[mask] = 0
        return PoolState(values, 0, False, self._turn), self.layout.show(values)

    def advance(
        self,
        state: PoolState,
        actions: Any,
        restart: np.ndarray | None,
        hold: np.ndarray | None,
    ) -> tuple[PoolState, Tick]:
        """Take one step; see `gymbridge.episode.Simulator.advance`."""
        self.begin_turn(state)
        nobody = self.nobody
        begins = nobody if restart is None else restart & ~self.layout.done(state.values)
        stays = nobody if hold is None else hold
        moves = ~(begins | stays)
        if moves.all():
            values = self.step_rows(self.all_ids, actions)
        else:
            parts = self.begin_rows(begins, self.nobody)
            if moves.any():
                ids = _to_ids(moves)
                parts.append((ids, self.step_rows(ids, _take(actions, ids))))
            values = _join(state.values, parts)
        # The mujoco.dmc and mujoco.metaworld tasks repeat their last reward as they begin anew.
        self.layout.reward(values)[stays if restart is None else stays | restart] = 0
        return PoolState(values, 0, False, self._turn), self.layout.show(values)

    def compile(self, rule: Any, arrange: Any) -> Any:
        """Return the rule with what it shares with the user copied; steps get a fast path.

        The fast path is equal to the plain rule and used wherever the pool restarts rows natively.
        """

        def run(*args: Any) -> Outcome:
            return self._own(rule(*args))

        fast = run
        if isinstance(rule, AutoresetRule):
            self.has_scouts = self._can_scout and rule.restarts_ended
            fast = make_fast_step(self, rule, run)
        return fast if arrange is None else lambda *args: arrange(fast(*args), *args)

    def close(self) -> None:
        """Drop the pool; its destructor joins the threads."""
        self.pool = self.send = self.scouts = None

    def begin_turn(self, state: PoolState) -> None:
        """Count a call that moves episodes, unless the one before was cut short.

        Raises:
            ResetNeededError: It was: the episodes have moved and nobody knows where.
        """
        if state.turn != self._turn:
            raise ResetNeededError(
                "The last call was cut short, and what it did is lost; call `reset()`."
            )
        self._turn += 1

    def step_rows(self, ids: np.ndarray, actions: Any) -> list[np.ndarray]:
        """Step the environments `ids` and return their answers in that order."""
        self.send([ids, ids, *self.layout.action_leaves(actions)])
        return self.pool._recv()

    def begin_rows(
        self, mask: np.ndarray, done: np.ndarray
    ) -> list[tuple[np.ndarray, list[np.ndarray]]]:
        """Begin new episodes under `mask`; return (ids, answers) for what went out together."""
        parts = []
        for rows, begin in ((mask & done, self.renew_rows), (mask & ~done, self.reset_rows)):
            ids = _to_ids(rows)
            if ids.size:
                parts.append((ids, begin(ids)))
        return parts

    def renew_rows(self, ids: np.ndarray) -> list[np.ndarray]:
        """Let the pool restart the environments `ids`, which it ended, by a step; see `reset_rows`.

        Where a lost life ends an episode, this goes on with the game, and a reset by id does not
        (atari_env.h, vizdoom_env.h: ``Reset``).
        """
        self.ask_renewal(ids)
        return self.pool._recv()

    def ask_renewal(self, ids: np.ndarray) -> None:
        """Begin what `renew_rows` does, and leave its answers to be received."""
        self.send([ids, ids, *(leaf[: len(ids)] for leaf in self._idle)])

    def reset_rows(self, ids: np.ndarray) -> list[np.ndarray]:
        """Begin new episodes in the environments `ids` and return their answers in that order."""
        self.pool._reset(ids)
        return self.pool._recv()

    def _build(self, seeds: Seeds, is_full: bool) -> None:
        check_seeds(seeds, is_full)
        count = 2 if self.has_scouts else 1
        config = {"num_envs": count * self.num_envs, **self._config}
        pool, send = build_pool(
            self._task_id, config, seeds.values.tolist() * count, together=self.has_scouts
        )
        scouts = Scouts(pool, self.layout, self.num_envs) if self.has_scouts else None
        # Together: an interrupt leaves all or none.
        self.pool, self.send, self.scouts, self._turn = pool, send, scouts, self._turn + 1

    def _drain(self) -> None:
        """Receive what an interrupted call left, if anything; its scouts may be out of step."""
        self.scouts = None
        self._turn += 1
        while len(self.pool._recv()[0]):
            pass

    def _catch_up(self, state: PoolState) -> None:
        """Make the restarts that the user has been shown already."""
        if state.late is not None:
            check_late(state, self.renew_rows(state.late), self.layout.obs_places)

    def _own(self, outcome: Outcome) -> Outcome:
        """Give the user arrays that the state does not use, and sum up what the fast path needs."""
        carry = outcome.carry
        values = self.layout.copy_obs(carry.state.values)
        cut = bool((carry.ended & ~self.layout.done(values)).any())
        state = PoolState(values, int(carry.elapsed.max()), cut, self._turn)
        return outcome._replace(carry=carry._replace(state=state))


def _to_ids(mask: np.ndarray) -> np.ndarray:
    return mask.nonzero()[0].astype(np.int32)


def _take(actions: Any, ids: np.ndarray) -> Any:
    if isinstance(actions, dict):
        return {key: _take(value, ids) for key, value in actions.items()}
    return actions[ids]


def _join(
    values: list[np.ndarray], parts: list[tuple[np.ndarray, list[np.ndarray]]]
) -> list[np.ndarray]:
    """Return a copy of `values` with the rows of each part replaced."""
    joined = [value.copy() for value in values]
    for ids, rows in parts:
        for value, row in zip(joined, rows, strict=True):
            value[ids] = row
    return joined
