"""Settings that every test shares."""

from __future__ import annotations

import os
import signal
import threading

# Before any import of jax: tests run on the CPU, and compiled physics is kept between runs.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.expanduser("~/.cache/gymbridge/jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
# Most of a run is XLA's compilation, and what is compiled runs shortly. The slow leg of `.ci/run`
# compiles as users do.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import pytest
from hypothesis import Phase, settings
from system_libraries import NEEDED, check_libraries

settings.register_profile("gymbridge", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("gymbridge")
# For `mutmut run`: that a test fails is enough, its example need not be small.
settings.register_profile("mutants", settings(phases=[Phase.explicit, Phase.generate]))

REQUIRE = "--require-system-libraries"

MODES = ("NextStep", "SameStep", "Disabled")


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Each autoreset mode, by its value."""
    return request.param


@pytest.fixture(params=("torch", "jax"))
def arrays(request: pytest.FixtureRequest) -> str:
    """The kinds of arrays that stay on a device, where their library is installed."""
    pytest.importorskip(request.param)
    return request.param


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of the slow leg, in which no test is skipped."""
    text = "fail tests whose system libraries are missing, instead of skipping them"
    parser.addoption(REQUIRE, action="store_true", help=text)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Look for the system libraries of a marked test."""
    for marker in NEEDED:
        if item.get_closest_marker(marker):
            check_libraries(marker, is_required=item.config.getoption(REQUIRE))


@pytest.fixture(autouse=True)
def _sigint() -> None:
    """Let Ctrl-C reach Python, whatever an engine of an earlier test has done to the signal."""
    if threading.current_thread() is threading.main_thread():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
