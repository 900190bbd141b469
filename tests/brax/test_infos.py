from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

pytest.importorskip("brax")

import jax
import jax.numpy as jnp
from brax_samples import SampleEnv, count_on, start
from flax import struct
from flax.core import FrozenDict

from gymbridge import BraxVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError


@struct.dataclass
class Pose:
    """A part of the info that is a dataclass."""

    angle: Any
    joints: Any


def _env(**parts: Any) -> SampleEnv:
    """Return an environment whose metrics and info hold these values all the time."""
    return SampleEnv(lambda rng: start(rng, **parts))


def _names(infos: dict[str, Any]) -> set[str]:
    """Return the paths of all values, masks left out."""
    paths = set()
    for name, value in infos.items():
        if name.startswith("_") and name[1:] in infos:
            continue
        inner = {f"{name}/{path}" for path in _names(value)} if isinstance(value, dict) else {name}
        paths |= inner
    return paths


def _infos(env: SampleEnv, **kwargs: Any) -> dict[str, Any]:
    """Return the infos of a first reset."""
    return BraxVectorEnv(env, 2, nonfinite="ignore", **kwargs).reset(seed=0)[1]


@pytest.mark.parametrize("nonfinite", ["terminate", "raise", "ignore"])
def test_infos__of_reset_and_step_are_flat_with_masks(nonfinite: str) -> None:
    env = _env(metrics={"speed": 1.5}, info={"steps": 3, "target": jnp.arange(4.0)})
    envs = BraxVectorEnv(env, 2, nonfinite=nonfinite)
    names = {"speed", "steps", "target"} | ({"nonfinite"} if nonfinite != "ignore" else set())
    for infos in (envs.reset(seed=0)[1], envs.step([[0.0], [0.0]])[-1]):
        assert set(infos) == names | {f"_{name}" for name in names}
        np.testing.assert_array_equal(infos["speed"], np.full(2, 1.5, np.float32), strict=True)
        np.testing.assert_array_equal(infos["steps"], np.full(2, 3, np.int32), strict=True)
        target = np.tile(np.arange(4, dtype=np.float32), (2, 1))
        np.testing.assert_array_equal(infos["target"], target, strict=True)
        for name in names:
            np.testing.assert_array_equal(infos[f"_{name}"], np.ones(2, bool), strict=True)


def test_infos__follow_the_step_and_restart_with_the_episode() -> None:
    def step(state: Any, action: jax.Array) -> Any:
        steps = state.info["steps"] + 1
        done = (steps >= 2).astype(jnp.float32)
        parts = {"info": {"steps": steps}, "metrics": {"twice": 2 * steps}}
        return count_on(state, action, done=done, **parts)

    def reset(rng: jax.Array) -> Any:
        return start(rng, info={"steps": 0}, metrics={"twice": 0})

    envs = BraxVectorEnv(SampleEnv(reset, step), 1)
    envs.reset(seed=0)
    seen = [envs.step([[0.0]])[-1] for _ in range(4)]
    assert [infos["steps"].item() for infos in seen] == [1, 2, 0, 1]
    assert [infos["twice"].item() for infos in seen] == [2, 4, 0, 2]


def test_infos__of_same_step_are_the_new_episodes_and_the_last_ones_are_final() -> None:
    def step(state: Any, action: jax.Array) -> Any:
        steps = state.info["steps"] + 1
        return count_on(state, action, done=action[0], info={"steps": steps})

    env = SampleEnv(lambda rng: start(rng, info={"steps": 0}), step)
    envs = BraxVectorEnv(env, 2, autoreset_mode="SameStep")
    envs.reset(seed=0)
    infos = envs.step([[0.0], [1.0]])[-1]
    assert infos["steps"].tolist() == [1, 0]
    assert infos["final_info"]["steps"].tolist() == [0, 1]
    assert infos["final_info"]["_steps"].tolist() == [False, True]


def test_infos__nested_dicts_and_dataclasses_become_nested_dicts() -> None:
    pose = Pose(angle=jnp.float32(2), joints=[jnp.int32(5), jnp.int32(6)])
    infos = _infos(_env(info={"pose": pose, "deep": {"er": FrozenDict(most=1.0)}}))
    assert _names(infos) == {"pose/angle", "pose/joints/0", "pose/joints/1", "deep/er/most"}
    assert infos["pose"]["angle"].tolist() == [2.0, 2.0]
    assert infos["pose"]["joints"]["1"].tolist() == [6, 6]
    assert infos["deep"]["er"]["_most"].tolist() == [True, True]


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


@pytest.mark.parametrize(
    "name", ["episode", "final_obs", "final_info", "nonfinite", "randomization", "info", "_hidden"]
)
@pytest.mark.parametrize("source", ["metrics", "info"])
def test_infos__a_name_with_another_meaning_goes_under_info(source: str, name: str) -> None:
    infos = _infos(_env(**{source: {name: 7.0, "speed": 1.0}}))
    assert _names(infos) == {"speed", f"info/{name}"}
    assert infos["info"][name].tolist() == [7.0, 7.0]
    assert infos["_info"].tolist() == [True, True]


def test_infos__an_info_with_the_name_of_a_metric_goes_under_info() -> None:
    infos = _infos(_env(metrics={"speed": 1.0}, info={"speed": 2.0, "other": 3.0}))
    assert _names(infos) == {"speed", "info/speed", "other"}
    assert infos["speed"].tolist() == [1.0, 1.0]
    assert infos["info"]["speed"].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("name", ["episode", "info", "_hidden"])
def test_infos__a_metric_and_an_info_of_one_reserved_name_are_both_kept(name: str) -> None:
    infos = _infos(_env(metrics={name: 1.0}, info={name: 2.0}))
    assert _names(infos) == {f"info/metrics/{name}", f"info/{name}"}
    assert infos["info"]["metrics"][name].tolist() == [1.0, 1.0]
    assert infos["info"][name].tolist() == [2.0, 2.0]


def test_infos__the_flag_of_diverged_rows_is_never_the_envs_own() -> None:
    envs = BraxVectorEnv(_env(info={"nonfinite": 5.0}), 2)
    for infos in (envs.reset(seed=0)[1], envs.step([[0.0], [0.0]])[-1]):
        np.testing.assert_array_equal(infos["nonfinite"], np.zeros(2, bool), strict=True)
        assert infos["info"]["nonfinite"].tolist() == [5.0, 5.0]


KEYS = {
    "raw": lambda rng: rng,
    "typed": jax.random.wrap_key_data,
    "raw, several": lambda rng: jax.random.split(rng, 3),
    "typed, several": lambda rng: jax.random.split(jax.random.wrap_key_data(rng), 3),
}


@pytest.mark.parametrize("make_key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("info_keys", [None, "all"])
def test_infos__prng_keys_stay_inside(make_key: Any, info_keys: Any) -> None:
    def reset(rng: jax.Array) -> Any:
        return start(rng, info={"rng": make_key(rng), "inner": {"key": make_key(rng)}, "n": 1.0})

    assert _names(_infos(SampleEnv(reset), info_keys=info_keys)) == {"n"}


@pytest.mark.parametrize("make_key", [KEYS["raw"], KEYS["typed"]], ids=["raw", "typed"])
def test_prng_keys__run_on_and_restart_with_the_episode(make_key: Any, mode: str) -> None:
    def reset(rng: jax.Array) -> Any:
        return start(rng, info={"rng": make_key(rng)})

    def step(state: Any, action: jax.Array) -> Any:
        rng, draw = jax.random.split(state.info["rng"])
        reward = jax.random.uniform(draw)
        return count_on(state, action, reward=reward, done=action[0], info={"rng": rng})

    envs = BraxVectorEnv(SampleEnv(reset, step), 3, autoreset_mode=mode)
    envs.reset(seed=[5, 5, 6])
    first, second = (envs.step(np.zeros((3, 1)))[1] for _ in range(2))
    assert first[0] == first[1] != first[2]
    assert not np.isin(second, first).any()
    envs.reset(seed=5, options={"reset_mask": np.array([True, False, False])})
    again = envs.step(np.zeros((3, 1)))[1]
    assert again[0] == first[0]
    assert not np.isin(again[1:], [*first, *second]).any()
    envs.step([[0.0], [1.0], [0.0]])
    if mode == "Disabled":
        envs.reset(options={"reset_mask": np.array([False, True, False])})
    elif mode == "NextStep":
        envs.step(np.zeros((3, 1)))
    fresh = envs.step(np.zeros((3, 1)))[1]
    assert not np.isin(fresh[1], [*first, *second, *again]).any()


def _sized(*sizes: int) -> dict[str, Any]:
    """Return float32 vectors of so many bytes, named in order."""
    return {f"v{index}": jnp.zeros(size // 4) for index, size in enumerate(sizes)}


def test_info_keys__by_default_hold_a_kilobyte_metrics_first() -> None:
    assert _names(_infos(_env(info=_sized(1024)))) == {"v0"}
    assert _names(_infos(_env(info=_sized(1028)))) == set()
    env = _env(metrics={"speed": 1.0}, info=_sized(1024, 1000, 500, 20))
    assert _names(_infos(env)) == {"speed", "v1", "v3"}


def test_info_keys__all_holds_everything() -> None:
    env = _env(metrics={"speed": 1.0}, info=_sized(1024, 4096))
    assert _names(_infos(env, info_keys="all")) == {"speed", "v0", "v1"}


@pytest.mark.parametrize("kind", [list, tuple, set])
def test_info_keys__as_a_list_are_what_is_carried(kind: Any) -> None:
    info = {"deep": {"a": 1.0, "b": 2.0}, "near": 3.0}
    env = _env(metrics={"speed": 1.0, "near": 2.0}, info=info)
    assert _names(_infos(env, info_keys=kind(["deep"]))) == {"deep/a", "deep/b"}
    assert _names(_infos(env, info_keys=kind(["near"]))) == {"near", "info/near"}
    assert _names(_infos(env, info_keys=kind([]))) == set()


def test_info_keys__that_name_a_key_or_nothing_are_refused() -> None:
    env = SampleEnv(lambda rng: start(rng, metrics={"speed": 1.0}, info={"rng": rng}))
    with pytest.raises(ArgumentError, match=r"names 'sped'.*did you mean 'speed'"):
        BraxVectorEnv(env, info_keys=["speed", "sped"])
    with pytest.raises(ArgumentError, match=r"names 'rng'.*PRNG keys stay inside"):
        BraxVectorEnv(env, info_keys=["rng"])
    with pytest.raises(ArgumentTypeError, match="hold names, got 3"):
        BraxVectorEnv(env, info_keys=[3])


def test_infos__dataclasses_registered_by_hand_are_nested_too() -> None:
    @dataclasses.dataclass
    class Pair:
        left: Any
        right: Any

    jax.tree_util.register_dataclass(Pair)
    infos = _infos(_env(info={"pair": Pair(left=1.0, right=jnp.zeros(2))}))
    assert _names(infos) == {"pair/left", "pair/right"}
    assert infos["pair"]["right"].shape == (2, 2)
