"""A snapshot is all that a batch is: taken, kept, put back, or refused."""

from __future__ import annotations

from typing import Any

import jax
import pytest
import torch

from tests.support.point_mass import shared_batch
from tests.support.rollouts import SEED, play_steps, run


def assert_equal(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_snapshot__has_no_graph_and_cuts_it(envs: Any, actions: torch.Tensor) -> None:
    play_steps(envs, actions[:2])
    state = envs.get_state()
    envs.set_state(state)
    assert not envs.physics_state.requires_grad
    envs.step(actions[2])[0].sum().backward()
    assert (actions.grad[:2] == 0).all()


@pytest.mark.parametrize("options", [{"differentiable": False}, {"device": "cpu:all"}], ids=str)
def test_snapshot__goes_into_another_kind_of_batch_and_back(envs: Any, options: Any) -> None:
    other, action = shared_batch(**options), torch.full((4, 2), 0.1)
    other.set_state(envs.get_state())
    assert_equal(other.step(action), envs.step(action))
    other.step(action)
    assert_equal(envs.set_state(other.get_state()), other.set_state(other.get_state()))
    assert_equal(envs.step(action), other.step(action))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda leaf: jax.jit(lambda x: x * 2, donate_argnums=0)(leaf),
        lambda leaf: torch.from_dlpack(leaf).fill_(93),
    ],
    ids=["donated", "written"],
)
def test_snapshot__shares_no_memory_with_the_batch(
    envs: Any, actions: torch.Tensor, spoil: Any
) -> None:
    wanted = run(envs, actions)
    envs.reset(seed=SEED)
    spoil(envs.get_state().leaves["state.pipeline_state.q"])
    state = envs.get_state()
    envs.set_state(state)
    spoil(state.leaves["state.pipeline_state.q"])
    assert_equal(run(envs, actions), wanted)
