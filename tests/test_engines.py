"""Ids of both engines: what is registered, and what `gymnasium.make_vec` makes of it."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from brax import envs as brax_envs
from gymnasium.envs.registration import EnvSpec, load_env_creator, registry
from gymnasium.vector import AutoresetMode

import gymbridge
from gymbridge.brax.tasks import BRAX_NAMES
from gymbridge.core.extras import read_extras
from gymbridge.engines import ENGINES, envpool_id, register_all
from gymbridge.envpool import newer
from gymbridge.envpool.tasks import load_tasks
from gymbridge.playground.tasks import PLAYGROUND_SUITES
from tests.support.example_runs import load_script
from tests.support.player import play
from tests.support.trees import assert_same

SAMPLES = {
    "EnvPool/CartPole-v1": 500,
    "EnvPool/MetaWorld.Reach-v3": 500,
    "EnvPool/MiniGrid-Empty-5x5-v0": 100,
    "EnvPool/Catch-v0": None,
    "Brax/fast-v0": 1000,
}
"""Ids with their limits; cheap to describe, and all but MetaWorld's cheap to run."""

RUNNING = tuple(env_id for env_id in SAMPLES if "MetaWorld" not in env_id)


def test_ids__are_those_of_every_supported_task() -> None:
    tasks = {
        name: task
        for name, task in load_tasks().items()
        if f"{name}-v0" not in load_tasks()
        and not (task["max_num_players"] > 1 and task["family"] == "mujoco.locomotion")
    }
    assert len(tasks) > 1700
    limits = {
        name: None if "BabyAI-" in name else task["max_episode_steps"]
        for name, task in tasks.items()
    }
    engines = [
        ("envpool", "EnvPoolVectorEnv", envpool_id, "task_id", limits),
        ("brax", "BraxVectorEnv", "Brax/{}-v0".format, "brax_env", dict.fromkeys(BRAX_NAMES, 1000)),
        (
            "playground",
            "PlaygroundVectorEnv",
            "Playground/{}-v0".format,
            "env",
            dict.fromkeys(
                chain.from_iterable(PLAYGROUND_SUITES.values())
            ),  # The user's configuration has it.
        ),
    ]
    expected = [
        EnvSpec(
            make_id(name),
            f"gymbridge.single_env:make_{engine}",
            max_episode_steps=limit,
            vector_entry_point=f"gymbridge.{engine}:{batch}",
            kwargs={keyword: name},
        )
        for engine, batch, make_id, keyword, limits in engines
        for name, limit in limits.items()
    ]
    assert sorted(own_specs().values(), key=str) == sorted(expected, key=str)


def own_specs() -> dict[str, EnvSpec]:
    """Return what is registered under the package's namespaces."""
    return {
        name: spec
        for name, spec in registry.items()
        if name.startswith(("EnvPool/", "Brax/", "Playground/"))
    }


@pytest.mark.parametrize("name", ENGINES)
def test_row__names_what_exists(name: str) -> None:
    """The class of the batch is imported by other tests; Playground's takes long."""
    engine = ENGINES[name]
    assert engine.extra in read_extras()
    assert all(callable(load_env_creator(path)) for path in (engine.entry_point, engine.bare_step))
    assert gymbridge.__all__.count(engine.vector_entry_point.partition(":")[2]) == 1


def test_single_env__has_functions_of_engines_alone() -> None:
    with pytest.raises(AttributeError, match="single_env' has no attribute 'make_gym'"):
        load_env_creator("gymbridge.single_env:make_gym")


def test_ids__of_brax_are_those_of_brax() -> None:
    assert {*BRAX_NAMES} == {*brax_envs._envs}


def test_shipped_tasks__are_those_of_the_installed_envpool() -> None:
    """After an upgrade: ``python docs/scripts/envpool_tasks.py``."""
    script = load_script(Path(__file__).parents[1] / "docs" / "scripts" / "envpool_tasks.py")
    assert script.generate() == script.DATA.read_text(encoding="utf-8")


def test_tasks__of_a_newer_envpool_are_listed_once_and_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = newer.list_tasks("99.1.0")
    assert found["CartPole-v1"] == {**load_tasks()["CartPole-v1"], "since": "99.1.0"}
    monkeypatch.setattr(newer.subprocess, "run", None)
    assert newer.list_tasks("99.1.0") == found
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "gymbridge" / "envpool-99.1.0.json"))
    assert newer.list_tasks("99.1.0") == {}


def test_registering__again_keeps_what_a_user_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """`gymnasium.register` would look through all ids for each: it is not called."""
    missing = gym.spec("EnvPool/CartPole-v1")
    monkeypatch.setitem(registry, "Brax/ant-v0", EnvSpec("Brax/ant-v0", kwargs={"brax_env": "own"}))
    before = dict(registry)
    monkeypatch.delitem(registry, missing.id)
    monkeypatch.setattr(gym.envs.registration, "register", None)
    monkeypatch.setattr(gym, "register", None)
    register_all()
    assert registry == before


@pytest.mark.parametrize("env_id", SAMPLES)
def test_make_vec__gives_the_tasks_own_limit(env_id: str) -> None:
    envs = gym.make_vec(env_id, num_envs=3)
    assert envs.spec is not None
    assert envs.spec.id == env_id
    assert envs.spec.max_episode_steps == envs.unwrapped.max_episode_steps == SAMPLES[env_id]
    assert envs.num_envs == 3
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP


@pytest.mark.parametrize("env_id", RUNNING)
@pytest.mark.parametrize(
    ("arrays", "autoreset_mode", "given", "limit"),
    [
        ("torch", "SameStep", np.int64(5), 5),
        ("jax", AutoresetMode.NEXT_STEP, -1, None),
        ("jax", AutoresetMode.NEXT_STEP, 2**40, None),
    ],
)
def test_make_vec__rebuilds_an_equal_batch_from_its_spec(
    env_id: str, arrays: str, autoreset_mode: Any, given: Any, limit: int | None
) -> None:
    """With a device and numbers of numpy's, which JSON does not know."""
    if arrays == "torch":
        device: Any = pytest.importorskip("torch").device("cpu")
    else:
        (device, *_) = pytest.importorskip("jax").devices()
    first = gym.make_vec(
        env_id,
        num_envs=np.int64(3),  # type: ignore[arg-type]
        max_episode_steps=given,
        autoreset_mode=autoreset_mode,
        arrays=arrays,
        device=device,
        info_keys=(),
        **{"num_threads" if "EnvPool" in env_id else "action_repeat": np.int64(2)},
    )
    in_json = first.spec.to_json()
    assert json.loads(in_json)["kwargs"]["autoreset_mode"] == first.autoreset_mode.value
    log = play(first, 12)
    assert any(returned[3].any() for returned in log[1:]) == (limit == 5)
    for spec in (first.spec, EnvSpec.from_json(in_json)):
        second = gym.make_vec(spec)
        assert second.spec == first.spec
        assert second.spec.kwargs["device"] == {"torch": "cpu", "jax": "cpu:0"}[arrays]
        assert (second.num_envs, second.unwrapped.max_episode_steps) == (3, limit)
        assert second.autoreset_mode == AutoresetMode(autoreset_mode)
        assert second.device == first.device == device
        assert_same(play(second, 12), log)


def test_make_vec__hands_keywords_to_the_engine() -> None:
    envs = gym.make_vec("EnvPool/HalfCheetah-v5", 2, frame_skip=3, info_keys=["x_position"])
    assert envs.get_attr("config")[0].frame_skip == 3
    assert envs.get_attr("spec") == (envs.spec, envs.spec)


def test_unknown_id__gets_gymnasiums_own_error() -> None:
    with pytest.raises(gym.error.NameNotFound, match=r"`CartPol` .*Did you mean: `CartPole`"):
        gym.make_vec("EnvPool/CartPol-v1")
    with pytest.raises(gym.error.VersionNotFound, match="`v7`"):
        gym.make_vec("EnvPool/CartPole-v7")
    with pytest.raises(gym.error.NameNotFound, match=r"`antt` .*Did you mean: `ant`"):
        gym.make("Brax/antt-v0")


def test_specs__are_those_that_gymnasium_would_register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also: no name has a version once and none another time, which `register` would refuse."""
    versions: dict[Any, set[bool]] = {}
    for spec in own_specs().values():
        versions.setdefault((spec.namespace, spec.name), set()).add(spec.version is None)
    assert all(len(kinds) == 1 for kinds in versions.values())
    for env_id in RUNNING:
        spec = registry[env_id]
        monkeypatch.delitem(registry, env_id)
        gym.register(
            env_id,
            spec.entry_point,
            max_episode_steps=spec.max_episode_steps,
            vector_entry_point=spec.vector_entry_point,
            kwargs=spec.kwargs,
        )
        assert registry[env_id] == spec
