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
    beyond, true = 2**63 if limit is None else limit, b"\x01"

    def exchange(carry: Carry, actions: Any) -> Ends:
        simulator.send([ids, ids, *action_leaves(actions)])
        # While the pool works:
        terminated, truncated = nobody.copy(), nobody.copy()
        elapsed, clock = carry.elapsed + one_step, carry.state.clock + 1
        began, goes_on = carry.ended is not nobody, None
        if began:
            goes_on = ~carry.ended
            elapsed *= goes_on
        values = simulator.pool._recv()
        if began:  # some tasks repeat a reward as they begin anew
            values[reward_place] *= goes_on
        done, over = values[done_place], None
        if true in done.tobytes():  # a scan of bytes costs a tenth of `done.any()`
            over, terminated = done, done.copy()
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
    read_obs, read_info, keep = layout.read_obs, layout.read_info, layout.with_private_obs
    reward_place = layout.reward_place

    def step(carry: Carry, actions: Any) -> Outcome:
        state = carry.state
        if state.cut:
            return plain(carry, actions)
        values, terminated, truncated, over, elapsed, clock, cut = exchange(carry, actions)
        ended = nobody if over is None else over
        tick = Tick(
            read_obs(values), values[reward_place], terminated, truncated, read_info(values)
        )
        kept = type(state)(keep(values), clock, cut)
        return Outcome(Carry(kept, elapsed, ended), tick, None)

    return step


def _make_restart(simulator: EnvPoolSimulator) -> Callable[[Values, np.ndarray, bool], Values]:
    """Return (answers, over, cut) -> the answers with the rows that are over restarted."""
    layout, nobody = simulator.layout, simulator.nobody
    flag_places = (layout.done_place, layout.trunc_place)
    shown_places = (*layout.obs_places, *layout.info_places)

    def copy_shown(values: Values) -> Values:
        shown = values.copy()
        for place in shown_places:
            shown[place] = values[place].copy()
        for place in flag_places:
            shown[place] = nobody
        return shown

    def restart_rows(values: Values, over: np.ndarray, cut: bool) -> Values:
        if cut:
            parts = simulator.begin_rows(over, values[layout.done_place])
            shown = copy_shown(values)
        else:
            ids = over.nonzero()[0]
            simulator.ask_renewal(ids.astype(np.int32))
            shown = copy_shown(values)  # while the pool works
            parts = [(ids, simulator.pool._recv())]
        for ids, fresh in parts:
            for place in shown_places:
                shown[place][ids] = fresh[place]
        return shown

    return restart_rows


def _make_same_step(simulator: EnvPoolSimulator, exchange: Exchange) -> Step:
    """SAME_STEP: a second exchange begins what is over anew."""
    layout, nobody = simulator.layout, simulator.nobody
    read_obs, read_info, keep = layout.read_obs, layout.read_info, layout.with_private_obs
    reward_place, restart_rows = layout.reward_place, _make_restart(simulator)

    def step(carry: Carry, actions: Any) -> Outcome:
        state = carry.state
        values, terminated, truncated, over, elapsed, clock, cut = exchange(carry, actions)
        reward, final = values[reward_place], None
        if over is not None:
            final = Tick(read_obs(values), reward, terminated, truncated, read_info(values))
            values = restart_rows(values, over, cut)
            elapsed[over] = 0
        tick = Tick(read_obs(values), reward, terminated, truncated, read_info(values))
        kept = type(state)(keep(values), clock, False)
        return Outcome(Carry(kept, elapsed, nobody), tick, final)

    return step
