"""Trainers whose pins clash with `constraints.txt`; the leg `trainers` of `.ci/run` has them all.

Elsewhere a file is collected where its library is installed.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest

LIBRARIES = {
    "test_agilerl.py": "agilerl.training.train_on_policy",
    "test_evotorch.py": "evotorch.neuroevolution",
    "test_rejax.py": "rejax",
    "test_rl_games.py": "rl_games.torch_runner",
    "test_sbx.py": "sbx",
    "test_tianshou.py": "tianshou",
}
"""What each file imports, with warnings that are not ours."""


def is_importable(name: str) -> bool:
    """Import a library if it is installed."""
    if find_spec(name.partition(".")[0]) is None:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_module(name)
    return True


collect_ignore = [file for file, library in LIBRARIES.items() if not is_importable(library)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let these libraries warn as they like."""
    for item in items:
        if item.path.name in LIBRARIES:
            item.add_marker(pytest.mark.filterwarnings("ignore"))
