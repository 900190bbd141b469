"""The step of a pool without Python that it does not need: equal to the plain rule, and tested so.

A pool's workers fall asleep while Python runs between two exchanges, so every microsecond there
costs more than one. The closures below skip what the pool has done already: it counts the steps of
an episode itself, and restarts rows that it ended itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from gymbridge.episode import AutoresetRule, Carry, Outcome, Tick

if TYPE_CHECKING:
    from gymbridge.backends.envpool import EnvPoolSimulator

__all__ = ["make_fast_step"]

Step = Callable[[Carry, Any], Outcome]


class Ends(NamedTuple):
    """Which rows ended in a step."""

    terminated: np.ndarray  # (num_envs,) bool, the user's own
    truncated: np.ndarray  # (num_envs,) bool, the user's own
    over: np.ndarray  # (num_envs,) bool
    clock: int  # most steps that an episode has run
    any: bool
    cut: bool  # some row ended without the pool knowing it


def make_fast_step(simulator: EnvPoolSimulator, rule: AutoresetRule[Any], plain: Step) -> Step:
    """Return a closure for the rule's mode and limit; `plain` serves the steps it does not."""
    find_ends = _make_end_finder(simulator, rule.limit)
    if rule.mode == AutoresetMode.SAME_STEP:
        return _make_same_step(simulator, find_ends)
    return _make_native_step(simulator, find_ends, plain)


def _make_end_finder(
    simulator: EnvPoolSimulator, limit: int | None
) -> Callable[[list[np.ndarray], int], Ends]:
    layout = simulator.layout
    done_place, trunc_place = layout.done_place, layout.trunc_place
    elapsed_place = layout.elapsed_place
    nobody = np.zeros(simulator.num_envs, np.bool_)
    beyond = limit if limit is not None else 2**63
    true = b"\x01"

    def find_ends(values: list[np.ndarray], clock: int) -> Ends:
        done = values[done_place]
        clock += 1
        late, is_late = nobody, False
        if clock >= beyond:
            late = values[elapsed_place] >= beyond
            is_late = bool(late.any())
            clock = int(values[elapsed_place].max())
        if true not in done.tobytes():  # a scan of bytes costs a tenth of `done.any()`
            if not is_late:
                return Ends(nobody.copy(), nobody.copy(), done, clock, False, False)
            return Ends(nobody.copy(), late.copy(), late, clock, True, True)
        terminated, truncated = done & ~values[trunc_place], done & values[trunc_place]
        if not is_late:
            return Ends(terminated, truncated, done, clock, True, False)
        truncated |= late & ~terminated
        over = terminated | truncated
        return Ends(terminated, truncated, over, clock, True, bool((over & ~done).any()))

    return find_ends


def _make_native_step(
    simulator: EnvPoolSimulator, find_ends: Callable[[list[np.ndarray], int], Ends], plain: Step
) -> Step:
    """NEXT_STEP, where the pool restarts its ended rows, and DISABLED, where none is stepped."""
    layout, ids, step_rows = simulator.layout, simulator.all_ids, simulator.step_rows
    reward_place, elapsed_place = layout.reward_place, layout.elapsed_place

    def step(carry: Carry, actions: Any) -> Outcome:
        state = carry.state
        if state.cut:
            return plain(carry, actions)
        values = step_rows(ids, actions)
        ends = find_ends(values, state.clock)
        tick = Tick(
            layout.read_obs(values),
            values[reward_place],
            ends.terminated,
            ends.truncated,
            layout.read_info(values),
        )
        kept = state._replace(
            values=layout.with_private_obs(values), clock=ends.clock, cut=ends.cut
        )
        return Outcome(Carry(kept, tick, values[elapsed_place].copy(), ends.over), tick, None)

    return step


def _make_same_step(
    simulator: EnvPoolSimulator, find_ends: Callable[[list[np.ndarray], int], Ends]
) -> Step:
    layout, all_ids = simulator.layout, simulator.all_ids
    step_rows, reset_rows = simulator.step_rows, simulator.reset_rows
    reward_place, elapsed_place = layout.reward_place, layout.elapsed_place
    restarting = {*layout.obs_places, *layout.info_places, layout.done_place, layout.trunc_place}
    restarting.add(elapsed_place)
    nobody = np.zeros(simulator.num_envs, np.bool_)

    def step(carry: Carry, actions: Any) -> Outcome:
        state = carry.state
        values = step_rows(all_ids, actions)
        ends = find_ends(values, state.clock)
        reward = values[reward_place]
        flags = (ends.terminated, ends.truncated)
        final, shown = None, values
        if ends.any:
            final = Tick(layout.read_obs(values), reward, *flags, layout.read_info(values))
            ids = np.flatnonzero(ends.over).astype(np.int32)
            fresh = reset_rows(ids)
            shown = list(values)
            for place in restarting:
                shown[place] = values[place].copy()
                shown[place][ids] = fresh[place]
        tick = Tick(layout.read_obs(shown), reward, *flags, layout.read_info(shown))
        kept = state._replace(values=layout.with_private_obs(shown), clock=ends.clock, cut=False)
        return Outcome(Carry(kept, tick, shown[elapsed_place].copy(), nobody), tick, final)

    return step
