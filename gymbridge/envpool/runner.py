"""The runner of a pool: a quick step with the same results as the plain rule.

A pool's workers fall asleep while Python runs between two exchanges, so Python there costs more
than its own time. The quick step counts and copies while the pool works. It looks at the limit only
when an episode can have reached it, and leaves restarts to the pool where the pool itself ended the
episode. Tests compare it with `HostRunner` over the same simulator.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gymbridge.core.episode import (
    Carry,
    EpisodeRule,
    ResetRequest,
    StepResult,
    TimeStep,
    split_done,
    truncate_at_limit,
)
from gymbridge.core.infos import InfoLayout
from gymbridge.core.rows import has_rows
from gymbridge.core.runner import Runner
from gymbridge.envpool.layout import Flags, copy_places
from gymbridge.envpool.simulator import EnvPoolSimulator, PoolAnswers
from gymbridge.private.envpool import Values

__all__ = ["PoolCarry", "PoolRunner"]


class PoolCarry(NamedTuple):
    """A `Carry` with what the quick step needs in addition."""

    state: PoolAnswers
    elapsed: np.ndarray  # (num_envs,) int32
    ended: np.ndarray  # (num_envs,) bool
    max_elapsed: int  # upper bound of the steps that any running episode has taken
    has_own_truncation: bool  # whether the limit ended an episode that the pool goes on with


class PoolRunner(Runner):
    """Runs an episode rule, the attribute `rule`, over an `EnvPoolSimulator`."""

    def __init__(self, rule: EpisodeRule[EnvPoolSimulator], infos: InfoLayout) -> None:
        simulator, layout = rule.simulator, rule.simulator.layout
        self.rule, self._infos = rule, infos
        self._pool, self._layout = simulator.pool, layout
        self._limit = 2**63 if rule.limit is None else rule.limit
        self._no_rows = np.zeros(simulator.num_envs, np.bool_)
        self._one_step = np.ones(simulator.num_envs, np.int32)
        # Only a row that is frozen shows the infos of the step before again.
        self._shown_again = layout.restarted_places if rule.refuses_ended else layout.obs_places

    def reset(self, carry: Any, mask: np.ndarray, seeds: ResetRequest) -> Any:
        """Begin new episodes; see `Runner.reset`."""
        return self._infos.collect_infos(self._sum_up(self.rule.reset(carry, mask, seeds)))

    def step(self, carry: PoolCarry, actions: Any) -> Any:
        """Take one step; see `Runner.step`."""
        advance = self._same_step if self.rule.restarts_ended else self._native_step
        return self._infos.collect_infos(advance(carry, actions))

    def freeze(self, carry: PoolCarry, rows: np.ndarray) -> PoolCarry:
        """Return the carry with rows frozen, for the plain rule to step; see `Runner.freeze`."""
        if not has_rows(rows):
            return carry
        return carry._replace(ended=carry.ended | rows, has_own_truncation=True)

    def show(self, carry: PoolCarry, shown: np.ndarray | None) -> Any:
        """Return old values with the shapes of a step's result, or of a reset's under a mask."""
        time_step = self._layout.read(carry.state.values)
        return self._infos.collect_infos(StepResult(carry, time_step, shown=shown))

    def _sum_up(self, outcome: StepResult) -> StepResult:
        """Return what the plain rule made, with the quick step's facts in the carry."""
        state, elapsed, ended = outcome.carry
        has_own_truncation = bool((ended & ~state.values[self._layout.done_place]).any())
        carry = PoolCarry(state, elapsed, ended, int(elapsed.max()), has_own_truncation)
        return outcome._replace(carry=carry)

    def _native_step(self, carry: PoolCarry, actions: Any) -> StepResult:
        """Step in NextStep, where the pool restarts what it ended, or in Disabled."""
        if carry.has_own_truncation:
            return self._sum_up(self.rule.step(Carry(*carry[:3]), actions))
        kept, flags = self._exchange(carry, actions)
        return StepResult(kept, self._return(kept.state.values, flags))

    def _same_step(self, carry: PoolCarry, actions: Any) -> StepResult:
        """Step in SameStep, which restarts what is over by a second exchange."""
        reached, flags = self._exchange(carry, actions)
        values = reached.state.values
        if reached.ended is self._no_rows:
            return StepResult(reached, self._return(values, flags))
        final = self._layout.read(values, flags)
        ids = reached.ended.nonzero()[0]
        values = self._restart(reached, ids.astype(np.int32))
        reached.elapsed[ids] = 0
        state = PoolAnswers(values, self._pool.turn)
        kept = PoolCarry(state, reached.elapsed, self._no_rows, reached.max_elapsed, False)
        return StepResult(kept, self._return(values, flags), final)

    def _exchange(self, carry: PoolCarry, actions: Any) -> tuple[PoolCarry, Flags]:
        """Step all rows and return where they are; `ended` is `self._no_rows` if none ended."""
        pool, layout = self._pool, self._layout
        leaves = layout.action_leaves(actions)
        pool.begin_turn(carry.state.turn)
        pool.send(pool.all_ids, leaves)
        # While the pool works:
        truncated = self._no_rows.copy()
        elapsed, max_elapsed = carry.elapsed + self._one_step, carry.max_elapsed + 1
        had_ended = carry.ended is not self._no_rows
        if had_ended:
            elapsed *= ~carry.ended
        values = pool.receive()
        # Some tasks repeat a reward, or have NaN, as they begin anew.
        if had_ended:
            values[layout.reward_place][carry.ended] = 0
        done, ended, has_own_truncation = values[layout.done_place], self._no_rows, False
        terminated = done.copy()
        if has_rows(done):
            ended = done
            if has_rows(values[layout.trunc_place]):
                terminated, truncated = split_done(done, values[layout.trunc_place])
        if max_elapsed >= self._limit:
            truncated = truncate_at_limit(terminated, truncated, elapsed, self._limit)
            over = terminated | truncated
            ended = over if over.any() else self._no_rows
            max_elapsed, has_own_truncation = int(elapsed.max()), bool((over & ~done).any())
        state = PoolAnswers(values, pool.turn)
        reached = PoolCarry(state, elapsed, ended, max_elapsed, has_own_truncation)
        return reached, (terminated, truncated)

    def _restart(self, reached: PoolCarry, ids: np.ndarray) -> Values:
        """Begin new episodes where they ended, in the rows `ids`, by a second exchange."""
        pool, layout, values = self._pool, self._layout, reached.state.values
        parts: list[tuple[np.ndarray, Values]] = []
        if reached.has_own_truncation:
            parts = pool.begin(reached.ended, values[layout.done_place])
        else:
            pool.send_renewal(ids)
        # The copy is made while the pool works.
        renewed = copy_places(values, layout.restarted_places)
        renewed[layout.done_place] = renewed[layout.trunc_place] = self._no_rows
        for part, fresh in parts or [(ids, pool.receive())]:
            for place in layout.restarted_places:
                renewed[place][part] = fresh[place]
        return renewed

    def _return(self, values: Values, flags: Flags) -> TimeStep:
        """Return the time step, with what may be shown again apart from the state's arrays."""
        return self._layout.read(copy_places(values, self._shown_again), flags)
