"""What OpenGL draws of physics: equal to the engines' own frames, and safe beside one another."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym
import jax
import mujoco
import numpy as np
import pytest
from brax.io import image

from gymbridge import BraxVectorEnv, EnvPoolVectorEnv
from gymbridge.core.episode import View
from gymbridge.core.opengl import make_context
from gymbridge.errors import ArgumentError
from gymbridge.jax_env.env import Drawn
from gymbridge.jax_env.rendering import MujocoRenderer
from tests.support.player import play

pytestmark = [
    pytest.mark.needs_opengl,
    pytest.mark.filterwarnings("ignore:.*Box (low|high)'s precision:UserWarning"),
]

RGB = {"render_mode": "rgb_array"}


@pytest.fixture(autouse=True)
def as_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw by the library that upstream's renderers use, too."""
    from mujoco.rendering.classic import gl_context

    context = type(make_context())
    monkeypatch.setattr(gl_context, "GLContext", context, raising=False)


@pytest.fixture(scope="module")
def cheetahs() -> BraxVectorEnv:
    return BraxVectorEnv("halfcheetah", 2, backend="spring", **RGB)


def physics_rows(envs: Any) -> list[Any]:
    """Return the physics of each environment of a batch in JAX."""
    rows = envs._runner.unpack(envs._carry).state.rows
    state = envs._simulator.env.unflatten(rows.leaves)
    return [jax.tree.map(lambda leaf, row=row: leaf[row], state) for row in range(envs.num_envs)]


@pytest.mark.parametrize("camera", [-1, "track", 0, None])
def test_brax__is_drawn_as_by_its_own_function(cheetahs: BraxVectorEnv, camera: Any) -> None:
    envs = BraxVectorEnv("halfcheetah", 2, backend="spring", camera=camera, **RGB)
    play(cheetahs, 3)
    envs.set_state(cheetahs.get_state())
    system = cheetahs.call("sys")[0]
    named = None if camera == -1 else "track"
    for frame, row in zip(envs.render(), physics_rows(cheetahs), strict=True):
        assert (frame.shape, frame.dtype) == ((240, 320, 3), np.uint8)
        expected = image.render_array(system, row.pipeline_state, camera=named)
        np.testing.assert_array_equal(frame, expected)


@pytest.mark.parametrize("size", [(17, 9), (1000, 700)])
def test_size__may_be_beyond_the_models_buffer(size: tuple[int, int]) -> None:
    envs = BraxVectorEnv("inverted_pendulum", backend="spring", render_size=size, **RGB)
    play(envs, 1)
    frame, system = envs.render()[0], envs.call("sys")[0]
    model = copy.copy(system.mj_model)
    model.vis.global_.offwidth, model.vis.global_.offheight = 1000, 700
    renderer, data = mujoco.Renderer(model, size[1], size[0]), mujoco.MjData(model)
    (row,) = physics_rows(envs)
    data.qpos, data.qvel = row.pipeline_state.q, row.pipeline_state.qd
    mujoco.mj_forward(model, data)
    renderer.update_scene(data)
    np.testing.assert_array_equal(frame, renderer.render())
    renderer.close()


def test_drawn_physics__are_seen() -> None:
    def lift(sys: Any, key: jax.Array) -> dict[str, jax.Array]:
        return {"body_pos": sys.body_pos + jax.random.uniform(key, (3,))}

    envs = BraxVectorEnv("inverted_pendulum", 2, backend="mjx", randomization_fn=lift, **RGB)
    envs.reset(seed=0)
    model = envs.call("sys")[0].mj_model
    renderer, own = mujoco.Renderer(model), model.body_pos.copy()
    for frame, row in zip(envs.render(), physics_rows(envs), strict=True):
        model.body_pos[:] = row.physics["body_pos"]
        data = mujoco.MjData(model)
        data.qpos, data.qvel = row.state.pipeline_state.q, row.state.pipeline_state.qd
        mujoco.mj_forward(model, data)
        renderer.update_scene(data)
        np.testing.assert_array_equal(frame, renderer.render())
        model.body_pos[:] = own
    renderer.close()
    assert (envs.render()[0] != envs.render()[1]).any()


def test_tensors__are_drawn_alike(cheetahs: BraxVectorEnv) -> None:
    options = {"arrays": "torch", "differentiable": True}
    play(cheetahs, 2)
    envs = BraxVectorEnv("halfcheetah", 2, backend="spring", **options, **RGB)
    envs.set_state(cheetahs.get_state())
    for frame, other in zip(envs.render(), cheetahs.render(), strict=True):
        np.testing.assert_array_equal(frame, other)


def test_playground__is_drawn_as_by_its_own_function() -> None:
    envs: Any = gym.make_vec("Playground/CartpoleBalance-v0", num_envs=2, camera="fixed", **RGB)
    play(envs, 3)
    env = envs.call("unwrapped")[0]
    rows = physics_rows(envs.unwrapped)
    expected = env.render(rows, camera="fixed")
    for frame, other in zip(envs.render(), expected, strict=True):
        np.testing.assert_array_equal(frame, other)


def test_mocap__bodies_are_where_the_state_has_them() -> None:
    """The target of Playground's reacher tasks and arms is such a body."""
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><light pos='0 0 3'/>"
        "<body mocap='true'><geom type='box' size='.3 .1 .1'/></body>"
        "<body><joint type='slide'/><geom size='.1'/></body></worldbody></mujoco>"
    )

    class Physics:
        q, qd = np.zeros((3, 1)), np.zeros((3, 1))
        mocap_pos = np.array([[[0, 0, 0.0]], [[0, 0, 0.5]], [[0, 0, 0.0]]])
        mocap_quat = np.array([[[1, 0, 0, 0.0]], [[1, 0, 0, 0.0]], [[0.7, 0, 0.7, 0]]])

    low, high, turned = MujocoRenderer(model, View(None, None)).draw(Drawn(None, 3, Physics))
    assert (low != high).any()
    assert (low != turned).any()


@pytest.mark.parametrize(
    "task_id",
    [
        "HalfCheetah-v5",
        "CheetahRun-v1",
        "FetchReach-v1",
        "MetaWorld/Assembly-v3",
        "AlohaHandOver-v1",
    ],
)
def test_envpool__draws_each_family_of_mujocos(task_id: str) -> None:
    envs = EnvPoolVectorEnv(task_id, 2, render_size=(64, 48), **RGB)
    play(envs, 5)
    frames = envs.render()
    assert [frame.shape for frame in frames] == [(48, 64, 3)] * 2
    assert min(frame.std() for frame in frames) > 5


def test_envpool__draws_by_a_camera_of_the_model() -> None:
    envs = EnvPoolVectorEnv("FetchReach-v1", camera=np.int64(1), **RGB)
    play(envs, 2)
    frame, pool = envs.render()[0], envs._simulator.pool
    with pool.within():
        first, second = (pool.render(0, 0, camera)[0] for camera in (0, 1))
    np.testing.assert_array_equal(frame, second)
    assert (first != second).any()


def test_envpool__refuses_a_camera_that_the_model_lacks_and_goes_on() -> None:
    envs = EnvPoolVectorEnv("HalfCheetah-v5", camera=7, **RGB)
    play(envs, 1)
    with pytest.raises(ArgumentError, match=r"one of the model's cameras, or -1.*got 7"):
        envs.render()
    envs.step(envs.action_space.sample())


def test_batches__draw_beside_one_another_in_any_thread(cheetahs: BraxVectorEnv) -> None:
    pool = EnvPoolVectorEnv("HalfCheetah-v5", 2, **RGB)
    small = EnvPoolVectorEnv("HalfCheetah-v5", 2, render_size=(80, 60), **RGB)
    batches: list[Any] = [cheetahs, pool, small]
    for envs in batches:
        play(envs, 2)
    wanted = [envs.render() for envs in batches]

    def draw(number: int) -> list[Any]:
        return [batches[number].render() for _ in range(8)]

    for _ in range(2):  # in other threads than before
        with ThreadPoolExecutor(3) as threads:
            for expected, found in zip(wanted, threads.map(draw, range(3)), strict=True):
                for frames in found:
                    np.testing.assert_array_equal(np.stack(frames), np.stack(expected))


def test_renderer__of_another_library_goes_on_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gymnasium's makes its context current once; what ours do must neither drop nor reuse it."""
    monkeypatch.setenv("MUJOCO_GL", "egl")  # it would begin with GLFW
    other = gym.make("HalfCheetah-v5", render_mode="rgb_array")
    other.reset(seed=0)
    wanted: Any = other.render()
    assert wanted.std() > 1
    batches: list[Any] = [
        EnvPoolVectorEnv("HalfCheetah-v5", 2, **RGB),
        BraxVectorEnv("inverted_pendulum", backend="spring", **RGB),
    ]
    for envs in batches:
        for call in ("reset", "render", "reset", "render", "close"):
            getattr(envs, call)(**({"seed": 3} if call == "reset" else {}))
            np.testing.assert_array_equal(other.render(), wanted, err_msg=call)
    envs = EnvPoolVectorEnv("HalfCheetah-v5", **RGB)
    play(envs, 1)
    envs.render()
    del envs  # not closed
    np.testing.assert_array_equal(other.render(), wanted)
    other.close()


def test_renderers__come_and_go(cheetahs: BraxVectorEnv) -> None:
    system = cheetahs.call("sys")[0]
    drawn = Drawn(None, 1, type("Positions", (), {"q": system.init_q[None]}))
    frames = []
    for number in range(30):
        renderer = MujocoRenderer(system.mj_model, View(None, None))
        frames += renderer.draw(drawn)
        if number % 2:  # by hand, or as the end of the process releases it
            (renderer.close if number % 3 else renderer._release)()
            frames += renderer.draw(drawn)
        del renderer
    for frame in frames[1:]:
        np.testing.assert_array_equal(frame, frames[0])
