"""A snapshot is all that a batch is: taken, kept, put back, or refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import pytest
import torch
from point_mass import PointMass, make_batch, shared_batch
from rollouts import (
    NUM_ENVS,
    SEED,
    draw_actions,
    play_steps,
    run,
    small_actions,
)

from gymbridge import BraxVectorEnv
from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
)


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


def test_snapshot__is_a_copy(envs: Any, actions: torch.Tensor) -> None:
    wanted = play_steps(envs, actions.detach())[-1][0]
    for spoil in (
        lambda state: jax.jit(lambda x: x * 2, donate_argnums=0)(state.carry.packed),
        lambda state: torch.from_dlpack(state.carry.packed).fill_(93),
    ):
        envs.reset(seed=SEED)
        spoil(envs.get_state())
        state = pickle.loads(pickle.dumps(envs.get_state()))
        envs.set_state(state)
        spoil(state)
        assert torch.equal(play_steps(envs, actions.detach())[-1][0], wanted)


class Other(PointMass):
    """The same shapes, another environment."""


def test_snapshot__of_another_environment_or_mode_is_refused(envs: Any) -> None:
    options = {"arrays": "torch", "differentiable": True}
    for other in (
        BraxVectorEnv(Other(), NUM_ENVS, **options),
        make_batch(NUM_ENVS, autoreset_mode="SameStep"),
        make_batch(NUM_ENVS, is_dict=True),
    ):
        other.reset(seed=0)
        with pytest.raises(ArgumentError, match="batch like this one"):
            envs.set_state(other.get_state())
