from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("brax")

import jax
import jax.numpy as jnp
from flax import struct
from flax.core import FrozenDict

from gymbridge import BraxVectorEnv
from gymbridge.errors import ArgumentError, GymbridgeError
from gymbridge.jax_env.infos import make_info_selector
from tests.support.batches import to_kind
from tests.support.brax_samples import SampleEnv, count_on, start, under

RESERVED = ("episode", "final_obs", "final_info", "nonfinite", "randomization", "info", "_hidden")


@struct.dataclass
class Pose:
    """A part of the info that is a dataclass."""

    angle: Any
    joints: Any


@dataclasses.dataclass
class Pair:
    """Another one, which JAX knows by its registration alone."""

    left: Any
    right: Any


jax.tree_util.register_dataclass(Pair)


def _select(reset: Callable[[Any], Any], info_keys: Any = None) -> dict[str, Any]:
    """Return the infos of one environment's initial state."""
    key = jax.random.PRNGKey(0)
    return make_info_selector(jax.eval_shape(reset, key), info_keys)(reset(key))


def _select_of(info_keys: Any = None, **parts: Any) -> dict[str, Any]:
    """Return the infos of a state with these metrics and this info."""
    return _select(lambda rng: start(rng, **parts), info_keys)


def test_infos__of_reset_and_step_are_those_that_were_asked_for_with_masks() -> None:
    parts = {"metrics": {"speed": 1.5}, "info": {"steps": 3, "target": jnp.arange(4.0), "no": 1}}
    env = SampleEnv(lambda rng: start(rng, **parts))
    envs = BraxVectorEnv(env, 2, info_keys=["speed", "steps", "target"])
    names = {"speed", "steps", "target", "nonfinite"}
    for infos in (envs.reset(seed=0)[1], envs.step([[0.0], [0.0]])[-1]):
        assert set(infos) == names | {f"_{name}" for name in names}
        np.testing.assert_array_equal(infos["speed"], np.full(2, 1.5, np.float32), strict=True)
        np.testing.assert_array_equal(infos["steps"], np.full(2, 3, np.int32), strict=True)
        target = np.tile(np.arange(4, dtype=np.float32), (2, 1))
        np.testing.assert_array_equal(infos["target"], target, strict=True)
        for name in names:
            np.testing.assert_array_equal(infos[f"_{name}"], np.ones(2, bool), strict=True)


METRICS, INFO = dict.fromkeys(RESERVED, 1.0), dict.fromkeys(RESERVED, 2.0)
PLACES = {
    "names of their own": ({"speed": 1.0}, {"steps": 2}, {"speed": 1.0, "steps": 2}),
    "metrics with reserved names": (METRICS, {}, {"info": METRICS}),
    "infos with reserved names": ({}, INFO, {"info": INFO}),
    "both with reserved names": (METRICS, INFO, {"info": {**INFO, "metrics": METRICS}}),
    "both with one name": ({"speed": 1.0}, {"speed": 2.0}, {"speed": 1.0, "info": {"speed": 2.0}}),
    "nested dicts": ({}, {"a": {"b": FrozenDict(c=1.0)}}, {"a": {"b": {"c": 1.0}}}),
    "dataclass": (
        {},
        {"pose": Pose(angle=2.0, joints=[5, 6])},
        {"pose": {"angle": 2.0, "joints": {"0": 5, "1": 6}}},
    ),
    "registered dataclass": ({}, {"pair": Pair(1.0, 2)}, {"pair": {"left": 1.0, "right": 2}}),
}


@pytest.mark.parametrize(("metrics", "info", "infos"), PLACES.values(), ids=PLACES)
def test_infos__are_flat_but_for_names_with_another_meaning(
    metrics: dict[str, Any], info: dict[str, Any], infos: dict[str, Any]
) -> None:
    assert _select_of(metrics=metrics, info=info) == infos


def test_infos__a_frozen_info_may_hold_the_envs_own_truncation() -> None:
    def step(state: Any, action: jax.Array) -> Any:
        cut = action[0]
        return count_on(state, action, done=jnp.ones(()), info=FrozenDict(truncation=cut))

    env = SampleEnv(lambda rng: start(rng, info=FrozenDict(truncation=0.0)), step)
    envs = BraxVectorEnv(env, 2)
    envs.reset(seed=0)
    _, _, terminations, truncations, infos = envs.step([[0.0], [1.0]])
    assert (terminations.tolist(), truncations.tolist()) == ([True, False], [False, True])
    assert infos["truncation"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("info_keys", [None, "all"])
def test_prng_keys__stay_inside(info_keys: Any) -> None:
    def reset(rng: jax.Array) -> Any:
        typed = jax.random.wrap_key_data(rng)
        several = {"raw": jax.random.split(rng, 3), "typed": jax.random.split(typed, 3)}
        return start(rng, info={"raw": rng, "typed": typed, "several": several, "n": 1.0})

    assert _select(reset, info_keys) == {"n": 1.0}


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_prng_keys__that_are_typed_run_on_and_restart_with_the_episode(mode: str) -> None:
    def reset(rng: jax.Array) -> Any:
        return start(rng, info={"rng": jax.random.wrap_key_data(rng)})

    def step(state: Any, action: jax.Array) -> Any:
        rng, draw = jax.random.split(state.info["rng"])
        reward = jax.random.uniform(draw)
        return count_on(state, action, reward=reward, done=action[0], info={"rng": rng})

    envs, still = BraxVectorEnv(SampleEnv(reset, step), 3, autoreset_mode=mode), np.zeros((3, 1))
    envs.reset(seed=[5, 5, 6])
    first, second = (envs.step(still)[1] for _ in range(2))
    assert first[0] == first[1] != first[2]
    assert not np.isin(second, first).any()
    envs.reset(seed=5, options=under(3, 0))
    again = envs.step(still)[1]
    assert again[0] == first[0]
    assert not np.isin(again[1:], [*first, *second]).any()
    envs.step([[0.0], [1.0], [0.0]])
    if mode == "NextStep":
        envs.step(still)
    assert not np.isin(envs.step(still)[1][1], [*first, *second, *again]).any()


def _sized(*sizes: int) -> dict[str, Any]:
    """Return float32 vectors of so many bytes, named in order."""
    return {f"v{index}": jnp.zeros(size // 4) for index, size in enumerate(sizes)}


def test_info_keys__by_default_hold_a_kilobyte_metrics_first() -> None:
    assert set(_select_of(info=_sized(1024))) == {"v0"}
    assert set(_select_of(info=_sized(1028))) == set()
    sizes = _sized(1024, 1000, 500, 20)
    assert set(_select_of(metrics={"speed": 1.0}, info=sizes)) == {"speed", "v1", "v3"}


def test_info_keys__all_holds_everything() -> None:
    found = _select_of("all", metrics={"speed": 1.0}, info=_sized(1024, 4096))
    assert set(found) == {"speed", "v0", "v1"}


@pytest.mark.parametrize("kind", [list, tuple, set])
def test_info_keys__as_a_list_are_what_is_carried(kind: Any) -> None:
    info = {"deep": {"a": 1.0, "b": 2.0}, "near": 3.0}
    parts = {"metrics": {"speed": 1.0, "near": 2.0}, "info": info}
    assert _select_of(kind(["deep"]), **parts) == {"deep": info["deep"]}
    assert _select_of(kind(["near"]), **parts) == {"near": 2.0, "info": {"near": 3.0}}
    assert _select_of(kind([]), **parts) == {}


@pytest.mark.parametrize(
    ("name", "hint"), [("sped", "did you mean 'speed'"), ("rng", "PRNG keys are never infos")]
)
def test_info_keys__that_name_a_key_or_nothing_are_refused(name: str, hint: str) -> None:
    env = SampleEnv(lambda rng: start(rng, metrics={"speed": 1.0}, info={"rng": rng}))
    with pytest.raises(ArgumentError, match=f"`info_keys` has '{name}'.*{hint}"):
        BraxVectorEnv(env, info_keys=["speed", name])


@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_summed_infos__add_up_over_repeated_steps_as_rewards_do(arrays: str) -> None:
    pytest.importorskip(arrays)

    class Metered(SampleEnv):
        """The metric is the number of the step, and the third ends the episode."""

        def reset(self, rng: Any) -> Any:
            return start(rng, metrics={"last": jnp.zeros(()), "sum": jnp.zeros(())})

        def step(self, state: Any, action: Any) -> Any:
            count = state.metrics["last"] + 1
            after = count_on(state, action, metrics={"last": count, "sum": count})
            return after.replace(reward=count, done=jnp.where(count >= 3, 1.0, 0.0))

    options: dict[str, Any] = {"arrays": arrays, "action_repeat": 2, "summed_infos": ["sum"]}
    envs = BraxVectorEnv(Metered(), 2, autoreset_mode="Disabled", **options)
    envs.reset(seed=0)
    for last, total in ((2, 3), (3, 3)):
        _, rewards, *_, infos = envs.step(to_kind(np.zeros((2, 1), np.float32), arrays))
        found = [float(values[0]) for values in (rewards, infos["sum"], infos["last"])]
        assert found == [total, total, last]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("reward", "must be a list of names"),
        (["rewrad"], "must name infos of numbers, got 'rewrad'"),
    ],
)
def test_summed_infos__that_are_none_are_refused(names: Any, message: str) -> None:
    with pytest.raises(GymbridgeError, match=message):
        BraxVectorEnv("fast", 2, summed_infos=names)
