"""Files of snapshots: numpy's, without pickles, whole or refused."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box
from hypothesis import given, settings
from hypothesis import strategies as st

from gymbridge.core import snapshots
from gymbridge.errors import ArgumentError
from tests.support.trees import assert_same

WRITER = """
import sys
import numpy as np
from gymbridge.core.snapshots import Snapshot, _write
from pathlib import Path
number = 0
while True:
    number += 1
    leaves = {"state": np.full(1_000_000, number)}
    _write(Path(sys.argv[1]), Snapshot({"number": str(number)}, (number,), leaves))
    print(number, flush=True)
"""


def test_killed_writer__leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    for count, delay in ((1, 0.0), (2, 0.003), (4, 0.009), (3, 0.02)):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        for _ in range(count):
            writer.stdout.readline()
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
        done = count + len(writer.communicate()[0].split())
        state = snapshots._read(path)
        number = state.seeds[0]
        assert state.batch == {"number": str(number)}
        assert (state.leaves["state"] == number).all()
        assert number in (done, done + 1), "the file is neither the last one nor the next"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file."""
    path = tmp_path_factory.mktemp("snapshots") / "state"
    leaves = {"a": np.arange(40.0, dtype=np.float32), "b": np.zeros((4, 2), bool)}
    snapshots._write(path, snapshots.Snapshot({"num_envs": "4"}, (2**70, 0, 1, 2), leaves))
    return path


def test_file__is_numpy_s_without_pickles(written: Path) -> None:
    with np.load(written, allow_pickle=False) as entries:
        header = json.loads(entries["header.json"])
    assert header["batch"] == {"num_envs": "4"}
    assert [int(seed, 16) for seed in header["seeds"]] == [2**70, 0, 1, 2]
    assert header["leaves"][1] == {"name": "b", "dtype": "bool", "shape": [4, 2]}
    assert {path.name for path in written.parent.iterdir()} == {"state"}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_file__truncated_or_changed_is_refused_or_the_same(written: Path, data: Any) -> None:
    whole = written.read_bytes()
    wanted = snapshots._read(written)
    spoilt = bytearray(whole)
    if data.draw(st.booleans()):
        del spoilt[data.draw(st.integers(0, len(whole) - 1)) :]
    else:
        spoilt[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    path = written.with_name("spoilt")
    path.write_bytes(bytes(spoilt))
    try:
        found = snapshots._read(path)
    except ArgumentError:
        return
    # A byte that means nothing, such as a time in the archive:
    assert_same(found.leaves, wanted.leaves)
    assert found[:2] == wanted[:2]


@pytest.mark.parametrize(
    "change",
    [
        {"batch": None},
        {"seeds": None},
        {"batch": ["num_envs"]},
        {"seeds": ["four"]},
        {"seeds": [4]},
        {"seeds": ["-0x1"]},
        {"leaves": [{"name": "a"}]},
        {"leaves": [{"name": "a", "dtype": "no such", "shape": [2]}]},
        {"leaves": [{"name": [], "dtype": "float64", "shape": [2]}]},
        {"leaves": [{"name": "a", "dtype": "float64", "shape": [3]}]},
    ],
)
def test_file__whose_header_was_forged_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    """None takes an entry away."""
    leaves = [{"name": "a", "dtype": "float64", "shape": [2]}]
    header = {"batch": {}, "seeds": ["0x1"], "leaves": leaves} | change
    header = {name: value for name, value in header.items() if value is not None}
    np.savez(tmp_path / "forged.npz", np.ones(2))
    with zipfile.ZipFile(tmp_path / "forged.npz", "a") as archive:
        archive.writestr("header.json", json.dumps(header))
    with pytest.raises(ArgumentError, match=r"`path` must be .*forged\.npz'"):
        snapshots._read(tmp_path / "forged.npz")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_file__keeps_the_permissions_of_the_one_that_it_replaces(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.touch()
    path.chmod(mode)
    snapshots._write(path, snapshots.Snapshot({}, (1,), {"a": np.ones(3)}))
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("name", ["", "no folder/state", "file/state"])
def test_file__that_cannot_be_written_is_named_as_the_user_did(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("file").touch()
    with pytest.raises(OSError, match="directory") as caught:
        snapshots._write(name, snapshots.Snapshot({}, (1,), {"a": np.ones(3)}))
    assert caught.value.filename == name
    assert {path.name for path in tmp_path.rglob("*")} == {"here", "file"}


def test_file__is_another_user_s_to_read_and_goes_where_a_link_points(tmp_path: Path) -> None:
    path, link = tmp_path / ("x" * 250), tmp_path / "latest"
    path.touch(mode=0o644)
    mode = path.stat().st_mode
    link.symlink_to(path)
    snapshots._write(link, snapshots.Snapshot({}, (10**5000,), {"a": np.ones(3)}))
    assert link.is_symlink()
    assert path.stat().st_mode == mode
    assert snapshots._read(path).seeds == (10**5000,)
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, "latest"}


class Named:
    """An object that Python shows with its address."""


@pytest.mark.parametrize(
    ("left", "right", "are_alike"),
    [
        ((0.2, 1.0), [0.2, 1.0], True),
        (np.int64(2), 2, True),
        ({"a": 1, "b": {"c", "d", "e"}}, {"b": {"e", "d", "c"}, "a": 1}, True),
        (Named(), Named(), True),
        (functools.partial(len, [1]), functools.partial(len, [1]), True),
        (np.arange(3), np.arange(3), True),
        (Box(0, 1, (2,)), Box(0, 1, (2,)), True),
        (1, 2, False),
        ("1", 1, False),
        (np.arange(3), np.arange(4), False),
        ({"a": 1}, {"a": 2}, False),
        (len, max, False),
        (functools.partial(len, [1]), functools.partial(len, [2]), False),
        (Box(0, 1, (2,)), Box(0, 1, (3,)), False),
    ],
)
def test_arguments__are_told_alike_where_they_are_equal(
    left: Any, right: Any, are_alike: bool
) -> None:
    assert (snapshots.describe(left) == snapshots.describe(right)) == are_alike
