"""The soak finds batches that drift, and passes those that do not."""

from __future__ import annotations

import re

import pytest

from tests.support.python_runs import run_python

BARS = {"Leaks": ["growth"], "Compiles": ["compilations"], "Differs": ["is_equal"]}


SOAK = ("-m", "tests.support.soak")
CASE = re.compile(r"(\S+) %, (\d+) compilations, equal: (\w+), passed: (\w+)$", re.MULTILINE)


def broken_bars(growth: str, compilations: str, is_equal: str) -> list[str]:
    is_broken = {
        "growth": float(growth) >= 1,
        "compilations": int(compilations) > 0,
        "is_equal": is_equal == "False",
    }
    return [name for name, broken in is_broken.items() if broken]


@pytest.mark.slow
def test_soak__fails_where_a_bar_is_broken() -> None:
    # In fewer steps a process of 50 MB still warms up, by more than one percent.
    sizes = ("--steps=10000", "--modes=Disabled", "--arrays=numpy")
    ids = [f"tests.support.soak_samples:{name}-v0" for name in BARS]
    failed = run_python(*SOAK, *sizes, "--env-ids", *ids, code=1)
    cases = CASE.findall(failed.out)
    assert [broken_bars(*case[:3]) for case in cases] == [*BARS.values()]
    assert [case[1] for case in cases] == ["0", "1", "0"]
    assert {case[3] for case in cases} == {"False"}


@pytest.mark.slow
@pytest.mark.long
def test_soak__passes_batches_that_stay_as_they_are() -> None:
    ids = ("EnvPool/CartPole-v1", "Brax/fast-v0")
    sizes = ("--steps=1500", "--modes=SameStep", "--arrays=numpy")
    printed = run_python(*SOAK, *sizes, "--env-ids", *ids)
    for line, name in zip(printed.lines, ids, strict=True):
        assert re.match(rf"{name}, \d+ environments, SameStep, numpy: 1,500 steps, ", line)
        assert line.endswith("passed: True")
