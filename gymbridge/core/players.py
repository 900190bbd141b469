"""Batches whose players take turns, which a trainer of one agent cannot use."""

from __future__ import annotations

from typing import Any

from gymbridge.errors import ArgumentError

__all__ = ["check_turns"]


def check_turns(name: str, envs: Any, user: str) -> None:
    """Raise if the players of a batch, the argument `name`, take turns; `user` is who took it.

    Where all players move at once, one agent may play them all for the sum of their rewards.
    """
    batch = envs.unwrapped
    if getattr(batch, "takes_turns", False):
        raise ArgumentError(
            f"`{name}` must have one agent in each environment, as {user} expects, got "
            f"{type(batch).__name__}, whose {batch.num_players} players take turns: the next "
            "observation is the opponent's, so bootstrapped values would have the wrong sign. "
            "Train by self-play on the batch itself, as examples/self_play.py does."
        )
