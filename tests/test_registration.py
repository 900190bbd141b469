"""Ids of both engines: what is registered, and what `gymnasium.make_vec` makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec, load_env_creator, registry
from gymnasium.vector import AutoresetMode, VectorEnv
from trees import assert_same

import gymbridge
from gymbridge.brax.tasks import BRAX_NAMES
from gymbridge.envpool import tasks as envpool_tasks
from gymbridge.envpool.tasks import load_tasks
from gymbridge.errors import ArgumentError, UnknownTaskError
from gymbridge.registration import brax_id, envpool_id, register_all

SAMPLES = {
    "EnvPool/CartPole-v1": 500,
    "EnvPool/MetaWorld.Reach-v3": 500,
    "EnvPool/MiniGrid-Empty-5x5-v0": 100,
    "EnvPool/Catch-v0": None,
    "Brax/fast-v0": 1000,
}
"""Ids with their limits; cheap to describe, and all but MetaWorld's cheap to run."""

RUNNING = tuple(env_id for env_id in SAMPLES if "MetaWorld" not in env_id)


def make_vec(env_id: str | EnvSpec, **kwargs: Any) -> VectorEnv:
    """Return `gymnasium.make_vec` of it; skip the test where its engine is not installed."""
    name = env_id if isinstance(env_id, str) else env_id.id
    pytest.importorskip(name.split(":")[-1].split("/")[0].lower())
    return gym.make_vec(env_id, **kwargs)


def play(envs: VectorEnv, num_steps: int = 12) -> list[Any]:
    """Return what a run shows."""
    envs.action_space.seed(5)
    log: list[Any] = [envs.reset(seed=4)]
    log += [envs.step(envs.action_space.sample()) for _ in range(num_steps)]
    return log


def run_python(code: str) -> str:
    """Return what a fresh process prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ids__of_brax_are_all_registered() -> None:
    for name in BRAX_NAMES:
        spec = gym.spec(brax_id(name))
        assert spec.vector_entry_point == "gymbridge.brax:BraxVectorEnv"
        assert spec.entry_point == "gymbridge.single_env:make_brax"
        assert (spec.max_episode_steps, spec.kwargs) == (1000, {"brax_env": name})


def test_ids__of_brax_are_those_of_brax() -> None:
    pytest.importorskip("brax")
    from brax import envs as brax_envs

    assert {*BRAX_NAMES} == {*brax_envs._envs}


def test_ids__of_envpool_are_all_registered() -> None:
    tasks = load_tasks()
    single = {task_id: task for task_id, task in tasks.items() if task["max_num_players"] == 1}
    assert len(single) > 1600
    for task_id, task in single.items():
        spec = gym.spec(envpool_id(task_id))
        assert spec.vector_entry_point == "gymbridge.envpool:EnvPoolVectorEnv"
        assert spec.entry_point == "gymbridge.single_env:make_envpool"
        assert spec.max_episode_steps == task["max_episode_steps"]
        assert spec.kwargs == {"task_id": task_id}


def test_ids__are_no_others() -> None:
    playable = [name for name, task in load_tasks().items() if task["max_num_players"] == 1]
    expected = {*map(envpool_id, playable)} | {*map(brax_id, BRAX_NAMES)}
    assert len(expected) == len(playable) + len(BRAX_NAMES), "a dot made two ids one"
    assert expected == {name for name in registry if name.startswith(("EnvPool/", "Brax/"))}


@pytest.mark.parametrize("engine", ["brax", "envpool"])
def test_entry_points__exist(engine: str) -> None:
    pytest.importorskip(engine)
    spec = gym.spec({"brax": "Brax/fast-v0", "envpool": "EnvPool/CartPole-v1"}[engine])
    vector_class = load_env_creator(spec.vector_entry_point)  # type: ignore[arg-type]
    assert vector_class in (
        getattr(gymbridge, name) for name in ("BraxVectorEnv", "EnvPoolVectorEnv")
    )
    assert callable(load_env_creator(spec.entry_point))  # type: ignore[arg-type]


def test_shipped_tasks__are_those_of_the_installed_envpool() -> None:
    """After an upgrade: ``python -m gymbridge.envpool.tasks``."""
    pytest.importorskip("envpool")
    assert envpool_tasks.generate() == envpool_tasks._DATA.read_text(encoding="utf-8")


def test_registering__twice_is_harmless_and_keeps_what_a_user_registered() -> None:
    own = gym.spec("Brax/ant-v0")
    registry["Brax/ant-v0"] = changed = EnvSpec("Brax/ant-v0", kwargs={"brax_env": "mine"})
    before = dict(registry)
    try:
        register_all()
        assert registry == before
        assert registry["Brax/ant-v0"] is changed
    finally:
        registry["Brax/ant-v0"] = own


@pytest.mark.parametrize("env_id", SAMPLES)
def test_make_vec__gives_the_tasks_own_limit(env_id: str) -> None:
    envs = make_vec(env_id, num_envs=3)
    assert envs.spec is not None
    assert envs.spec.id == env_id
    assert envs.spec.max_episode_steps == envs.unwrapped.max_episode_steps == SAMPLES[env_id]
    assert envs.num_envs == 3
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP


@pytest.mark.parametrize("env_id", RUNNING)
@pytest.mark.parametrize("autoreset_mode", ["SameStep", AutoresetMode.NEXT_STEP])
def test_make_vec__rebuilds_an_equal_batch_from_its_spec(env_id: str, autoreset_mode: Any) -> None:
    kwargs = {"max_episode_steps": 5, "autoreset_mode": autoreset_mode}
    first = make_vec(env_id, num_envs=3, **kwargs)
    second = make_vec(first.spec)
    assert second.spec == first.spec
    assert second.num_envs == 3
    assert second.spec.max_episode_steps == 5
    assert (
        json.loads(first.spec.to_json())["kwargs"]["autoreset_mode"] == first.autoreset_mode.value
    )
    assert second.autoreset_mode == first.autoreset_mode == AutoresetMode(autoreset_mode)
    assert second.max_episode_steps == 5
    log = play(first)
    assert_same(play(second), log)
    assert any(shown[3].any() for shown in log[1:])


def test_make_vec__rebuilds_from_the_spec_as_json() -> None:
    envs = make_vec("EnvPool/CartPole-v1", num_envs=2, autoreset_mode="Disabled", num_threads=1)
    again = make_vec(EnvSpec.from_json(envs.spec.to_json()))
    assert (again.autoreset_mode, again.num_envs) == (AutoresetMode.DISABLED, 2)
    assert again.get_attr("config")[0].num_threads == 1


def test_make_vec__hands_keywords_to_the_engine_and_names_unknown_ones() -> None:
    envs = make_vec("EnvPool/HalfCheetah-v5", num_envs=2, frame_skip=3, info_keys=["x_position"])
    assert envs.get_attr("config")[0].frame_skip == 3
    assert envs.get_attr("spec") == (envs.spec, envs.spec)
    with pytest.raises(ArgumentError, match=r"keyword argument 'frame_skips' .*'frame_skip'"):
        make_vec("EnvPool/HalfCheetah-v5", num_envs=2, frame_skips=3)


@pytest.mark.parametrize(
    ("env_id", "shape"), [("EnvPool/CartPole-v1", (2, 4)), ("Brax/fast-v0", (2, 2))]
)
def test_make_vec__imports_the_package_by_the_prefix_of_the_id(
    env_id: str, shape: tuple[int, ...]
) -> None:
    pytest.importorskip(env_id.split("/")[0].lower())
    code = f"""
import gymnasium
envs = gymnasium.make_vec("gymbridge:{env_id}", num_envs=2)
obs, _ = envs.reset(seed=0)
print(obs.shape, envs.spec.id)
"""
    assert run_python(code).splitlines()[-1] == f"{shape} {env_id}"


def test_unknown_id__gets_gymnasiums_own_error() -> None:
    with pytest.raises(gym.error.NameNotFound, match=r"`CartPol` .*Did you mean: `CartPole`"):
        gym.make_vec("EnvPool/CartPol-v1")
    with pytest.raises(gym.error.VersionNotFound, match="`v7`"):
        gym.make_vec("EnvPool/CartPole-v7")
    with pytest.raises(gym.error.NameNotFound, match=r"`antt` .*Did you mean: `ant`"):
        gym.make("Brax/antt-v0")


@pytest.mark.parametrize("make", [gym.make, gym.make_vec])
def test_id__that_the_installed_envpool_lacks_is_told_with_its_version(make: Any) -> None:
    envpool = pytest.importorskip("envpool")
    env_id = "EnvPool/CartPole-v99"
    entries = {
        "entry_point": "gymbridge.single_env:make_envpool",
        "vector_entry_point": "gymbridge.envpool:EnvPoolVectorEnv",
    }
    gym.register(env_id, kwargs={"task_id": "CartPole-v99"}, **entries)
    try:
        with pytest.raises(UnknownTaskError, match=f"{envpool.__version__}, got 'CartPole-v99'"):
            make(env_id)
    finally:
        del registry[env_id]


def test_task_with_several_players__has_no_id_and_is_refused() -> None:
    pytest.importorskip("envpool")
    assert load_tasks()["TicTacToe-v1"]["max_num_players"] == 2
    with pytest.raises(gym.error.NameNotFound, match="TicTacToe"):
        gym.make_vec("EnvPool/TicTacToe-v1", num_envs=2)
    with pytest.raises(ArgumentError, match="must be a task with one player, got 'TicTacToe-v1'"):
        gymbridge.EnvPoolVectorEnv("TicTacToe-v1")


def test_registering__scans_the_registry_for_no_id() -> None:
    """`gymnasium.register` does, for each: that was nearly all of the time of the import."""
    code = """
import gymnasium
from gymnasium.envs import registration

calls = []
gymnasium.register = registration.register = lambda *args, **kwargs: calls.append(args)
import gymbridge
print(len(calls), "Brax/ant-v0" in gymnasium.registry, "EnvPool/CartPole-v1" in gymnasium.registry)
"""
    assert run_python(code).split() == ["0", "True", "True"]


def test_specs__are_those_that_gymnasium_would_register() -> None:
    """Also: no name has a version once and none another time, which `register` would refuse."""
    own = {name: spec for name, spec in registry.items() if name.startswith(("EnvPool/", "Brax/"))}
    versions: dict[Any, set[bool]] = {}
    for spec in own.values():
        versions.setdefault((spec.namespace, spec.name), set()).add(spec.version is None)
    assert all(len(kinds) == 1 for kinds in versions.values())
    for env_id in RUNNING:
        spec = registry.pop(env_id)
        try:
            gym.register(
                env_id,
                spec.entry_point,
                max_episode_steps=spec.max_episode_steps,
                vector_entry_point=spec.vector_entry_point,
                kwargs=spec.kwargs,
            )
            assert registry[env_id] == spec
        finally:
            registry[env_id] = spec


@pytest.mark.parametrize("env_id", ["EnvPool/CartPole-v1", "Brax/fast-v0"])
def test_make_vec__rebuilds_from_json_what_had_devices_and_numpy_s_numbers(env_id: str) -> None:
    torch = pytest.importorskip("torch")
    extra = {"num_threads": np.int64(1)} if "EnvPool" in env_id else {"action_repeat": np.int32(2)}
    first = make_vec(
        env_id,
        num_envs=np.int64(2),  # type: ignore[arg-type]
        arrays="torch",
        device=torch.device("cpu"),
        max_episode_steps=np.int64(7),
        info_keys=(),
        **extra,
    )
    second = make_vec(EnvSpec.from_json(first.spec.to_json()))
    assert second.spec == first.spec
    assert (second.num_envs, second.max_episode_steps, second.device) == (2, 7, first.device)
    actions = torch.as_tensor(np.zeros(first.action_space.shape, first.action_space.dtype))
    runs = [
        [envs.reset(seed=4)[0].numpy(), *(envs.step(actions)[0].numpy() for _ in range(9))]
        for envs in (first, second)
    ]
    assert_same(*runs)


def test_seeds__make_runs_of_make_vec_repeatable() -> None:
    envs = make_vec("EnvPool/CartPole-v1", num_envs=3)
    assert_same(play(envs, 60), play(make_vec("EnvPool/CartPole-v1", num_envs=3), 60))
    np.testing.assert_array_equal(envs.np_random_seed, [4, 5, 6])


@pytest.mark.parametrize("limit", [-1, 2**40])
@pytest.mark.parametrize("env_id", ["EnvPool/CartPole-v1", "Brax/fast-v0"])
def test_make_vec__rebuilds_a_batch_without_a_limit(env_id: str, limit: int) -> None:
    pytest.importorskip(env_id.split("/")[0].lower())
    first = make_vec(env_id, num_envs=2, max_episode_steps=limit)
    second = make_vec(first.spec)
    assert second.spec == first.spec
    assert second.unwrapped.max_episode_steps is first.unwrapped.max_episode_steps is None


@pytest.mark.parametrize("env_id", ["EnvPool/CartPole-v1", "Brax/fast-v0"])
def test_jax_device__is_a_keyword_of_both_makers(env_id: str) -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("envpool" if "EnvPool" in env_id else "brax")
    device = jax.devices()[0]
    envs = gym.make_vec(env_id, num_envs=2, arrays="jax", device=device)
    assert envs.device == device
    assert envs.spec is not None
    assert envs.spec.kwargs["device"] == "cpu:0"
    assert gym.make_vec(envs.spec, num_envs=2).unwrapped.device == device
    if "Brax" in env_id:
        gym.make(env_id, device=device)
