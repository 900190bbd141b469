"""What a user of torch can do with a batch in the graph: cut it, keep it, look into it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gymbridge import BraxVectorEnv
from gymbridge.errors import (
    ActionError,
    ArgumentError,
    ArgumentTypeError,
    ClosedError,
    ResetNeededError,
)
from tests.support.point_mass import NUM_ENVS, make_batch, shared_batch
from tests.support.rollouts import SEED, play_steps, run, small_actions


def test_detach__cuts_the_graph_and_returns_the_current_observation(
    envs: Any, actions: torch.Tensor
) -> None:
    results = play_steps(envs, actions[:2])
    obs = envs.detach()
    assert not obs.requires_grad
    assert torch.equal(obs, results[-1][0].detach())
    envs.step(actions[2])[0].sum().backward()
    assert (actions.grad[:2] == 0).all()
    assert (actions.grad[2] != 0).any()


def test_physics_state__has_named_fields(envs: Any) -> None:
    fields = envs.physics_state_fields
    assert list(fields) == [
        "pipeline_state.q",
        "pipeline_state.qd",
        "obs",
        "reward",
        "done",
        "metrics.speed",
        "seen.obs",
    ]
    obs, rewards, *_ = envs.step(torch.full((NUM_ENVS, 2), 0.3))
    state = envs.physics_state
    assert state.shape == (NUM_ENVS, 15)
    assert torch.equal(state[:, fields["obs"]], obs)
    assert torch.equal(state[:, fields["seen.obs"]], obs)
    assert torch.equal(state[:, fields["reward"]][:, 0], rewards)


def test_physics_state__gives_gradients_of_the_first_state(
    envs: Any, actions: torch.Tensor
) -> None:
    state = envs.physics_state.requires_grad_()
    envs.physics_state = state
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


def test_physics_state__is_in_the_graph_for_hooks_and_gradients(
    envs: Any, actions: torch.Tensor
) -> None:
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


def assign(envs: Any) -> torch.Tensor:
    envs.physics_state = state = envs.physics_state * 1.0
    return state


@pytest.mark.parametrize(
    "take",
    [
        lambda envs: envs.physics_state,
        lambda envs: envs.physics_state.detach(),
        assign,
        lambda envs: envs.detach(),
    ],
    ids=["shared", "shared, without a graph", "assigned", "observation"],
)
def test_tensors_of_the_state__may_be_written(envs: Any, actions: torch.Tensor, take: Any) -> None:
    found = []
    for is_spoilt in (False, True):
        envs.reset(seed=SEED)
        envs.step(actions[0])
        tensor = take(envs)
        if is_spoilt:
            tensor.mul_(2)
        obs, rewards, *_ = envs.step(actions[1])
        (gradient,) = torch.autograd.grad(obs.sum() + rewards.sum(), actions)
        found.append((obs.detach(), rewards.detach(), gradient))
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_physics_state__has_no_graph_where_torch_keeps_none(
    envs: Any, actions: torch.Tensor
) -> None:
    envs.step(actions[0])
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            assert not envs.physics_state.requires_grad
        assert envs.physics_state.requires_grad, "the batch has kept its own"
    envs.step(actions[1])[1].sum().backward()
    assert (actions.grad[0] != 0).any()


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda state: state.double(), ArgumentTypeError, "tensor of torch.float32, got torch.fl"),
        (lambda state: state.numpy(), ArgumentTypeError, "tensor of torch.float32, got ndarray"),
        (lambda state: state[:2], ArgumentError, r"shape \(4, 15\) on 'cpu', got \(2, 15\)"),
        (lambda state: state.to("meta"), ArgumentError, "on 'cpu', got .* on 'meta'"),
    ],
)
def test_physics_state__refuses_other_tensors(envs: Any, make: Any, error: Any, text: str) -> None:
    before = envs.physics_state
    with pytest.raises(error, match=text):
        envs.physics_state = make(before)
    assert torch.equal(envs.physics_state, before)


def test_state__may_have_several_consumers(envs: Any, actions: torch.Tensor) -> None:
    """Two futures of one state add their gradients."""
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


@pytest.mark.parametrize(
    "view",
    [
        lambda actions: actions.t().contiguous().t(),
        lambda actions: torch.stack([actions, actions], -1)[..., 0],
        lambda actions: actions[0].expand(NUM_ENVS, 2),
        lambda actions: actions.double(),
    ],
)
def test_actions__of_any_layout_are_those_values(envs: Any, view: Any) -> None:
    given = view(small_actions(1)[0])
    plain = given.detach().clone().contiguous().float().requires_grad_()
    found = []
    for actions in (given, plain):
        envs.reset(seed=SEED)
        obs, rewards, *_ = envs.step(actions)
        (gradient,) = torch.autograd.grad(obs.sum() + rewards.sum(), actions)
        found.append((obs.detach(), rewards.detach(), gradient.float()))
    torch.testing.assert_close(*found)


def test_dict_observations__have_gradients_where_they_are_floats() -> None:
    envs = shared_batch(is_dict=True, autoreset_mode="SameStep")
    envs.reset(seed=SEED)
    actions = torch.full((6, NUM_ENVS, 2), 0.05, requires_grad=True)
    *_, (obs, *_, infos) = play_steps(envs, actions)
    assert not obs["near"].requires_grad
    assert obs["near"].dtype == torch.bool
    (gradient,) = torch.autograd.grad(infos["final_obs"]["flat"].sum(), actions, retain_graph=True)
    assert (gradient != 0).all()
    (fresh,) = torch.autograd.grad(obs["flat"].sum(), actions)
    assert (fresh == 0).all()
    assert envs.detach()["near"].shape == (NUM_ENVS, 2)


@pytest.mark.parametrize(
    ("actions", "error", "text"),
    [
        (torch.zeros(NUM_ENVS, 2), ActionError, "shape"),
        (torch.zeros(0, NUM_ENVS, 2), ArgumentError, "at least 1"),
        (torch.zeros(3, NUM_ENVS, 1), ActionError, r"\(3, 4, 2\)"),
        (np.zeros((3, NUM_ENVS, 2), complex), ArgumentTypeError, "castable"),
        (torch.zeros(3, NUM_ENVS, 2, dtype=torch.complex64), ArgumentTypeError, "castable"),
        ([], ArgumentError, "lead with"),
    ],
)
def test_unroll__refuses_other_actions(
    envs: Any, actions: Any, error: type[Exception], text: str
) -> None:
    before = envs.physics_state
    with pytest.raises(error, match=text):
        envs.unroll(actions)
    assert torch.equal(envs.physics_state, before)


def test_unroll__keeps_the_batch_where_its_infos_cannot_be_laid_out(
    envs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, actions = envs.physics_state, torch.zeros(3, NUM_ENVS, 2)
    with monkeypatch.context() as patched:
        patched.setattr(envs._infos, "to_gymnasium", lambda outcome: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            envs.unroll(actions)
    assert torch.equal(envs.physics_state, before)
    envs.unroll(actions)
    assert not torch.equal(envs.physics_state, before)


@pytest.mark.parametrize("name", ["detach", "physics_state"])
def test_calls__need_a_reset_an_open_batch_and_gradients(name: str) -> None:
    def use(envs: Any) -> Any:
        value = getattr(envs, name)
        return value() if callable(value) else value

    envs = make_batch()
    with pytest.raises(ResetNeededError, match=f"`{name}`"):
        use(envs)
    with pytest.raises(ArgumentError, match="differentiable=True"):
        use(make_batch(differentiable=False))
    envs.close()
    with pytest.raises(ClosedError):
        use(envs)


def test_calls_without_actions__wait_for_what_torch_still_reads() -> None:
    """On a CPU, where there is nothing to wait for; a step waits through its actions."""
    envs, waits = make_batch(autoreset_mode="Disabled"), []
    envs._wait_for_reads = lambda: waits.append(None)
    actions, some = torch.zeros(4, 2), np.arange(4) < 2
    envs.reset(seed=0)
    state = envs.get_state()
    calls = {
        "reset": lambda: envs.reset(options={"reset_mask": some}),
        "step": lambda: envs.step(actions),
        "step_some": lambda: envs.step_some(actions, some),
        "get_state": envs.get_state,
        "set_state": lambda: envs.set_state(state),
        "detach": envs.detach,
    }
    found = set()
    for name, call in calls.items():
        waits.clear()
        call()
        if waits:
            found.add(name)
    assert found == set(calls) - {"step"}


@pytest.mark.slow
def test_unroll__of_physics_has_a_gradient_of_the_state_alone() -> None:
    """A custom vjp inside the map over environments fails here, though not with the point mass."""
    options: dict[str, Any] = {"arrays": "torch", "differentiable": True}
    envs = BraxVectorEnv("inverted_pendulum", 2, backend="spring", **options)
    envs.reset(seed=0)
    state = envs.physics_state.detach().clone().requires_grad_()
    envs.physics_state = state
    envs.unroll(torch.zeros(3, 2, 1))[0].sum().backward()
    assert (state.grad != 0).any()
