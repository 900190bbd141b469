"""Gradients in every mode are those of plain JAX, episode by episode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from point_mass import make_batch, shared_batch
from rollouts import (
    SEED,
    draw_actions,
    draw_weights,
    expected,
    loss_of,
    play_steps,
)

NUM_ENVS, NUM_STEPS = 5, 9


def flags(shown: list[Any]) -> np.ndarray:
    return torch.stack([terminated | truncated for _, _, terminated, truncated, _ in shown]).numpy()


@pytest.fixture(params=["store", "recompute"])
def residuals(request: pytest.FixtureRequest) -> str:
    return request.param


def run(
    envs: Any, num_steps: int = NUM_STEPS
) -> tuple[torch.Tensor, list[Any], torch.Tensor, np.ndarray]:
    """Return actions that want a gradient, what was shown, the loss and its weights."""
    envs.reset(seed=SEED)
    actions = draw_actions(num_steps, envs.num_envs).requires_grad_()
    shown = play_steps(envs, actions)
    return actions, shown, loss_of(shown, draw_weights(num_steps, envs.num_envs)), flags(shown)


def test_gradient__is_that_of_each_episode_by_itself(mode: str, residuals: str) -> None:
    envs = shared_batch(NUM_ENVS, autoreset_mode=mode, max_episode_steps=6, residuals=residuals)
    actions, _, loss, ended = run(envs)
    assert 2 < ended.sum() < NUM_ENVS * NUM_STEPS - 5, "ends and ordinary steps are both met"
    loss.backward()
    weights = draw_weights(NUM_STEPS, NUM_ENVS)
    losses, gradient = expected(mode, actions.detach().numpy(), ended, weights)
    assert loss.item() == pytest.approx(losses.sum(), rel=1e-4)
    assert actions.grad is not None
    np.testing.assert_allclose(actions.grad.numpy(), gradient, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("part", ["obs", "reward", "final"])
def test_gradient__of_each_output_alone(part: str) -> None:
    envs = shared_batch(NUM_ENVS, autoreset_mode="SameStep", max_episode_steps=6)
    actions, shown, _, ended = run(envs)
    weights = draw_weights(NUM_STEPS, NUM_ENVS)
    nothing = {name: 0 * value for name, value in weights._asdict().items() if name != part}
    weights = weights._replace(**nothing)
    (gradient,) = torch.autograd.grad(loss_of(shown, weights), actions)
    _, wanted = expected("SameStep", actions.detach().numpy(), ended, weights)
    assert np.abs(wanted).max() > 0.01
    np.testing.assert_allclose(gradient.numpy(), wanted, rtol=2e-5, atol=2e-6)


def test_unroll__is_its_steps_as_one_node(mode: str, residuals: str) -> None:
    envs = shared_batch(NUM_ENVS, autoreset_mode=mode, max_episode_steps=6, residuals=residuals)
    actions, shown, loss, _ = run(envs)
    loss.backward()
    after = envs.get_state()
    envs.reset(seed=SEED)
    window = actions.detach().clone().requires_grad_()
    obs, rewards, terminations, truncations, infos = envs.unroll(window)
    assert_equal_trees(envs.get_state().carry[:2], after.carry[:2])
    steps = [
        (obs[t], rewards[t], terminations[t], truncations[t], row_of(infos, t))
        for t in range(NUM_STEPS)
    ]
    for unrolled, stepped in zip(steps, shown, strict=True):
        assert_equal_trees(unrolled, stepped)
    loss_of(steps, draw_weights(NUM_STEPS, NUM_ENVS)).backward()
    assert window.grad is not None
    assert actions.grad is not None
    torch.testing.assert_close(window.grad, actions.grad, rtol=1e-5, atol=1e-6)


def row_of(tree: Any, index: int) -> Any:
    if isinstance(tree, dict):
        return {key: row_of(value, index) for key, value in tree.items()}
    return tree[index]


def assert_equal_trees(left: Any, right: Any) -> None:
    if isinstance(right, dict):
        assert left.keys() == right.keys()
        for key in right:
            assert_equal_trees(left[key], right[key])
    elif isinstance(right, tuple):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_equal_trees(one, other)
    else:
        np.testing.assert_allclose(
            np.asarray(left.detach() if isinstance(left, torch.Tensor) else left),
            np.asarray(right.detach() if isinstance(right, torch.Tensor) else right),
            rtol=1e-6,
            atol=1e-6,
        )


def test_unroll__goes_on_from_a_graph_and_into_one() -> None:
    envs = shared_batch(NUM_ENVS, autoreset_mode="NextStep", max_episode_steps=6)
    actions, _, loss, _ = run(envs)
    loss.backward()
    envs.reset(seed=SEED)
    parts = actions.detach().clone().requires_grad_()
    shown = play_steps(envs, parts[:3])
    obs, rewards, terminations, truncations, infos = envs.unroll(parts[3:7])
    shown += [
        (obs[t], rewards[t], terminations[t], truncations[t], row_of(infos, t)) for t in range(4)
    ]
    shown += play_steps(envs, parts[7:])
    loss_of(shown, draw_weights(NUM_STEPS, NUM_ENVS)).backward()
    assert parts.grad is not None
    assert actions.grad is not None
    torch.testing.assert_close(parts.grad, actions.grad, rtol=1e-5, atol=1e-6)


def test_partial_reset__cuts_its_rows_alone() -> None:
    """Rows outside the mask keep their graph, so that a DISABLED loop can go on."""
    envs = shared_batch(NUM_ENVS, autoreset_mode="Disabled", max_episode_steps=-1)
    envs.reset(seed=SEED)
    actions = draw_actions(4, NUM_ENVS, scale=0.2).requires_grad_()
    play_steps(envs, actions[:2])
    mask = torch.tensor([True, False, False, True, False])
    obs, _ = envs.reset(options={"reset_mask": mask})
    (at_reset,) = torch.autograd.grad(obs.sum(), actions, retain_graph=True)
    assert (at_reset[:2, mask] == 0).all()
    assert (at_reset[:2, ~mask] != 0).any(-1).all()
    shown = play_steps(envs, actions[2:])
    (later,) = torch.autograd.grad(shown[-1][0].sum() + shown[-1][1].sum(), actions)
    assert (later[:2, mask] == 0).all()
    assert (later[:2, ~mask] != 0).any(-1).all()
    assert (later[3] != 0).any(-1).all()


def test_full_reset__cuts_the_graph() -> None:
    envs = shared_batch(NUM_ENVS, autoreset_mode="NextStep", max_episode_steps=6)
    run(envs)
    obs, _ = envs.reset()
    assert not obs.requires_grad
    assert not envs.step(torch.zeros(NUM_ENVS, 2))[0].requires_grad


def test_held_rows__keep_the_graph_of_their_observation() -> None:
    envs = shared_batch(NUM_ENVS, autoreset_mode="Disabled", max_episode_steps=2)
    envs.reset(seed=SEED)
    actions = draw_actions(4, NUM_ENVS, scale=0.2).requires_grad_()
    shown = play_steps(envs, actions)
    assert [float(rewards.detach().abs().sum()) > 0 for _, rewards, *_ in shown] == [True] * 2 + [
        False
    ] * 2
    (gradient,) = torch.autograd.grad(shown[-1][0].sum(), actions, retain_graph=True)
    (at_end,) = torch.autograd.grad(shown[1][0].sum(), actions)
    assert torch.equal(gradient, at_end)
    assert (gradient[2:] == 0).all()
    assert (gradient[:2] != 0).any()


def test_infos_and_flags__have_no_gradient() -> None:
    envs = shared_batch(NUM_ENVS, autoreset_mode="SameStep", max_episode_steps=6)
    _, shown, _, _ = run(envs)
    _, _, terminations, truncations, infos = shown[-1]
    found = {key for key, value in infos.items() if getattr(value, "requires_grad", False)}
    assert found == {"final_obs"}
    assert not terminations.requires_grad
    assert not truncations.requires_grad
    assert not infos["speed"].requires_grad


@pytest.mark.parametrize("is_dict", [False, True])
def test_values__are_those_of_numpy_mode(mode: str, is_dict: bool) -> None:
    options = {"autoreset_mode": mode, "max_episode_steps": 4, "is_dict": is_dict}
    plain = make_batch(NUM_ENVS, arrays="numpy", differentiable=False, **options)
    graph = shared_batch(NUM_ENVS, **options)
    rng = np.random.default_rng(0)
    compare(graph.reset(seed=SEED), plain.reset(seed=SEED))
    for step in range(14):
        actions = rng.uniform(-2, 2, (NUM_ENVS, 2)).astype(np.float32)
        shown = plain.step(actions)
        found = graph.step(torch.tensor(actions, requires_grad=step % 2 == 0))
        compare(found[:4], shown[:4])
        infos, wanted = found[4], shown[4]
        compare({key: infos[key] for key in ("count", "speed", "nonfinite")}, wanted)
        for row in np.flatnonzero(wanted.get("_final_obs", [])):
            compare(take_row(infos["final_obs"], row), wanted["final_obs"][row])
        mask = rng.random(NUM_ENVS) < 0.2
        mask |= (shown[2] | shown[3]) & (mode == "Disabled")
        if mask.any():
            reset = graph.reset(options={"reset_mask": torch.tensor(mask)})
            compare(reset, plain.reset(options={"reset_mask": mask}))


def take_row(tree: Any, row: int) -> Any:
    return {key: leaf[row] for key, leaf in tree.items()} if isinstance(tree, dict) else tree[row]


def compare(found: Any, wanted: Any) -> None:
    """Compare trees of tensors with trees of arrays, bit by bit but for floats' last ones."""
    if isinstance(found, dict):
        for key, leaf in found.items():
            compare(leaf, wanted[key])
    elif isinstance(found, tuple):
        for leaf, like in zip(found, wanted, strict=True):
            compare(leaf, like)
    else:
        np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-6, atol=1e-7)
