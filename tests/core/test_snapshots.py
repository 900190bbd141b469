"""Files of snapshots: numpy's, without pickles, whole or refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import assert_same

from gymbridge.core import snapshots
from gymbridge.errors import ArgumentError

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
    path, found = tmp_path / "state.npz", []
    for delay in (0.0, 0.007, 0.02, 0.033):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
        written = writer.communicate()[0].split()
        state = snapshots._read(path)
        number = state.seeds[0]
        assert state.batch == {"number": str(number)}
        assert (state.leaves["state"] == number).all()
        assert number - len(written) in (1, 2), "the file is neither the last one nor the next"
        found.append(number)
    assert len(set(found)) > 1


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
    assert header["seeds"] == [2**70, 0, 1, 2]
    assert header["leaves"][1] == {"name": "b", "dtype": "bool", "shape": [4, 2]}
    assert len(header["sha256"]) == 64
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


def test_file__whose_arrays_were_changed_is_refused(written: Path, tmp_path: Path) -> None:
    with np.load(written) as entries:
        arrays = dict(entries)
    header = json.loads(arrays.pop("header.json"))
    changes: list[Callable[[], Any]] = [
        lambda: arrays["arr_0"].__setitem__(3, 99),
        lambda: header["seeds"].__setitem__(0, 1),
        lambda: header["leaves"][0].update(name="c"),
    ]
    for change in changes:
        change()
        np.savez(tmp_path / "changed.npz", **arrays)
        with zipfile.ZipFile(tmp_path / "changed.npz", "a") as archive:
            archive.writestr("header.json", json.dumps(header))
        with pytest.raises(ArgumentError, match="contents were changed"):
            snapshots._read(tmp_path / "changed.npz")
