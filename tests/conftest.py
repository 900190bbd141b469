"""Settings that every test shares."""

import gc
import signal
import threading
from functools import cache
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.support import gpu_runs
from tests.support.system_libraries import NEEDED, check_libraries

SET_HERE = gpu_runs.prepare_cpu_run()  # which `pytest_configure` takes back for a run on a GPU

settings.register_profile("gymbridge", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("gymbridge")
# For `mutmut run`: that a test fails is enough, its example need not be small.
settings.register_profile("mutants", settings(phases=[Phase.explicit, Phase.generate]))

REQUIRE, GPU_DEVICE = "--require-system-libraries", "--gpu-device"

_obstacle = cache(gpu_runs.find_obstacle)


@pytest.fixture(params=("NextStep", "SameStep", "Disabled"))
def mode(request: pytest.FixtureRequest) -> str:
    """Each autoreset mode, by its value."""
    return request.param


@pytest.fixture(params=("torch", "jax"))
def arrays(request: pytest.FixtureRequest) -> str:
    """The kinds of arrays that stay on a device, where their library is installed."""
    pytest.importorskip(request.param)
    return request.param


@pytest.fixture(params=("numpy", "torch", "jax"))
def kind(request: pytest.FixtureRequest) -> str:
    """Every kind of arrays whose library is installed."""
    pytest.importorskip(request.param)
    return request.param


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of the slow leg, in which no test is skipped, and that of the GPU's tests."""
    text = "fail tests whose system libraries are missing"
    parser.addoption(REQUIRE, action="store_true", help=text)
    text = (
        "device of the tests with the marker gpu: 'cuda' (default), 'cuda:1', or 'cpu' for a dry "
        "run of each test's first case, which shows that it runs and says nothing about a GPU"
    )
    parser.addoption(GPU_DEVICE, default="cuda", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Let `-m gpu` see the GPU; processes of pytest-xdist inherit the variables."""
    if gpu_runs.is_gpu_run(config.option.markexpr, config.getoption(GPU_DEVICE)):
        gpu_runs.prepare_gpu_run(SET_HERE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no other tests for `-m gpu`: to import them all takes a minute."""
    path, near = collection_path, gpu_runs.FOLDER
    is_far = not (near.is_relative_to(path) or path.is_relative_to(near))
    return (config.option.markexpr == "gpu" and is_far) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with long files, and take the first case of each test of the GPU."""
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in long)
    if config.option.markexpr == "gpu" and config.getoption(GPU_DEVICE) == "cpu":
        gpu_runs.keep_first_cases(config, items)


def pytest_collection_finish() -> None:
    """Let garbage collections skip what is imported, which saves a sixth of the time of tracing."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Look for the device or the system libraries of a marked test."""
    if item.get_closest_marker("gpu") and (why := _obstacle(item.config.getoption(GPU_DEVICE))):
        pytest.skip(why)
    for marker in NEEDED:
        if item.get_closest_marker(marker):
            check_libraries(marker, is_required=item.config.getoption(REQUIRE))


@pytest.fixture(autouse=True)
def _sigint() -> None:
    """Let Ctrl-C reach Python, whatever an engine of an earlier test has done to the signal."""
    if threading.current_thread() is threading.main_thread():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
