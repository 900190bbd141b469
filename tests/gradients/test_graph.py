"""What a user of torch can do with a batch in the graph: cut it, keep it, look into it."""

from __future__ import annotations

import copy
import gc
from typing import Any

import jax
import numpy as np
import pytest
import torch
from point_mass import make_batch, shared_batch
from rollouts import SEED, draw_actions, play_steps

from gymbridge.errors import (
    ActionError,
    ArgumentError,
    ArgumentTypeError,
    ClosedError,
    ResetNeededError,
)

NUM_ENVS = 4


@pytest.fixture
def envs() -> Any:
    """A batch in episode 0 that nothing ends."""
    envs = shared_batch(NUM_ENVS, max_episode_steps=-1)
    envs.reset(seed=SEED)
    return envs


def small_actions(num_steps: int = 3) -> torch.Tensor:
    return draw_actions(num_steps, NUM_ENVS, scale=0.2).requires_grad_()


def run(envs: Any, actions: torch.Tensor) -> torch.Tensor:
    """Return the sum of the last observation and all rewards."""
    shown = play_steps(envs, actions)
    return shown[-1][0].sum() + torch.stack([rewards.sum() for _, rewards, *_ in shown]).sum()


def test_detach__cuts_the_graph_and_returns_the_observation_on_show(envs: Any) -> None:
    actions = small_actions()
    shown = play_steps(envs, actions[:2])
    obs = envs.detach()
    assert not obs.requires_grad
    assert torch.equal(obs, shown[-1][0].detach())
    envs.step(actions[2])[0].sum().backward()
    assert (actions.grad[:2] == 0).all()
    assert (actions.grad[2] != 0).any()


def test_detach__returns_observations_of_the_user_s_own(envs: Any) -> None:
    actions = small_actions().detach()
    wanted = run(envs, actions)
    envs.reset(seed=SEED)
    envs.detach().fill_(93.0)
    assert torch.equal(run(envs, actions), wanted)


def test_snapshot__plays_the_same_again(mode: str) -> None:
    envs = shared_batch(NUM_ENVS, autoreset_mode=mode, max_episode_steps=3)
    envs.reset(seed=[1, 7, 7, 3])
    actions = draw_actions(12, NUM_ENVS)
    play_steps(envs, actions[:5])
    state, seeds = envs.get_state(), envs.np_random_seed
    first = play_steps(envs, actions[5:])
    envs.reset(seed=99)
    envs.set_state(state)
    assert envs.np_random_seed == seeds
    again = play_steps(envs, actions[5:])
    assert_same(first, again)
    envs.set_state(state)
    assert_same(first, play_steps(envs, actions[5:]))


def assert_same(left: Any, right: Any) -> None:
    if isinstance(right, dict):
        assert left.keys() == right.keys()
        for key in right:
            assert_same(left[key], right[key])
    elif isinstance(right, list | tuple):
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    else:
        assert torch.equal(left, right)


def test_snapshot__has_no_graph_and_cuts_it(envs: Any) -> None:
    actions = small_actions()
    play_steps(envs, actions[:2])
    state = envs.get_state()
    envs.set_state(state)
    assert not envs.physics_state.requires_grad
    envs.step(actions[2])[0].sum().backward()
    assert (actions.grad[:2] == 0).all()


def test_snapshot__stays_as_it_was_whatever_is_written(envs: Any) -> None:
    actions = small_actions().detach()
    state = envs.get_state()
    wanted = run(envs, actions)
    envs.set_state(state)
    envs.physics_state.fill_(93.0)
    envs.detach().fill_(93.0)
    run(envs, actions)
    envs.set_state(copy.deepcopy(state))
    assert torch.equal(run(envs, actions), wanted)
    envs.set_state(state)
    assert torch.equal(run(envs, actions), wanted)


def test_snapshot__of_a_twin_is_taken() -> None:
    left, right = shared_batch(NUM_ENVS, max_episode_steps=-1), make_batch(NUM_ENVS)
    left.reset(seed=3)
    right.set_state(left.get_state())
    action = torch.full((NUM_ENVS, 2), 0.1)
    assert_same(left.step(action), right.step(action))
    assert right.np_random_seed == (3, 4, 5, 6)


def test_snapshot__of_another_batch_is_refused(envs: Any) -> None:
    other = shared_batch(5, max_episode_steps=6)
    other.reset(seed=0)
    with pytest.raises(ArgumentError, match=r"4 environments of 11 floats, got \(5, 11\)"):
        envs.set_state(other.get_state())
    with pytest.raises(ArgumentTypeError, match="what `get_state` returned, got dict"):
        envs.set_state({})


def test_physics_state__has_named_fields(envs: Any) -> None:
    fields = envs.physics_state_fields
    assert list(fields) == [
        "pipeline_state.q",
        "pipeline_state.qd",
        "obs",
        "reward",
        "done",
        "metrics.speed",
    ]
    obs, rewards, *_ = envs.step(torch.full((NUM_ENVS, 2), 0.3))
    state = envs.physics_state
    assert state.shape == (NUM_ENVS, 11)
    assert torch.equal(state[:, fields["obs"]], obs)
    assert torch.equal(state[:, fields["reward"]][:, 0], rewards)


def test_physics_state__gives_gradients_of_the_first_state(envs: Any) -> None:
    state = envs.physics_state.requires_grad_()
    envs.physics_state = state
    actions = small_actions()
    loss = run(envs, actions)
    (gradient,) = torch.autograd.grad(loss, state)
    place = envs.physics_state_fields["pipeline_state.q"]
    assert (gradient[:, place] != 0).all()
    assert (gradient[:, envs.physics_state_fields["reward"]] == 0).all()
    bumps = torch.zeros_like(state)
    bumps[:, place] = 1e-2
    ends = []
    for sign in (1, -1):
        envs.reset(seed=SEED)
        envs.physics_state = (state + sign * bumps).detach()
        ends.append(run(envs, actions).item())
    assert (gradient * bumps).sum().item() == pytest.approx((ends[0] - ends[1]) / 2, rel=1e-2)


def test_physics_state__is_in_the_graph_for_hooks_and_gradients(envs: Any) -> None:
    actions = small_actions()
    envs.step(actions[0])
    state, seen = envs.physics_state, []
    state.register_hook(seen.append)
    loss = run(envs, actions[1:])
    at_state, at_actions = torch.autograd.grad(loss, (state, actions), retain_graph=True)
    assert torch.equal(seen[0], at_state)
    assert (at_actions[0] != 0).any()
    state.register_hook(torch.zeros_like)
    (cut,) = torch.autograd.grad(loss, actions)
    assert (cut[0] == 0).all(), "what a hook returns goes on"


def test_physics_state__does_not_hear_of_writing_into_it(envs: Any) -> None:
    actions = small_actions()
    wanted = run(envs, actions)
    envs.reset(seed=SEED)
    envs.physics_state.fill_(93.0)
    envs.step(actions[0])
    envs.physics_state.detach().fill_(93.0)
    assert torch.equal(envs.step(actions[1])[1], wanted_rewards(actions)[1])
    assert wanted.requires_grad


def wanted_rewards(actions: torch.Tensor) -> torch.Tensor:
    twin = make_batch(NUM_ENVS)
    twin.reset(seed=SEED)
    return torch.stack([rewards for _, rewards, *_ in play_steps(twin, actions.detach())])


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda state: state.double(), ArgumentTypeError, "tensor of torch.float32, got torch.fl"),
        (lambda state: state.numpy(), ArgumentTypeError, "tensor of torch.float32, got ndarray"),
        (lambda state: state[:2], ArgumentError, r"shape \(4, 11\) on 'cpu', got \(2, 11\)"),
        (lambda state: state.to("meta"), ArgumentError, "on 'cpu', got .* on 'meta'"),
    ],
)
def test_physics_state__refuses_other_tensors(envs: Any, make: Any, error: Any, text: str) -> None:
    before = envs.physics_state
    with pytest.raises(error, match=text):
        envs.physics_state = make(before)
    assert torch.equal(envs.physics_state, before)


def test_state__may_have_several_consumers(envs: Any) -> None:
    """Two futures of one state add their gradients."""
    actions = small_actions()
    envs.step(actions[0])
    fork = envs.physics_state
    losses = []
    for branch in (1, 2):
        envs.physics_state = fork
        losses.append(envs.step(actions[branch])[1].sum())
    parts = [torch.autograd.grad(loss, actions, retain_graph=True)[0] for loss in losses]
    (both,) = torch.autograd.grad(sum(losses), actions)
    assert all((part[0] != 0).any() for part in parts)
    torch.testing.assert_close(both, parts[0] + parts[1])


def test_no_grad__takes_the_path_without_a_graph(envs: Any, monkeypatch: Any) -> None:
    from gymbridge.autograd import JaxFunction

    actions = small_actions()
    wanted = [rewards.detach() for _, rewards, *_ in play_steps(envs, actions)]
    envs.reset(seed=SEED)
    monkeypatch.setattr(JaxFunction, "__call__", lambda *_: pytest.fail("this makes a graph"))
    with pytest.raises(pytest.fail.Exception):
        envs.step(actions[0])
    for context in (torch.no_grad, torch.inference_mode):
        envs.reset(seed=SEED)
        with context():
            shown = play_steps(envs, actions)
        for (obs, rewards, *_), like in zip(shown, wanted, strict=True):
            assert not obs.requires_grad
            torch.testing.assert_close(rewards, like)
    envs.reset(seed=SEED)
    assert not play_steps(envs, actions.detach())[-1][0].requires_grad


@pytest.mark.parametrize("residuals", ["store", "recompute"])
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_graph__begins_anew_after_steps_without_one(context: Any, residuals: str) -> None:
    envs = shared_batch(NUM_ENVS, max_episode_steps=-1, residuals=residuals)
    envs.reset(seed=SEED)
    actions = small_actions()
    with context():
        envs.step(actions[0])
        assert envs.physics_state.shape == (NUM_ENVS, 11)
    run(envs, actions[1:]).backward()
    assert (actions.grad[0] == 0).all()
    assert (actions.grad[1:] != 0).all()


def test_backward__a_second_time_is_torch_s_own_error(envs: Any) -> None:
    actions = small_actions()
    loss = run(envs, actions)
    loss.backward(retain_graph=True)
    once = actions.grad.clone()
    loss.backward()
    torch.testing.assert_close(actions.grad, 2 * once)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


@pytest.mark.parametrize("power", [1, 2])
def test_backward__of_a_gradient_is_refused(envs: Any, power: int) -> None:
    """Never taken for zero: not even where nothing but the step itself is curved."""
    actions = small_actions()
    loss = run(envs, actions) ** power
    (gradient,) = torch.autograd.grad(loss, actions, create_graph=True)
    with pytest.raises(RuntimeError, match="has no second derivatives"):
        (gradient.sum() + (actions**2).sum()).backward()


def test_backward__hands_on_what_is_not_finite(envs: Any) -> None:
    actions = small_actions(1)
    obs = envs.step(actions[0])[0]
    incoming = torch.ones_like(obs)
    incoming[1] = torch.nan
    obs.backward(incoming)
    assert actions.grad[0, 1].isnan().all()
    assert actions.grad[0, [0, 2, 3]].isfinite().all()


@pytest.mark.parametrize("residuals", ["store", "recompute"])
def test_windows__leave_nothing_behind(residuals: str) -> None:
    envs = shared_batch(NUM_ENVS, max_episode_steps=-1, residuals=residuals)
    envs.reset(seed=SEED)
    alive = []
    for _ in range(6):
        actions, obs = small_actions(), envs.detach()
        loss = run(envs, actions) + obs.sum()
        loss.backward()
        gc.collect()
        alive.append(len(jax.live_arrays()))
    assert alive[2:] == alive[2:3] * 4


def test_residuals__go_with_the_backward_pass(envs: Any) -> None:
    """The graph itself is still alive then: the loss holds it."""
    run(envs, small_actions()).backward()
    envs.detach()
    before = len(jax.live_arrays())
    loss = run(envs, small_actions())
    held = len(jax.live_arrays())
    loss.backward()
    envs.detach()
    gc.collect()
    assert len(jax.live_arrays()) < before + 8 < held


def test_residuals__recompute_keeps_less() -> None:
    held = {}
    for residuals in ("store", "recompute"):
        envs = shared_batch(NUM_ENVS, max_episode_steps=-1, residuals=residuals)
        envs.reset(seed=SEED)
        before = sum(array.nbytes for array in jax.live_arrays())
        losses = [run(envs, small_actions())]
        held[residuals] = sum(array.nbytes for array in jax.live_arrays()) - before
        del losses
    assert held["recompute"] < held["store"]


@pytest.mark.parametrize(
    "view",
    [
        lambda actions: actions.t().contiguous().t(),
        lambda actions: torch.stack([actions, actions], -1)[..., 0],
        lambda actions: torch.cat([actions, actions], 1)[:, ::2].roll(1, 1).roll(-1, 1),
        lambda actions: actions[0].expand(NUM_ENVS, 2),
        lambda actions: actions.double(),
        lambda actions: actions.flip(0),
    ],
)
def test_actions__of_any_layout_are_those_values(envs: Any, view: Any) -> None:
    source = draw_actions(1, NUM_ENVS, scale=0.2)[0].requires_grad_()
    given = view(source)
    plain = given.detach().clone().contiguous().float().requires_grad_()
    shown, wanted = [], []
    for actions, found in ((given, shown), (plain, wanted)):
        envs.reset(seed=SEED)
        obs, rewards, *_ = envs.step(actions)
        found += [obs.detach(), rewards.detach()]
        found += torch.autograd.grad(obs.sum() + rewards.sum(), actions)
    for left, right in zip(shown, wanted, strict=True):
        torch.testing.assert_close(left, right.to(left.dtype))


@pytest.mark.parametrize("layout", ["expand", "transpose"])
def test_incoming_gradient__of_any_layout_is_those_values(envs: Any, layout: str) -> None:
    actions = small_actions(1)
    obs = envs.step(actions[0])[0]
    weights = torch.arange(16.0).reshape(4, 4).t() if layout == "transpose" else torch.ones(())
    (gradient,) = torch.autograd.grad((obs * weights).sum(), actions, retain_graph=True)
    dense = weights.expand(4, 4).contiguous()
    (wanted,) = torch.autograd.grad(obs, actions, dense)
    assert torch.equal(gradient, wanted)


def test_actions__that_change_later_change_nothing(envs: Any) -> None:
    for residuals in ("store", "recompute"):
        envs = shared_batch(NUM_ENVS, max_episode_steps=-1, residuals=residuals)
        gradients = []
        for is_spoilt in (False, True):
            envs.reset(seed=SEED)
            actions = small_actions(1)
            given = actions[0] * 1
            obs = envs.step(given)[0]
            loss = (obs**2).sum()
            if is_spoilt:
                with torch.no_grad():
                    given.fill_(93.0)
            gradients += torch.autograd.grad(loss, actions)
        assert torch.equal(*gradients)


def test_dict_observations__have_gradients_where_they_are_floats() -> None:
    envs = shared_batch(NUM_ENVS, is_dict=True, autoreset_mode="SameStep", max_episode_steps=2)
    envs.reset(seed=SEED)
    actions = small_actions()
    shown = play_steps(envs, actions)
    obs, final = shown[1][0], shown[1][4]["final_obs"]
    assert not obs["near"].requires_grad
    assert obs["near"].dtype == torch.bool
    (gradient,) = torch.autograd.grad(final["flat"].sum(), actions, retain_graph=True)
    assert (gradient[:2] != 0).all()
    (fresh,) = torch.autograd.grad(obs["flat"].sum(), actions)
    assert (fresh == 0).all()
    assert envs.detach()["near"].shape == (NUM_ENVS, 2)


def test_unroll__refuses_other_actions(envs: Any) -> None:
    before = envs.get_state()
    for actions, error, text in (
        (torch.zeros(NUM_ENVS, 2), ActionError, "shape"),
        (torch.zeros(0, NUM_ENVS, 2), ArgumentError, "at least 1"),
        (torch.zeros(3, NUM_ENVS, 1), ActionError, r"\(3, 4, 2\)"),
        (np.zeros((3, NUM_ENVS, 2)), ArgumentTypeError, "torch.Tensor"),
        (torch.zeros(3, NUM_ENVS, 2, dtype=torch.complex64), ArgumentTypeError, "castable"),
        ([], ArgumentError, "lead with"),
    ):
        with pytest.raises(error, match=text):
            envs.unroll(actions)
    assert torch.equal(envs.physics_state, torch.from_dlpack(before.carry.packed))


NAMES = ["detach", "get_state", "physics_state"]


@pytest.mark.parametrize("name", NAMES)
def test_calls__need_a_reset_an_open_batch_and_gradients(name: str) -> None:
    def use(envs: Any) -> Any:
        value = getattr(envs, name)
        return value() if callable(value) else value

    envs = make_batch(2)
    with pytest.raises(ResetNeededError, match=f"`{name}`"):
        use(envs)
    with pytest.raises(ArgumentError, match="differentiable=True"):
        use(make_batch(2, differentiable=False))
    envs.close()
    with pytest.raises(ClosedError):
        use(envs)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # dynamo looks at it
def test_compiled_policy__goes_around_the_step(envs: Any) -> None:
    torch.manual_seed(0)
    policy = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    gradients = []
    for act in (policy, torch.compile(policy, backend="aot_eager")):
        policy.zero_grad()
        obs, _ = envs.reset(seed=SEED)
        loss = torch.zeros(())
        for _ in range(3):
            obs, rewards, *_ = envs.step(act(obs))
            loss = loss + rewards.sum() + obs.sum()
        loss.backward()
        gradients.append(policy[0].weight.grad.clone())
    torch.testing.assert_close(*gradients)
    assert (gradients[0] != 0).any()
