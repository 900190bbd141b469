"""`TorchRLEnv`: gradients, and what TorchRL builds around an environment.

What TorchRL's own tests ask of its `BraxEnv` and its thread pool (`test/libs/test_brax.py` and
`test_envpool.py`) is here and in the files beside this one.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs import (
    ObservationNorm,
    ParallelEnv,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
)
from torchrl.envs.utils import check_env_specs

from gymbridge.trainers.torchrl import TorchRLEnv
from tests.support.point_mass import make_batch
from tests.support.torchrl_samples import NUM_ENVS, lean, make, make_cart_pole, roll_out


@cache
def make_graph_env() -> TorchRLEnv:
    return TorchRLEnv(make_batch(autoreset_mode="Disabled"))


def make_policy(env: Any) -> TensorDictModule:
    torch.manual_seed(0)
    size, out = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    net = torch.nn.Sequential(torch.nn.Linear(size, out), torch.nn.Tanh())
    return TensorDictModule(net, in_keys=["observation"], out_keys=["action"])


def test_gradients__are_those_of_step() -> None:
    env = make_graph_env()
    policy = make_policy(env)
    parameters = list(policy.parameters())
    env.set_seed(1)
    rollout = env.rollout(4, policy=policy)
    assert rollout.requires_grad
    found = torch.autograd.grad(rollout["next", "reward"].mean(), parameters)
    obs, _ = env.envs.reset(seed=1)
    rewards = []
    for _ in range(4):
        obs, reward, *_ = env.envs.step(policy.module(obs))
        rewards.append(reward)
    wanted = torch.autograd.grad(torch.stack(rewards).mean(), parameters)
    assert any(gradient.abs().sum() > 0 for gradient in wanted)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_windows__are_cut_by_detach() -> None:
    env = make_graph_env()
    policy = make_policy(env)
    td = env.reset()
    for _ in range(3):
        window = env.rollout(2, policy=policy, tensordict=td, auto_reset=False)
        window["next", "reward"].mean().backward()
        env.detach()
        td = env.step_mdp(window[..., -1]).detach()
    with torch.no_grad():
        assert not env.rollout(2, policy=policy).requires_grad


def test_transforms__work() -> None:
    env = TransformedEnv(make_cart_pole(), auto_unwrap=True)
    env.append_transform(RewardSum())
    env.append_transform(StepCounter(max_steps=15))
    env.append_transform(ObservationNorm(in_keys=["observation"], loc=1.0, scale=2.0))
    check_env_specs(env)
    rollout = roll_out(env, policy=None)
    assert rollout["next", "step_count"].max() == 15
    for flag in ("terminated", "truncated"):
        assert rollout["next", flag].any(), f"no episode was {flag}"
    assert (rollout["next", "episode_reward"] == rollout["next", "step_count"]).all()
    ends = rollout["next", "done"][:, :-1, 0]
    assert (rollout["step_count"][:, 1:, 0][ends] == 0).all()


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        (SerialEnv, "box"),
        pytest.param(ParallelEnv, "brax", marks=pytest.mark.slow),
    ],
)
def test_several_batches__are_each_their_own(kind: Any, task: str) -> None:
    """`ParallelEnv` has a process for each."""
    envs = kind(2, partial(make, task))
    envs.set_seed(0)
    torch.manual_seed(0)
    actions = [envs.full_action_spec["action"].rand() for _ in range(7)]
    steps = [envs.reset()]
    for action in actions:
        steps.append(envs.step_and_maybe_reset(steps[-1].clone().set("action", action))[1])
    envs.close()
    assert steps[0].batch_size == (2, NUM_ENVS)
    for index in range(2):
        alone = make(task)
        alone.set_seed(0 if index == 0 else make(task).set_seed(0))
        td = alone.reset()
        for step, action in enumerate(actions):
            assert torch.equal(td["observation"], steps[step]["observation"][index]), step
            td = alone.step_and_maybe_reset(td.set("action", action[index]))[1]


def test_rand_step__begins_without_a_tensordict() -> None:
    env = make("box")
    env.reset()
    assert env.rand_step()["next", "reward"].shape == (NUM_ENVS, 1)
    with pytest.raises(RuntimeError, match="batch_size"):
        env.step(TensorDict({"action": torch.zeros(9, 6)}, [9]))


@pytest.mark.filterwarnings("ignore:The env passed to Collector")
def test_environment__is_open_until_it_or_its_collector_is_closed() -> None:
    env = make("discrete", categorical_action_encoding=True)
    assert repr(env).startswith("TorchRLEnv(")
    assert "CartPole" in repr(env)
    assert repr(env).endswith(", device='cpu')")
    assert not env.is_closed
    collector = Collector(env, lean, frames_per_batch=8, total_frames=80)
    next(iter(collector))
    assert not env.is_closed
    collector.shutdown()
    assert env.is_closed
    assert env.envs.closed
    view = make("discrete")
    view.envs.close()
    assert view.is_closed
    view = make("discrete")
    batch = view.envs
    del view
    assert not batch.closed, "a view that is collected leaves the batch open"
