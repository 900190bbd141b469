"""Masks of torch and jax batches: those without values are refused, as actions are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from batches import shared_batch, to_kind

from gymbridge.errors import ArgumentTypeError

NUM_ENVS = 4


@pytest.mark.parametrize("engine", ["host", "brax"])
def test_mask__inside_a_transformation_is_refused(engine: str, arrays: str) -> None:
    envs = shared_batch(engine, arrays=arrays)
    envs.reset(seed=0)

    def reset(mask: Any) -> Any:
        return envs.reset(options={"reset_mask": mask})[0]

    if arrays == "torch":
        import torch

        transformed: Any = torch.func.vmap(reset)
    else:
        import jax

        transformed = jax.vmap(reset)
    with pytest.raises(ArgumentTypeError, match=r"`options\['reset_mask'\]` must hold bools"):
        transformed(to_kind(np.ones((2, NUM_ENVS), np.bool_), arrays))
