"""The backward pass: once, of any layout, from anywhere, and with nothing left behind."""

from __future__ import annotations

import gc
import threading
from typing import Any

import jax
import pytest
import torch
from point_mass import make_batch, shared_batch
from rollouts import (
    NUM_ENVS,
    SEED,
    draw_actions,
    draw_weights,
    loss_of,
    play_steps,
    run,
    small_actions,
)
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from gymbridge.errors import (
    ArgumentTypeError,
    SimulationError,
)


def test_no_grad__takes_the_path_without_a_graph(envs: Any, monkeypatch: Any) -> None:
    from gymbridge.gradients.autograd import JaxFunction

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


@pytest.mark.parametrize("layout", ["expand", "transpose"])
def test_incoming_gradient__of_any_layout_is_those_values(envs: Any, layout: str) -> None:
    actions = small_actions(1)
    obs = envs.step(actions[0])[0]
    weights = torch.arange(16.0).reshape(4, 4).t() if layout == "transpose" else torch.ones(())
    (gradient,) = torch.autograd.grad((obs * weights).sum(), actions, retain_graph=True)
    dense = weights.expand(4, 4).contiguous()
    (wanted,) = torch.autograd.grad(obs, actions, dense)
    assert torch.equal(gradient, wanted)


def test_second_derivative__is_refused_wherever_it_is_asked_for(envs: Any) -> None:
    weights = torch.full((4, 2), 0.3, requires_grad=True)
    loss = envs.step(envs.detach() @ weights)[1].sum()
    (gradient,) = torch.autograd.grad(loss, weights, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(loss + (gradient**2).sum(), weights)

    def play(action: torch.Tensor) -> torch.Tensor:
        envs.reset(seed=SEED)
        return envs.step(action)[1].sum()

    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.functional.hessian(play, torch.zeros(NUM_ENVS, 2))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint__would_step_twice_and_is_refused(
    envs: Any, actions: torch.Tensor, reentrant: bool
) -> None:
    def step(action: torch.Tensor) -> torch.Tensor:
        return envs.step(action)[0].sum()

    loss = checkpoint(step, actions[0] * 1, use_reentrant=reentrant)
    with pytest.raises(SimulationError, match="residuals='recompute'"):
        loss.backward()


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own use of it
def test_forward_mode__is_refused(envs: Any) -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.zeros(NUM_ENVS, 2), torch.ones(NUM_ENVS, 2))
        with pytest.raises(SimulationError, match="no forward-mode"):
            envs.step(dual)
        envs.step(torch.zeros(NUM_ENVS, 2))


def test_torch_func__is_refused(envs: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"torch\.func"):
        torch.func.grad(lambda x: envs.step(x)[1].sum())(torch.zeros(NUM_ENVS, 2))
    assert envs.step(torch.zeros(NUM_ENVS, 2))[1].shape == (NUM_ENVS,)


def test_saved_tensors_hooks__cannot_move_what_jax_keeps(envs: Any, actions: torch.Tensor) -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x):
        obs, *_ = envs.step(actions[0])
    with pytest.raises(RuntimeError, match="saved_tensors_hooks"):
        obs.sum().backward()


def test_backward__may_run_in_another_thread_and_over_several_batches(
    envs: Any, actions: torch.Tensor
) -> None:
    other = make_batch(NUM_ENVS, max_episode_steps=-1)
    other.reset(seed=SEED)
    loss = sum(batch.step(actions[0])[0].sum() for batch in (envs, other))
    worker = threading.Thread(target=loss.backward)
    worker.start()
    worker.join()
    assert actions.grad is not None
    once = torch.autograd.grad(shared_loss(actions), actions)[0]
    torch.testing.assert_close(actions.grad, 2 * once)


def shared_loss(actions: torch.Tensor) -> torch.Tensor:
    envs = shared_batch(NUM_ENVS, max_episode_steps=-1)
    envs.reset(seed=SEED)
    return envs.step(actions[0])[0].sum()


@pytest.mark.parametrize("residuals", ["store", "recompute"])
def test_results__may_be_written_before_the_backward_pass(mode: str, residuals: str) -> None:
    envs = shared_batch(5, autoreset_mode=mode, max_episode_steps=6, residuals=residuals)
    weights, gradients = draw_weights(6, 5), []
    for is_spoilt in (False, True):
        envs.reset(seed=SEED)
        actions = draw_actions(6, 5).requires_grad_()
        shown = play_steps(envs, actions)
        loss = loss_of(shown, weights)
        if is_spoilt:
            with torch.no_grad():
                for obs, rewards, terminations, truncations, infos in shown:
                    for leaf in (obs, rewards, *infos.values()):
                        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
                            leaf.fill_(93)
                    terminations.fill_(True)
                    truncations.fill_(True)
        gradients += torch.autograd.grad(loss, actions)
    assert torch.equal(*gradients)


def test_unroll__with_recompute_keeps_less() -> None:
    held = {}
    for residuals in ("store", "recompute"):
        envs = shared_batch(NUM_ENVS, max_episode_steps=-1, residuals=residuals)
        envs.reset(seed=SEED)
        before = sum(array.nbytes for array in jax.live_arrays())
        shown = envs.unroll(draw_actions(40, NUM_ENVS, scale=0.1).requires_grad_())
        held[residuals] = sum(array.nbytes for array in jax.live_arrays()) - before
        del shown
    assert held["recompute"] < 0.9 * held["store"]


def test_zeros_of_a_large_output__are_not_kept() -> None:
    from gymbridge.gradients.autograd import JaxFunction

    shape = (300, 64, 5)
    call = JaxFunction(lambda inputs, rest: ((inputs[0].sum(), jax.numpy.zeros(shape)), None))
    tensor = torch.ones(3, requires_grad=True)
    call((jax.numpy.ones(3),), (tensor,), None).tensors[0].backward()
    gc.collect()
    assert tensor.grad is not None
    assert not [leaf for leaf in jax.live_arrays() if leaf.shape == shape]
