"""`gymbridge info`."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from typing import Any

import pytest

import gymbridge
from gymbridge.command_line import info, main
from gymbridge.core.extras import find_version, install_command


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers in the place of the real ones, which import JAX and torch."""
    for name in ("jax_devices", "torch_devices", "opengl"):
        monkeypatch.setattr(info, f"_name_{name}", lambda name=name: f"found {name}")


def test_info__prints_versions_and_devices(capsys: Any) -> None:
    assert main(["info"]) == 0
    text = re.sub("  +", ": ", capsys.readouterr().out)
    assert f"gymbridge: {gymbridge.__version__}\n" in text
    assert f"numpy: {find_version('numpy')}\n" in text
    assert ("JAX devices: found jax_devices\n" in text) == (find_version("jax") is not None)
    assert "OpenGL: found opengl\n" in text


def test_info__prints_json(capsys: Any) -> None:
    assert main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["python"] == platform.python_version()
    assert found["devices"]["OpenGL"] == "found opengl"


def test_info__prints_each_line_as_soon_as_it_is_found_and_an_error_as_one(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = []

    def fail() -> str:
        printed.append(capsys.readouterr().out)
        raise RuntimeError("no driver")

    monkeypatch.setattr(info, "_name_opengl", fail)
    assert main(["info"]) == 0
    assert "gymnasium" in printed[0]
    assert capsys.readouterr().out == f"{'OpenGL':<27}  RuntimeError: no driver\n"


def test_info__says_what_installs_what_is_missing(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(info, "find_version", lambda name: None if name == "jax" else "1.0")
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"{'jax':<27}  -" in lines
    assert [line.split()[0] for line in lines[6:11]] == [
        *("jax", "jaxlib", "mujoco", "mujoco-mjx", "warp-lang"),
    ]
    assert [line for line in lines if "not installed" in line] == [
        f"{extra:<27}  not installed: {install_command(extra)}"
        for extra in ("brax", "playground", "robots", "jax")
    ]


@pytest.mark.slow
def test_info__finds_the_devices_of_jax_and_torch() -> None:
    pytest.importorskip("jax")
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-m", "gymbridge", "info"], capture_output=True, text=True, check=True
    )
    assert re.search(r"^JAX devices +(TFRT_CPU_0|cpu:0|cuda:0) \(", done.stdout, re.MULTILINE)
    assert re.search(r"^torch devices +cpu", done.stdout, re.MULTILINE)
    assert re.search(r"^OpenGL +\w", done.stdout, re.MULTILINE)
