"""The device under test, which is the CPU in a dry run, and its names in torch and JAX."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

NEEDED = ("brax", "envpool", "matplotlib", "rsl_rl", "skrl", "torch", "torchrl", "tqdm")

# None is imported here: `pytest -m gpu tests/gpu` comes here before it has taken back the variables
# of a run on the CPU, and JAX reads these when it is imported.
if missing := [name for name in NEEDED if not find_spec(name)]:
    pytest.skip(f"the tests for a GPU need {', '.join(missing)}", allow_module_level=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Show unknown warnings of CUDA's libraries, which fail other tests, instead of failing."""
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """The device as a user names it: "cuda", or "cpu" in a dry run."""
    return request.config.getoption("--gpu-device")


@pytest.fixture
def is_cuda(device: str) -> bool:
    """Whether this is no dry run."""
    return device.startswith("cuda")


@pytest.fixture
def torch_device(device: str) -> Any:
    """The device as torch knows it, with its index."""
    import torch

    return torch.empty(0, device=device).device


@pytest.fixture
def jax_device(device: str) -> Any:
    """The device as JAX knows it."""
    from gymbridge.core.arrays.jax_devices import find_jax_device
    from gymbridge.core.devices import read_device

    return find_jax_device(read_device(device))
