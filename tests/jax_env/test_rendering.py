"""What an environment in JAX draws itself, who is asked to draw, and Brax's viewer."""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from typing import Any

import jax
import mujoco
import numpy as np
import pytest
from mujoco import mjx

from gymbridge import BraxVectorEnv, PlaygroundVectorEnv
from gymbridge.core.episode import View
from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
    ClosedError,
    EnvContractError,
    KeywordError,
    ResetNeededError,
)
from gymbridge.jax_env.rendering import MujocoRenderer
from tests.support.batches import KINDS, MODES
from tests.support.brax_samples import SampleEnv
from tests.support.player import calls
from tests.support.playground_samples import SampleMjxEnv, make_config
from tests.support.scripted_brax import ScriptedBraxEnv


def scripted(**options: Any) -> Any:
    settings = {"num_envs": 3, "render_mode": "rgb_array"} | options
    return BraxVectorEnv(ScriptedBraxEnv([2, 3]), **settings)


@pytest.mark.parametrize(("mode", "kind"), [*zip(MODES, KINDS, strict=True)])
def test_render__is_the_environments_own_of_the_state_on_show(mode: str, kind: str) -> None:
    envs = scripted(autoreset_mode=mode, arrays=kind)
    ends = 0
    for call in calls(envs, 5, seed=4):
        frames = envs.render()
        assert [frame.shape for frame in frames] == [(4, 8, 3)] * 3
        assert [int(frame[0, 0, 0]) for frame in frames] == call.found[0].tolist()
        ends += 0 if call.is_reset else (call.found[2] | call.found[3]).sum()
    assert ends


def test_render__gets_one_state_and_may_draw_into_one_buffer() -> None:
    seen: list[Any] = []
    buffer = np.zeros((2, 2, 3), np.uint8)

    def render(state: Any) -> np.ndarray:
        seen.append(state)
        buffer[:] += 1
        return buffer

    envs = BraxVectorEnv(SampleEnv(render=render), 2, render_mode="rgb_array")
    obs, _ = envs.reset(seed=0)
    assert [frame[0, 0, 0] for frame in envs.render()] == [1, 2], "frames are copies"
    assert [type(state).__name__ for state in seen] == ["State", "State"]
    assert [state.obs.tolist() for state in seen] == np.asarray(obs).tolist()
    assert all(isinstance(state.obs, jax.Array) for state in seen)


def test_render__that_gives_no_image_breaks_the_contract() -> None:
    wrong = [np.zeros((2, 2, 3)), np.zeros((2, 2), np.uint8), np.zeros((2, 2, 4), np.uint8), None]
    frames = iter(wrong)
    env = SampleEnv(render=lambda state: next(frames))
    envs = BraxVectorEnv(env, render_mode="rgb_array")
    obs, _ = envs.reset(seed=0)
    for _ in wrong:
        with pytest.raises(EnvContractError, match=r"`render` of SampleEnv.* must return"):
            envs.render()
    np.testing.assert_array_equal(envs.step(np.zeros((1, 1)))[0][:, 1], obs[:, 1])


def test_environment__that_nobody_can_draw_says_so() -> None:
    assert BraxVectorEnv(SampleEnv()).metadata["render_modes"] == []
    with pytest.raises(KeywordError, match=r"'render_mode' for SampleEnv.*`render\(state\)`"):
        BraxVectorEnv(SampleEnv(), render_mode="rgb_array")


@pytest.mark.parametrize("view", [{"render_size": (8, 8)}, {"camera": 0}])
def test_environment__that_draws_itself_decides_how(view: dict[str, Any]) -> None:
    name = next(iter(view))
    with pytest.raises(KeywordError, match=f"argument '{name}' for ScriptedBraxEnv.*draws itself"):
        scripted(**view)


def test_metadata__has_the_frames_of_a_second_that_were_simulated() -> None:
    def fps(dt: Any, **options: Any) -> int:
        env = SampleEnv(render=lambda state: None, **({} if dt is None else {"dt": dt}))
        return BraxVectorEnv(env, **options).metadata["render_fps"]

    assert fps(0.02) == 50
    assert fps(0.02, action_repeat=4) == 12
    assert fps(np.float32(40)) == 1
    assert fps(None) == fps("unknown") == fps(0) == fps(-1) == fps(math.inf) == 30


def test_snapshot__of_a_batch_without_frames_fits_one_with() -> None:
    """Frames of one batch do not depend on what another one has drawn."""
    envs, plain, other = scripted(), scripted(render_mode=None), scripted()
    for batch in (plain, other):
        batch.reset(seed=0)
    plain.step([0, 0, 0])
    envs.set_state(plain.get_state())
    assert envs.render()[0][0, 0, 0] == 1
    assert other.render()[0][0, 0, 0] == 0


def read_page(page: str) -> dict[str, Any]:
    """Return the trajectory in a page of Brax's viewer."""
    found = re.search(r'var system = "([^"]+)"', page)
    assert found is not None
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


@pytest.fixture(scope="module")
def pendulums() -> BraxVectorEnv:
    return BraxVectorEnv("inverted_pendulum", 2, backend="spring")


def test_html__shows_the_current_state_and_lists_of_snapshots(pendulums: BraxVectorEnv) -> None:
    pendulums.reset(seed=3)
    states, bodies = [], []
    for step in range(4):
        states.append(pendulums.get_state())
        bodies.append(states[-1].leaves["state.pipeline_state.x.pos"])
        pendulums.step(np.full((2, 1), step / 4, np.float32))
    page = read_page(pendulums.render_html(states, index=1))
    np.testing.assert_array_equal(
        [x["pos"] for x in page["states"]["x"]], [np.asarray(body)[1] for body in bodies]
    )
    assert page["opt"]["timestep"] == pytest.approx(pendulums.call("dt")[0])
    assert page["link_names"] == ["cart", "pole"]
    now = read_page(pendulums.render_html(height=300))
    leaf = pendulums.get_state().leaves["state.pipeline_state.x.rot"]
    assert [x["rot"] for x in now["states"]["x"]] == [np.asarray(leaf)[0].tolist()]
    assert "height: 300px" in pendulums.render_html(height=300)


class Bodies(SampleMjxEnv):
    """It draws where its world and its ball are, in MJX's data."""

    mj_model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><joint/><geom size='.1'/></body></worldbody></mujoco>"
    )

    def __init__(self) -> None:
        super().__init__(make_config(), mjx.put_model(self.mj_model))

    def reset(self, rng: jax.Array) -> Any:
        data = mjx.make_data(self.mjx_model)
        places = {name: jax.random.uniform(rng, getattr(data, name).shape) for name in BODIES}
        return super().reset(rng).replace(data=data.replace(**places))


BODIES = ("xpos", "xquat")


def test_html__shows_mjxs_bodies_without_the_world() -> None:
    envs = PlaygroundVectorEnv(Bodies(), 2)
    envs.reset(seed=0)
    leaves = envs.get_state().leaves
    (body,) = read_page(envs.render_html(index=1))["states"]["x"]
    for found, name in zip((body["pos"], body["rot"]), BODIES, strict=True):
        np.testing.assert_array_equal(found, np.asarray(leaves[f"state.data.{name}"])[1, 1:])


def test_html__names_the_rule(pendulums: BraxVectorEnv) -> None:
    pendulums.reset(seed=3)
    state = pendulums.get_state()
    for arguments, options, error, message in [
        (([],), {}, ArgumentError, "at least one snapshot"),
        ((state,), {}, ArgumentTypeError, "list of what `get_state` returned, got Snapshot"),
        (([1],), {}, ArgumentTypeError, "`state` must be what `get_state` returned, got int"),
        ((), {"index": 2}, ArgumentError, "`index` must be below 2, got 2"),
        ((), {"height": 0}, ArgumentError, "`height` must be at least 1"),
    ]:
        with pytest.raises(error, match=message):
            pendulums.render_html(*arguments, **options)
    other = BraxVectorEnv("inverted_pendulum", 3, backend="spring")
    with pytest.raises(ResetNeededError, match="`render_html` needs running episodes"):
        other.render_html()
    with pytest.raises(ArgumentError, match="num_envs"):
        other.render_html([state])
    other.close()
    with pytest.raises(ClosedError):
        other.render_html([state])


def test_html__needs_physics() -> None:
    envs = scripted()
    envs.reset(seed=0)
    with pytest.raises(ArgumentError, match="needs a MuJoCo model, and ScriptedBraxEnv"):
        envs.render_html()


def test_camera__that_the_model_lacks_is_named_before_anything_is_drawn() -> None:
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><camera name='track'/></worldbody></mujoco>"
    )
    for camera in (-2, 1, 10**9):
        with pytest.raises(ArgumentError, match=rf"cameras \['track'\], got {camera}\."):
            MujocoRenderer(model, View(None, camera))
    with pytest.raises(ArgumentError, match=r"got 'trac'; did you mean 'track'\?"):
        MujocoRenderer(model, View(None, "trac"))
    with pytest.raises(ArgumentError, match=r"cameras \[\], got 0\."):
        BraxVectorEnv("inverted_pendulum", 2, backend="spring", render_mode="rgb_array", camera=0)
    assert View(None, "track") == (None, "track")
