"""``reset(options={"randomization": ...})``: physics that a user gives to an episode."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from gymbridge.errors import ArgumentError, ArgumentTypeError
from tests.support.batches import KINDS, MODES, to_kind, to_numpy
from tests.support.brax_samples import under
from tests.support.falling_ball import PATHS, Model, make_ball, play_values, shared_ball
from tests.support.trees import assert_same

NUM_ENVS = 4
SEED = 3
STILL = np.zeros((NUM_ENVS, 1), np.float32)
MASS = np.array([5, 6, 7, 8], np.float32)
GRAVITY = np.array([[0, 0, -z] for z in (1, 2, 3, 4)], np.float32)


def given(**values: Any) -> dict[str, Any]:
    """Return reset options with these physics."""
    return {"randomization": {PATHS[name == "mass"]: value for name, value in values.items()}}


def drawn(episode: int, path: str) -> np.ndarray:
    """Return what the rows draw in an episode."""
    rows = range(SEED, SEED + NUM_ENVS)
    return np.stack([play_values(seed, episode + 1)[episode][path] for seed in rows])


def check(infos: Any, **expected: Any) -> None:
    for name, values in expected.items():
        found = to_numpy(infos["randomization"][PATHS[name == "mass"]])
        np.testing.assert_allclose(found, values, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("mode", "kind"), [*zip(MODES, KINDS, strict=True)])
def test_given_physics__last_for_one_episode(mode: str, kind: str) -> None:
    envs = shared_ball(NUM_ENVS, autoreset_mode=mode, arrays=kind, max_episode_steps=2)
    still = to_kind(STILL, kind)
    values = given(mass=to_kind(MASS.copy(), kind), gravity=to_kind(GRAVITY.copy(), kind))
    before = to_numpy(values)
    check(envs.reset(seed=SEED, options=values)[1], mass=MASS, gravity=GRAVITY)
    assert_same(to_numpy(values), before)
    if kind != "jax":  # what was given stays the user's
        for leaf in values["randomization"].values():
            leaf[:] = 93
    check(envs.step(still)[4], mass=MASS, gravity=GRAVITY)
    infos = envs.step(still)[4]
    if mode == "SameStep":
        check(infos["final_info"], mass=MASS, gravity=GRAVITY)
    else:
        check(infos, mass=MASS, gravity=GRAVITY)
        infos = envs.reset()[1] if mode == "Disabled" else envs.step(still)[4]
    check(infos, mass=drawn(1, "link.mass"), gravity=drawn(1, "gravity"))


def test_given_physics__take_the_place_of_some_leaves() -> None:
    envs = shared_ball(NUM_ENVS)
    _, infos = envs.reset(seed=SEED, options=given(mass=MASS))
    check(infos, mass=MASS, gravity=drawn(0, "gravity"))
    _, infos = envs.reset(seed=SEED, options={"randomization": {}})
    check(infos, mass=drawn(0, "link.mass"), gravity=drawn(0, "gravity"))


def test_given_physics__are_those_of_the_rows_under_the_mask() -> None:
    envs = shared_ball(NUM_ENVS, autoreset_mode="Disabled")
    before = envs.reset(seed=SEED)[0]
    ignored = np.where([False, True, False, True], MASS, np.nan)
    obs, infos = envs.reset(options={**under(NUM_ENVS, 1, 3), **given(mass=ignored)})
    assert infos["_randomization"].tolist() == [False, True, False, True]
    expected = np.where([False, True, False, True], MASS, drawn(0, "link.mass"))
    assert_same(obs[[0, 2]], before[[0, 2]])
    stepped = envs.step(STILL)[4]
    check(stepped, mass=expected)
    for returned, wanted in ((infos, [False, True, False, True]), (stepped, [True] * 4)):
        masks = (mask for key, mask in returned["randomization"].items() if key[0] == "_")
        assert [mask.tolist() for mask in masks] == [wanted] * 2


def test_given_and_drawn_physics__act_as_the_model_of_the_environment() -> None:
    envs = shared_ball(NUM_ENVS, autoreset_mode="Disabled")
    begun, infos = envs.reset(seed=SEED, options=given(mass=MASS))
    link = Model().link._replace(mass=MASS[2])
    model = Model(infos["randomization"]["gravity"][2], link)
    plain = make_ball(NUM_ENVS, model=model, randomization_fn=None)
    assert_same(begun, plain.reset(seed=SEED)[0])
    for _ in range(3):
        (obs, *_), (expected, *_) = (batch.step(STILL + 0.5) for batch in (envs, plain))
        np.testing.assert_allclose(obs[2], expected[2], rtol=1e-5)
        assert not np.allclose(obs[3], expected[3], rtol=1e-3)


def test_given_physics__may_be_lists_and_other_numbers() -> None:
    envs = shared_ball(NUM_ENVS)
    _, infos = envs.reset(seed=0, options=given(mass=[1, 2, 3, 4], gravity=GRAVITY.astype(int)))
    check(infos, mass=[1, 2, 3, 4], gravity=GRAVITY)
    assert infos["randomization"]["link.mass"].dtype == np.float32


BAD = [
    (given(mass=MASS[:3]), ArgumentError, r"\['link.mass'\]` must have shape \(4,\), got \(3,\)"),
    (given(mass=3.0), ArgumentError, r"must have shape \(4,\), got \(\)"),
    (given(gravity=GRAVITY[0]), ArgumentError, r"must have shape \(4, 3\), got \(3,\)"),
    (given(mass=[1, 2, np.nan, 4]), ArgumentError, "must be finite as float32"),
    (given(mass=[1, 2, 1e300, 4]), ArgumentError, "must be finite as float32"),
    (given(mass=["a", "b", "c", "d"]), ArgumentTypeError, "must be castable to float32, got <U1"),
    (given(mass=MASS > 5), ArgumentTypeError, "must be castable to float32, got bool"),
    (given(mass=None), ArgumentTypeError, "must be castable to float32, got object"),
    (given(mass=[[1], [2, 3], 4, 5]), ArgumentTypeError, "must be an array"),
    (
        given(mass=torch.ones(NUM_ENVS, requires_grad=True)),
        ArgumentTypeError,
        "must be an array, .*requires grad",
    ),
    ({"randomization": {"mass": MASS}}, ArgumentError, "is not a leaf.*'link.mass'"),
    ({"randomization": {("link", "mass"): MASS}}, ArgumentError, "is not a leaf"),
    ({"randomization": MASS}, ArgumentTypeError, "must be a dict from .*, got ndarray"),
    ({"randomization": None}, ArgumentTypeError, "must be a dict from .*, got NoneType"),
    ({"randomisation": {"link.mass": MASS}}, ArgumentError, "did you mean 'randomization'"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD)
def test_bad_physics__raise_and_change_nothing(
    options: Any, error: type[Exception], message: str
) -> None:
    envs = shared_ball(NUM_ENVS, autoreset_mode="SameStep")
    envs.reset(seed=SEED)
    expected = [to_numpy(envs.step(STILL)) for _ in range(6)]
    envs.reset(seed=SEED)
    found = [to_numpy(envs.step(STILL)) for _ in range(2)]
    before = copy.deepcopy(options)
    for mask in ({}, under(NUM_ENVS, 1, 2)):
        with pytest.raises(error, match=message):
            envs.reset(seed=9, options={**options, **mask})
    assert str(options) == str(before)
    assert envs.np_random_seed == tuple(range(SEED, SEED + NUM_ENVS))
    found += [to_numpy(envs.step(STILL)) for _ in range(4)]
    assert_same(found, expected)


def test_option__of_a_batch_without_randomization_is_unknown() -> None:
    envs = make_ball(NUM_ENVS, randomization_fn=None)
    with pytest.raises(ArgumentError, match="unknown key 'randomization'"):
        envs.reset(options=given(mass=MASS))
