"""What the page on tensors says of each of Gymnasium's vector wrappers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers

from gymbridge import EnvPoolVectorEnv
from tests.support.batches import leaves, to_kind, to_numpy

pytest.importorskip("envpool.registration")
pytest.importorskip("cv2")

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "tensors.md"

HILL, CAR, GRID = "MountainCarContinuous-v0", "CarRacing-v3", "MiniGrid-Empty-5x5-v0"

OTHERS = {
    *("RecordVideo", "HumanRendering"),  # their frames are numpy's with every kind of arrays
    *("ArrayConversion", "JaxToNumpy", "JaxToTorch", "NumpyToTorch"),
}


def double(values: Any) -> Any:
    return values * 2


WRAPPED: dict[str, tuple[str, dict[str, Any]]] = {
    "ClipAction": (HILL, {}),
    "ClipReward": (HILL, {"min_reward": -0.01, "max_reward": 0.01}),
    "DictInfoToList": (HILL, {}),
    "DtypeObservation": (CAR, {"dtype": np.int32}),
    "FilterObservation": (GRID, {"filter_keys": ["direction"]}),
    "FlattenObservation": (HILL, {}),
    "GrayscaleObservation": (CAR, {}),
    "NormalizeObservation": (HILL, {}),
    "NormalizeReward": (HILL, {}),
    "RecordEpisodeStatistics": (HILL, {}),
    "RescaleAction": (HILL, {"min_action": -2, "max_action": 2}),
    "RescaleObservation": (HILL, {"min_obs": np.float32(-1), "max_obs": np.float32(1)}),
    "ReshapeObservation": (CAR, {"shape": (96, 48, 6)}),
    "ResizeObservation": (CAR, {"shape": (35, 45)}),
    "TransformAction": (HILL, {"func": double}),
    "TransformObservation": (HILL, {"func": double}),
    "TransformReward": (HILL, {"func": double}),
    "VectorizeTransformAction": (
        HILL,
        {"wrapper": wrappers.TransformAction, "func": double, "action_space": None},
    ),
    "VectorizeTransformObservation": (
        HILL,
        {"wrapper": wrappers.TransformObservation, "func": double, "observation_space": None},
    ),
    "VectorizeTransformReward": (HILL, {"wrapper": wrappers.TransformReward, "func": double}),
}


def read_table() -> dict[str, tuple[str, str]]:
    """Return what the page says of torch and of jax by the name of a wrapper."""
    text = PAGE.read_text(encoding="utf-8").partition("| wrapper |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:-2] for line in text.splitlines()[2:]]
    return {
        name: (torch.strip(), jax.strip())
        for names, torch, jax in rows
        for name in re.findall("`([A-Za-z]+)`", names)
    }


TABLE = read_table()


def test_table__has_every_wrapper() -> None:
    assert TABLE.keys() == {*wrappers.vector.__all__} == WRAPPED.keys() | OTHERS


def run(name: str, arrays: str, mode: str) -> list[Any]:
    """Return observations, rewards and flags of some steps in a wrapper."""
    task, options = WRAPPED[name]
    envs = EnvPoolVectorEnv(task, 2, arrays=arrays, autoreset_mode=mode, max_episode_steps=3)
    envs.action_space.seed(0)
    drawn = [envs.action_space.sample() for _ in range(5)]
    wrapped = getattr(wrappers.vector, name)(envs, **options)
    returned = [wrapped.reset(seed=0)[:1]]
    return [*returned, *(wrapped.step(to_kind(actions, arrays))[:4] for actions in drawn)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # numpy's, of tensors
@pytest.mark.parametrize("kind", ["torch", "jax"])
@pytest.mark.parametrize("name", WRAPPED)
def test_wrapper__does_what_the_table_says(name: str, kind: str) -> None:
    pytest.importorskip(kind)
    said = TABLE[name][kind == "jax"]
    for mode in ("NextStep", "SameStep"):
        try:
            wanted = run(name, "numpy", mode)
        except ValueError:  # wrappers of observations refuse SameStep
            assert mode == "SameStep"
            assert issubclass(
                getattr(wrappers.vector, name), gym.vector.VectorObservationWrapper
            ) or name in ("NormalizeObservation", "VectorizeTransformObservation")
            continue
        if said == "an error" or said == f"an error in {mode}":
            with pytest.raises(Exception):  # noqa: B017, PT011 (of any kind)
                run(name, kind, mode)
            continue
        found = run(name, kind, mode)
        pairs = zip(leaves(to_numpy(found)), leaves(to_numpy(wanted)), strict=True)
        for left, right in pairs:  # jax has no float64
            np.testing.assert_allclose(left, right, 1e-5, 1e-6)
        are_numpy = [isinstance(leaf, np.ndarray) for step in found for leaf in leaves(step[0])]
        assert set(are_numpy) == {said == "numpy observations"}
