"""A snapshot is all that a batch is, in memory and on disk, in every mode and kind of arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batches import make_batch, shared_batch, to_kind, to_numpy
from trees import assert_same, scribble

from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
    ClosedError,
    ResetNeededError,
)

pytest.importorskip("brax.envs")

import jax
import jax.numpy as jnp
from brax_samples import SampleEnv

from gymbridge import BraxVectorEnv

TESTS = Path(__file__).parents[1]
ENGINES = ("brax", "func_env", "fast")


def run(envs: Any, num_steps: int) -> list[Any]:
    """Return what some steps return; with autoreset disabled, ended environments are reset."""
    log = []
    for step in range(num_steps):
        space = envs.single_action_space
        action = step % 2 if space.shape == () else np.full(space.shape, step / 9, np.float32)
        actions = np.stack([np.asarray(action)] * envs.num_envs)
        log.append(to_numpy(envs.step(actions)))
        over = log[-1][2] | log[-1][3]
        if envs.autoreset_mode.value == "Disabled" and over.any():
            mask = to_kind(over, envs.arrays)
            log.append(to_numpy(envs.reset(options={"reset_mask": mask})))
    return log


@pytest.mark.parametrize("kind", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("engine", ENGINES)
def test_snapshot__plays_the_same_again(engine: str, mode: str, kind: str, tmp_path: Path) -> None:
    envs = shared_batch(engine, mode, limit=3, arrays=kind)
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


@pytest.mark.parametrize("engine", ENGINES)
def test_snapshot__goes_into_another_kind_of_arrays(engine: str, mode: str, tmp_path: Path) -> None:
    kinds = [shared_batch(engine, mode, limit=3, arrays=kind) for kind in ("numpy", "torch", "jax")]
    for envs, after in zip(kinds, kinds[1:] + kinds[:1], strict=True):
        envs.reset(seed=3)
        run(envs, 4)
        envs.save_state(tmp_path / "state")
        assert_same(to_numpy(after.load_state(tmp_path / "state")), to_numpy(_observe(envs)))
        wanted, found = run(envs, 4), run(after, 4)
        for here, there in zip(found, wanted, strict=True):
            assert_same([*here[:-1]], [*there[:-1]])


def _observe(envs: Any) -> Any:
    return envs.set_state(envs.get_state())


PROGRAM = """
import sys
import numpy as np
from functional_runs import make_recorded, run
envs = make_recorded()
obs = envs.load_state(sys.argv[1])
log = run(envs, 6)
np.savez(sys.argv[2], obs=obs, *[np.asarray(x) for step in log for x in step[:-1]],
         returns=np.stack([step[-1]["episode"]["r"] for step in log]))
"""


def test_new_process__goes_on_to_the_bit(tmp_path: Path) -> None:
    """Physics, drawn physics, pending restarts and the statistics of running episodes."""
    from functional_runs import make_recorded
    from functional_runs import run as run_recorded

    envs = make_recorded()
    envs.reset(seed=4)
    ended = run_recorded(envs, 1)[-1]
    while not (ended[2] | ended[3]).any():  # until a restart is pending
        ended = run_recorded(envs, 1)[-1]
    envs.save_state(tmp_path / "state")
    wanted = run_recorded(envs, 6)
    command = [sys.executable, "-c", PROGRAM, tmp_path / "state", tmp_path / "found.npz"]
    path = os.pathsep.join([str(TESTS), str(TESTS / "functional")])
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
    with np.load(tmp_path / "found.npz") as found:
        np.testing.assert_array_equal(found["obs"], ended[0])
        arrays = [x for step in wanted for x in step[:-1]]
        for index, array in enumerate(arrays):
            np.testing.assert_array_equal(found[f"arr_{index}"], array)
        returns = np.stack([step[-1]["episode"]["r"] for step in wanted])
        np.testing.assert_array_equal(found["returns"], returns)
        assert returns.any()


def another(**options: Any) -> Any:
    """Return a batch that differs in one thing."""
    settings = {"num_envs": 4, "max_episode_steps": 3} | options
    return BraxVectorEnv(SampleEnv(), **settings)


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"num_envs": 5}, "num_envs=5; "),
        ({"autoreset_mode": "SameStep"}, "autoreset_mode=AutoresetMode.SAME_STEP"),
        ({"max_episode_steps": 4}, "max_episode_steps=4"),
        ({"action_repeat": 2}, "action_repeat=2"),
        ({"nonfinite": "ignore"}, "nonfinite='ignore'"),
    ],
)
def test_snapshot__of_another_batch_is_refused(
    options: dict[str, Any], difference: str, tmp_path: Path
) -> None:
    left, right = another(), another(**options)
    left.reset(seed=0)
    right.reset(seed=0)
    twin = another(**options)
    twin.reset(seed=0)
    left.save_state(tmp_path / "state")
    for restore in (
        lambda: right.set_state(left.get_state()),
        lambda: right.load_state(tmp_path / "state"),
    ):
        with pytest.raises(ArgumentError, match="must be of a batch like this one, which has"):
            restore()
    with pytest.raises(ArgumentError, match=difference.rstrip("; ")):
        right.set_state(left.get_state())
    assert_same(run(right, 2), run(twin, 2))


class Other(SampleEnv):
    """The same shapes, another environment."""


def test_snapshot__of_another_environment_or_version_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    envs = another()
    envs.reset(seed=0)
    state = envs.get_state()
    with pytest.raises(ArgumentError, match=r"environment=Other.*environment=SampleEnv"):
        BraxVectorEnv(Other(), 4, max_episode_steps=3).set_state(state)
    with pytest.raises(ArgumentTypeError, match="what `get_state` returned, got dict"):
        envs.set_state({})
    monkeypatch.setattr("gymbridge.functional.vector_env.version", lambda _: "0.0.9")
    with pytest.raises(ArgumentError, match=r"gymbridge=0\.0\.9.*gymbridge=0\.1\.0"):
        envs.set_state(state)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda leaves: leaves.pop("elapsed"),
        lambda leaves: leaves.update(more=np.zeros(4)),
        lambda leaves: leaves.update(elapsed=np.zeros(3, np.int32)),
        lambda leaves: leaves.update(elapsed=np.zeros(4, np.float32)),
    ],
    ids=["missing", "beyond", "shape", "dtype"],
)
def test_snapshot__with_other_leaves_is_refused(spoil: Any) -> None:
    envs = another()
    envs.reset(seed=0)
    leaves = dict(envs.get_state().leaves)
    spoil(leaves)
    with pytest.raises(ArgumentError, match=r"whose leaf '(elapsed|more)' is"):
        envs.set_state(envs.get_state()._replace(leaves=leaves))


def test_file__is_refused_before_anything_changes(tmp_path: Path) -> None:
    envs, twin = another(), another()
    for batch in (envs, twin):
        batch.reset(seed=0)
    (tmp_path / "text").write_text("no snapshot")
    with pytest.raises(ArgumentError, match="truncated or something else"):
        envs.load_state(tmp_path / "text")
    with pytest.raises(FileNotFoundError):
        envs.load_state(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        envs.save_state(tmp_path / "no folder" / "state")
    assert_same(run(envs, 3), run(twin, 3))


def test_snapshot__belongs_to_its_receiver() -> None:
    envs, twin = shared_batch("fast", arrays="jax"), make_batch("fast")
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
    again = BraxVectorEnv(Typed(), 4, max_episode_steps=6)
    again.load_state(tmp_path / "state")
    assert_same(run(again, 3), wanted)
    assert str(again.get_state().leaves["state.info.half"].dtype) == "bfloat16"


def test_calls__need_episodes_and_an_open_batch(tmp_path: Path) -> None:
    envs = another()
    for call in (envs.get_state, lambda: envs.save_state(tmp_path / "state")):
        with pytest.raises(ResetNeededError, match="`get_state` needs running episodes"):
            call()
    envs.close()
    with pytest.raises(ClosedError):
        envs.get_state()


def test_raising_batch_and_playground__have_snapshots(tmp_path: Path) -> None:
    pytest.importorskip("mujoco_playground")
    from playground_samples import SampleMjxEnv, make_config

    from gymbridge import PlaygroundVectorEnv

    for envs in (
        another(nonfinite="raise"),
        PlaygroundVectorEnv(SampleMjxEnv(make_config()), 4),
        PlaygroundVectorEnv(SampleMjxEnv(make_config()), 4, info_keys=[], arrays="torch"),
    ):
        if envs.arrays == "numpy":
            envs.reset(seed=0)
            run(envs, 3)
            envs.save_state(tmp_path / "state")
            wanted = run(envs, 4)
        envs.load_state(tmp_path / "state")
        for here, there in zip(run(envs, 4), wanted, strict=True):
            assert_same([*here[:-1]], [*there[:-1]])


def test_benchmark__prints_its_row(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import snapshots, pathlib;"
        "row = snapshots.snapshot_row('fast', 2, pathlib.Path(sys.argv[2]), 1);"
        "snapshots.print_table([row])"
    )
    folder = TESTS.parent / "examples" / "benchmarks"
    command = [sys.executable, "-c", program, folder, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].startswith("| snapshot of fast, 2 environments, to disk")
