"""`SyncVectorEnv`s that take lists of seeds or masks of some forms for others."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from gymnasium.vector import SyncVectorEnv

from tests.support.offenders import DISABLED, NEXT, SAME, before_resets, breaks, named_like


def of_lists(change: Callable[[list[Any]], list[Any]]) -> type[SyncVectorEnv]:
    """Return an offender that takes another list of seeds in place of the given one."""

    def alter(_: Any, seed: Any, options: Any) -> Any:
        return change(seed) if isinstance(seed, list) else seed, options

    return before_resets(wraps(change)(alter))


def is_whole(seeds: list[Any]) -> bool:
    return len(seeds) == 4 and None not in seeds


@breaks("seed-list", "reset-mask-seed", of=of_lists)
def sorts_seeds(seeds: list[Any]) -> list[Any]:
    return seeds if None in seeds else sorted(seeds)


@breaks("seed-list", "reset-mask-seed", of=of_lists)
def counts_on_from_first_seed(seeds: list[Any]) -> list[Any]:
    return [seeds[0] + env for env in range(4)] if is_whole(seeds) else seeds


@breaks("seed-list", "reset-mask-seed", of=of_lists)
def reverses_seeds(seeds: list[Any]) -> list[Any]:
    """Reverses a list that is not sorted."""
    return seeds if None in seeds or seeds == sorted(seeds) else seeds[::-1]


@breaks("seed-list", "reset-mask-seed", of=of_lists)
def swaps_last_seeds(seeds: list[Any]) -> list[Any]:
    """Exchanges the seeds of the last two environments where they are not sorted."""
    return [*seeds[:2], *seeds[:1:-1]] if is_whole(seeds) and seeds[2] > seeds[3] else seeds


@breaks("seed-list", of=of_lists)
def seeds_of_sixteen_bits(seeds: list[Any]) -> list[Any]:
    return [None if seed is None else seed % 2**16 for seed in seeds]


@breaks("seed-list", of=of_lists)
def pads_short_lists(seeds: list[Any]) -> list[Any]:
    return [*seeds, None] if len(seeds) == 3 else seeds


@breaks("seed-list", modes=(NEXT,))
class SeedsBeginnings(SyncVectorEnv):
    """Begins episodes with the seeds of a list, and draws what follows from the sorted list."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        returned = super().reset(seed=seed, options=options)
        if isinstance(seed, list) and None not in seed and not options:
            for env, one in zip(self.envs, sorted(seed), strict=True):
                env.unwrapped.np_random = np.random.default_rng(one)
        return returned


@breaks("seed-list-none", of=of_lists)
def packs_seeds(seeds: list[Any]) -> list[Any]:
    """Gives the seeds of a list to the first environments, and None to the others."""
    return sorted(seeds, key=lambda seed: seed is None)


@breaks("seed-list-none", of=of_lists)
def none_is_one_more(seeds: list[Any]) -> list[Any]:
    """Seeds an environment whose entry is None with the number after that of the one before."""
    for env in range(1, len(seeds)):
        if seeds[env] is None and seeds[env - 1] is not None:
            seeds = [*seeds[:env], seeds[env - 1] + 1, *seeds[env + 1 :]]
    return seeds


@breaks("seed-list-none", of=of_lists)
def drops_all_seeds_for_one_none(seeds: list[Any]) -> list[Any]:
    """Ignores a list that begins with None."""
    return seeds if seeds[0] is not None else [None] * len(seeds)


@breaks("reset-mask-seed", of=before_resets)
def seeds_in_order_of_mask(_: Any, seed: Any, options: Any) -> Any:
    """Gives the first seeds of a list to the environments under a mask."""
    if options and "reset_mask" in options and isinstance(seed, list):
        chosen, given = np.flatnonzero(options["reset_mask"]), iter(seed)
        seed = [next(given) if env in chosen else None for env in range(4)]
    return seed, options


@breaks("reset-mask-seed", of=before_resets)
def counts_in_order_of_mask(_: Any, seed: Any, options: Any) -> Any:
    """Counts the seeds of the environments under a mask from the first of these."""
    if options and "reset_mask" in options and isinstance(seed, int):
        places = np.cumsum(options["reset_mask"]) - 1
        seed = [seed + int(max(place, 0)) for place in places]
    return seed, options


def of_masks(change: Callable[[np.ndarray], Any]) -> type[SyncVectorEnv]:
    """Return an offender that resets other rows than those of the given mask."""

    class Altered(SyncVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            mask = find_mask(options)
            if mask is not None:
                changed = np.zeros(4, np.bool_)
                changed[change(np.flatnonzero(mask))] = True
                if mask.any() and not changed.any():
                    return self._observations.copy(), {}
                options = options | {"reset_mask": changed}
            return super().reset(seed=seed, options=options)

    return named_like(change, Altered)


def find_mask(options: Any) -> Any:
    """Return the mask of a partial reset that is as it should be."""
    mask = options and options.get("reset_mask")
    is_right = isinstance(mask, np.ndarray) and (mask.shape, mask.dtype) == ((4,), np.bool_)
    return mask if is_right else None


@breaks("reset-mask", modes=(NEXT, SAME))
@breaks("reset-mask", "step-returns", modes=(DISABLED,), of=of_masks)  # `SyncVectorEnv` asserts
def two_of_three(rows: np.ndarray) -> Any:
    return rows[:2] if len(rows) == 3 else rows


@breaks("reset-mask", modes=(NEXT, SAME), of=of_masks)
def last_two_of_mask(rows: np.ndarray) -> Any:
    return rows[-2:]


@breaks("reset-mask", modes=(SAME,), of=of_masks)
def first_of_two(rows: np.ndarray) -> Any:
    return rows[:1] if len(rows) == 2 else rows


@breaks("reset-mask", modes=(SAME,), of=of_masks)
def none_of_one(rows: np.ndarray) -> Any:
    return rows if len(rows) > 1 else rows[:0]


@breaks("reset-mask", of=of_masks)
def three_of_four(rows: np.ndarray) -> Any:
    return rows[:3]


@breaks("reset-mask", "reset-mask-infos", modes=(SAME, DISABLED), of=of_masks)
def first_rows(rows: np.ndarray) -> Any:
    """Resets as many environments as the mask has, but the first ones."""
    return np.arange(len(rows))


@breaks("reset-mask", modes=(NEXT,))
@breaks("reset-mask", "independent-episodes", modes=(DISABLED,), of=before_resets)
def draws_for_others(envs: Any, seed: Any, options: Any) -> Any:
    """Draws from the generators of the environments outside a mask of three."""
    mask = find_mask(options)
    if mask is not None and mask.sum() == 3:
        envs.envs[np.flatnonzero(~mask)[0]].unwrapped.np_random.uniform()
    return seed, options


@breaks(
    *("reset-mask", "independent-episodes", "limit-kept", "observations-in-space"),
    modes=(DISABLED,),
    of=before_resets,
)
def leaves_second_ended(envs: Any, seed: Any, options: Any) -> Any:
    """Resets only the first of two environments that ended, and keeps the others as they are."""
    mask = find_mask(options)
    if mask is not None:
        ended = np.flatnonzero(mask & (envs._terminations | envs._truncations))
        for flags in (envs._terminations, envs._truncations, envs._autoreset_envs):
            flags[ended[1:]] = False
        left = mask.copy()
        left[ended[1:]] = False
        if left.any():
            options = options | {"reset_mask": left}
    return seed, options
