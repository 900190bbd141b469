"""What every view has of its own: spaces and metadata, and around a copied batch a copy."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

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

from gymbridge import BraxVectorEnv, EnvPoolVectorEnv
from gymbridge.errors import ArgumentError
from gymbridge.single_env import SingleEnv
from gymbridge.trainers.cleanrl import CleanRLVectorEnv
from gymbridge.trainers.cleanrl.envpool import OldGymVectorEnv
from gymbridge.trainers.rsl_rl import RslRlVecEnv
from gymbridge.trainers.sb3 import Sb3VecEnv, make_atari_env
from gymbridge.trainers.skrl import SkrlWrapper
from gymbridge.trainers.torchrl import TorchRLEnv
from gymbridge.wrappers import (
    ClipReward,
    FrameStackObservation,
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
    RescaleAction,
)
from tests.support.small_batches import counting_batch, playground_batch

NUM_ENVS = 2
SPACES = ("single_observation_space", "single_action_space", "observation_space", "action_space")
DECLARED = (*SPACES, "metadata", "spec")


class View(NamedTuple):
    """How a view is made of a batch, of which batches, and where the view has its batch."""

    wrap: Callable[[Any], Any]
    mode: str
    arrays: str
    task: str  # of EnvPool
    batch: Callable[[Any], Any]
    num_envs: int = NUM_ENVS

    def make_batch(self) -> Any:
        """Return one whose action is a float."""
        return BraxVectorEnv("fast", self.num_envs, **self._options())

    def make_pool(self) -> Any:
        """Return one with spaces of another kind."""
        return EnvPoolVectorEnv(self.task, self.num_envs, **self._options())

    def _options(self) -> dict[str, Any]:
        return {"arrays": self.arrays, "autoreset_mode": self.mode}


def wrap(envs: Any) -> Any:
    """Return a batch in all wrappers."""
    envs = NormalizeObservation(RescaleAction(envs, -1, 1))
    envs = FrameStackObservation(envs, 2)
    return ClipReward(NormalizeReward(envs), -10, 10)


def unwrap(envs: Any) -> Any:
    return envs.unwrapped


GRID, CART_POLE, PENDULUM = "MiniGrid-Empty-5x5-v0", "CartPole-v1", "Pendulum-v1"
VIEWS = {
    "sb3": View(Sb3VecEnv, "SameStep", "numpy", GRID, lambda view: view.vector_env),
    "cleanrl": View(CleanRLVectorEnv, "SameStep", "numpy", PENDULUM, lambda view: view.env),
    "wrappers, numpy": View(wrap, "SameStep", "numpy", PENDULUM, unwrap),
    "wrappers, torch": View(wrap, "NextStep", "torch", PENDULUM, unwrap),
    "wrappers, jax": View(wrap, "Disabled", "jax", PENDULUM, unwrap),
    "old gym": View(OldGymVectorEnv, "NextStep", "numpy", CART_POLE, lambda view: view.envs),
    "skrl": View(SkrlWrapper, "SameStep", "torch", CART_POLE, lambda view: view._env),
    "rsl_rl": View(
        partial(RslRlVecEnv, cfg={"name": "fast"}),
        "SameStep",
        "torch",
        PENDULUM,
        lambda view: view.envs,
    ),
    "torchrl": View(
        partial(TorchRLEnv, categorical_action_encoding=True),
        "Disabled",
        "torch",
        CART_POLE,
        lambda view: view.envs,
    ),
    "statistics, torch": View(
        RecordEpisodeStatistics, "NextStep", "torch", CART_POLE, lambda view: view.env
    ),
    "statistics, jax": View(
        RecordEpisodeStatistics, "SameStep", "jax", CART_POLE, lambda view: view.env
    ),
    "single": View(SingleEnv, "Disabled", "numpy", GRID, lambda view: view.envs, num_envs=1),
}


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


@pytest.mark.parametrize("name", VIEWS)
def test_view__has_spaces_and_metadata_of_its_own(name: str) -> None:
    envs = VIEWS[name].make_pool()
    before = declared_by(envs)
    spoil_all(VIEWS[name].wrap(envs))
    assert declared_by(envs) == before


def test_single_env__returns_the_same_whatever_happens_to_its_spaces() -> None:
    single = VIEWS["single"].wrap(VIEWS["single"].make_pool())
    obs, _ = single.reset(seed=0)
    spoil_all(single)
    again, _ = single.reset(seed=0)
    assert {key: type(value) for key, value in again.items()} == {
        key: type(value) for key, value in obs.items()
    }


def test_wrappers_of_sb3__leave_the_batch_as_it_was() -> None:
    envs = VIEWS["sb3"].make_pool()
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


def run(view: Any) -> None:
    """Reset a view, and take a step or two."""
    if isinstance(view, TorchRLEnv):
        view.rollout(2)
        return
    view.reset()
    shape = (1,) if isinstance(view, SingleEnv) else (NUM_ENVS, 1)
    is_strict = isinstance(view, RslRlVecEnv | SkrlWrapper)
    view.step(torch.zeros(shape) if is_strict else np.zeros(shape, np.float32))


@pytest.mark.parametrize("name", [name for name in VIEWS if name != "old gym"])
def test_copy__runs_a_batch_of_its_own_and_closes_it(name: str) -> None:
    view = VIEWS[name]
    first = view.wrap(view.make_batch())
    batch = view.batch(first)
    for duplicate in (copy.copy, copy.deepcopy):
        run(first)
        before = batch.get_state()
        second = duplicate(first)
        assert type(second) is type(first)
        other = view.batch(second)
        assert other is not batch
        assert other._runner is batch._runner  # what is compiled
        run(second)
        second.close()
        assert (batch.closed, other.closed) == (False, True)
        after = batch.get_state()
        for leaf, found in before.leaves.items():
            assert np.array_equal(found, after.leaves[leaf]), leaf
    run(first)


@pytest.mark.parametrize("name", [name for name in VIEWS if name.startswith("wrappers")])
def test_copy_of_normalised_batch__keeps_the_moments(name: str) -> None:
    first = wrap(VIEWS[name].make_batch()).env
    run(first)
    first.update_running_mean = False
    second = copy.copy(first)
    assert second.return_rms.count == first.return_rms.count > 1
    assert not second.update_running_mean
    first.return_rms = first.return_rms._replace(count=np.array(7.0))
    assert second.return_rms.count != first.return_rms.count == 7


def test_copy_of_torchrls_view__keeps_its_encoding() -> None:
    view = VIEWS["torchrl"]
    first = view.wrap(view.make_pool())
    assert copy.copy(first).full_action_spec == first.full_action_spec


def test_copy_of_game_monitor__is_around_its_own_batch() -> None:
    first = make_atari_env("EnvPool/Pong-v5", 1)
    second = copy.copy(first)
    assert second.venv.vector_env is not first.venv.vector_env
    first.close()
    second.reset()
    second.close()


SINGLE_AGENT = [name for name in VIEWS if name != "single" and "wrappers" not in name]


@pytest.mark.parametrize("name", SINGLE_AGENT)
def test_view__refuses_a_batch_whose_players_take_turns(name: str) -> None:
    view = VIEWS[name]._replace(task="TicTacToe-v1")
    with pytest.raises(ArgumentError, match="got EnvPoolVectorEnv, whose 2 players take turns"):
        view.wrap(view.make_pool())


def test_normalised_rewards__are_those_of_one_agent() -> None:
    with pytest.raises(ArgumentError, match=r"`env` .* as NormalizeReward expects"):
        NormalizeReward(EnvPoolVectorEnv("TicTacToe-v1", 2))


@pytest.mark.parametrize("name", ["sb3", "cleanrl", "statistics, torch"])
def test_view__takes_a_batch_whose_players_move_at_once(name: str) -> None:
    view = VIEWS[name]._replace(task="IntersectionMultiAgent-v0")
    wrapped = view.wrap(view.make_pool())
    wrapped.reset()
    actions = np.ones((NUM_ENVS, 2), np.int64)
    returned = wrapped.step(torch.tensor(actions) if view.arrays == "torch" else actions)
    assert [float(reward) for reward in returned[1]] == [2, 2]
