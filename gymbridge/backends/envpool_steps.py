"""The step of a pool without Python that it does not need: equal to the plain rule, and tested so.

A pool's workers fall asleep while Python runs between two exchanges, so every microsecond there
costs more than one. The closures below look at the limit only when some episode can have reached
it, and leave restarts to the pool where the pool knows that the row ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode

from gymbridge.backends.envpool_scouts import make_late_turn
from gymbridge.episode import AutoresetRule, Carry, Outcome, Tick

if TYPE_CHECKING:
    from gymbridge.backends.envpool import EnvPoolSimulator

__all__ = ["make_fast_step"]

Step = Callable[[Carry, Any], Outcome]
Values = list[np.ndarray]

Ends = tuple[Values, np.ndarray, np.ndarray, np.ndarray | None, np.ndarray, int, bool]
"""What an exchange tells; a plain tuple, since building anything else costs time here.

    values      the pool's answers
    terminated  (num_envs,) bool, the user's own
    truncated   (num_envs,) bool, the user's own
    over        (num_envs,) bool, or None if no row ended
    elapsed     (num_envs,) int32, steps since the episode began
    clock       no episode has run for more steps than this
    cut         whether some row ended without the pool knowing it
"""

Exchange = Callable[[Carry, Any], Ends]

Restarted = tuple[Values, np.ndarray | None]
"""The answers with rows begun anew, and the ids of those whose restart is yet to be made."""

Restart = Callable[[Values, np.ndarray, np.ndarray, bool], Restarted]
"""(answers, over, the ids under it, cut) -> what the user is to see."""


def make_fast_step(simulator: EnvPoolSimulator, rule: AutoresetRule[Any], plain: Step) -> Step:
    """Return a closure for the rule's mode and limit; `plain` serves the steps it does not."""
    take_step = _make_exchange(simulator, rule.limit)
    if rule.mode == AutoresetMode.SAME_STEP:
        return _make_same_step(simulator, take_step)
    return _make_native_step(simulator, take_step, plain)


def _make_exchange(simulator: EnvPoolSimulator, limit: int | None) -> Exchange:
    """Return (carry, actions) -> the answers to one step of all rows, and which of them ended."""
    layout, ids = simulator.layout, simulator.all_ids
    done_place, trunc_place = layout.done_place, layout.trunc_place
    reward_place = layout.reward_place
    action_leaves = layout.action_leaves
    nobody, one_step = simulator.nobody, np.ones(simulator.num_envs, np.int32)
    ask_late, read_late = make_late_turn(simulator)
    beyond, true = 2**63 if limit is None else limit, b"\x01"

    def exchange(carry: Carry, actions: Any) -> Ends:
        state, leaves = carry.state, action_leaves(actions)
        late = state.late
        simulator.begin_turn(state)
        if late is None:
            simulator.send([ids, ids, *leaves])
        else:
            ask_late(late, leaves)
        # While the pool works:
        truncated = nobody.copy()
        elapsed, clock = carry.elapsed + one_step, state.clock + 1
        began, goes_on = carry.ended is not nobody, None
        if began:
            goes_on = ~carry.ended
            elapsed *= goes_on
        values = simulator.pool._recv()
        if late is not None:
            values = read_late(state, values)
        if began:  # some tasks repeat a reward as they begin anew
            values[reward_place] *= goes_on
        done, over = values[done_place], None
        terminated = done.copy()
        if true in done.tobytes():  # a scan of bytes costs a tenth of `done.any()`
            over = done
            if true in values[trunc_place].tobytes():
                truncated = values[trunc_place] & done
                terminated &= ~truncated
        if clock < beyond:
            return values, terminated, truncated, over, elapsed, clock, False
        truncated |= (elapsed >= beyond) & ~terminated
        over = terminated | truncated
        cut = bool((over & ~done).any())
        over = over if over.any() else None
        return values, terminated, truncated, over, elapsed, int(elapsed.max()), cut

    return exchange


def _make_native_step(
    simulator: EnvPoolSimulator,
    exchange: Exchange,
    plain: Step,
) -> Step:
    """NEXT_STEP, where the pool restarts its ended rows, and DISABLED, where none is stepped."""
    layout, nobody = simulator.layout, simulator.nobody
    read_obs, read_info, copy_obs = layout.read_obs, layout.read_info, layout.copy_obs
    reward_place = layout.reward_place

    def step(carry: Carry, actions: Any) -> Outcome:
        state = carry.state
        if state.cut:
            return plain(carry, actions)
        values, terminated, truncated, over, elapsed, clock, cut = exchange(carry, actions)
        ended = nobody if over is None else over
        obs = read_obs(copy_obs(values))  # the user's, without the rest of the pool's buffer
        tick = Tick(obs, values[reward_place], terminated, truncated, read_info(values))
        kept = type(state)(values, clock, cut, state.turn + 1)
        return Outcome(Carry(kept, elapsed, ended), tick, None)

    return step


def _make_same_step(simulator: EnvPoolSimulator, exchange: Exchange) -> Step:
    """SAME_STEP: what is over is shown begun anew."""
    layout, nobody = simulator.layout, simulator.nobody
    read_obs, read_info, copy_obs = layout.read_obs, layout.read_info, layout.copy_obs
    reward_place = layout.reward_place
    restart_rows = (_make_late_restart if simulator.has_scouts else _make_restart)(simulator)

    def step(carry: Carry, actions: Any) -> Outcome:
        state = carry.state
        values, terminated, truncated, over, elapsed, clock, cut = exchange(carry, actions)
        reward, final, late = values[reward_place], None, None
        if over is not None:
            final = Tick(read_obs(values), reward, terminated, truncated, read_info(values))
            ids = over.nonzero()[0]
            values, late = restart_rows(values, over, ids, cut)
            elapsed[ids] = 0
        obs = read_obs(copy_obs(values))  # the user's, without the rest of the pool's buffer
        tick = Tick(obs, reward, terminated, truncated, read_info(values))
        kept = type(state)(values, clock, False, state.turn + 1, late)
        return Outcome(Carry(kept, elapsed, nobody), tick, final)

    return step


def _make_restart(simulator: EnvPoolSimulator) -> Restart:
    """Restart by a second exchange."""
    copy_shown, places = _make_copier(simulator), simulator.layout.shown_places
    done_place = simulator.layout.done_place

    def restart_rows(values: Values, over: np.ndarray, ids: np.ndarray, cut: bool) -> Restarted:
        if cut:
            parts = simulator.begin_rows(over, values[done_place])
            shown = copy_shown(values)
        else:
            simulator.ask_renewal(ids.astype(np.int32))
            shown = copy_shown(values)  # while the pool works
            parts = [(ids, simulator.pool._recv())]
        for part, fresh in parts:
            for place in places:
                shown[place][part] = fresh[place]
        return shown, None

    return restart_rows


def _make_late_restart(simulator: EnvPoolSimulator) -> Restart:
    """Show what scouts have drawn, and restart what the pool ended in the next exchange."""
    restart_now, copy_shown = _make_restart(simulator), _make_copier(simulator)
    shown_places, drawn_places = simulator.layout.shown_places, simulator.layout.drawn_places
    done_place = simulator.layout.done_place

    def restart_rows(values: Values, over: np.ndarray, ids: np.ndarray, cut: bool) -> Restarted:
        if simulator.scouts is None:
            return restart_now(values, over, ids, cut)
        shown = copy_shown(values)
        if cut:  # the pool's own step restarts only what the pool ended
            ((lost, begun),) = simulator.begin_rows(over & ~values[done_place], simulator.nobody)
            simulator.scouts.check(lost, begun)
            for place in shown_places:
                shown[place][lost] = begun[place]
            ids = values[done_place].nonzero()[0]
            if not len(ids):
                return shown, None
        for place, fresh in zip(drawn_places, simulator.scouts.take(ids), strict=True):
            shown[place][ids] = fresh
        return shown, ids.astype(np.int32)

    return restart_rows


def _make_copier(simulator: EnvPoolSimulator) -> Callable[[Values], Values]:
    """Return the function that copies what restarts change, with flags that tell of no end."""
    layout, nobody = simulator.layout, simulator.nobody
    flag_places, shown_places = (layout.done_place, layout.trunc_place), layout.shown_places

    def copy_shown(values: Values) -> Values:
        shown = values.copy()
        for place in shown_places:
            shown[place] = values[place].copy()
        for place in flag_places:
            shown[place] = nobody
        return shown

    return copy_shown
