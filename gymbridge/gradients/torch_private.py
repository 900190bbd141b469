"""Uses of private names of torch, as of torch 2.13.0.

They find out two wrong uses of a batch. Where a version of torch lacks a name, that wrong use is
not found.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad

from gymbridge.errors import SimulationError

__all__ = ["check_context"]


def check_context(leaves: list[torch.Tensor]) -> None:
    """Raise where torch would treat a step as a function without side effects.

    Args:
        leaves: Actions of the step.

    Raises:
        SimulationError: Inside a backward pass, or with forward-mode derivatives.
    """
    if _is_in_backward_pass():
        raise SimulationError(
            "A batch cannot be stepped inside a backward pass: `torch.utils.checkpoint` would step "
            "it a second time, from another state. Use `residuals='recompute'` instead."
        )
    if _has_dual_level() and any(
        forward_ad.unpack_dual(leaf).tangent is not None for leaf in leaves
    ):
        raise SimulationError(
            "A step has no forward-mode derivatives; use a backward pass, or jax itself."
        )


def _is_in_backward_pass() -> bool:
    task_id: Any = getattr(torch._C, "_current_graph_task_id", None)
    return task_id is not None and task_id() != -1


def _has_dual_level() -> bool:
    return getattr(forward_ad, "_current_level", -1) >= 0
