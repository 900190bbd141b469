"""Generalised positions, velocities and activations, and states that begin from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from gymbridge.functional.protocol import Coordinates
from gymbridge.state_envs.contract import Contract
from gymbridge.state_envs.model import Physics

__all__ = ["find_coordinates"]

_OF_MJX = ("qpos", "qvel", "act")
_OF_BRAX = ("q", "qd")


def find_coordinates(contract: Contract) -> Coordinates | None:
    """Return the coordinates of an environment; None where its states have none that are known.

    Their `write` also takes the physics of a row, in place of the model's own leaves.

    A step of MJX computes everything else anew. Brax's own pipelines read what their last step
    computed, so the state of the simulation is made by `pipeline_init`.
    """
    field = contract.style.physics
    now = getattr(contract.state, field)
    if all(hasattr(now, name) for name in _OF_MJX):
        kept = [name for name in _OF_MJX if getattr(now, name).size]
        compute: Callable[..., Any] = partial(_replace, kept)
    elif all(hasattr(now, name) for name in _OF_BRAX) and hasattr(contract.env, "pipeline_init"):
        kept, compute = list(_OF_BRAX), partial(_begin, contract)
    else:
        return None

    def write(state: Any, leaves: Sequence[Any], physics: Physics | None = None) -> Any:
        simulation = compute(getattr(state, field), leaves, physics)
        return replace(state, **{field: simulation})

    return Coordinates(tuple(f"{field}.{name}" for name in kept), write)


def _replace(names: list[str], simulation: Any, leaves: Sequence[Any], _: Physics | None) -> Any:
    return replace(simulation, **dict(zip(names, leaves, strict=True)))


def _begin(contract: Contract, _: Any, leaves: Sequence[Any], physics: Physics | None) -> Any:
    return contract.call_with(physics, contract.env.pipeline_init, *leaves)
