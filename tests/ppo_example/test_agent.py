"""The agent of `examples/ppo.py` takes what environments give, and gives what they take."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from tests.support.ppo_episodes import spaces_of


@pytest.mark.parametrize("shape", [(4, 84, 84), (96, 96, 3)])
def test_agent__sees_images_of_either_layout(ppo, shape):
    agent = ppo.Agent(spaces_of(spaces.Box(0, 255, shape, np.uint8), spaces.Discrete(5)))
    policy, values = agent(torch.zeros(2, math.prod(shape), dtype=torch.uint8))
    assert agent.is_image
    assert policy.sample().shape == values.shape == (2,)
    small = ppo.Agent(spaces_of(spaces.Box(0, 255, (7, 7, 3), np.uint8), spaces.Discrete(5)))
    assert not small.is_image


def test_agent__normalises_by_what_it_trained_on(ppo, args, agent, rollouts):
    rollout, last_values = rollouts[1]
    learner = copy.deepcopy(agent)
    ppo.update(args, learner, torch.optim.Adam(learner.parameters()), rollout, last_values)
    seen = rollout.obs[~rollout.restarts].float()
    assert learner.obs_norm.running_mean.item() == pytest.approx(seen.mean().item())
    assert learner.obs_norm.running_var.item() == pytest.approx(seen.var().item())
    learner(torch.full((8, 1), 100.0))
    assert learner.obs_norm.running_mean.item() == pytest.approx(seen.mean().item())


@pytest.mark.parametrize(
    ("space", "drawn", "expected"),
    [
        (spaces.Discrete(3, start=5), [0, 2], [5, 7]),
        (spaces.Box(-2.0, 6.0, (1,)), [[-1.0], [0.0], [1.0], [9.0]], [[-2.0], [2.0], [6.0], [6.0]]),
        (spaces.Box(0.0, np.inf, (1,), np.float64), [[-1.0], [7.0]], [[0.0], [7.0]]),
        (spaces.Box(0, 4, (1,), np.int32), [[-1.0], [0.0], [9.0]], [[0], [2], [4]]),
    ],
)
def test_agent__maps_its_draws_onto_the_action_space(ppo, space, drawn, expected):
    agent = ppo.Agent(spaces_of(spaces.Box(-1.0, 1.0, (2,)), space))
    actions = agent.to_space(torch.tensor(drawn)).numpy()
    assert actions.tolist() == expected
    assert actions.dtype == space.dtype
    assert all(action in space for action in actions)


def test_agent__makes_observations_flat(ppo):
    parts = {"where": spaces.Discrete(3, start=1), "what": spaces.Box(0, 9, (2, 1), np.uint8)}
    space = spaces.Dict(parts)
    agent = ppo.Agent(spaces_of(space, spaces.Discrete(2)))
    obs = {"where": np.array([3, 1]), "what": np.array([[[4], [5]], [[6], [7]]], np.uint8)}
    [flat] = agent.from_env(obs)
    assert flat.tolist() == [[4, 5, 0, 0, 1], [6, 7, 1, 0, 0]]
    by_gymnasium = [spaces.flatten(space, {key: obs[key][row] for key in parts}) for row in (0, 1)]
    np.testing.assert_array_equal(flat, by_gymnasium)
    assert agent(flat)[1].shape == (2,)


def test_agent__refuses_other_actions(ppo):
    with pytest.raises(SystemExit, match="Discrete or Box"):
        ppo.Agent(spaces_of(spaces.Box(-1.0, 1.0, (2,)), spaces.MultiBinary(3)))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    ("observations", "actions"),
    [
        (spaces.Box(-1.0, 1.0, (3,)), spaces.Box(-2.0, 6.0, (2,))),
        (spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(3, start=5)),
        (spaces.Dict(a=spaces.Box(-1.0, 1.0, (2,)), b=spaces.Discrete(4)), spaces.Discrete(3)),
    ],
)
def test_policy__that_was_saved_acts_as_the_agent_does(ppo, observations, actions, tmp_path):
    agent = ppo.Agent(spaces_of(observations, actions))
    torch.nn.init.normal_(agent.actor[-1].weight)
    ppo.save_policy(tmp_path / "policy.pt", agent)
    saved = torch.jit.load(tmp_path / "policy.pt")
    obs = torch.rand(7, agent.obs_size) * 100
    with torch.no_grad():
        wanted = agent.act(obs)
        torch.testing.assert_close(saved(obs), wanted)
        if shape := observations.shape:
            torch.testing.assert_close(saved(obs.reshape(7, *shape)), wanted)
    assert len(wanted.unique()) > 1 or isinstance(actions, spaces.Discrete)
    assert all(action in actions for action in wanted.numpy())


def test_agent__explores_as_much_as_it_is_told(ppo):
    envs = spaces_of(spaces.Box(-1.0, 1.0, (2,)), spaces.Box(-1.0, 1.0, (1,)))
    torch.manual_seed(0)
    for std in (0.1, 1.0):
        draws = ppo.Agent(envs, std)(torch.zeros(5000, 2))[0].sample()
        assert draws.std().item() == pytest.approx(std, rel=0.05)
