"""How many CPU cores this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["count_affinity", "count_cores"]

_CGROUPS = Path("/sys/fs/cgroup")


def count_cores(membership: Path = Path("/proc/self/cgroup"), root: Path = _CGROUPS) -> int:
    """Return the cores in this process' affinity, or fewer if a container's limit is lower.

    A limit of 1.5 cores counts as one: two busy threads would be stopped for a part of each period.
    The file has this process' control groups, and in the folder these are mounted; see Linux'
    cgroups(7).
    """
    return max(1, min([count_affinity(), *(int(limit) for limit in _limits(membership, root))]))


def count_affinity() -> int:
    """Return the cores in this process' affinity, whatever a container's limit is."""
    # Systems without affinity, such as macOS, have no control groups either.
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


def _limits(membership: Path, root: Path) -> Iterator[float]:
    """Yield the limits in cores of the control groups of this process and of those around them."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = root / "cpu" if controllers else root
        inner = mount / group.lstrip("/")
        for folder in (inner, *inner.parents):
            if folder.is_relative_to(mount):
                yield from _read_limit(folder)


def _read_limit(folder: Path) -> Iterator[float]:
    """Yield the limit of one control group, of version 2 or 1; nothing where it has none."""
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        with suppress(OSError, ValueError):  # of "max", or where there is no such file
            quota, period = " ".join((folder / name).read_text() for name in names).split()
            if int(quota) > 0:  # -1 is no limit
                yield int(quota) / int(period)
