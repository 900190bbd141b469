"""skrl's `wrap_env` takes our batches as they are; with `SkrlWrapper` it learns from true pairs."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, GaussianMixin, Model
from skrl.trainers.torch import SequentialTrainer

from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError
from gymbridge.testing import scripted_vector_env
from gymbridge.trainers.skrl import SkrlWrapper, with_final_observations
from gymbridge.wrappers import NormalizeObservation
from tests.support.cartpole import next_states
from tests.support.small_batches import (
    GAMMA,
    Silent,
    counting_batch,
    wheel_batch,
    wheel_values,
)

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "trainers" / "skrl.md"
CART_POLE = "EnvPool/CartPole-v1"
TENSORS: Any = {"arrays": "torch", "autoreset_mode": "SameStep"}
NUM_ENVS, NUM_STEPS = 4, 32
FLAGS = "truncated", "terminated"


class Policy(GaussianMixin, Model):
    def __init__(self, spaces: dict[str, Any]) -> None:
        Model.__init__(self, **spaces)
        GaussianMixin.__init__(self)
        self.mean = torch.nn.Linear(self.num_observations, self.num_actions)
        self.log_std = torch.nn.Parameter(torch.zeros(self.num_actions))

    def compute(self, inputs: Any, role: str = "") -> Any:
        return self.mean(inputs["observations"]), {"log_std": self.log_std}


class Choice(CategoricalMixin, Model):
    def __init__(self, spaces: dict[str, Any]) -> None:
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self)
        self.logits = torch.nn.Linear(self.num_observations, self.num_actions)

    def compute(self, inputs: Any, role: str = "") -> Any:
        return self.logits(inputs["observations"]), {}


class Value(DeterministicMixin, Model):
    def __init__(self, spaces: dict[str, Any]) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.value = torch.nn.Linear(self.num_observations, 1)

    def compute(self, inputs: Any, role: str = "") -> Any:
        return self.value(inputs["observations"]), {}


def make_agent(env: Any, policy: Any = Choice, size: int = NUM_STEPS, **options: Any) -> PPO:
    """Return an agent with a memory of `size` steps, after which it learns."""
    torch.manual_seed(0)
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    experiment = {"directory": "", "write_interval": 0, "checkpoint_interval": 0}
    return PPO(
        models={"policy": policy(spaces), "value": Value(spaces)},
        memory=RandomMemory(memory_size=size, num_envs=env.num_envs),
        cfg=PPO_CFG(rollouts=size, experiment=experiment, **options),
        **spaces,
    )


def train(env: Any, agent: Any, num_steps: int, **options: Any) -> None:
    """Run skrl's own trainer, which renders, too."""
    config = {"close_environment_at_exit": False, "disable_progressbar": True, **options}
    SequentialTrainer(env=env, agents=agent, cfg={"timesteps": num_steps, **config}).train()


def record(agent: PPO) -> list[dict[str, Any]]:
    """Return a list into which go copies of all that the agent records from now on."""
    inner, found = agent.record_transition, []

    def keep(**given: Any) -> None:
        tensors = {name: value for name, value in given.items() if torch.is_tensor(value)}
        found.append({name: value.clone() for name, value in tensors.items()})
        inner(**given)

    agent.record_transition = keep  # pyright: ignore[reportAttributeAccessIssue]
    return found


def is_true(recorded: dict[str, Any]) -> np.ndarray:
    """Return for each environment whether the law of CartPole makes of a pair what it should."""
    found = {name: value.numpy() for name, value in recorded.items()}
    next_obs, terminated = next_states(found["observations"], found["actions"][:, 0])
    is_next = np.isclose(found["next_observations"], next_obs, atol=1e-5).all(1)
    return is_next & (found["rewards"][:, 0] == 1) & (found["terminated"][:, 0] == terminated)


def ended(recorded: dict[str, Any]) -> np.ndarray:
    return (recorded["terminated"] | recorded["truncated"]).numpy()[:, 0]


def cart_poles(num_envs: int, mode: str, **options: Any) -> Any:
    """Return CartPoles with episodes that end in both ways, from a fixed seed."""
    envs = gym.make_vec(
        CART_POLE, num_envs=num_envs, autoreset_mode=mode, max_episode_steps=25, **options
    )
    envs.reset(seed=0)
    return envs


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_wrap_env__records_a_wrong_pair_for_each_end(mode: str) -> None:
    """In NextStep this is the pair after the end, whose action was ignored."""
    env = wrap_env(cart_poles(NUM_ENVS, mode))
    agent = make_agent(env, size=300)
    found = record(agent)
    train(env, agent, 200)
    ends = np.stack([ended(each) for each in found])
    wrong = ~np.stack([is_true(each) for each in found])
    if mode == "NextStep":
        wrong, ends = wrong[1:], ends[:-1]
    assert (wrong == ends).all()
    assert f"{wrong.sum()} of {ends.sum()} in {mode}" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("num_envs", [1, NUM_ENVS])
def test_final_observations__are_recorded(num_envs: int) -> None:
    """`terminated` excludes `truncated`, which skrl adds a value for."""
    env = SkrlWrapper(cart_poles(num_envs, "SameStep", arrays="torch"))
    agent = make_agent(env, size=300, time_limit_bootstrap=True)
    found = record(agent)
    train(env, with_final_observations(agent), 200)
    assert np.stack([is_true(each) for each in found]).all()
    truncated, terminated = (sum(each[name] for each in found).sum() for name in FLAGS)
    assert min(truncated, terminated) > 2
    rewards = agent.memory.get_tensor_by_name("rewards")[:200]  # with the values of what was cut
    assert ((rewards != 1) == torch.stack([each["truncated"] for each in found])).all()
    for before, after in itertools.pairwise(found):
        begins = ended(before)
        continued = (before["next_observations"] == after["observations"]).all(-1).numpy()
        assert (continued == ~begins).all()
        assert (after["observations"][begins].abs() <= 0.05).all()


def wheel_error(wrap: Any, mode: str, arrays: str) -> float:
    """Return the mean error of the values that skrl learns on the wheel."""
    batch = wheel_batch(16, mode, arrays)
    batch.reset(seed=0)
    env = wrap(batch)
    options = {"discount_factor": GAMMA, "time_limit_bootstrap": True, "learning_rate": 1e-2}
    agent = make_agent(env, Policy, 16, **options)
    train(env, with_final_observations(agent) if wrap is SkrlWrapper else agent, 16 * 20)
    angles = torch.arange(12) * torch.pi / 6
    points = torch.stack([angles.cos(), angles.sin()], -1)
    values, _ = agent.value.act({"observations": points}, role="value")
    return (values[:, 0] - wheel_values(points)).abs().mean().item()


@pytest.mark.slow
def test_values__are_true_where_final_observations_are_recorded() -> None:
    ours = wheel_error(SkrlWrapper, "SameStep", "torch")
    stock = [wheel_error(wrap_env, mode, "numpy") for mode in ("NextStep", "SameStep")]
    wanted = re.findall(r"`\w+`, \w+ \| (\d\.\d+) \|", PAGE.read_text(encoding="utf-8"))
    assert [*stock, ours] == pytest.approx([*map(float, wanted)], abs=0.01)


def test_agent__stays_an_agent() -> None:
    """skrl pickles agents for trainers in processes of their own."""
    env = SkrlWrapper(cart_poles(NUM_ENVS, "SameStep", arrays="torch"))
    agent = with_final_observations(make_agent(env, time_limit_bootstrap=True))
    for copied in (copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        train(env, copied, NUM_STEPS)
        assert copied.memory.get_tensor_by_name("truncated").any()
    assert agent.memory is not copied.memory


def test_agent__is_refused_where_final_observations_are_not_its_own() -> None:
    with pytest.raises(ArgumentTypeError, match=r"must be a skrl.agents.torch.Agent, got ABCMeta"):
        with_final_observations(PPO)  # type: ignore[type-var]
    numpy = wrap_env(cart_poles(2, "SameStep"))
    message = r"must be those of 2 environments, got none; give the trainer a `SkrlWrapper`"
    with pytest.raises(ArgumentError, match=message):
        train(numpy, with_final_observations(make_agent(numpy)), 1)
    dropped = SkrlWrapper(Silent(cart_poles(2, "SameStep", arrays="torch")))
    with pytest.raises(ArgumentError, match=r"whose batch keeps `infos\['final_obs'\]`"):
        train(dropped, with_final_observations(make_agent(dropped)), 1, headless=True)
    env = SkrlWrapper(cart_poles(NUM_ENVS, "SameStep", arrays="torch"))
    agents = [with_final_observations(make_agent(env)) for _ in range(2)]
    for agent in agents:
        agent.memory = RandomMemory(memory_size=NUM_STEPS, num_envs=2)
    with pytest.raises(ArgumentError, match=r"of 2 environments, got those of 4 environments"):
        train(env, agents, 1)


@pytest.mark.parametrize(
    "env_id",
    ["EnvPool/CartPole-v1", "EnvPool/HalfCheetah-v5", "EnvPool/CheetahRun-v1"],
)
def test_tensors__are_what_skrl_makes_of_a_numpy_batch(env_id: str) -> None:
    """The spaces are discrete, a box, and a dict of observations."""
    options: Any = {"max_episode_steps": 4, "autoreset_mode": "SameStep"}
    make: Any = partial(gym.make_vec, env_id, num_envs=NUM_ENVS, **options)
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
        assert found[3].any() == (step % 4 == 3)
    torch.testing.assert_close(ours.reset()[0], theirs.reset()[0])  # the current observation


def test_actions__stay_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = gym.make_vec("EnvPool/Pendulum-v1", num_envs=2, **TENSORS)
    given: list[Any] = []
    step = batch.step
    monkeypatch.setattr(batch, "step", lambda actions: (given.append(actions), step(actions))[1])
    envs = SkrlWrapper(batch)
    envs.reset()
    envs.step(torch.zeros(2, 1))
    assert isinstance(given[0], torch.Tensor)


def test_wrapped_batch__is_drawn() -> None:
    envs = gym.make_vec(CART_POLE, 2, render_mode="rgb_array", **TENSORS)
    env = SkrlWrapper(NormalizeObservation(envs))
    env.reset()
    assert [frame.shape for frame in env.render()] == [(400, 600, 3)] * 2


def test_scalars__are_features() -> None:
    """skrl's own wrapper fails where a `Dict` has one, and makes features of the environments."""
    envs = SkrlWrapper(gym.make_vec("EnvPool/WalkerRun-v1", num_envs=3, **TENSORS))
    obs, _ = envs.reset()
    parts = gym.make_vec("EnvPool/WalkerRun-v1", num_envs=3, arrays="torch").reset(seed=0)[0]
    assert parts["height"].shape == (3,)
    assert obs.shape == (3, sum(part[0].numel() for part in parts.values()))
    alone = SkrlWrapper(scripted_vector_env([2, 3, 4], **TENSORS))
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
    envs = SkrlWrapper(counting_batch(2, "SameStep", action_space=space))
    envs.reset()
    assert envs.step(torch.tensor(given))[1].tolist() == [[reward] for reward in rewards]
    size = len(given[0])
    with pytest.raises(ActionError, match=rf"must have shape \(2, {size}\)"):
        envs.step(torch.zeros(2 * size))
