"""Cores that a process may use: those of its affinity, and fewer in a container with a limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gymbridge.core.cores import count_cores


@pytest.fixture(autouse=True)
def _eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("groups", "files", "wanted"),
    [
        ("0::/", {}, 8),
        ("0::/", {"cpu.max": "max 100000"}, 8),
        ("0::/", {"cpu.max": "300000 100000"}, 3),
        ("0::/", {"cpu.max": "150000 100000"}, 1),
        ("0::/", {"cpu.max": "50000 100000"}, 1),
        ("0::/", {"cpu.max": "1600000 100000"}, 8),
        ("0::/job/step", {"job/cpu.max": "200000 100000", "job/step/cpu.max": "max 100000"}, 2),
        ("0::/not/seen/from/inside", {"cpu.max": "200000 100000"}, 2),
        ("3:cpu,cpuacct:/job", {"cpu/job/cpu.cfs_quota_us": "-1"}, 8),
        (
            "9:memory:/\n3:cpu,cpuacct:/job",
            {"cpu/job/cpu.cfs_quota_us": "400000\n", "cpu/job/cpu.cfs_period_us": "100000\n"},
            4,
        ),
    ],
)
def test_limits_of_containers__count(
    groups: str, files: dict[str, str], wanted: int, tmp_path: Path
) -> None:
    membership = tmp_path / "membership"
    membership.write_text(groups)
    for name, text in files.items():
        path = tmp_path / "mounted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert count_cores(membership, tmp_path / "mounted") == wanted


def test_systems_without_control_groups__have_their_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert count_cores(tmp_path / "missing") == 8
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert count_cores(tmp_path / "missing") == 1
