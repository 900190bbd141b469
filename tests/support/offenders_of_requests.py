"""`SyncVectorEnv`s that take lists of seeds or masks of some forms for others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import SyncVectorEnv

from tests.support.offenders import DISABLED, NEXT, SAME, breaks


class OtherSeeds(SyncVectorEnv):
    """Takes another list in place of the given one."""

    change: Callable[[list[Any]], list[Any]]

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if isinstance(seed, list):
            seed = self.change(seed)
        return super().reset(seed=seed, options=options)


@breaks("seed-list", "reset-mask-seed")
class SortsSeeds(OtherSeeds):
    def change(self, seeds: list[Any]) -> list[Any]:
        return seeds if None in seeds else sorted(seeds)


@breaks("seed-list", "reset-mask-seed")
class CountsOnFromFirstSeed(OtherSeeds):
    def change(self, seeds: list[Any]) -> list[Any]:
        is_whole = len(seeds) == self.num_envs and None not in seeds
        return [seeds[0] + env for env in range(self.num_envs)] if is_whole else seeds


@breaks("seed-list", "reset-mask-seed")
class ReversesSeeds(OtherSeeds):
    """Reverses a list that is not sorted."""

    def change(self, seeds: list[Any]) -> list[Any]:
        return seeds if None in seeds or seeds == sorted(seeds) else seeds[::-1]


@breaks("seed-list", "reset-mask-seed")
class SwapsLastSeeds(OtherSeeds):
    """Exchanges the seeds of the last two environments where they are not sorted."""

    def change(self, seeds: list[Any]) -> list[Any]:
        is_whole = len(seeds) == self.num_envs and None not in seeds
        return [*seeds[:2], *seeds[:1:-1]] if is_whole and seeds[2] > seeds[3] else seeds


@breaks("seed-list")
class SeedsOfSixteenBits(OtherSeeds):
    def change(self, seeds: list[Any]) -> list[Any]:
        return [None if seed is None else seed % 2**16 for seed in seeds]


@breaks("seed-list")
class PadsShortLists(OtherSeeds):
    def change(self, seeds: list[Any]) -> list[Any]:
        return [*seeds, None] if len(seeds) == self.num_envs - 1 else seeds


class SeedsBeginnings(OtherSeeds):
    """Begins episodes with the seeds of a list, and draws what follows from the sorted list."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        returned = super().reset(seed=seed, options=options)
        if isinstance(seed, list) and None not in seed and not options:
            for env, one in zip(self.envs, sorted(seed), strict=True):
                env.unwrapped.np_random = np.random.default_rng(one)
        return returned

    def change(self, seeds: list[Any]) -> list[Any]:
        return seeds


breaks("seed-list", modes=(NEXT,))(SeedsBeginnings)


@breaks("seed-list-none")
class PacksSeeds(OtherSeeds):
    """Gives the seeds of a list to the first environments, and None to the others."""

    def change(self, seeds: list[Any]) -> list[Any]:
        return sorted(seeds, key=lambda seed: seed is None)


@breaks("seed-list-none")
class NoneIsOneMore(OtherSeeds):
    """Seeds an environment whose entry is None with the number after that of the one before."""

    def change(self, seeds: list[Any]) -> list[Any]:
        for env in range(1, len(seeds)):
            if seeds[env] is None and seeds[env - 1] is not None:
                seeds = [*seeds[:env], seeds[env - 1] + 1, *seeds[env + 1 :]]
        return seeds


@breaks("seed-list-none")
class DropsAllSeedsForOneNone(OtherSeeds):
    """Ignores a list that begins with None."""

    def change(self, seeds: list[Any]) -> list[Any]:
        return seeds if seeds[0] is not None else [None] * len(seeds)


class SeedsInOrderOfMask(SyncVectorEnv):
    """Gives the first seeds of a list to the environments under a mask."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if options and "reset_mask" in options and isinstance(seed, list):
            chosen, given = np.flatnonzero(options["reset_mask"]), iter(seed)
            seed = [next(given) if env in chosen else None for env in range(self.num_envs)]
        return super().reset(seed=seed, options=options)


breaks("reset-mask-seed")(SeedsInOrderOfMask)


@breaks("reset-mask-seed")
class CountsInOrderOfMask(SyncVectorEnv):
    """Counts the seeds of the environments under a mask from the first of these."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if options and "reset_mask" in options and isinstance(seed, int):
            places = np.cumsum(options["reset_mask"]) - 1
            seed = [seed + int(max(place, 0)) for place in places]
        return super().reset(seed=seed, options=options)


class OtherMasks(SyncVectorEnv):
    """Resets by another mask than the given one."""

    change: Callable[[np.ndarray], Any]

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        mask = options and options.get("reset_mask")
        if isinstance(mask, np.ndarray) and mask.shape == (4,) and mask.dtype == np.bool_:
            rows = np.flatnonzero(mask)
            changed = np.zeros(4, np.bool_)
            changed[self.change(rows)] = True
            if changed.any() or not mask.any():
                options = options | {"reset_mask": changed}
            else:
                return self._observations.copy(), {}
        return super().reset(seed=seed, options=options)


@breaks("reset-mask", modes=(NEXT, SAME))
@breaks("reset-mask", "step-returns", modes=(DISABLED,))  # of `SyncVectorEnv`, which asserts
class TwoOfThree(OtherMasks):
    def change(self, rows: np.ndarray) -> Any:
        return rows[:2] if len(rows) == 3 else rows


@breaks("reset-mask", modes=(NEXT, SAME))
class LastTwoOfMask(OtherMasks):
    def change(self, rows: np.ndarray) -> Any:
        return rows[-2:]


@breaks("reset-mask", modes=(SAME,))
class FirstOfTwo(OtherMasks):
    def change(self, rows: np.ndarray) -> Any:
        return rows[:1] if len(rows) == 2 else rows


@breaks("reset-mask", modes=(SAME,))
class NoneOfOne(OtherMasks):
    def change(self, rows: np.ndarray) -> Any:
        return rows if len(rows) > 1 else rows[:0]


@breaks("reset-mask")
class ThreeOfFour(OtherMasks):
    def change(self, rows: np.ndarray) -> Any:
        return rows[:3]


@breaks("reset-mask", "reset-mask-infos", modes=(SAME, DISABLED))
class FirstRows(OtherMasks):
    """Resets as many environments as the mask has, but the first ones."""

    def change(self, rows: np.ndarray) -> Any:
        return np.arange(len(rows))


@breaks("reset-mask", modes=(NEXT,))
@breaks("reset-mask", "independent-episodes", modes=(DISABLED,))
class DrawsForOthers(SyncVectorEnv):
    """Draws from the generators of the environments outside a mask of three."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        mask = options and options.get("reset_mask")
        if isinstance(mask, np.ndarray) and mask.sum() == 3:
            for env, is_reset in zip(self.envs, mask, strict=True):
                if not is_reset:
                    env.unwrapped.np_random.uniform()
        return super().reset(seed=seed, options=options)


@breaks(
    *("reset-mask", "independent-episodes", "limit-kept", "observations-in-space"),
    modes=(DISABLED,),
)
class LeavesSecondEnded(SyncVectorEnv):
    """Resets only the first of two environments that ended, and keeps the others as they are."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        mask = options and options.get("reset_mask")
        if isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (4,):
            ended = np.flatnonzero(mask & (self._terminations | self._truncations))
            for flags in (self._terminations, self._truncations, self._autoreset_envs):
                flags[ended[1:]] = False
            left = mask.copy()
            left[ended[1:]] = False
            if left.any():
                options = options | {"reset_mask": left}
        return super().reset(seed=seed, options=options)
