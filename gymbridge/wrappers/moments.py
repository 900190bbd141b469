"""Running means and variances, with the formulas of `gymnasium.wrappers.utils.RunningMeanStd`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gymbridge.wrappers.libraries import ArrayLibrary, spread

__all__ = ["RunningMoments", "learn", "no_moments"]


class RunningMoments(NamedTuple):
    """Mean and variance of the values that were seen; with ``statistics="env"`` of each row.

    Fields are float64, or float32 in jax without x64.
    """

    mean: Any  # (...) as one value, or (num_envs, ...)
    var: Any  # the same
    count: Any  # () or (num_envs, 1, ...): number of values, and 1e-4


def no_moments(num_envs: int, shape: tuple[int, ...], statistics: str) -> RunningMoments:
    """Return numpy's moments of no value: mean 0 and variance 1."""
    lead, ones = ((num_envs,), (1,) * len(shape)) if statistics == "env" else ((), ())
    zeros = np.zeros(lead + shape)
    return RunningMoments(zeros, zeros + 1, np.full(lead + ones, 1e-4))


def learn(
    library: ArrayLibrary, moments: RunningMoments, values: Any, rows: Any, statistics: str
) -> RunningMoments:
    """Return the moments after values, (num_envs, ...), of the rows of a mask."""
    where, values = library.xp.where, library.detach(library.cast(values, float))
    mask, var = spread(rows, values), 0.0
    if statistics == "env":
        count, mean = library.cast(mask, float), where(mask, values, moments.mean)
    else:
        count = library.cast(rows, float).sum()
        least = library.xp.clip(count, 1.0, None)  # without rows the sums are 0
        mean = where(mask, values, 0.0).sum(0) / least
        var = where(mask, (values - mean) ** 2, 0.0).sum(0) / least
    total = moments.count + count
    share, rest, delta = count / total, moments.count / total, mean - moments.mean
    # In 32 bits the rest of 1 is exact while it is small, and the share when that is.
    kept = where(rest < share, moments.var * rest, moments.var - moments.var * share)
    new = kept + (var + delta**2 * rest) * share
    return RunningMoments(moments.mean + delta * share, new, total)
