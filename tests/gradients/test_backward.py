"""The backward pass: once, of any layout, from anywhere, and with nothing left behind."""

from __future__ import annotations

import gc
import threading
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
import torch
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from gymbridge.core.arrays.jax import pack_tree, unpack_tree
from gymbridge.errors import ArgumentTypeError, SimulationError
from gymbridge.gradients.autograd import JaxFunction
from tests.support.point_mass import NUM_ENVS, shared_batch
from tests.support.rollouts import (
    IN_EACH_MODE,
    SEED,
    draw_actions,
    loss_of,
    play_steps,
    run,
    small_actions,
)


def test_no_grad__takes_the_path_without_a_graph(
    envs: Any, actions: torch.Tensor, monkeypatch: Any
) -> None:
    wanted = [rewards.detach() for _, rewards, *_ in play_steps(envs, actions)]
    monkeypatch.setattr(JaxFunction, "__call__", lambda *_: pytest.fail("this makes a graph"))
    for context in (torch.no_grad, torch.inference_mode):
        envs.reset(seed=SEED)
        with context():
            results = play_steps(envs, actions)
        assert not results[-1][0].requires_grad
        torch.testing.assert_close([rewards for _, rewards, *_ in results], wanted)
    envs.reset(seed=SEED)
    assert not play_steps(envs, actions.detach())[-1][0].requires_grad
    with pytest.raises(pytest.fail.Exception):
        envs.step(actions[0])


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_graph__begins_anew_after_steps_without_one(
    envs: Any, context: Any, actions: torch.Tensor
) -> None:
    with context():
        envs.step(actions[0])
        assert envs.physics_state.shape == (NUM_ENVS, 15)
    run(envs, actions[1:]).backward()
    assert (actions.grad[0] == 0).all()
    assert (actions.grad[1:] != 0).all()


def test_backward__a_second_time_needs_retain_graph(envs: Any, actions: torch.Tensor) -> None:
    loss = run(envs, actions)
    loss.backward(retain_graph=True)
    once = actions.grad.clone()
    loss.backward()
    torch.testing.assert_close(actions.grad, 2 * once)
    with pytest.raises(SimulationError, match=r"freed.*pass `retain_graph=True` to the first one"):
        loss.backward()


def take_steps(envs: Any, actions: torch.Tensor) -> torch.Tensor:
    return sum(rewards.sum() for _, rewards, *_ in play_steps(envs, actions))


def unroll(envs: Any, actions: torch.Tensor) -> torch.Tensor:
    return envs.unroll(actions)[1].sum()


def reset_some(envs: Any, actions: torch.Tensor) -> torch.Tensor:
    mask = np.arange(NUM_ENVS) == 0
    obs, _ = envs.reset(options={"reset_mask": mask})
    return obs.sum() + take_steps(envs, actions)


@pytest.mark.parametrize(
    ("residuals", "go_on"),
    [("recompute", take_steps), ("store", unroll), ("recompute", unroll), ("store", reset_some)],
)
def test_forgotten_detach__is_named(actions: torch.Tensor, residuals: str, go_on: Any) -> None:
    """In place of torch's advice to retain the graph, which would only make it longer."""
    envs = shared_batch(residuals=residuals)
    envs.reset(seed=SEED)
    take_steps(envs, actions[:2]).backward()
    loss = go_on(envs, small_actions(2))
    with pytest.raises(SimulationError, match=r"Call `envs\.detach\(\)` after each") as raised:
        loss.backward()
    assert raised.value.__suppress_context__
    envs.detach()
    go_on(envs, actions[2:]).backward()
    assert (actions.grad[2] != 0).any()


def test_hooks_of_the_user__raise_their_own_errors(envs: Any, actions: torch.Tensor) -> None:
    def unpack(_: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("the disk is full")

    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
        obs, *_ = envs.step(actions[0])
    with pytest.raises(RuntimeError, match="the disk is full"):
        obs.sum().backward()


def test_backward__hands_on_what_is_not_finite(envs: Any, actions: torch.Tensor) -> None:
    obs = envs.step(actions[0])[0]
    incoming = torch.ones_like(obs)
    incoming[1] = torch.nan
    obs.backward(incoming)
    assert actions.grad[0, 1].isnan().all()
    assert actions.grad[0, [0, 2, 3]].isfinite().all()


def test_windows__leave_nothing_behind(residuals: str) -> None:
    envs = shared_batch(residuals=residuals)
    envs.reset(seed=SEED)
    alive = []
    for _ in range(4):
        actions, obs = small_actions(), envs.detach()
        loss = run(envs, actions) + obs.sum()
        loss.backward()
        gc.collect()
        alive.append(len(jax.live_arrays()))
    assert alive[2] == alive[3]


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


@pytest.mark.parametrize(("device", "least", "most"), [("cpu", 1, 4), ("cpu:all", 20, 99)])
def test_residuals__are_few_arrays_on_one_device(device: str, least: int, most: int) -> None:
    """Those of several devices stay apart, so that none is copied to another device."""
    envs = shared_batch(device=device)
    envs.reset(seed=SEED)
    carry, actions = envs._carry, np.zeros(envs.action_space.shape, np.float32)
    record = envs._runner._step_graph.record
    kept = jax.tree.leaves(record((carry.packed, (actions,)), (carry.rest, None))[2])
    assert least <= len(kept) <= most


@pytest.mark.parametrize("is_unrolled", [False, True])
def test_residuals__recompute_keeps_less(is_unrolled: bool) -> None:
    held = {}
    for residuals in ("store", "recompute"):
        envs = shared_batch(residuals=residuals)
        envs.reset(seed=SEED)
        before = sum(array.nbytes for array in jax.live_arrays())
        actions = small_actions(9)
        results = envs.unroll(actions) if is_unrolled else play_steps(envs, actions)
        held[residuals] = sum(array.nbytes for array in jax.live_arrays()) - before
        del results
    assert held["recompute"] < 0.9 * held["store"]


@pytest.mark.parametrize("layout", ["expand", "transpose"])
def test_incoming_gradient__of_any_layout_is_those_values(
    envs: Any, actions: torch.Tensor, layout: str
) -> None:
    obs = envs.step(actions[0])[0]
    weights = torch.arange(16.0).reshape(4, 4).t() if layout == "transpose" else torch.ones(())
    (gradient,) = torch.autograd.grad((obs * weights).sum(), actions, retain_graph=True)
    dense = weights.expand(4, 4).contiguous()
    (wanted,) = torch.autograd.grad(obs, actions, dense)
    assert torch.equal(gradient, wanted)


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
    (once,) = torch.autograd.grad(envs.step(actions[0])[0].sum(), actions)
    batches = (envs, shared_batch(residuals="recompute"))
    for batch in batches:
        batch.reset(seed=SEED)
    loss = sum(batch.step(actions[0])[0].sum() for batch in batches)
    worker = threading.Thread(target=loss.backward)
    worker.start()
    worker.join()
    torch.testing.assert_close(actions.grad, 2 * once)


@pytest.mark.parametrize(("mode", "residuals"), IN_EACH_MODE)
def test_results__may_be_written_before_the_backward_pass(mode: str, residuals: str) -> None:
    envs = shared_batch(autoreset_mode=mode, residuals=residuals)
    gradients = []
    for is_spoilt in (False, True):
        envs.reset(seed=SEED)
        actions = draw_actions()
        results = play_steps(envs, actions)
        loss = loss_of(results)
        if is_spoilt:
            with torch.no_grad():
                for leaf in jax.tree.leaves(results):
                    leaf.fill_(93 if leaf.is_floating_point() else 1)
        gradients += torch.autograd.grad(loss, actions)
    assert torch.equal(*gradients)


def test_zeros_of_a_large_output__are_not_kept() -> None:
    shape = (300, 64, 5)
    call = JaxFunction(lambda inputs, rest: ((inputs[0].sum(), jax.numpy.zeros(shape)), None))
    tensor = torch.ones(3, requires_grad=True)
    call((jax.numpy.ones(3),), (tensor,), None).tensors[0].backward()
    gc.collect()
    assert tensor.grad is not None
    assert not [leaf for leaf in jax.live_arrays() if leaf.shape == shape]


def test_joined_arrays__are_the_tree_again() -> None:
    tree = {
        "floats": [np.arange(6, dtype=np.float32).reshape(2, 3)] * 5,
        "flags": np.array([True, False]),
        "count": np.int32(3),
        "other": np.full((4,), 7, np.int32),
        "large": np.ones(20_000, np.float32),
        "empty": np.zeros((0, 2), np.float32),
    }
    key = jax.random.key(3)
    joined = jax.jit(pack_tree)({**tree, "key": key})
    assert len(jax.tree.leaves(joined)) == 7  # the five floats are one
    found = jax.jit(unpack_tree)(joined)
    assert found.pop("key") == key
    jax.tree.map(partial(np.testing.assert_array_equal, strict=True), found, tree)
