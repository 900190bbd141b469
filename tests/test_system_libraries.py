"""Tests that need system packages are skipped without them, or fail where they are required."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from system_libraries import NEEDED, check_libraries

WITHOUT_GRAPHICS = Path(__file__).parents[1] / ".ci" / "without_graphics"


@pytest.mark.parametrize(
    ("marker", "command"),
    [
        ("needs_qt5", "apt-get install libqt5core5a libqt5gui5"),
        ("needs_opengl", "apt-get install libegl1 libosmesa6"),
    ],
)
def test_library__that_is_missing_skips_or_fails_with_the_command_to_run(
    monkeypatch: pytest.MonkeyPatch, marker: str, command: str
) -> None:
    _, message = NEEDED[marker]
    monkeypatch.setitem(NEEDED, marker, (("libc.so.6",), message))
    check_libraries(marker, is_required=True)
    monkeypatch.setitem(NEEDED, marker, (("libNoSuchLibrary.so.5",), message))
    for is_required, outcome in ((False, pytest.skip.Exception), (True, pytest.fail.Exception)):
        with pytest.raises(outcome, match=command):
            check_libraries(marker, is_required=is_required)


def test_without_graphics__hides_libraries_and_keeps_the_exit_status(tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("util-linux is missing")
    code = (
        "import ctypes.util, sys; sys.path.insert(0, sys.argv[1]);"
        "from system_libraries import OPENGL, QT5, has_libraries;"
        "names = [QT5[1], 'libGL.so.1', *OPENGL];"
        "sys.exit(7 + any(has_libraries((name,)) for name in names))"
    )
    command = [str(WITHOUT_GRAPHICS), sys.executable, "-c", code, str(Path(__file__).parent)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "No mount namespace is permitted" in done.stderr:
        pytest.skip("mount namespaces are not permitted here")
    assert done.returncode == 7
