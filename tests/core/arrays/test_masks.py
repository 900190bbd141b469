"""Masks of torch and jax batches: those without values are refused, as actions are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from batches import shared_batch, to_kind

from gymbridge.errors import ArgumentTypeError

NUM_ENVS = 4


def _valueless(arrays: str) -> Iterator[Any]:
    whole = to_kind(np.ones(NUM_ENVS, np.bool_), arrays)
    if arrays == "torch":
        import torch

        yield whole.to("meta")
        yield whole.to_sparse()
        yield torch.nested.nested_tensor([*whole.reshape(-1, 1)])
        return
    import jax

    deleted = whole | False
    deleted.delete()
    yield deleted
    yield jax.random.split(jax.random.key(0), NUM_ENVS)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
@pytest.mark.parametrize("engine", ["host", "brax"])
def test_mask__without_values_is_refused(engine: str, arrays: str) -> None:
    envs = shared_batch(engine, "Disabled", arrays=arrays)
    envs.reset(seed=0)
    for mask in _valueless(arrays):
        for name, call in (
            (
                r"options\['reset_mask'\]",
                lambda mask=mask: envs.reset(options={"reset_mask": mask}),
            ),
            ("mask", lambda mask=mask: envs.step_some(np.zeros(NUM_ENVS, int), mask)),
        ):
            with pytest.raises(ArgumentTypeError, match=f"`{name}` must (be a dense|hold bools)"):
                call()


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
