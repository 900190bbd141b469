from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch

from gymbridge import BraxVectorEnv
from gymbridge.jax_env import compilation
from tests.support.brax_samples import SampleEnv, count_on, start, under
from tests.support.falling_ball import FallingBall, draw_batch, draw_weak
from tests.support.player import play

NUM_ENVS = 13
"""No other test has so many, so no small function is there already, compiled for its shapes."""


class TracedEnv(SampleEnv):
    """Counts how often Python runs its functions: each time, JAX traces them."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: Counter[str] = Counter()

    def reset(self, rng: jax.Array) -> Any:
        self.traces["reset"] += 1
        return start(rng, metrics={"speed": 0.0})

    def step(self, state: Any, action: jax.Array) -> Any:
        self.traces["step"] += 1
        return count_on(state, action, reward=1.0, done=1.0 * action[0], metrics={"speed": 2.0})


def _use_all(envs: BraxVectorEnv) -> None:
    """Reset in every way and step often, with ends and without."""
    rng = np.random.default_rng(0)
    envs.reset(seed=0)
    for _ in range(2):
        for seed in (None, 3, [*range(NUM_ENVS)], [None] * NUM_ENVS):
            for options in (None, under(NUM_ENVS, 0, 5), under(NUM_ENVS, *range(NUM_ENVS))):
                envs.reset(seed=seed, options=options)
                play(envs, 3, begins=False, act=lambda _: rng.integers(0, 2, (NUM_ENVS, 1)))


def _compilations(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the functions compiled since the last call, persistent cache or not."""
    texts = [text for text in caplog.messages if text.startswith("Compiling ")]
    caplog.clear()
    return [text.split("(")[1].split(")")[0] for text in texts]


@pytest.mark.parametrize(
    ("make_env", "mode", "options"),
    [
        (TracedEnv, "NextStep", {"nonfinite": "raise"}),
        (TracedEnv, "Disabled", {"nonfinite": "ignore"}),
        (TracedEnv, "SameStep", {"arrays": "jax"}),
        (FallingBall, "NextStep", {"randomization_fn": draw_batch}),
        (FallingBall, "SameStep", {"randomization_fn": draw_weak}),
    ],
)
def test_functions__are_traced_and_compiled_once(
    make_env: Any, mode: str, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    env, options = make_env(), {"max_episode_steps": 3, "action_repeat": 2, **options}
    envs = BraxVectorEnv(env, NUM_ENVS, autoreset_mode=mode, **options)
    traces, model = dict(env.traces), getattr(env, "sys", None)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        envs.reset(seed=0)
        found = [_compilations(caplog)]
        envs.step(np.zeros((NUM_ENVS, 1)))
        found.append(_compilations(caplog))
        envs.reset(options=under(NUM_ENVS, 3))
        found.append(_compilations(caplog))
        assert found == [["reset"], ["step"], ["reset"]]
        _use_all(envs)
        assert {*_compilations(caplog)} <= {"_fit_traced"}  # reads actions of another dtype
    assert env.traces == traces
    assert max(traces.values()) == 1 or model is not None
    assert getattr(env, "sys", None) is model


def _logged(caplog: pytest.LogCaptureFixture, level: str) -> list[str]:
    here = ("gymbridge", level)
    return [r.getMessage() for r in caplog.records if (r.name, r.levelname) == here]


@pytest.fixture
def keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No folder keeps what is compiled, and nothing was said of that yet."""
    monkeypatch.setattr(compilation, "_SAID", threading.Event())
    folder = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", folder)


@pytest.mark.usefixtures("keeps_nothing")
def test_log__says_once_how_to_keep_what_compiles_slowly(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs = BraxVectorEnv(SampleEnv(), NUM_ENVS, device="cpu")
    envs.reset(seed=0)
    assert _logged(caplog, "WARNING") == []
    monkeypatch.setattr(compilation, "_SLOW", 0.0)
    jax.jit(lambda x: x + NUM_ENVS)(1.0)  # the user's own
    assert _logged(caplog, "WARNING") == []
    for _ in range(2):
        envs.step(envs.action_space.sample())
    envs.reset()
    (found,) = _logged(caplog, "WARNING")
    wanted = r"Compiling step of SampleEnv \(backend none\), 13 environments on cpu took \d+ s\. "
    assert re.match(f"{wanted}.*JAX_COMPILATION_CACHE_DIR", found)


@pytest.mark.usefixtures("keeps_nothing")
def test_log__gives_no_advice_that_is_followed_already(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compilation, "_SLOW", 0.0)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    BraxVectorEnv(SampleEnv(), NUM_ENVS).reset(seed=0)
    assert _logged(caplog, "WARNING") == []


@pytest.mark.usefixtures("keeps_nothing")
def test_log__says_how_to_keep_a_backward_pass(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs = BraxVectorEnv(SampleEnv(), NUM_ENVS, arrays="torch", differentiable=True)
    envs.reset(seed=0)
    rewards = envs.step(torch.zeros(NUM_ENVS, 1, requires_grad=True))[1]
    monkeypatch.setattr(compilation, "_SLOW", 0.0)
    rewards.sum().backward()
    assert _logged(caplog, "WARNING")[0].startswith("Compiling a backward pass took ")


def test_log__announces_each_compilation_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gymbridge")
    options = {"arrays": "torch", "differentiable": True, "residuals": "recompute"}
    envs = BraxVectorEnv(SampleEnv(), NUM_ENVS, **options)
    assert _logged(caplog, "INFO") == []
    envs.reset(seed=0)
    actions = torch.zeros(NUM_ENVS, 1, requires_grad=True)
    for _ in range(3):
        envs.detach()
        envs.step(actions)[1].sum().backward()
    envs.unroll(torch.zeros(2, NUM_ENVS, 1))
    place = "SampleEnv (backend none), 13 environments on cpu. This can take a minute."
    assert _logged(caplog, "INFO") == [
        f"Compiling reset of {place}",
        f"Compiling step of {place}",
        "Compiling a backward pass. This can take minutes.",
        f"Compiling step of {place}",  # in the backward pass, which recomputes it
        f"Compiling unroll of {place}",
    ]
