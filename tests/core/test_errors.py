"""The family of errors: what each is besides a `GymbridgeError`, and what messages hold."""

from __future__ import annotations

import inspect

import gymnasium.error
import pytest

from gymbridge import errors

FAMILY = {
    errors.ArgumentError: (ValueError,),
    errors.EnvContractError: (errors.ArgumentError, ValueError),
    errors.KeywordError: (errors.ArgumentError, TypeError),
    errors.ArgumentTypeError: (TypeError,),
    errors.ActionError: (gymnasium.error.InvalidAction, ValueError),
    errors.ResetNeededError: (gymnasium.error.ResetNeeded,),
    errors.EpisodeEndedError: (errors.ResetNeededError, AssertionError),
    errors.ClosedError: (gymnasium.error.ClosedEnvironmentError,),
    errors.NotInstalledError: (gymnasium.error.DependencyNotInstalled,),
    errors.UnknownTaskError: (gymnasium.error.UnregisteredEnv,),
    errors.BusyError: (RuntimeError,),
    errors.SimulationError: (RuntimeError,),
    errors.DivergedError: (FloatingPointError,),
    errors.BrokenRulesError: (AssertionError,),
}


def test_family__is_every_error_of_the_module() -> None:
    members = {
        member
        for _, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, Exception)
    }
    helpers = {"nearest", "unexpected_keyword"}
    listed = {getattr(errors, name) for name in errors.__all__ if name not in helpers}
    assert members == listed == {*FAMILY, errors.GymbridgeError}


@pytest.mark.parametrize("member", FAMILY, ids=lambda member: member.__name__)
def test_member__is_what_the_tree_in_the_docstring_says(member: type[Exception]) -> None:
    for base in (errors.GymbridgeError, *FAMILY[member]):
        with pytest.raises(base, match="told so"):
            raise member("told so")
    tree = errors.__doc__ or ""
    line = next(line for line in tree.splitlines() if f"── {member.__name__} " in line)
    outside = [base for base in FAMILY[member] if base.__module__ != errors.__name__]
    if member is not errors.EnvContractError:  # drawn below its parent, which names the type
        assert all(base.__name__ in line for base in outside), line
    assert (member.__doc__ or "").startswith("Raised ")


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("antt", ["hopper", "ant"], "did you mean 'ant'?"),
        ("Pong-v4", ["Pong-v5", "Pong-v6"], "did you mean 'Pong-v6' or 'Pong-v5'?"),
        ("zzz", ["b", "a"], "known: 'a', 'b'"),
        ("zzz", [], "there are none"),
    ],
)
def test_nearest__names_the_likely_ones_or_all(name: str, known: list[str], hint: str) -> None:
    assert errors.nearest(name, known) == hint


def test_nearest__cuts_a_long_list() -> None:
    hint = errors.nearest("zzz", map(str, range(21)))
    assert hint.count("'") == 2 * 20
    assert hint.endswith(", …")


@pytest.mark.parametrize(
    ("advice", "shown"),
    [("did you mean 'b'?", "Did you mean 'b'?"), ("use `b`", "Use `b`."), ("A hint", "A hint.")],
)
def test_unexpected_keyword__is_said_as_python_says_it(advice: str, shown: str) -> None:
    class Env:
        def __init__(self) -> None: ...

    with pytest.raises(TypeError) as python:
        Env(a=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    said = str(python.value).rpartition("<locals>.")[2]
    assert str(errors.unexpected_keyword("Env", "a", "'x'", advice)) == f"{said} for 'x'. {shown}"
