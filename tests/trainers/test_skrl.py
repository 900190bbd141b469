"""skrl's `wrap_env` takes our batches as they are; `SkrlWrapper` keeps tensors on their device."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.trainers.torch import SequentialTrainer

from gymbridge.errors import ActionError, ArgumentTypeError, EpisodeEndedError
from gymbridge.testing import scripted_vector_env
from gymbridge.trainers.skrl import SkrlWrapper
from tests.support.small_batches import counting_batch

NUM_ENVS, NUM_STEPS = 4, 32


class Policy(GaussianMixin, Model):
    def __init__(self, spaces: dict[str, Any]) -> None:
        Model.__init__(self, **spaces)
        GaussianMixin.__init__(self)
        self.mean = torch.nn.Linear(self.num_observations, self.num_actions)
        self.log_std = torch.nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs: Any, role: str = "") -> Any:
        return self.mean(inputs["observations"]), {"log_std": self.log_std}


class Value(DeterministicMixin, Model):
    def __init__(self, spaces: dict[str, Any]) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.value = torch.nn.Linear(self.num_observations, 1)

    def compute(self, inputs: Any, role: str = "") -> Any:
        return self.value(inputs["observations"]), {}


@pytest.mark.parametrize(
    ("wrap", "env_id", "mode", "arrays"),
    [
        (wrap_env, "EnvPool/Pendulum-v1", "SameStep", "numpy"),
        (SkrlWrapper, "Brax/fast-v0", "NextStep", "torch"),
    ],
)
def test_ppo__learns_on_a_wrapped_batch(
    tmp_path: Path, wrap: Any, env_id: str, mode: str, arrays: str
) -> None:
    torch.manual_seed(0)
    options: Any = {"autoreset_mode": mode, "max_episode_steps": 10, "arrays": arrays}
    envs = wrap(gym.make_vec(env_id, num_envs=NUM_ENVS, **options))
    assert envs.num_envs == NUM_ENVS
    spaces = {"observation_space": envs.observation_space, "action_space": envs.action_space}
    models = {"policy": Policy(spaces), "value": Value(spaces)}
    before = [parameter.detach().clone() for parameter in models["policy"].parameters()]
    experiment = {"directory": str(tmp_path), "write_interval": 0, "checkpoint_interval": 0}
    agent = PPO(
        models=models,
        memory=RandomMemory(memory_size=NUM_STEPS, num_envs=NUM_ENVS),
        cfg=PPO_CFG(rollouts=NUM_STEPS, learning_epochs=2, experiment=experiment),
        **spaces,
    )
    config = {"timesteps": 2 * NUM_STEPS, "close_environment_at_exit": False}  # it renders, too
    SequentialTrainer(env=envs, agents=agent, cfg=config).train()
    after = list(models["policy"].parameters())
    assert all(parameter.isfinite().all() for parameter in after)
    assert not all(torch.equal(*pair) for pair in zip(before, after, strict=True))
    rewards = agent.memory.get_tensor_by_name("rewards")
    assert rewards.shape == (NUM_STEPS, NUM_ENVS, 1)
    assert rewards.isfinite().all()


def test_disabled__is_never_reset_by_skrl() -> None:
    batch = gym.make_vec(
        "EnvPool/Pendulum-v1", num_envs=2, autoreset_mode="Disabled", max_episode_steps=2
    )
    envs = wrap_env(batch)
    envs.reset()
    for _ in range(2):
        envs.step(torch.zeros(2, 1))
    envs.reset()
    with pytest.raises(EpisodeEndedError):
        envs.step(torch.zeros(2, 1))


@pytest.mark.parametrize(
    "env_id",
    ["EnvPool/CartPole-v1", "EnvPool/HalfCheetah-v5", "EnvPool/CheetahRun-v1"],
)
def test_tensors__are_what_skrl_makes_of_a_numpy_batch(env_id: str) -> None:
    """The spaces are discrete, a box, and a dict of observations."""
    make: Any = partial(gym.make_vec, env_id, num_envs=NUM_ENVS, max_episode_steps=4)
    ours, theirs = SkrlWrapper(make(arrays="torch")), wrap_env(make())
    assert ours.device == torch.device("cpu")
    torch.testing.assert_close(ours.reset()[0], theirs.reset()[0])
    space = ours.action_space
    for step in range(9):
        if isinstance(space, gym.spaces.Discrete):
            actions = torch.randint(0, int(space.n), (NUM_ENVS, 1))
        else:
            actions = torch.rand(NUM_ENVS, space.shape[0]) - 0.5
        (*found, _), (*wanted, _) = ours.step(actions), theirs.step(actions)
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == other.dtype
            torch.testing.assert_close(one, other)
        assert found[3].any() == (step % 5 == 3)
    torch.testing.assert_close(ours.reset()[0], theirs.reset()[0])  # the current observation


def test_actions__stay_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = gym.make_vec("EnvPool/Pendulum-v1", num_envs=2, arrays="torch")
    given: list[Any] = []
    step = batch.step
    monkeypatch.setattr(batch, "step", lambda actions: (given.append(actions), step(actions))[1])
    envs = SkrlWrapper(batch)
    envs.reset()
    envs.step(torch.zeros(2, 1))
    assert isinstance(given[0], torch.Tensor)


def test_scalars__are_features() -> None:
    """skrl's own wrapper fails where a `Dict` has one, and makes features of the environments."""
    envs = SkrlWrapper(gym.make_vec("EnvPool/WalkerRun-v1", num_envs=3, arrays="torch"))
    obs, _ = envs.reset()
    parts = gym.make_vec("EnvPool/WalkerRun-v1", num_envs=3, arrays="torch").reset(seed=0)[0]
    assert parts["height"].shape == (3,)
    assert obs.shape == (3, sum(part[0].numel() for part in parts.values()))
    alone = SkrlWrapper(scripted_vector_env([2, 3, 4], arrays="torch"))
    assert alone.reset()[0].shape == (3, 1)


@pytest.mark.parametrize(
    ("space", "given", "rewards"),
    [
        (gym.spaces.Discrete(3, start=2), [[0], [2]], [2, 4]),
        (gym.spaces.MultiDiscrete([3, 2], start=[1, 5]), [[0, 0], [2, 1]], [6, 9]),
        (gym.spaces.Box(-9, 9, (2,)), [[1.0, 2.0], [3.0, 4.0]], [3, 7]),
    ],
)
def test_actions__are_numbered_from_zero(space: Any, given: Any, rewards: Any) -> None:
    """The reward is the sum of the action."""
    envs = SkrlWrapper(counting_batch(2, "NextStep", action_space=space))
    envs.reset()
    assert envs.step(torch.tensor(given))[1].tolist() == [[reward] for reward in rewards]
    size = len(given[0])
    with pytest.raises(ActionError, match=rf"must have shape \(2, {size}\)"):
        envs.step(torch.zeros(2 * size))


def test_bad_batch__is_refused() -> None:
    """`test_table.py` has batches of another mode, kind of arrays or space."""
    with pytest.raises(ArgumentTypeError, match=r"got str; build one with `gymnasium.make_vec"):
        SkrlWrapper("EnvPool/Pendulum-v1")  # type: ignore[arg-type]
