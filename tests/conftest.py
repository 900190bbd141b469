"""Settings that every test shares."""

from __future__ import annotations

import gc
import signal
import threading
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.support.gpu_runs import (
    FOLDER,
    find_obstacle,
    is_gpu_run,
    prepare_cpu_run,
    prepare_gpu_run,
)
from tests.support.system_libraries import NEEDED, check_libraries

SET_HERE = prepare_cpu_run()  # which `pytest_configure` takes back for a run on a GPU

settings.register_profile("gymbridge", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("gymbridge")
# For `mutmut run`: that a test fails is enough, its example need not be small.
settings.register_profile("mutants", settings(phases=[Phase.explicit, Phase.generate]))

REQUIRE, GPU_DEVICE = "--require-system-libraries", "--gpu-device"

_obstacle = cache(find_obstacle)

NEEDED_BY_MANY = (
    *("brax", "cv2", "envpool", "matplotlib", "moviepy", "mujoco_playground", "pandas", "rich"),
    *("rsl_rl", "skrl", "stable_baselines3", "tensorboard", "torch", "torchrl", "tqdm"),
)
if not all(map(find_spec, NEEDED_BY_MANY)):
    collect_ignore_glob = [
        *("functional/*", "gradients/*", "jax_env/test_[cv]*", "ppo_example/*"),
        *("trainers/sb3/*", "trainers/test_r[so]*", "trainers/test_[stv]*", "test_*examples.py"),
        *("test_opengl*", "test_run_all.py", "test_s[io]*.py", "test_scaling.py"),
        "test_throughput.py",
    ]

LONGEST_FIRST = (
    *("test_reproducibility.py", "test_warp.py", "test_dm_control.py", "test_proof.py"),
    *("test_mjx_solver.py", "test_families.py"),
    *("test_simulator_examples.py", "test_throughput.py", "test_sb3_examples.py"),
    *("test_trainer_examples.py", "test_oracle.py", "test_docs.py", "test_script.py"),
    *("test_list.py", "test_bench.py", "test_scaling.py", "test_resume.py"),
    *("test_physics_gradients.py", "test_randomized_models.py", "test_gradient_examples.py"),
)
"""Files that the slow leg begins with, so that neither of its processes waits for the other."""

COVERED_BY_OTHERS = (
    *("brax/test_oracle.py", "envpool/test_steps.py"),
    *("conformance/test_against_sync.py", "conformance/test_episodes.py"),
    *("conformance/test_gymnasium_rendering.py", "conformance/test_gymnasium_wrappers.py"),
    *("conformance/test_ownership.py", "conformance/test_results.py"),
    *("functional/test_diverged.py", "functional/test_randomization.py"),
    *("gradients/test_diverged.py", "gradients/test_gradients.py"),
    *("test_gradient_examples.py", "test_sb3_examples.py", "test_simulator_examples.py"),
    "test_trainer_examples.py",
)
"""Long files that run no line or branch of the package that no other file runs.

Their coverage is not measured, which takes a third of the time of a test. `tests/DURATIONS.md` says
how they were found.
"""

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


@pytest.fixture(params=("numpy", "torch", "jax"))
def kind(request: pytest.FixtureRequest) -> str:
    """Every kind of arrays whose library is installed."""
    pytest.importorskip(request.param)
    return request.param


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of the slow leg, in which no test is skipped, and that of the GPU's tests."""
    text = "fail tests whose system libraries are missing, instead of skipping them"
    parser.addoption(REQUIRE, action="store_true", help=text)
    text = (
        "device of the tests with the marker gpu: 'cuda' (default), 'cuda:1', or 'cpu' for a dry "
        "run of each test's first case, which shows that it runs and says nothing about a GPU"
    )
    parser.addoption(GPU_DEVICE, default="cuda", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Let `-m gpu` see the GPU; processes of pytest-xdist inherit the variables."""
    if is_gpu_run(config.option.markexpr, config.getoption(GPU_DEVICE)):
        prepare_gpu_run(SET_HERE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no other tests for `-m gpu`: to import them all takes a minute."""
    is_near = FOLDER.is_relative_to(collection_path) or collection_path.is_relative_to(FOLDER)
    return True if config.option.markexpr == "gpu" and not is_near else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with long files, pause coverage, and take the first case of each test of the GPU."""
    covered = {Path(__file__).parent / name for name in COVERED_BY_OTHERS}
    for item in items:
        if item.path in covered:
            item.add_marker("no_cover")
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
    if config.option.markexpr == "gpu" and config.getoption(GPU_DEVICE) == "cpu":
        first: dict[str, pytest.Item] = {}
        for item in items:
            first.setdefault(item.nodeid.partition("[")[0], item)
        config.hook.pytest_deselected(items=[item for item in items if item not in first.values()])
        items[:] = first.values()


def pytest_collection_finish() -> None:
    """Let garbage collections skip what is imported; `tests/DURATIONS.md` says what that saves."""
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
