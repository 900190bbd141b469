"""A counter of the values that a program reads on the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

READERS = {
    "torch": ("__array__", "__bool__", "__float__", "__int__", "cpu", "item", "tolist"),
    "jax": (
        *("__array__", "__bool__", "__float__", "__int__", "__index__", "item", "tolist"),
        "block_until_ready",
    ),
}
"""Methods that fetch values or wait for them.

`Tensor.numpy` is left out, since the CPU's shares memory with it.
"""


def array_type(arrays: str) -> Any:
    if arrays == "torch":
        import torch

        return torch.Tensor
    from jax._src.array import ArrayImpl

    return ArrayImpl


@contextmanager
def count_reads(arrays: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count calls of the methods that fetch values to the host."""
    counter: Counter[str] = Counter()
    with monkeypatch.context() as patch:
        for name in READERS[arrays]:
            original = getattr(array_type(arrays), name)

            def read(
                self: Any, *args: Any, _name: str = name, _f: Any = original, **kw: Any
            ) -> Any:
                counter[_name] += 1
                return _f(self, *args, **kw)

            patch.setattr(array_type(arrays), name, read)
        if arrays == "jax":
            original = array_type(arrays)._value.fget

            def value(self: Any) -> Any:
                counter["_value"] += 1
                return original(self)

            patch.setattr(array_type(arrays), "_value", property(value))
            # These go by the buffer protocol.
            for name in ("array", "asarray", "ascontiguousarray"):
                patch.setattr(np, name, _count_jax(getattr(np, name), counter))
        yield counter


def _count_jax(function: Any, counter: Counter[str]) -> Any:
    def convert(source: Any, *args: Any, **kwargs: Any) -> Any:
        counter["numpy"] += isinstance(source, array_type("jax"))
        return function(source, *args, **kwargs)

    return convert
