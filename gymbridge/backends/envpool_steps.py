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
Values = list[np.ndarray]


class Ends(NamedTuple):
    """Which rows a step ended."""

    terminated: np.ndarray  # (num_envs,) bool, the user's own
    truncated: np.ndarray  # (num_envs,) bool, the user's own
    over: np.ndarray | None  # (num_envs,) bool, or None if no row ended
    clock: int  # no episode has run for more steps than this


def make_fast_step(simulator: EnvPoolSimulator, rule: AutoresetRule[Any], plain: Step) -> Step:
    """Return a closure for the rule's mode and limit; `plain` serves the steps it does not."""
    take_step = _make_exchange(simulator, rule.limit)
    if rule.mode == AutoresetMode.SAME_STEP:
        return _make_same_step(simulator, take_step)
    return _make_native_step(simulator, take_step, plain)


def _make_exchange(
    simulator: EnvPoolSimulator, limit: int | None
) -> Callable[[Any, int], tuple[Values, Ends]]:
    """Return (actions, clock) -> the answers to one step of all rows, and which of them ended."""
    layout, ids = simulator.layout, simulator.all_ids
    done_place, trunc_place = layout.done_place, layout.trunc_place
    action_leaves = layout.action_leaves
    nobody = np.zeros(simulator.num_envs, np.bool_)
    beyond = 2**63 if limit is None else limit

    def exchange(actions: Any, clock: int) -> tuple[Values, Ends]:
        pool = simulator.pool
        pool._send([ids, ids, *action_leaves(actions)])
        terminated, truncated = nobody.copy(), nobody.copy()  # while the pool works
        values = pool._recv()
        done = values[done_place]
        clock += 1
        is_any = b"\x01" in done.tobytes()  # a scan of bytes costs a tenth of `done.any()`
        if is_any:
            truncated = values[trunc_place] & done
            terminated = done & ~truncated
        if clock < beyond:
            return values, Ends(terminated, truncated, done if is_any else None, clock)
        elapsed = values[layout.elapsed_place]
        truncated |= (elapsed >= beyond) & ~terminated
        over = terminated | truncated
        return values, Ends(terminated, truncated, over if over.any() else None, int(elapsed.max()))

    return exchange


def _make_native_step(
    simulator: EnvPoolSimulator,
    exchange: Callable[[Any, int], tuple[Values, Ends]],
    plain: Step,
) -> Step:
    """NEXT_STEP, where the pool restarts its ended rows, and DISABLED, where none is stepped."""
    layout, nobody = simulator.layout, np.zeros(simulator.num_envs, np.bool_)
    read_obs, read_info, keep = layout.read_obs, layout.read_info, layout.with_private_obs
    reward_place, elapsed_place = layout.reward_place, layout.elapsed_place
    done_place = layout.done_place

    def step(carry: Carry, actions: Any) -> Outcome:
        state = carry.state
        if state.cut:
            return plain(carry, actions)
        values, (terminated, truncated, over, clock) = exchange(actions, state.clock)
        ended, cut = nobody, False
        if over is not None:
            ended, cut = over, bool((over & ~values[done_place]).any())
        tick = Tick(
            read_obs(values), values[reward_place], terminated, truncated, read_info(values)
        )
        kept = type(state)(keep(values), clock, cut)
        return Outcome(Carry(kept, tick, values[elapsed_place].copy(), ended), tick, None)

    return step


def _make_same_step(
    simulator: EnvPoolSimulator, exchange: Callable[[Any, int], tuple[Values, Ends]]
) -> Step:
    layout, nobody = simulator.layout, np.zeros(simulator.num_envs, np.bool_)
    read_obs, read_info, keep = layout.read_obs, layout.read_info, layout.with_private_obs
    reward_place, elapsed_place = layout.reward_place, layout.elapsed_place
    flag_places = (layout.done_place, layout.trunc_place)
    shown_places = (*layout.obs_places, *layout.info_places)

    def restart_rows(values: Values, over: np.ndarray) -> tuple[Values, np.ndarray]:
        """Return the answers with the rows that are over restarted, and their elapsed steps."""
        ids = np.flatnonzero(over).astype(np.int32)
        fresh = simulator.reset_rows(ids)
        shown = values.copy()
        for place in shown_places:
            shown[place] = values[place].copy()
            shown[place][ids] = fresh[place]
        for place in flag_places:
            shown[place] = nobody
        elapsed = values[elapsed_place].copy()
        elapsed[ids] = 0
        return shown, elapsed

    def step(carry: Carry, actions: Any) -> Outcome:
        state = carry.state
        values, (terminated, truncated, over, clock) = exchange(actions, state.clock)
        reward, final = values[reward_place], None
        if over is None:
            elapsed = values[elapsed_place].copy()
        else:
            final = Tick(read_obs(values), reward, terminated, truncated, read_info(values))
            values, elapsed = restart_rows(values, over)
        tick = Tick(read_obs(values), reward, terminated, truncated, read_info(values))
        kept = type(state)(keep(values), clock, False)
        return Outcome(Carry(kept, tick, elapsed, nobody), tick, final)

    return step
