"""SHAC's sums are their definitions, and plans improve by their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from gymbridge.wrappers import RecordEpisodeStatistics
from tests.support.example_runs import EXAMPLES, load_script
from tests.support.point_mass import NUM_ENVS, shared_batch

NUM_STEPS, GAMMA = 7, 0.8


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for one another cost more than small networks."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def shac() -> ModuleType:
    """The script as a module."""
    return load_script(EXAMPLES / "shac.py")


@pytest.fixture
def args(shac):
    """Hyperparameters for windows of point masses."""
    return shac.Args(num_envs=NUM_ENVS, num_steps=NUM_STEPS, gamma=GAMMA)


@pytest.fixture
def envs() -> Any:
    """Point masses that leave the plane after some six steps, unless nine are over before."""
    envs = shared_batch(autoreset_mode="SameStep", max_episode_steps=9)
    return RecordEpisodeStatistics(envs)


@pytest.fixture
def agent(shac, envs):
    """An agent that some starts send out of the plane, whose critics are unlike one another."""
    torch.manual_seed(0)
    agent = shac.Agent(envs, initial_std=0.135)
    with torch.no_grad():
        agent.actor[-1].weight.mul_(200)
        agent.critic[-1].bias.fill_(100)
        agent.target_critic[-1].bias.fill_(3)
    agent.normalise.running_mean.fill_(0.2)
    return agent


def play_by_hand(envs: Any, agent: Any, num_windows: int) -> Iterator[list[Any]]:
    """Yield windows of (rewards, values of final_obs, terminated, truncated), each with a graph."""
    envs.reset(seed=1)
    for _ in range(num_windows):
        obs, rows = envs.detach(), []
        for _ in range(NUM_STEPS):
            obs, rewards, terminated, truncated, infos = envs.step(agent(obs, explore=True))
            features = agent.normalise(infos["final_obs"]).clamp(-10, 10)
            values = agent.target_critic(features)[:, 0]
            rows.append((rewards, values, terminated, truncated))
        yield rows


def windows_both_ways(shac: Any, args: Any, envs: Any, agent: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the script's windows, each with the same by hand.

    Each is as long-lived as its graph, so that both batches can be one and the same.
    """
    torch.manual_seed(5)
    by_hand = list(play_by_hand(envs, agent, 4))
    torch.manual_seed(5)
    yield from zip(shac.windows(envs, agent, args), by_hand, strict=False)


def loss_by_hand(rows: list[Any]) -> Any:
    """Return the loss by its definition: forwards, one environment at a time."""
    total, terminations, truncations = torch.zeros(()), 0, 0
    for env in range(NUM_ENVS):
        discount = 1.0
        for step, (rewards, values, terminated, truncated) in enumerate(rows):
            total = total + discount * rewards[env]
            discount *= GAMMA
            terminations += int(terminated[env])
            truncations += int(truncated[env])
            if terminated[env]:
                discount = 1.0
            elif truncated[env] or step == NUM_STEPS - 1:
                total = total + discount * values[env]
                discount = 1.0
    return -total / (NUM_ENVS * NUM_STEPS), terminations, truncations


def n_step_sum(rows: list[Any], first: int, last: int, env: int) -> float:
    """Return the discounted rewards of steps first to last and the value after them."""
    later = range(first, last + 1)
    total = sum(GAMMA ** (step - first) * rows[step][0][env].item() for step in later)
    _, values, terminated, _ = rows[last]
    return total + GAMMA ** len(later) * (0.0 if terminated[env] else values[env].item())


def target_by_hand(rows: list[Any], first: int, env: int, weight: float) -> float:
    """Return a lambda-return by its definition, a mean of n-step sums."""
    ends = [step for step in range(first, NUM_STEPS) if (rows[step][2] | rows[step][3])[env]]
    last = min([*ends, NUM_STEPS - 1])
    sums = [n_step_sum(rows, first, step, env) for step in range(first, last + 1)]
    weights = [(1 - weight) * weight**n for n in range(len(sums) - 1)]
    return float(np.dot([*weights, weight ** (len(sums) - 1)], sums))


def test_policy_loss__is_its_definition(shac, args, envs, agent):
    terminations = truncations = 0
    for window, rows in windows_both_ways(shac, args, envs, agent):
        expected, by_itself, by_limit = loss_by_hand(rows)
        loss = shac.policy_loss(window, agent.values(window.next_obs), GAMMA)
        torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0)
        parameters = [*agent.actor.parameters(), agent.log_std]
        wanted = torch.autograd.grad(expected, parameters)
        found = torch.autograd.grad(loss, parameters)
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-5)
        assert max(part.abs().max() for part in wanted) > 0.01
        terminations, truncations = terminations + by_itself, truncations + by_limit
    assert min(terminations, truncations) > 1, "too few ends of one kind were reached"


def test_critic_targets__are_their_definition(shac, args, envs, agent):
    for window, rows in windows_both_ways(shac, args, envs, agent):
        targets = shac.sum_rewards(window, agent.values(window.next_obs), GAMMA, 0.7)
        for step, env in np.ndindex(NUM_STEPS, NUM_ENVS):
            expected = target_by_hand(rows, step, env, 0.7)
            assert targets[step, env].item() == pytest.approx(expected, rel=1e-4)


def test_step_adam__skips_a_gradient_that_is_not_finite(shac):
    weight = torch.nn.Parameter(torch.tensor([0.0, 1.0]))
    adam = torch.optim.Adam([weight])
    assert not shac.step_adam(adam, weight.sqrt().sum(), 1.0)
    assert weight.tolist() == [0.0, 1.0]
    assert shac.step_adam(adam, weight.sum(), 1.0)
    assert (weight < torch.tensor([0.0, 1.0])).all()


def test_open_loop__lowers_the_cost_of_every_start():
    envs = shared_batch(max_episode_steps=-1)
    sizes = {"num_envs": NUM_ENVS, "num_steps": 12, "iterations": 40, "learning_rate": 0.05}
    script = load_script(EXAMPLES / "open_loop.py")
    costs = -script.optimise(envs, script.Args(seed=3, **sizes)).sum(1)
    assert costs.shape == (40, NUM_ENVS)
    assert (costs[-1] < 0.8 * costs[0]).all()
