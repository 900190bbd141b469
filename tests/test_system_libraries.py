"""Tests that need system packages are skipped without them, or fail where they are required."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import system_libraries

WITHOUT_GRAPHICS = Path(__file__).parents[1] / ".ci" / "without_graphics"


def test_qt5__that_is_missing_skips_or_fails_with_the_command_to_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(system_libraries, "QT5", ("libc.so.6",))
    system_libraries.check_qt5(is_required=True)
    monkeypatch.setattr(system_libraries, "QT5", ("libNoSuchLibrary.so.5",))
    for is_required, outcome in ((False, pytest.skip.Exception), (True, pytest.fail.Exception)):
        with pytest.raises(outcome, match="apt-get install libqt5core5a libqt5gui5"):
            system_libraries.check_qt5(is_required=is_required)


def test_without_graphics__hides_libraries_and_keeps_the_exit_status(tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("util-linux is missing")
    code = (
        "import ctypes.util, sys; sys.path.insert(0, sys.argv[1]);"
        "from system_libraries import QT5, has_libraries;"
        "names = [QT5[1], 'libGL.so.1', 'libEGL.so.1', 'libOSMesa.so.8'];"
        "sys.exit(7 + any(has_libraries((name,)) for name in names))"
    )
    command = [str(WITHOUT_GRAPHICS), sys.executable, "-c", code, str(Path(__file__).parent)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "No mount namespace is permitted" in done.stderr:
        pytest.skip("mount namespaces are not permitted here")
    assert done.returncode == 7
