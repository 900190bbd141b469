"""The progress bar of `examples/ppo.py`."""

from __future__ import annotations

from types import ModuleType

import pytest
from ppo_script import LENGTHS, NUM_STEPS, TRUNCATES, load_ppo

from gymbridge.testing import scripted_vector_env

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")
tqdm = pytest.importorskip("tqdm").tqdm


@pytest.fixture
def ppo() -> ModuleType:
    """The script as a module."""
    return load_ppo()


class Bar(tqdm):
    """A progress bar that keeps its last line."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        bars.append(self)

    def close(self) -> None:
        self.last_line = str(self)
        super().close()


bars: list[Bar] = []


def train(ppo: ModuleType, monkeypatch: pytest.MonkeyPatch, **limits: float) -> tuple[Bar, list]:
    """Train on scripted episodes; return the bar and the progress."""
    bars.clear()
    envs = scripted_vector_env(LENGTHS, TRUNCATES)
    args = ppo.Args(num_envs=3, num_steps=NUM_STEPS, minibatches=1, last_episodes=3, **limits)
    envs = ppo.wrappers.NormalizeReward(ppo.wrappers.RecordEpisodeStatistics(envs, 3))
    torch.manual_seed(0)
    agent = ppo.Agent(envs.single_observation_space, envs.single_action_space)
    monkeypatch.setattr(ppo, "tqdm", Bar)
    progress = ppo.train(args, envs, agent)
    return bars[0], progress


def test_bar__begins_after_the_first_rollout_which_compiles(
    ppo: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def rollouts(*args):
        for rollout in ppo_rollouts(*args):
            calls.append(len(bars))
            yield rollout

    ppo_rollouts = ppo.rollouts
    monkeypatch.setattr(ppo, "rollouts", rollouts)
    bar, progress = train(ppo, monkeypatch, total_steps=40)
    assert calls == [0, 1, 1]
    assert [row[0] for row in progress] == [15, 30, 45]
    assert (bar.n, bar.total) == (45, 40)
    assert "solved" not in bar.last_line


def test_bar__is_full_where_the_task_is_solved(
    ppo: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    bar, progress = train(ppo, monkeypatch, total_steps=10_000, target_return=0.0)
    assert bar.n == bar.total == progress[-1][0] < 10_000
    assert bar.last_line.startswith("100%")
    assert bar.last_line.endswith(f"mean return {progress[-1][3]:.2f}, solved]")
