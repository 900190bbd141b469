"""`gymbridge info`."""

from __future__ import annotations

import configparser
import json
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gymbridge
from gymbridge.command_line import info, main
from gymbridge.command_line.info import run_probe, run_probes
from gymbridge.core.extras import EXTRAS, find_version, install_command

SETUP = Path(__file__).parents[2] / "setup.cfg"


@pytest.fixture(autouse=True)
def _probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers in the place of the real ones, which import JAX and torch."""
    answers = {"JAX devices": "cpu:0, cpu:1", "OpenGL": "no EGL"}
    monkeypatch.setattr(info, "run_probes", lambda versions: iter(answers.items()))


def test_info__prints_versions_and_devices(capsys: Any) -> None:
    assert main(["info"]) == 0
    text = re.sub("  +", ": ", capsys.readouterr().out)
    assert f"gymbridge: {gymbridge.__version__}\n" in text
    assert f"numpy: {find_version('numpy')}\n" in text
    assert "JAX devices: cpu:0, cpu:1\n" in text
    assert "OpenGL: no EGL\n" in text


def test_info__prints_json(capsys: Any) -> None:
    assert main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["python"] == platform.python_version()
    assert found["devices"]["OpenGL"] == "no EGL"


def test_info__prints_each_line_as_soon_as_it_is_found(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = []

    def probe(versions: Any) -> Iterator[tuple[str, str]]:
        for name in ("first", "second"):
            printed.append(capsys.readouterr().out)
            yield name, "none"

    monkeypatch.setattr(info, "run_probes", probe)
    assert main(["info"]) == 0
    assert "gymnasium" in printed[0]
    assert printed[1] == f"{'first':<27}  none\n"


def test_info__says_what_installs_what_is_missing(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(info, "find_version", lambda name: None if name == "jax" else "1.0")
    assert main(["info"]) == 0
    above, below = capsys.readouterr().out.split("Extras that are not installed:\n")
    assert re.search(r"^jax +-$", above, re.MULTILINE)
    assert [line.split()[0] for line in above.splitlines()[5:10]] == [
        *("jax", "jaxlib", "mujoco", "mujoco-mjx", "warp-lang"),
    ]
    assert below.splitlines() == [
        f"brax        install by {install_command('brax')}",
        f"playground  install by {install_command('playground')}",
        f"robots      install by {install_command('robots')}",
        f"jax         install by {install_command('jax')}",
    ]


def test_extras__are_those_of_the_package() -> None:
    """Leaves out versions, and the extras for work on gymbridge itself."""
    config = configparser.ConfigParser()
    config.read(SETUP, encoding="utf-8")
    listed = dict(config["options.extras_require"])
    for own in ("examples", "test", "docs", "all"):
        del listed[own]

    def brought(extra: str) -> set[str]:
        own = re.findall(r"^(?!gymbridge|#)([\w-]+)", listed[extra], re.MULTILINE)
        others = re.findall(r"^gymbridge\[(\w+)\]", listed[extra], re.MULTILINE)
        return set(own).union(*map(brought, others))

    assert {extra: set(found) for extra, found in EXTRAS.items()} == {
        extra: brought(extra) for extra in listed
    }


def test_probes__leave_out_what_is_not_installed() -> None:
    found = dict(run_probes({"jax": None, "torch": None}))
    assert found.keys() == {"OpenGL"}
    assert found["OpenGL"]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("print('a, b')", "a, b"),
        ("raise SystemExit('no driver')", "no driver"),
        ("import os; os._exit(3)", "ended with code 3"),
    ],
)
def test_probe__returns_a_line_or_what_went_wrong(code: str, found: str) -> None:
    assert run_probe(code) == found


def test_probe__ends_where_nothing_answers() -> None:
    assert run_probe("import time; time.sleep(60)", 0.2) == "no answer in 0.2 s"


@pytest.mark.slow
def test_probes__find_the_devices_of_jax_and_torch() -> None:
    pytest.importorskip("jax")
    pytest.importorskip("torch")
    found = dict(run_probes({"jax": "any", "torch": "any"}))
    assert re.match(r"(TFRT_CPU_0|cpu:0|cuda:0) \(", found["JAX devices"])
    assert found["torch devices"].startswith("cpu")
