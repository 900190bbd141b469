"""Brax's viewer as a page: a model's bodies, and where they are in each state of a trajectory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax

from gymbridge.errors import SimulationError
from gymbridge.jax_env.env import Drawn, EnvMetadata
from gymbridge.private.notices import quiet

__all__ = ["make_page"]

_ELLIPSOID = 4
"""The `mjtGeom` that brax/io/json.py lacks."""


def make_page(
    metadata: EnvMetadata,
    model: Any,
    trajectory: list[Drawn],
    index: int,
    seconds: float,
    height: int,
) -> str:
    """Return a page of HTML that shows the environment `index`; see brax/io/html.py.

    The trajectory has what is drawn of the batch, `seconds` of simulated time apart. The viewer is
    `height` pixels high.
    """
    from brax.io import html, mjcf

    if (model.geom_type == _ELLIPSOID).any():
        raise SimulationError(
            f"Brax's viewer cannot show ellipsoids, and the model of {metadata.name} has some."
        )
    rows: Any = [SimpleNamespace(x=_find_bodies(drawn.physics, index)) for drawn in trajectory]
    try:
        with quiet():
            system: Any = getattr(metadata.engine.unwrapped, "sys", None) or mjcf.load_model(model)
    except Exception as error:
        raise SimulationError(
            f"Brax cannot read the model of {metadata.name}: {type(error).__name__}: {error}"
        ) from error
    return html.render(system.tree_replace({"opt.timestep": seconds}), rows, height=height)


def _find_bodies(physics: Any, index: int) -> Any:
    """Return where the bodies but the world are, as Brax's states or MJX's data have it."""
    from brax import base

    is_brax = hasattr(physics, "x")
    found = (physics.x.pos, physics.x.rot) if is_brax else (physics.xpos, physics.xquat)
    pos, rot = jax.device_get([leaf[index, 0 if is_brax else 1 :] for leaf in found])
    return base.Transform(pos=pos, rot=rot)
