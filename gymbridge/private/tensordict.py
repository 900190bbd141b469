"""A private name of tensordict, read in tensordict 0.14.3; TorchRL's `BraxWrapper` uses it too."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict

__all__ = ["make_tensordict"]


def make_tensordict(entries: dict[str, Any], batch_size: torch.Size, device: Any) -> TensorDict:
    """Return a `TensorDict` without the checks of its constructor, which are slow.

    The entries are (num_envs, ...) tensors on the device and dicts of such. The dict is kept.
    """
    return TensorDict._new_unsafe(  # pyright: ignore[reportPrivateUsage]
        entries, batch_size, device=device
    )
