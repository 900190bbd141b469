"""SHAC's sums are their definitions; both scripts that use gradients run and improve."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from tests.support.example_runs import (
    EXAMPLES,
    call_script,
    check_picture,
    load_script,
    read_table,
    run_script,
)
from tests.support.point_mass import NUM_ENVS, shared_batch
from tests.support.ppo_episodes import spaces_of

TINY = ("--total-steps=64", "--num-envs=4", "--num-steps=8", "--eval-steps=4")
FAST = ("--env-id=Brax/fast-v0", '--env-kwargs={"backend": "spring", "max_episode_steps": 3}')
LAST_LINE = re.compile(r"(\S+): mean return (\S+) over the last (\d+) episodes, (\d+) s")
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
    return shared_batch(autoreset_mode="SameStep", max_episode_steps=9)


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
            obs, rewards, terminated, truncated, infos = envs.step(agent.act(obs, explore=True))
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


def test_update__moves_policy_critic_and_target(shac, args, envs, agent):
    before = {name: part.clone() for name, part in agent.state_dict().items()}
    actor = torch.optim.Adam([*agent.actor.parameters(), agent.log_std])
    critic = torch.optim.Adam(agent.critic.parameters())
    window = next(shac.windows(envs, agent, args))
    assert shac.update(args, agent, actor, critic, window)
    after = agent.state_dict()
    still = {name for name in before if torch.equal(before[name], after[name])}
    assert not still
    for name in ("0.weight", "4.bias"):
        old, new = before[f"target_critic.{name}"], after[f"critic.{name}"]
        expected = old + args.target_rate * (new - old)
        torch.testing.assert_close(after[f"target_critic.{name}"], expected)


def test_step_adam__skips_a_gradient_that_is_not_finite(shac):
    weight = torch.nn.Parameter(torch.tensor([0.0, 1.0]))
    adam = torch.optim.Adam([weight])
    assert not shac.step_adam(adam, weight.sqrt().sum(), 1.0)
    assert weight.tolist() == [0.0, 1.0]
    assert shac.step_adam(adam, weight.sum(), 1.0)
    assert (weight < torch.tensor([0.0, 1.0])).all()


def test_shac__learns_to_steer_point_masses(shac):
    torch.manual_seed(0)
    envs = shared_batch(num_envs=16, autoreset_mode="SameStep", max_episode_steps=20)
    args = shac.Args(num_envs=16, num_steps=10, total_steps=16 * 10 * 25, actor_rate=5e-3)
    agent = shac.Agent(envs, initial_std=0.135)
    progress = np.array(shac.train(args, envs, agent))
    assert progress[-1, 0] == args.total_steps
    assert progress[-1, 3] > 0.6 * progress[2, 3], "costs fell by less than 40 %"


@pytest.mark.parametrize(
    ("space", "low", "high"),
    [(spaces.Box(-2.0, 6.0, (3,)), -2.0, 6.0), (spaces.Box(-np.inf, np.inf, (3,)), -40.0, 40.0)],
)
def test_agent__acts_within_the_bounds(shac, space, low, high):
    agent = shac.Agent(spaces_of(spaces.Box(-np.inf, np.inf, (2,)), space), initial_std=0.5)
    with torch.no_grad():
        agent.actor[-1].bias.copy_(torch.tensor([-40.0, 0.0, 40.0]))
    means = agent.act(torch.zeros(5, 2))
    assert means[0].tolist() == pytest.approx([low, (low + high) / 2, high])
    assert agent.act(torch.zeros(500, 2), explore=True)[:, 1].std() > 0.05


def test_agent__explores_as_much_as_it_is_told(shac):
    anywhere = spaces.Box(-np.inf, np.inf, (2,))
    torch.manual_seed(0)
    for std in (0.1, 1.0):
        drawn = shac.Agent(spaces_of(anywhere, anywhere), std).act(
            torch.zeros(5000, 2), explore=True
        )
        assert drawn.std().item() == pytest.approx(std, rel=0.05)


def test_agent__refuses_other_spaces(shac):
    with pytest.raises(SystemExit, match="flat Boxes here, got Discrete"):
        shac.Agent(spaces_of(spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(3)), initial_std=0.5)


def test_shac__writes_its_results_and_plays_its_policy(tmp_path):
    *_, greedy, line = call_script("shac", *FAST, *TINY, cwd=tmp_path).lines
    folder = tmp_path / "runs" / "Brax" / "fast-v0" / "shac"
    table = read_table(folder / "progress.csv")
    assert table.dtype.names == ("env_steps", "seconds", "episodes", "mean_return")
    assert table["env_steps"].tolist() == [32, 64]
    check_picture(folder / "learning_curve.png")
    env_id, _, episodes, _ = LAST_LINE.fullmatch(line).groups()
    assert (env_id, episodes) == ("Brax/fast-v0", "20")
    policy = f"--evaluate={folder}/policy.pt"
    assert call_script("shac", *FAST, *TINY, policy, cwd=tmp_path).lines == [greedy]


def test_open_loop__writes_its_results(tmp_path):
    sizes = ("--num-envs=2", "--num-steps=3", "--iterations=2")
    line = call_script("open_loop", "--env-id=Brax/fast-v0", *sizes, cwd=tmp_path).lines[-1]
    assert re.fullmatch(r"Brax/fast-v0: mean cost \S+ before, \S+ after", line)
    check_picture(tmp_path / "runs" / "Brax" / "fast-v0" / "open_loop" / "costs.png")


def test_open_loop__lowers_the_cost_of_every_start():
    envs = shared_batch(max_episode_steps=-1)
    sizes = {"num_envs": NUM_ENVS, "num_steps": 12, "iterations": 40, "learning_rate": 0.05}
    script = load_script(EXAMPLES / "open_loop.py")
    plan = script.optimise(envs, argparse.Namespace(seed=3, **sizes))
    assert plan.costs.shape == (40, NUM_ENVS)
    torch.testing.assert_close(plan.costs, -plan.rewards.sum(1))
    assert (plan.costs[-1] < 0.8 * plan.costs[0]).all()


@pytest.mark.slow
def test_shac__reaches_its_bar_on_reacher(tmp_path):
    """Actions of 0 earn -22.6."""
    line = run_script("shac", "--target-return=-18", cwd=tmp_path).lines[-1]
    table = read_table(tmp_path / "runs" / "Brax" / "reacher-v0" / "shac" / "progress.csv")
    returns = table["mean_return"][np.isfinite(table["mean_return"])]
    assert returns[-1] > returns[0] + 5
    assert returns[-1] >= -18
    assert float(LAST_LINE.fullmatch(line)[2]) == pytest.approx(returns[-1], abs=0.01)
