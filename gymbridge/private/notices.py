"""Hides the notices of engines and their libraries when they are imported or describe a task.

Other threads print and warn at the same time. `contextlib.redirect_stdout` and
`warnings.catch_warnings` replace `sys.stdout` and the list of filters: of two such blocks, the one
that ends last brings back what the other had put there. Here entries are added to lists, in one
operation each, and taken out of the same lists.
"""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

__all__ = ["QuietLoader", "quiet"]

_FILTERS: tuple[Any, ...] = tuple(
    ("ignore", re.compile(message), category, None, 0)
    for message, category in (
        ("Brax System, .* are not actively being maintained", UserWarning),
        ("JAXopt is no longer maintained", DeprecationWarning),
        # EnvPool has some bounds of 32-bit floats in 64 bits.
        (".*Box (low|high)'s precision lowered", UserWarning),
    )
)
"""As in `warnings.filters`."""

_PRINTS = "mujoco.mjx.warp"
_LINES = ("Failed to import warp:", "Failed to import mujoco_warp:")
"""That module prints these where Warp, which Brax does not use, is not installed."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide these notices inside the block; anything else that is printed or warned passes."""
    filters: Any = warnings.filters
    finder = _Finder()
    filters[:0] = _FILTERS
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for entry in _FILTERS:
            with contextlib.suppress(ValueError):  # `warnings.resetwarnings` empties the list
                filters.remove(entry)


class _Finder(MetaPathFinder):
    """Finds the module of MJX that prints, and lets it do so by a function of ours."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == _PRINTS else None
        if spec is None or type(spec.loader) is not SourceFileLoader:
            return None
        spec.loader = QuietLoader(spec.loader.name, spec.loader.path)
        return spec


class QuietLoader(SourceFileLoader):
    """Runs a module whose notices are not printed."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module with another `print`, which leaves the notices out."""
        vars(module)["print"] = _print_others
        super().exec_module(module)
        del vars(module)["print"]


def _print_others(*values: Any, **options: Any) -> None:
    if not str(values[0] if values else "").startswith(_LINES):
        print(*values, **options)
