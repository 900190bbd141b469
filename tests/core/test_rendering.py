"""Rendering in the core: what is asked for, what is on show, and that a step draws nothing."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from gymbridge import BridgeVectorEnv
from gymbridge.core.episode import View
from gymbridge.core.rendering import read_view
from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
    BusyError,
    ClosedError,
    ResetNeededError,
)
from gymbridge.testing.scripted import ScriptedSimulator
from tests.support.player import calls

LENGTHS = [[2, 3], [1, 4], [3, 1]]


def make(mode: str = "NextStep", size: tuple[int, int] | None = None) -> BridgeVectorEnv:
    simulator = ScriptedSimulator(LENGTHS)
    return BridgeVectorEnv(simulator, autoreset_mode=mode, view=View(size, None))


def on_show(frames: Any) -> list[tuple[int, int]]:
    """Return step and episode of each environment, as the script draws them."""
    return [(int(frame[0, 0, 0]), int(frame[0, 0, 1])) for frame in frames]


def test_render__shows_the_observation_and_episode_that_were_returned_last(mode: str) -> None:
    envs, episodes = make(mode), np.zeros(3, int)
    for obs, *_, infos in (call.found for call in calls(envs, 6, seed=0)):
        episodes = np.where(infos["_script"], infos["script"]["episode"], episodes)
        assert on_show(envs.render()) == [*zip(obs, episodes, strict=True)]
    assert max(episodes) > 1


def test_render__gives_frames_of_their_own() -> None:
    envs = make(size=(6, 5))
    envs.reset(seed=0)
    frames = envs.render()
    assert isinstance(frames, tuple)
    assert [(frame.shape, frame.dtype) for frame in frames] == [((5, 6, 3), np.uint8)] * 3
    frames[0][:] = 99
    assert on_show(frames)[1:] == [(0, 0)] * 2
    assert on_show(envs.render()) == [(0, 0)] * 3


def test_render__is_never_called_by_a_step(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    envs, calls = make(mode), []
    renderer = envs._renderer
    assert renderer is not None
    draw = renderer.draw
    monkeypatch.setattr(renderer, "draw", lambda state: calls.append(state) or draw(state))
    envs.reset(seed=0)
    envs.step([0, 0, 0])
    envs.reset(seed=1)
    assert not calls
    envs.render()
    assert len(calls) == 1


def test_render__needs_a_render_mode() -> None:
    envs = BridgeVectorEnv(ScriptedSimulator(LENGTHS))
    envs.reset(seed=0)
    assert envs.render_mode is None
    with pytest.raises(ArgumentError, match="built with `render_mode='rgb_array'`"):
        envs.render()
    assert envs.call("render") == (None,) * 3
    assert envs.step([0, 0, 0])[0].tolist() == [1, 1, 1]


def test_render__needs_episodes_and_an_open_batch_of_its_own() -> None:
    envs = make()
    with pytest.raises(ResetNeededError, match="`render` needs running episodes"):
        envs.render()
    envs.reset(seed=0)
    with envs._one_thread, pytest.raises(BusyError):
        envs.render()
    renderer: Any = envs._renderer
    envs.close()
    assert renderer.is_closed
    with pytest.raises(ClosedError):
        envs.render()


def test_close__goes_on_where_the_renderer_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = make()
    renderer: Any = envs._renderer
    simulator: Any = envs._simulator
    monkeypatch.setattr(renderer, "close", lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        envs.close()
    assert envs.closed
    assert simulator.closed
    envs.close()


def test_render__is_an_attribute_of_the_environments() -> None:
    envs = make()
    envs.reset(seed=0)
    assert envs.render_mode == "rgb_array"
    assert envs.get_attr("render_mode") == ("rgb_array",) * 3
    assert on_show(envs.call("render")) == [(0, 0)] * 3
    with pytest.raises(ArgumentError, match="fixed when the batch is built"):
        envs.set_attr("render_mode", None)
    copy: Any = pickle.loads(pickle.dumps(envs))
    copy.reset(seed=0)
    assert on_show(copy.render()) == [(0, 0)] * 3


def test_read_view__takes_sizes_and_cameras_of_both_kinds() -> None:
    assert read_view(None, None, None) is None
    assert read_view("rgb_array", None, None) == View(None, None)
    assert read_view("rgb_array", [np.int64(64), 48], "side") == View((64, 48), "side")
    assert read_view("rgb_array", (4096, 1), np.int64(-1)) == View((4096, 1), -1)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (("human", None, None), ArgumentError, "HumanRendering"),
        ((3, None, None), ArgumentError, "None or 'rgb_array', got 3"),
        ((None, (4, 4), None), ArgumentError, r"`render_size` needs `render_mode='rgb_array'`"),
        ((None, None, 0), ArgumentError, "`camera` needs `render_mode='rgb_array'`, got 0"),
        (("rgb_array", 64, None), ArgumentTypeError, r"must be \(width, height\), got 64"),
        (("rgb_array", (64, 48, 3), None), ArgumentTypeError, r"must be \(width, height\)"),
        (("rgb_array", "64", None), ArgumentTypeError, r"must be \(width, height\)"),
        (("rgb_array", (64.0, 48), None), ArgumentTypeError, "`render_size` must be an int"),
        (("rgb_array", (0, 48), None), ArgumentError, "`render_size` must be at least 1, got 0"),
        (("rgb_array", (4097, 48), None), ArgumentError, "at most 4096 pixels"),
        (("rgb_array", (48, 10**9), None), ArgumentError, "at most 4096 pixels"),
        (("rgb_array", None, 1.0), ArgumentTypeError, "`camera` must be an int"),
        (("rgb_array", None, True), ArgumentTypeError, "`camera` must be an int"),
    ],
)
def test_read_view__names_the_rule(
    given: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read_view(*given)
