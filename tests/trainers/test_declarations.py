"""What trainers write into the spaces and metadata of a view does not reach the batch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import Space, spaces
from stable_baselines3 import PPO
from stable_baselines3.common import vec_env
from torchrl.envs import (
    Compose,
    DoubleToFloat,
    ObservationNorm,
    RewardSum,
    StepCounter,
    TransformedEnv,
)

from gymbridge import EnvPoolVectorEnv
from gymbridge.single_env import SingleEnv
from gymbridge.trainers.cleanrl import CleanRLVectorEnv, ScaledVectorEnv
from gymbridge.trainers.cleanrl.envpool import OldGymVectorEnv
from gymbridge.trainers.rsl_rl import RslRlVecEnv
from gymbridge.trainers.sb3 import Sb3VecEnv
from gymbridge.trainers.skrl import SkrlWrapper
from gymbridge.trainers.torchrl import TorchRLEnv
from gymbridge.wrappers import RecordEpisodeStatistics
from tests.support.small_batches import counting_batch, playground_batch

NUM_ENVS = 2
SPACES = ("single_observation_space", "single_action_space", "observation_space", "action_space")
DECLARED = (*SPACES, "metadata", "spec")


def pool(task: str, mode: str, **options: Any) -> Any:
    return gym.make_vec(f"EnvPool/{task}", num_envs=NUM_ENVS, autoreset_mode=mode, **options)


def declared_by(envs: Any) -> list[Any]:
    """Return what a batch declares, with the random state of each space."""
    found: list[Any] = []
    for name in DECLARED:
        value = getattr(envs, name)
        found.append(copy.deepcopy(value))
        if isinstance(value, Space):
            found.append(str(value.np_random.bit_generator.state))
    return found


def spoil(space: Any) -> None:
    """Change a space in place in every way that a trainer could."""
    space.seed(99)
    if isinstance(space, spaces.Dict):
        for key in [*space.spaces]:
            spoil(space[key])
            space.spaces[key] = spaces.Box(-10, 10, (1,), np.float32)
    elif isinstance(space, spaces.Box):
        space.low[...], space.high[...] = 1, 7
        space.dtype = np.dtype(np.float64)
    elif isinstance(space, spaces.Discrete):
        space.n, space.start = 99, 5


def spoil_all(view: Any) -> None:
    for name in SPACES:
        if isinstance(space := getattr(view, name, None), Space):
            spoil(space)
    if isinstance(metadata := getattr(view, "metadata", None), dict):
        metadata["render_modes"].append("ascii")
        metadata["render_fps"] = -1


VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]] = {
    "Sb3VecEnv": (Sb3VecEnv, lambda: pool("MiniGrid-Empty-5x5-v0", "SameStep")),
    "CleanRLVectorEnv": (CleanRLVectorEnv, lambda: pool("Pendulum-v1", "SameStep")),
    "ScaledVectorEnv": (
        lambda envs: ScaledVectorEnv(CleanRLVectorEnv(envs)),
        lambda: pool("Pendulum-v1", "SameStep"),
    ),
    "OldGymVectorEnv": (OldGymVectorEnv, lambda: pool("CartPole-v1", "NextStep")),
    "SkrlWrapper": (SkrlWrapper, lambda: pool("CartPole-v1", "NextStep", arrays="torch")),
    "RslRlVecEnv": (RslRlVecEnv, lambda: pool("Pendulum-v1", "SameStep", arrays="torch")),
    "TorchRLEnv": (TorchRLEnv, lambda: pool("Pendulum-v1", "Disabled", arrays="torch")),
    "RecordEpisodeStatistics": (
        RecordEpisodeStatistics,
        lambda: pool("CartPole-v1", "NextStep", arrays="torch"),
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view__has_spaces_and_metadata_of_its_own(name: str) -> None:
    wrap, make = VIEWS[name]
    envs = make()
    before = declared_by(envs)
    spoil_all(wrap(envs))
    assert declared_by(envs) == before


def test_single_env__has_spaces_and_metadata_of_its_own() -> None:
    envs = EnvPoolVectorEnv("MiniGrid-Empty-5x5-v0", 1, autoreset_mode="Disabled")
    before, single = declared_by(envs), SingleEnv(envs)
    obs, _ = single.reset(seed=0)
    spoil_all(single)
    assert declared_by(envs) == before
    again, _ = single.reset(seed=0)
    assert {key: type(value) for key, value in again.items()} == {
        key: type(value) for key, value in obs.items()
    }


def test_batch__keeps_the_identity_of_its_spaces() -> None:
    envs = pool("CartPole-v1", "NextStep")
    drawn = []
    for _ in range(2):
        envs.action_space.seed(0)
        assert envs.action_space is envs.action_space
        drawn.append(envs.action_space.sample().tolist())
    assert drawn[0] == drawn[1]


def test_wrappers_of_sb3__leave_the_batch_as_it_was() -> None:
    envs = pool("MiniGrid-Empty-5x5-v0", "SameStep")
    before = declared_by(envs)
    view: Any = vec_env.VecMonitor(Sb3VecEnv(envs))
    view = vec_env.VecNormalize(view, norm_obs_keys=["image"])
    view = vec_env.VecCheckNan(vec_env.VecFrameStack(vec_env.VecExtractDictObs(view, "image"), 2))
    PPO("MlpPolicy", view, seed=0, device="cpu")
    view.reset()
    obs, *_ = view.step(np.zeros(NUM_ENVS, int))
    assert obs.dtype == np.float32
    assert declared_by(envs) == before
    assert envs.reset(seed=0)[0] in envs.observation_space


def test_transforms_of_torchrl__leave_the_batch_as_it_was() -> None:
    envs = counting_batch(NUM_ENVS, "Disabled")
    before, env = declared_by(envs), TorchRLEnv(envs)
    norm = ObservationNorm(0.0, 2.0, in_keys=["observation"])
    transform = Compose(norm, DoubleToFloat(), RewardSum(), StepCounter(5))
    TransformedEnv(env, transform).rollout(3, break_when_any_done=False)
    for spec in (env.full_action_spec["action"], env.observation_spec["observation"]):
        if hasattr(spec.space, "low"):
            spec.space.low.fill_(-5)
    assert declared_by(envs) == before


def test_bounds_of_rsl_rl__are_those_of_its_construction() -> None:
    envs = playground_batch(NUM_ENVS, "SameStep", is_flat=True)
    view = RslRlVecEnv(envs)
    space: Any = envs.single_action_space
    low = torch.tensor(space.low)
    space.low[...] = 0
    assert torch.equal(view._low, low)
