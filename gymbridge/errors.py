"""Every error that gymbridge raises on purpose.

::

    GymbridgeError
    ├── ArgumentError          also ValueError: a value breaks a rule of its argument
    │   ├── EnvContractError   a custom environment breaks a rule that batching requires
    │   └── KeywordError       also TypeError, as in Python: an unknown keyword
    ├── ArgumentTypeError      also TypeError: a value of a type that the argument cannot take
    ├── ActionError            also gymnasium.error.InvalidAction and ValueError
    ├── ResetNeededError       also gymnasium.error.ResetNeeded: `reset` has to come first
    │   └── EpisodeEndedError  also AssertionError, as `SyncVectorEnv` raises it
    ├── ClosedError            also gymnasium.error.ClosedEnvironmentError
    ├── NotInstalledError      also gymnasium.error.DependencyNotInstalled
    ├── UnknownTaskError       also gymnasium.error.UnregisteredEnv: no such task
    ├── BusyError              also RuntimeError: another call of the batch is running
    ├── SimulationError        also RuntimeError: the engine cannot build or trace this task
    ├── DivergedError          also FloatingPointError: an environment produced NaN or Inf
    └── BrokenRulesError       also AssertionError: an environment breaks rules of Gymnasium

Each error is also of the type that Gymnasium documents for that mistake, so code written for
`SyncVectorEnv` catches it. `reset` and `step` check their arguments before anything changes: after
such an error the environment goes on as if the call had not been made. An interrupted call (Ctrl-C,
an error inside the engine) may have changed it: an EnvPool batch then needs `reset()`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import gymnasium.error

__all__ = [
    "ActionError",
    "ArgumentError",
    "ArgumentTypeError",
    "BrokenRulesError",
    "BusyError",
    "ClosedError",
    "DivergedError",
    "EnvContractError",
    "EpisodeEndedError",
    "GymbridgeError",
    "KeywordError",
    "NotInstalledError",
    "ResetNeededError",
    "SimulationError",
    "UnknownTaskError",
    "nearest",
    "unexpected_keyword",
]


class GymbridgeError(Exception):
    """Base of every error that gymbridge raises on purpose."""


class ArgumentError(GymbridgeError, ValueError):
    """Raised when the value of an argument or option breaks its rule."""


class EnvContractError(ArgumentError):
    """Raised when a custom environment breaks a rule that batching requires."""


class KeywordError(ArgumentError, TypeError):
    """Raised when an environment does not take a keyword.

    Trainers rely on its being a `TypeError`. Stable-Baselines3 passes ``render_mode="rgb_array"``
    and tries again without it. TorchRL does the same with ``frameskip=``, if the message has
    Python's words; see `unexpected_keyword`.
    """


class ArgumentTypeError(GymbridgeError, TypeError):
    """Raised when an argument or option has a type that it cannot take."""


class ActionError(GymbridgeError, gymnasium.error.InvalidAction, ValueError):
    """Raised when an action lies outside the action space or has the wrong shape."""


class ResetNeededError(GymbridgeError, gymnasium.error.ResetNeeded):
    """Raised when a call needs a `reset` before it."""


class EpisodeEndedError(ResetNeededError, AssertionError):
    """Raised when an ended environment is stepped with `AutoresetMode.DISABLED`."""


class BrokenRulesError(GymbridgeError, AssertionError):
    """Raised by `gymbridge.testing.Report` for an environment that breaks rules of Gymnasium."""


class ClosedError(GymbridgeError, gymnasium.error.ClosedEnvironmentError):
    """Raised when a closed environment is used."""


class BusyError(GymbridgeError, RuntimeError):
    """Raised when a thread or a signal handler calls a batch during another call of it."""


class NotInstalledError(GymbridgeError, gymnasium.error.DependencyNotInstalled):
    """Raised when the library that a task needs is not installed."""


class UnknownTaskError(GymbridgeError, gymnasium.error.UnregisteredEnv):
    """Raised when the engine has no task of that name."""


class SimulationError(GymbridgeError, RuntimeError):
    """Raised when the engine cannot build, trace or run a task, or cannot run after a `fork()`."""


class DivergedError(GymbridgeError, FloatingPointError):
    """Raised with `nonfinite="raise"` when an environment produced NaN or Inf."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint: the known names that are most like `name`, or else the first 20 of all.

    Example:
        >>> nearest("antt", ["ant", "hopper"])
        "did you mean 'ant'?"
        >>> nearest("zzz", ["ant", "hopper"])
        "known: 'ant', 'hopper'"
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    listed = ", ".join(map(repr, names[:20]))
    return f"known: {listed}{', …' if len(names) > 20 else ''}" if names else "there are none"


def unexpected_keyword(owner: str, name: str, target: str, advice: str) -> KeywordError:
    """Return the error for an unknown keyword, worded as in Python.

    TorchRL looks for ``__init__() got an unexpected keyword argument '...'`` in the text. `owner`
    is the class that was called, `name` the keyword, `target` what it should have built, and
    `advice` a sentence without its full stop, or with a question mark.

    Example:
        >>> print(unexpected_keyword("Env", "skip", "'Pong'", "leave it out"))
        Env.__init__() got an unexpected keyword argument 'skip' for 'Pong'. Leave it out.
    """
    advice = f"{advice[0].upper()}{advice[1:]}{'' if advice.endswith('?') else '.'}"
    return KeywordError(
        f"{owner}.__init__() got an unexpected keyword argument {name!r} for {target}. {advice}"
    )
