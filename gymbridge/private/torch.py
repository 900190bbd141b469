"""Uses of private names and of a message of torch, as of torch 2.13.0.

They find out three wrong uses of a batch. Where a version of torch lacks a name, that wrong use is
not found; where it has another message, torch's own error is raised.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad

from gymbridge.errors import SimulationError

__all__ = ["check_context", "check_not_freed"]


def check_context(leaves: list[torch.Tensor]) -> None:
    """Raise where torch would treat a step as a function without side effects."""
    task_id: Any = getattr(torch._C, "_current_graph_task_id", None)
    if task_id is not None and task_id() != -1:  # A backward pass runs.
        raise SimulationError(
            "A batch cannot be stepped inside a backward pass: `torch.utils.checkpoint` would step "
            "it a second time, from another state. Use `residuals='recompute'` instead."
        )
    if getattr(forward_ad, "_current_level", -1) >= 0 and any(
        forward_ad.unpack_dual(leaf).tangent is not None for leaf in leaves
    ):
        raise SimulationError(
            "A step has no forward-mode derivatives; use a backward pass, or jax itself."
        )


def check_not_freed(error: RuntimeError) -> None:
    """Raise where torch could not read what a node keeps, because a backward pass has freed it.

    Torch advises `retain_graph=True`. If `detach` was forgotten, that only makes the graph longer.
    An error of a user's hook may also reach this function.
    """
    if "backward through the graph a second time" in str(error):
        raise SimulationError(
            "This backward pass reached a step whose graph an earlier backward pass has freed. "
            "Call `envs.detach()` after each backward pass, before the next step, and go on from "
            "the observation that it returns. Only for two backward passes through the same steps, "
            "pass `retain_graph=True` to the first one."
        ) from None
