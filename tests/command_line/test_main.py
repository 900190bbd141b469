"""What every command shares: help, exit codes, and errors without a traceback."""

from __future__ import annotations

import argparse
import logging
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from gymbridge.command_line import listing, main, make_parser, output

BUILDERS = ("check", "bench", "rollout")
COMMANDS = ("list", "info", *BUILDERS)
ID = "EnvPool/CartPole-v1"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command."""
    actions = make_parser()._subparsers
    assert actions is not None
    return dict(actions._group_actions[0].choices)  # type: ignore[arg-type]


@pytest.mark.parametrize("command", COMMANDS)
def test_flags__are_on_the_page_and_each_has_a_sentence_in_the_help(
    command: str, capsys: Any
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert f"usage: gymbridge {command}" in capsys.readouterr().out
    actions = parsers()[command]._actions
    assert [action.dest for action in actions if not action.help] == []
    page = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    [text] = [part for part in page if part.startswith(f"`{command}`")]
    listed = set(re.findall(r"^\| `(--[a-z-]+)", text, flags=re.MULTILINE))
    flags = {name for action in actions for name in action.option_strings}
    assert listed == flags - {"-h", "--help"}


def test_commands__are_those_of_the_page() -> None:
    assert tuple(parsers()) == COMMANDS


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["lst"], "usage: gymbridge"),
        (["list", "--nothing"], "usage: gymbridge"),
        (["bench"], "usage: gymbridge bench"),
        (["check", ID, "--steps=-3"], "--steps: must be at least 1, got -3"),
        (["check", ID, "--seed=-1"], "--seed: must be at least 0, got -1"),
        (["check", ID, "--num-envs=0"], "--num-envs: must be at least 1, got 0"),
        (["bench", ID, "--num-envs=two"], "--num-envs: must be an int, got 'two'"),
        (["bench", ID, "--seconds=inf"], "--seconds: must be positive and finite, got inf"),
        (["bench", ID, "--seconds=long"], "--seconds: must be a number, got 'long'"),
        (["rollout", ID, "--episodes=0"], "--episodes: must be at least 1, got 0"),
        (["rollout", ID, "--steps=-1"], "--steps: must be at least 1, got -1"),
        (["rollout", ID, "--seed=-1"], "--seed: must be at least 0, got -1"),
    ],
)
def test_usage_error__exits_with_2(arguments: list[str], text: str, capsys: Any) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        *(([command, "EnvPool/CartPol-v1"], "Did you mean: `CartPole`") for command in BUILDERS),
        *(([command, "Zzzzzz-v0"], "`gymbridge list`") for command in BUILDERS),
        (["check", "EnvPool/Zzzzzz-v0"], "`gymbridge list`"),
        (["rollout", "Qqqqqq/ant-v0"], "`gymbridge list`"),
        (["bench", "CartPole-v1"], "begins with one of Brax, Playground, EnvPool, got 'CartPole"),
        *(
            ([command, ID, f"--kwarg={name}=3"], f"`--kwarg {name}=…` is not allowed; use ")
            for command in BUILDERS
            for name in ("num_envs", "env_id", "id")
        ),
        (["check", ID, "--kwarg=limit"], "KEY=VALUE"),
    ],
)
def test_error__exits_with_2_and_says_what_to_do(
    arguments: list[str], text: str, capsys: Any
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.splitlines()[-1].startswith(f"gymbridge {arguments[0]}: error: ")
    assert text in printed.err
    assert printed.out == ""


def test_no_command__prints_the_help(capsys: Any) -> None:
    assert main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == make_parser().format_help()
    assert printed.err == ""


def test_log__looks_like_the_rest_of_the_output(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers, level, show_warning = logging.root.handlers[:], output.LOG.level, warnings.showwarning

    def find(pattern: str) -> list[Any]:
        logging.getLogger("engine").info("not for users")
        logging.getLogger("gymbridge").info("Compiling. This can take a minute.")
        logging.getLogger("engine").warning("old driver")
        warnings.showwarning("\033[33mWARN: out of date\033[0m", UserWarning, "file.py", 3)
        return []

    monkeypatch.setattr(listing, "find_entries", find)
    assert main(["list", "zzzzzz"]) == 1
    assert capsys.readouterr().err.splitlines()[:-1] == [
        "gymbridge list: Compiling. This can take a minute.",
        "gymbridge list: warning: old driver",
        "gymbridge list: warning: out of date",
    ]
    assert (logging.root.handlers, output.LOG.level) == (handlers, level)
    assert warnings.showwarning is show_warning


def test_interrupt__has_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(pattern: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "find_entries", stop)
    assert main(["list"]) == 130


def test_mistake_in_the_package__keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "find_entries", None)
    with pytest.raises(TypeError):
        main(["list"])


def run_in_shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command, in which ``gymbridge`` is that of this Python, in a shell."""
    command = command.replace("gymbridge ", f"{sys.executable} -m gymbridge ")
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )


def test_list__runs_as_a_module_and_stops_with_its_reader() -> None:
    done = run_in_shell("gymbridge list | head -n 1")
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["id", "family"])
    assert "Error" not in done.stderr


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("gymbridge list >&-", "gymbridge list: error: Standard output is closed"),
        ("gymbridge list >/dev/full", "gymbridge list: error: Standard output cannot be written"),
        ("gymbridge list pong >/dev/full", "gymbridge list: error: Standard output cannot be wri"),
        ("gymbridge list nothing 2>&-", ""),
    ],
)
def test_output__that_takes_nothing_is_an_error_without_a_traceback(
    command: str, error: str
) -> None:
    done = run_in_shell(command)
    assert done.returncode == (2 if error else 1)
    assert done.stdout == ""
    assert done.stderr.startswith(error)
    assert done.stderr.count("\n") == bool(error)


def test_output__in_ascii_escapes_other_characters() -> None:
    done = run_in_shell("PYTHONIOENCODING=ascii gymbridge list")
    assert (done.returncode, done.stderr) == (0, f"\n{len(done.stdout.splitlines()) - 1:,} ids\n")
    code = "from gymbridge.command_line.output import show; show('é and …')"
    done = run_in_shell(f'PYTHONIOENCODING=ascii {sys.executable} -c "{code}"')
    assert (done.returncode, done.stdout) == (0, "\\xe9 and \\u2026\n")
