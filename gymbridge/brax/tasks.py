"""Facts about Brax's registered environments that need no import of Brax."""

from __future__ import annotations

__all__ = ["BRAX_LIMIT", "BRAX_NAMES"]

BRAX_NAMES = (
    "ant",
    "fast",
    "halfcheetah",
    "hopper",
    "humanoid",
    "humanoidstandup",
    "inverted_double_pendulum",
    "inverted_pendulum",
    "pusher",
    "reacher",
    "swimmer",
    "walker2d",
)
"""Names in Brax's own registry (brax/envs/__init__.py)."""

BRAX_LIMIT = 1000
"""Episode length that Brax itself gives its registered environments (`brax.envs.create`)."""
