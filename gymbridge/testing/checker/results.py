"""Judges of the results of every call: ownership, infos, and both flags at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gymbridge.testing.checker.driver import Call, Driver
from gymbridge.testing.checker.rules import Rules
from gymbridge.testing.checker.values import arrays_in, attempt, entries, is_array, same, to_numpy

__all__ = ["OwnershipJudge", "judge_flags", "judge_infos", "judge_partial_reset"]

_KEPT = 12
"""Calls of a run whose results are kept at the same time."""


class OwnershipJudge:
    """Keeps what calls returned, and looks later whether it has changed.

    A ring of buffers changes it after as many calls as there are buffers, so each result is kept
    for a number of calls that is drawn, at most until the next reset of all environments.
    """

    def __init__(self) -> None:
        self._kept: list[Call] = []
        self._rng = np.random.default_rng(0)

    def __call__(self, driver: Driver, call: Call) -> None:
        """Look at what some earlier calls returned, and keep what this one did."""
        due: list[Call] = []
        if call.mask is not None and call.mask.all():
            due, self._kept = self._kept, []
        elif len(self._kept) == _KEPT:
            due = [self._kept.pop(int(self._rng.integers(_KEPT)))]
        for earlier in due:
            if earlier.returned is not None:
                place, seen = earlier.place, _find_change(earlier)
                driver.ledger.expect(Rules.OWNERSHIP, "no change", seen, place=place)
            earlier.returned = earlier.values = None  # They are large, and judged by now.
        self._kept.append(call)


def _find_change(call: Call) -> str:
    """Return what has changed in the results of a call since it returned them."""
    names = ("observations", "rewards", "terminations", "truncations", "infos")
    names = (names[0], names[-1]) if len(call.values) == 2 else names
    now = attempt(to_numpy, call.returned)
    if isinstance(now, Exception):  # An array of JAX may have been donated.
        return repr(now)
    rows = zip(names, now, call.values, strict=True)
    changed = (f"{name} changed" for name, value, old in rows if not same(value, old))
    return next(changed, "no change")


def judge_flags(driver: Driver, call: Call) -> None:
    """Check whether an episode was terminated and truncated at once."""
    for env in np.flatnonzero(call.ended):
        is_tie = call.terminated[env] and call.truncated[env]
        driver.expect(Rules.EXACT_TIES, "one flag", "both flags" if is_tie else "one flag", env=env)


def judge_infos(driver: Driver, call: Call) -> None:
    """Check the layout of infos."""
    shape = (driver.num_envs,)
    is_numpy = all(isinstance(array, np.ndarray) for array in arrays_in(call.returned[-1]))
    for path, value, mask in entries(call.infos):
        if "final_obs" in path[:-1]:
            continue  # An observation may have several arrays.
        rule, key = Rules.INFO_MASKS if len(path) == 1 else Rules.INNER_INFO_MASKS, path[-1]
        is_mask = is_array(mask) and mask.shape == shape and mask.dtype == np.bool_
        driver.expect(rule, f"`_{key}`, bool of shape {shape}", mask, is_mask)
        if isinstance(value, Mapping):
            continue
        has_length = is_array(value) and value.shape[:1] == shape
        driver.expect(Rules.INFO_LENGTHS, f"{shape[0]} values of `{key}`", value, has_length)
        if is_mask and has_length and is_numpy and not mask.all():
            rest = value[~mask]
            is_number = rest.dtype.kind in "biufc"
            is_zero = not rest.any() if is_number else all(entry is None for entry in rest.flat)
            driver.expect(Rules.INFO_ZEROS, f"`{key}` zero or None outside its mask", rest, is_zero)


def judge_partial_reset(driver: Driver, call: Call) -> None:
    """Check that a partial reset changed nothing outside its mask."""
    before = driver.last
    if call.mask is None or call.mask.all() or before is None:
        return
    for env in np.flatnonzero(~call.mask):
        driver.expect(Rules.RESET_MASK, before.observations[env], call.observations[env], env=env)
    for *_, mask in entries(call.infos):
        if np.shape(mask) == call.mask.shape:
            is_kept = not (mask & ~call.mask).any()
            driver.expect(Rules.RESET_MASK_INFOS, f"masks within {call.mask}", mask, is_kept)
