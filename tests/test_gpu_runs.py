"""`-m gpu` sees a GPU, where it would skip its tests otherwise, and other runs do not."""

from __future__ import annotations

import os

import pytest

from tests.support.gpu_runs import FOLDER, prepare_cpu_run, prepare_gpu_run
from tests.support.python_runs import run_python


def test_variables__are_for_the_gpu_unless_they_were_set(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("JAX_PLATFORMS", "JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_PYTHON_CLIENT_PREALLOCATE")
    for name in (*names, "JAX_DEFAULT_MATMUL_PRECISION"):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    prepare_gpu_run(prepare_cpu_run())
    assert [os.environ.get(name) for name in names] == [None, None, "false"]
    monkeypatch.setenv("JAX_PLATFORMS", "cuda,cpu")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    prepare_gpu_run(prepare_cpu_run())
    assert [os.environ.get(name) for name in names] == ["cuda,cpu", None, "true"]


def test_conftest_of_the_gpu__leaves_jax_to_be_imported_with_the_variables_of_a_gpu() -> None:
    """`pytest -m gpu tests/gpu` imports it while those of a run on the CPU are set."""
    code = "import runpy, sys; runpy.run_path(sys.argv[1]); print('jax' in sys.modules)"
    assert run_python("-c", code, FOLDER / "conftest.py").lines == ["False"]
