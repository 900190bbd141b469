"""`gymbridge list`, and the spaces that the package ships."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from gymnasium.envs.registration import EnvSpec, registry

from gymbridge.command_line import listing, main
from gymbridge.command_line.listing import find_entries
from gymbridge.engines import ENGINES, envpool_id
from gymbridge.envpool.tasks import is_newer, load_tasks
from tests.support.example_runs import load_script
from tests.support.terminals import run_in_terminal

UNKNOWN = [
    "Brax/swimmer-v0",
    "EnvPool/Mjlab-Tracking-Flat-Unitree-G1-No-State-Estimation-v0",
    "EnvPool/Mjlab-Tracking-Flat-Unitree-G1-v0",
    "EnvPool/VizdoomCustom-v1",
    "Playground/LeapCubeReorient-v0",
    "Playground/PandaRobotiqPushCube-v0",
]
"""VizdoomCustom needs a scenario, the trackers a recorded motion; the
engines cannot step the others with jax 0.10.2."""

SHIPPED = json.loads(listing.SPACES.read_text(encoding="utf-8"))

script: Any = load_script(Path(__file__).parents[2] / "docs" / "scripts" / "spaces.py")


def own_ids() -> list[str]:
    return [name for name in registry if name.partition("/")[0] in ENGINES]


def test_list__prints_one_line_for_each_id(capsys: Any) -> None:
    assert main(["list"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["id", "family", "limit", "action", "space", "observation", "space"]
    assert [line.split()[0] for line in lines] == own_ids()


def test_list__cuts_nothing_in_a_pipe(capsys: Any) -> None:
    assert main(["list", "envpool/tsp-"]) == 0
    _, line = capsys.readouterr().out.splitlines()
    assert line.endswith("trajectory: Box(-1, 19, (20,), int32))")


def test_list__fits_the_width_of_a_terminal() -> None:
    command = [sys.executable, "-m", "gymbridge", "list", "envpool/tsp-"]
    header, *lines = run_in_terminal(command, 50)[0].splitlines()
    assert len(header) <= 50
    assert lines[0].startswith("EnvPool/TSP-v1  jumanji ")
    assert len(lines[0]) == 50
    assert lines[1:] == ["", "1 id"]


def test_list__prints_json(capsys: Any) -> None:
    assert main(["list", "EnvPool/CartPole-v1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "id": "EnvPool/CartPole-v1",
            "family": "classic_control",
            "observation_space": "Box(-inf, inf, (4,), float32)",
            "action_space": "Discrete(2)",
            "max_episode_steps": 500,
        }
    ]


@pytest.mark.parametrize(
    ("pattern", "first", "are_all"),
    [
        ("brax/*PENDULUM", ["Brax/inverted_double_pendulum-v0", "Brax/inverted_pendulum-v0"], True),
        (
            "playground/reacher????-",
            ["Playground/ReacherEasy-v0", "Playground/ReacherHard-v0"],
            True,
        ),
        (
            "[xyz]axis-v0",
            [f"Playground/{name}CubeRotateZAxis-v0" for name in ("Leap", "Aero")],
            True,
        ),
        ("pusher-v0", ["Brax/pusher-v0"], False),
        ("ATLANTIS", ["EnvPool/Atlantis-v5", "EnvPool/Atlantis2-v5"], False),
        ("ant", ["Brax/ant-v0", "EnvPool/Ant-v3", "EnvPool/Ant-v4", "EnvPool/Ant-v5"], False),
        ("cheetah", ["Playground/CheetahRun-v0", "EnvPool/CheetahRun-v1"], False),
        ("hop", ["Playground/HopperHop-v0", "EnvPool/HopperHop-v1", "Brax/hopper-v0"], False),
    ],
)
def test_pattern__finds_words_then_beginnings_of_words_in_any_case(
    pattern: str, first: list[str], are_all: bool
) -> None:
    found = [entry.id for entry in find_entries(pattern)]
    assert found[: len(first)] == first
    assert not are_all or found == first


def test_pattern__inside_a_word_is_found_last() -> None:
    assert [entry.id for entry in find_entries("cheetah")][-1] == "Brax/halfcheetah-v0"


def test_pattern__matches_a_family() -> None:
    assert {entry.family for entry in find_entries("toy_text")} == {"toy_text"}
    assert {entry.id for entry in find_entries("dm_control")} > {"Playground/CheetahRun-v0"}


def test_list__exits_with_1_where_no_id_matches(capsys: Any) -> None:
    assert main(["list", "pongg"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("No id matches 'pongg'")


@pytest.mark.parametrize(("given", "shown"), [(None, 300), (7, 7)])
def test_list__has_the_limit_of_playground_s_own_configuration(
    given: int | None, shown: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = EnvSpec("Playground/SpotGetup-v0", kwargs={"env": "SpotGetup"}, max_episode_steps=given)
    monkeypatch.setitem(registry, spec.id, spec)
    assert [entry.max_episode_steps for entry in find_entries("playground/spotgetup")] == [shown]


def test_list__has_ids_of_the_user_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = EnvSpec("EnvPool/Own-v0", kwargs={"task_id": "Own-v0"}, max_episode_steps=7)
    monkeypatch.setitem(registry, spec.id, spec)
    assert find_entries("own-v0") == [listing.Entry(spec.id, None, None, None, 7)]


def test_shipped_spaces__are_of_every_id_but_the_unknown_ones() -> None:
    assert sorted([*SHIPPED, *UNKNOWN]) == sorted(own_ids())


@pytest.mark.parametrize("env_id", ["EnvPool/TSP-v1", "EnvPool/Pong-v5", "EnvPool/FrozenLake-v1"])
def test_shipped_spaces__are_the_engine_s(env_id: str) -> None:
    """After an upgrade: ``python docs/scripts/spaces.py``."""
    pytest.importorskip("envpool.registration")
    assert script.read_spaces(env_id) == SHIPPED[env_id]


@pytest.mark.slow
@pytest.mark.needs_qt5
@pytest.mark.filterwarnings("ignore")  # Gymnasium's, of tasks with a later version
def test_shipped_spaces__are_those_of_every_task_of_envpool() -> None:
    """Of those that the installed version has."""
    installed = pytest.importorskip("envpool").__version__
    newer = {
        envpool_id(name)
        for name, task in load_tasks().items()
        if is_newer(task.get("since", "1.2.5"), installed)
    }
    # Before 1.2.6, the wheel lacks the puzzles.
    newer |= set() if is_newer(installed, "1.2.5") else {"EnvPool/Sudoku-v0"}
    spaces = SHIPPED.items()
    shipped = {k: v for k, v in spaces if k.startswith("EnvPool/") and k not in newer}
    assert len(shipped) > 1500
    assert {env_id: script.read_spaces(env_id) for env_id in shipped} == shipped


@pytest.mark.slow
@pytest.mark.parametrize(
    "env_id",
    ["Brax/ant-v0", "Brax/reacher-v0", "Playground/CheetahRun-v0", "Playground/Go1Getup-v0"],
)
def test_shipped_spaces__are_those_of_jax_engines(env_id: str) -> None:
    pytest.importorskip("mujoco_playground")
    assert script.read_spaces(env_id) == SHIPPED[env_id]
