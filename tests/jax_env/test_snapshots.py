"""A snapshot is all that a batch is, in memory and on disk, in every mode and kind of arrays."""

from __future__ import annotations

import importlib.metadata
import pickle
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gymbridge
from gymbridge import BraxVectorEnv
from gymbridge.errors import ArgumentError, ClosedError, ResetNeededError
from gymbridge.wrappers import RecordEpisodeStatistics
from tests.support.batches import KINDS, Cell, cells, make_batch, shared_batch, to_numpy
from tests.support.brax_samples import SampleEnv, start
from tests.support.falling_ball import make_ball
from tests.support.player import play
from tests.support.python_runs import run_python
from tests.support.trees import assert_same, scribble

run = partial(play, begins=False)


@pytest.mark.parametrize("cell", cells(("brax", "func_env")))
def test_snapshot__plays_the_same_again(cell: Cell, tmp_path: Path) -> None:
    envs = cell.batch()
    envs.reset(seed=[5, 1, 7, 7])
    before = run(envs, 5)[-1][0]
    state = envs.get_state()
    envs.save_state(tmp_path / "state")
    wanted = run(envs, 7)
    for restore in (envs.set_state, lambda _: envs.load_state(tmp_path / "state")):
        envs.reset(seed=99)
        run(envs, 2)
        assert_same(to_numpy(restore(state)), before)
        assert envs.np_random_seed == (5, 1, 7, 7)
        assert_same(run(envs, 7), wanted)
    assert any((log[2] | log[3]).any() for log in wanted if len(log) == 5)


def test_snapshot__goes_into_another_kind_of_arrays(mode: str, tmp_path: Path) -> None:
    kinds = [shared_batch("brax", mode, limit=4, arrays=kind) for kind in KINDS]
    for envs, after in zip(kinds, kinds[1:] + kinds[:1], strict=True):
        envs.reset(seed=3)
        run(envs, 4)
        envs.save_state(tmp_path / "state")
        obs = envs.set_state(envs.get_state())
        assert_same(to_numpy(after.load_state(tmp_path / "state")), to_numpy(obs))
        wanted, found = run(envs, 4), run(after, 4)
        for here, there in zip(found, wanted, strict=True):
            assert_same([*here[:-1]], [*there[:-1]])


PROGRAM = """
import pickle, sys
from tests.support.batches import to_numpy
from tests.support.player import play
from tests.support.falling_ball import make_ball
from gymbridge.wrappers import RecordEpisodeStatistics
envs = RecordEpisodeStatistics(make_ball(3, arrays="jax", max_episode_steps=5))
found = to_numpy(envs.load_state(sys.argv[1])), play(envs, 8, begins=False)
with open(sys.argv[2], "wb") as file:
    pickle.dump(found, file)
"""


@pytest.mark.slow
def test_new_process__goes_on_to_the_bit(tmp_path: Path) -> None:
    """Drawn physics, pending restarts and the statistics of running episodes."""
    envs = RecordEpisodeStatistics(make_ball(3, arrays="jax", max_episode_steps=5))
    envs.reset(seed=4)
    ended = run(envs, 1)[-1]
    while not (ended[2] | ended[3]).any():  # until a restart is pending
        ended = run(envs, 1)[-1]
    envs.save_state(tmp_path / "state")
    run_python("-c", PROGRAM, tmp_path / "state", tmp_path / "found")
    wanted = run(envs, 8)
    obs, found = pickle.loads((tmp_path / "found").read_bytes())
    for *_, infos in (*found, *wanted):
        del infos["episode"]["t"]  # seconds since the reset
    assert_same((obs, found), (ended[0], wanted))
    assert any(infos["episode"]["r"].any() for *_, infos in wanted)


def test_snapshot__belongs_to_its_receiver() -> None:
    envs, twin = (shared_batch("brax", limit=4, arrays=kind) for kind in ("jax", "numpy"))
    for batch in (envs, twin):
        batch.reset(seed=0)
    state = envs.get_state()
    obs = envs.set_state(state)
    donate = jax.jit(lambda tree: jax.tree.map(lambda x: x * 0, tree), donate_argnums=0)
    donate((obs, dict(state.leaves)))
    scribble(twin.set_state(twin.get_state()))
    for here, there in zip(run(envs, 3), run(twin, 3), strict=True):
        assert_same([*here[:-1]], [*there[:-1]])


class Typed(SampleEnv):
    """It keeps a typed key, and a number of a type that numpy does not have."""

    def reset(self, rng: Any) -> Any:
        state = super().reset(rng)
        info = {**state.info, "key": jax.random.key(3), "half": jnp.ones((), jnp.bfloat16)}
        info["small"] = jnp.ones((), jnp.float8_e5m2)
        return state.replace(info=info)

    def step(self, state: Any, action: Any) -> Any:
        key = jax.random.split(state.info["key"])[0]
        draw = jax.random.uniform(key)
        after = super().step(state, action)
        info = {**after.info, "key": key, "half": state.info["half"] * 1.5}
        return after.replace(info=info, obs=after.obs + draw)


def test_typed_keys_and_bfloat16__are_kept(tmp_path: Path) -> None:
    envs = BraxVectorEnv(Typed(), 4, max_episode_steps=6)
    envs.reset(seed=0)
    run(envs, 2)
    envs.save_state(tmp_path / "state")
    wanted = run(envs, 3)
    envs.load_state(tmp_path / "state")
    assert_same(run(envs, 3), wanted)
    assert str(envs.get_state().leaves["state.info.half"].dtype) == "bfloat16"


def test_leaves__whose_names_collide_are_all_kept() -> None:
    info = {"a.b": jnp.float32(1), "a": {"b": jnp.float32(2)}, "a.b (2)": jnp.float32(3)}
    env = SampleEnv(lambda rng: start(rng, info=info))
    envs = BraxVectorEnv(env, 2, info_keys="all", autoreset_mode="Disabled")
    envs.reset(seed=0)
    leaves = envs.get_state().leaves
    found = [float(leaf[0]) for name, leaf in leaves.items() if ".a.b" in name]
    own = [float(leaf[0]) for name, leaf in leaves.items() if name.startswith("state.info.a")]
    assert sorted(own) == [1, 2, 3]
    assert sorted(found) == [1, 1, 2, 2, 3, 3], "those of the time step, too"


def test_infos__have_to_be_the_same_with_disabled_alone() -> None:
    """An ended environment shows its own until its reset."""
    env = SampleEnv(lambda rng: start(rng, info={"speed": jnp.float32(1)}))
    for mode in ("NextStep", "Disabled"):
        envs, other = (
            BraxVectorEnv(env, 2, info_keys=keys, autoreset_mode=mode) for keys in ("all", [])
        )
        envs.reset(seed=0)
        refused = pytest.raises(ArgumentError, match=r"leaf 'seen\.info\.speed' is missing")
        with refused if mode == "Disabled" else nullcontext():
            np.testing.assert_array_equal(other.set_state(envs.get_state()), envs.reset(seed=0)[0])


def test_calls__need_episodes_and_an_open_batch(tmp_path: Path) -> None:
    envs = BraxVectorEnv("fast", 2)
    for call in (envs.get_state, lambda: envs.save_state(tmp_path / "state")):
        with pytest.raises(ResetNeededError, match="`get_state` needs running episodes"):
            call()
    envs.close()
    with pytest.raises(ClosedError):
        envs.get_state()


def test_snapshot__names_the_version_without_installed_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a frozen application, or with the checkout on PYTHONPATH alone."""

    def find_none(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata.Distribution, "from_name", find_none)
    envs = make_batch("brax")
    envs.reset(seed=0)
    assert envs.get_state().batch["gymbridge"] == gymbridge.__version__
