"""The rollouts of `examples/ppo.py`, its advantages and its update are their definitions."""

from __future__ import annotations

import copy
import math

import gymnasium as gym
import numpy as np
import pytest
import torch

from gymbridge.testing import scripted_vector_env
from tests.support.ppo_episodes import LENGTHS, NUM_STEPS, TRUNCATES, joined
from tests.support.reads import count_reads


def advantages_by_hand(rollout, next_values, following_steps, gamma, gae_lambda):
    """Return the estimate of every experienced step by its definition, as {(step, env): value}."""
    found = {}
    for step, env in np.argwhere(~rollout.restarts.numpy()):
        total, weight = 0.0, 1.0
        for later in range(step, following_steps):
            value_after = 0.0 if rollout.terminated[later, env] else next_values[later, env].item()
            error = rollout.rewards[later, env] + gamma * value_after - rollout.values[later, env]
            total, weight = total + weight * error.item(), weight * gamma * gae_lambda
            if rollout.ended[later, env]:
                break
        found[step, env] = total
    return found


def test_rollouts__mark_exactly_the_steps_after_an_end(rollouts):
    restarts, obs = joined(rollouts, "restarts"), joined(rollouts, "obs")
    assert not restarts[0].any()
    np.testing.assert_array_equal(restarts[1:], joined(rollouts, "ended")[:-1])
    assert restarts[NUM_STEPS].any(), "no rollout began with a restart row"
    assert (obs[restarts] > 0).all()
    assert (joined(rollouts, "rewards")[restarts] == 0).all()
    assert (obs[1:][restarts[:-1]] == 0).all()


def test_rollouts__follow_the_script(rollouts):
    ended, terminated = joined(rollouts, "ended"), joined(rollouts, "terminated")
    for env, (lengths, truncates) in enumerate(zip(LENGTHS, TRUNCATES, strict=True)):
        # An episode of n steps takes n + 1 rows, the last of which restarts.
        last_rows = np.cumsum(np.tile(lengths, 4) + 1) - 2
        inside = last_rows < len(ended)
        np.testing.assert_array_equal(np.flatnonzero(ended[:, env]), last_rows[inside])
        by_itself = ~np.tile(truncates, 4)[inside]
        np.testing.assert_array_equal(terminated[last_rows[inside], env], by_itself)


def test_rollouts__sum_and_scale_the_rewards_that_came(ppo, args, rollouts):
    replay = scripted_vector_env(LENGTHS, TRUNCATES)
    replay.reset(seed=args.seed)
    variances, totals = [], np.zeros((2, len(LENGTHS)))
    for rollout, _ in rollouts:
        came, sums = [], []
        for actions, ended in zip(rollout.actions, rollout.ended.numpy(), strict=True):
            came.append(replay.step(actions.numpy())[1])
            totals = totals * [[1.0], [args.gamma]] + came[-1]
            sums.append(totals)
            totals = np.where(ended, 0, totals)
        np.testing.assert_allclose(rollout.sums, np.stack(sums), rtol=1e-5)
        variances.append(np.stack(sums)[:, 1].var(ddof=1))
        scaled = np.clip(np.stack(came) / np.sqrt(np.mean(variances)), -10, 10)
        np.testing.assert_allclose(rollout.rewards, scaled, rtol=1e-4)
    assert joined(rollouts, "sums")[:, 0].max() > 1


@pytest.fixture(params=["host", "brax"])
def tensors(request):
    """Batches of tensors with Discrete and with Box actions, and whether one is on the host."""
    if request.param == "host":
        return scripted_vector_env(LENGTHS, TRUNCATES, arrays="torch"), True
    options = {"arrays": "torch", "max_episode_steps": 3}
    return gym.make_vec("Brax/fast-v0", len(LENGTHS), **options), False


def test_rollouts__on_tensors_read_nothing_in_a_step(ppo, args, tensors, monkeypatch):
    envs, is_on_host = tensors
    steps = ppo.rollouts(envs, ppo.Agent(envs), args)
    next(steps)  # compiles
    with count_reads("torch", monkeypatch) as counter, count_reads("jax", monkeypatch) as other:
        rollout, _ = next(steps)
    assert rollout.ended.any()
    # A batch norm reads its count once in a rollout; a simulator on the host takes actions there.
    assert +counter == {"__float__": 1} | ({"cpu": NUM_STEPS} if is_on_host else {})
    assert not +other


WAITS = ("aten::item", "aten::nonzero", "aten::equal", "aten::_unique2")
"""Operations of torch for which the host waits; an index by a mask is a `nonzero`."""


def test_rollouts__on_tensors_wait_for_nothing_in_torch(ppo, tensors):
    """Its C++ reads values by methods that the counter does not see."""
    envs, waits = tensors[0], []
    agent = ppo.Agent(envs)
    for num_steps in (3, 3, 9):
        args = ppo.Args(num_envs=len(LENGTHS), num_steps=num_steps)
        with torch.profiler.profile() as profiler:
            next(ppo.rollouts(envs, agent, args))
        waits.append(sum(event.name in WAITS for event in profiler.events()))
    assert waits[0] > 0, "the batch norm's count, once in a rollout"
    assert waits[1] == waits[2], "the host waits in every step"


def test_draw__of_discrete_actions_is_torch_s_own(ppo):
    policy = torch.distributions.Categorical(logits=torch.randn(50, 4))
    torch.manual_seed(3)
    wanted = policy.sample()
    torch.manual_seed(3)
    assert torch.equal(ppo.draw(policy), wanted)
    assert len(wanted.unique()) == 4


def test_evaluate__is_what_first_episodes_earn_with_the_likeliest_actions(ppo, agent):
    args = ppo.Args(num_envs=3, eval_steps=4)  # the third environment's takes 5
    found = ppo.evaluate(scripted_vector_env(LENGTHS, TRUNCATES), agent, args, agent.act)
    replay = scripted_vector_env(LENGTHS, TRUNCATES)
    [obs] = agent.from_env(replay.reset()[0])
    wanted = np.zeros(3)
    for step in range(4):
        obs, rewards, *_ = agent.step(replay, agent(obs)[0].logits.argmax(1))
        wanted += np.where(np.array([2, 4, 5]) > step, rewards, 0)
    assert found == pytest.approx(wanted[:2])
    assert wanted[0] != wanted[1]


def test_update__goes_down_the_loss_of_its_definition(ppo, agent, rollouts):
    """One plain gradient step on all rows at once, with ratios on both sides of the clip."""
    rollout, last_values = rollouts[1]
    shift = torch.linspace(-0.5, 0.5, rollout.log_probs.numel()).reshape(rollout.log_probs.shape)
    rollout = rollout._replace(log_probs=rollout.log_probs + shift)
    numbers = {"epochs": 1, "minibatches": 1, "max_grad_norm": math.inf, "entropy_coef": 0.3}
    args = ppo.Args(**numbers, gamma=0.9, gae_lambda=0.8)
    found, wanted = copy.deepcopy(agent), copy.deepcopy(agent)
    ppo.update(args, found, torch.optim.SGD(found.parameters(), 0.1), rollout, last_values)

    rows = ~rollout.restarts
    advantages = ppo.estimate_advantages(rollout, last_values, args)
    policy, values = wanted(rollout.obs[rows])
    ratio = torch.exp(policy.log_prob(rollout.actions[rows]) - rollout.log_probs[rows])
    assert ratio.min() < 0.8
    assert ratio.max() > 1.2
    gain = (advantages[rows] - advantages[rows].mean()) / advantages[rows].std(correction=0)
    worse = torch.where(gain > 0, gain * ratio.clamp(max=1.2), gain * ratio.clamp(min=0.8))
    errors = values - (advantages + rollout.values)[rows]
    loss = 0.5 * (errors**2).mean() - worse.mean() - 0.3 * policy.entropy().mean()
    loss.backward()
    for new, old in zip(found.parameters(), wanted.parameters(), strict=True):
        moved = old - 0.1 * (0 if old.grad is None else old.grad)
        torch.testing.assert_close(new, moved, rtol=1e-4, atol=1e-6)


def test_advantages__are_their_definition(ppo, args, agent, rollouts):
    truncations = terminations = 0
    replay = scripted_vector_env(LENGTHS, TRUNCATES)
    replay.reset(seed=args.seed)
    for rollout, last_values in rollouts:
        after = [replay.step(actions.numpy())[0] for actions in rollout.actions]
        with torch.no_grad():
            next_values = torch.stack([agent(agent.from_env(obs)[0])[1] for obs in after])
        expected = advantages_by_hand(rollout, next_values, NUM_STEPS, args.gamma, args.gae_lambda)
        advantages = ppo.estimate_advantages(rollout, last_values, args)
        for (step, env), value in expected.items():
            assert advantages[step, env].item() == pytest.approx(value, abs=1e-5)
        terminations += int(rollout.terminated.sum())
        truncations += int((rollout.ended & ~rollout.terminated).sum())
    assert min(terminations, truncations) > 3, "too few ends of one kind were reached"


def test_update__learns_nothing_from_restart_rows(ppo, args, agent, rollouts):
    rollout, last_values = rollouts[1]
    assert rollout.restarts.any()
    other = rollout._replace(
        rewards=torch.where(rollout.restarts, 1e6, rollout.rewards),
        actions=torch.where(rollout.restarts, 2 - rollout.actions, rollout.actions),
        log_probs=torch.where(rollout.restarts, -9.0, rollout.log_probs),
    )
    learned = []
    for steps in (rollout, other):
        learner = copy.deepcopy(agent)
        torch.manual_seed(3)
        adam = torch.optim.Adam(learner.parameters())
        ppo.update(args, learner, adam, steps, last_values)
        learned.append(learner.state_dict())
    assert all(torch.equal(learned[0][name], learned[1][name]) for name in learned[0])
    assert not torch.equal(learned[0]["actor.0.weight"], agent.actor[0].weight)
