"""A snapshot of another batch is refused, and the error names what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trees import assert_same

from gymbridge.errors import ArgumentError, ArgumentTypeError

pytest.importorskip("brax.envs")

import gymnasium as gym
from brax.envs import Wrapper
from brax_samples import SampleEnv
from functional_runs import another, run

from gymbridge import BraxVectorEnv


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"num_envs": 5}, "num_envs=5; "),
        ({"autoreset_mode": "SameStep"}, "autoreset_mode=SameStep"),
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
    monkeypatch.setattr("gymbridge.functional.vector_env.__version__", "0.0.9")
    with pytest.raises(ArgumentError, match=r"gymbridge=0\.0\.9.*gymbridge=0\.1\.0"):
        another().set_state(state)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda leaves: leaves.pop("elapsed"),
        lambda leaves: leaves.update(more=np.zeros(4)),
        lambda leaves: leaves.update(elapsed=np.zeros(3, np.int32)),
        lambda leaves: leaves.update(elapsed=np.zeros(4, np.float32)),
        lambda leaves: leaves.update(elapsed=[0] * 4),
        lambda leaves: leaves["elapsed"].delete(),
    ],
    ids=["missing", "beyond", "shape", "dtype", "list", "donated"],
)
def test_snapshot__with_other_leaves_is_refused(spoil: Any) -> None:
    envs = another()
    envs.reset(seed=0)
    leaves = dict(envs.get_state().leaves)
    spoil(leaves)
    with pytest.raises(ArgumentError, match=r"whose leaf '(elapsed|more)' is"):
        envs.set_state(envs.get_state()._replace(leaves=leaves))


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"batch": None}, ArgumentTypeError, r"`state\.batch` must .* a mapping, got NoneType"),
        ({"leaves": [1]}, ArgumentTypeError, r"`state\.leaves` must .* a mapping, got list"),
        ({"seeds": None}, ArgumentTypeError, r"`state\.seeds` must .* a tuple, got NoneType"),
        ({"seeds": ("a",) * 4}, ArgumentTypeError, "must be None or an int, got 'a'"),
        ({"seeds": (0, 1, 2, None)}, ArgumentTypeError, "must hold ints, got None"),
        ({"seeds": (0, 1, 2, -3)}, ArgumentError, "must be 0 or more, got -3"),
    ],
)
def test_snapshot__put_together_from_other_types_is_refused(
    fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    envs = another()
    envs.reset(seed=0)
    state = envs.get_state()
    with pytest.raises(error, match=message):
        envs.set_state(state._replace(**fields))
    assert envs.np_random_seed == state.seeds


def test_tasks_of_one_class__are_told_apart() -> None:
    pytest.importorskip("mujoco_playground")
    from gymbridge import PlaygroundVectorEnv

    envs = BraxVectorEnv("fast", 2)
    envs.reset(seed=0)
    state = envs.get_state()
    easy, hard = (PlaygroundVectorEnv(f"Reacher{kind}", 2) for kind in ("Easy", "Hard"))
    assert easy._about["environment"] == hard._about["environment"]
    with pytest.raises(ArgumentError, match=r"task='ReacherHard'.*task='ReacherEasy'"):
        hard.set_state(state._replace(batch=easy._about))
    with pytest.raises(ArgumentError, match=r"task=.*of SampleEnv"):
        BraxVectorEnv(Wrapper(SampleEnv()), 4, max_episode_steps=3).set_state(
            state._replace(batch=another()._about)
        )


def test_equal_batches__are_equal_however_they_are_built() -> None:
    options = {"backend": "spring", "debug": False}
    name = "inverted_pendulum"
    envs = gym.make_vec(f"Brax/{name}-v0", 2, **options)
    alike = [
        gym.make_vec(envs.spec),
        BraxVectorEnv(name, np.int64(2), action_repeat=np.int64(1), arrays="jax", **options),
        BraxVectorEnv(brax_env=name, num_envs=2, max_episode_steps=1000, **options),
    ]
    for other in alike:
        assert other.unwrapped._about == envs.unwrapped._about


def test_seeds__of_another_number_are_refused() -> None:
    envs = another()
    envs.reset(seed=0)
    with pytest.raises(ArgumentError, match="must have 4 seeds, got 1"):
        envs.set_state(envs.get_state()._replace(seeds=(1,)))


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
