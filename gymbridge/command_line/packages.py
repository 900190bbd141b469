"""The libraries that gymbridge works with, and what installs them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["EXTRAS", "REQUIRED", "find_version", "install_command"]

REQUIRED = ("gymnasium", "numpy")
"""Distributions that every batch rests on."""

EXTRAS = {
    "brax": ("brax", "jax"),
    "playground": ("playground", "brax", "jax"),
    "envpool": ("envpool",),
    "torch": ("torch",),
    "video": ("moviepy",),
    "sb3": ("stable-baselines3",),
    "torchrl": ("torchrl",),
    "skrl": ("skrl",),
    "rsl_rl": ("rsl-rl-lib",),
    "rllib": ("ray",),
}
"""Distributions by the extra of gymbridge that installs them."""


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
