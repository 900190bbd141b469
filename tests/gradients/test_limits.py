"""What might have no gradient, or another one: refused with the way out, or right all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from brax import envs as brax_envs
from gymnasium import spaces

from gymbridge.errors import ArgumentTypeError, EnvContractError
from tests.support.point_mass import Motion, PointMass, make_batch, shared_batch
from tests.support.rollouts import SEED
from tests.support.scripted_brax import ScriptedBraxEnv


class Cliff(PointMass):
    """Its episode ends beyond 1, and beyond 2 there is no next state."""

    def step(self, state: brax_envs.State, action: jax.Array) -> brax_envs.State:
        motion: Any = state.pipeline_state
        place = motion.q + action + 0 * jnp.sqrt(2 - jnp.abs(motion.q))
        done = jnp.where(jnp.abs(place).max() > 1, 1.0, 0.0)
        after = Motion(place, motion.qd)
        return replace(
            state, pipeline_state=after, obs=self._obs(after), reward=-(place**2).sum(), done=done
        )


def test_action_repeat__has_no_gradient_of_what_comes_after_the_end() -> None:
    envs = make_batch(Cliff(), action_repeat=3)
    obs, _ = envs.reset(seed=SEED)
    push = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    weights = torch.zeros(4, 2, requires_grad=True)
    _, rewards, terminations, _, infos = envs.step(obs @ weights + push)
    assert terminations.tolist() == [False, True, False, False]
    assert not infos["nonfinite"].any()
    rewards.sum().backward()
    assert weights.grad is not None
    assert weights.grad.isfinite().all()
    assert (weights.grad[:2] != 0).all()


def test_action_repeat__adds_gradients_up() -> None:
    gradients = []
    for envs, count in ((shared_batch(), 2), (make_batch(action_repeat=2), 1)):
        envs.reset(seed=SEED)
        action = torch.full((4, 2), 0.1, requires_grad=True)
        loss = sum(envs.step(action)[1].sum() for _ in range(count))
        gradients += torch.autograd.grad(loss, action)
    torch.testing.assert_close(*gradients)


def test_jax_transformations__are_refused_but_for_a_seeded_reset() -> None:
    """They would leave tracers in the batch."""
    envs = make_batch(arrays="jax", differentiable=False)
    wanted = envs.reset(seed=0)[0]
    with pytest.raises(ArgumentTypeError, match="tracer"):
        jax.jit(lambda x: envs.step(x)[1])(jnp.zeros((4, 2)))
    assert envs.step(jnp.zeros((4, 2)))[1].shape == (4,)
    jax.jit(lambda: envs.reset(seed=0)[0])()  # a tracer is left in the batch
    np.testing.assert_array_equal(envs.reset(seed=0)[0], wanted)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # dynamo looks at it
def test_torch_compile__goes_around_a_step(envs: Any, actions: torch.Tensor) -> None:
    def window(actions: torch.Tensor) -> torch.Tensor:
        obs, rewards = envs.detach(), torch.zeros(())
        for action in actions:
            obs, reward, *_ = envs.step(torch.sin(action))
            rewards = rewards + reward.sum()
        return rewards + obs.sum()

    found = []
    for run in (window, torch.compile(window, backend="aot_eager")):
        envs.reset(seed=SEED)
        loss = run(actions)
        found += [loss.detach(), *torch.autograd.grad(loss, actions)]
    torch.testing.assert_close(found[:2], found[2:])


class Keyed(PointMass):
    """Its state has a typed key, a half float and a part without elements."""

    def reset(self, rng: jax.Array) -> brax_envs.State:
        state = super().reset(rng)
        parts = {"key": jax.random.key(0), "half": jnp.ones((), jnp.float16), "none": jnp.ones(0)}
        return replace(state, info={**state.info, **parts})


def test_state__may_have_leaves_of_any_kind() -> None:
    envs, gradients = make_batch(Keyed()), []
    for batch in (envs, shared_batch()):
        batch.reset(seed=SEED)
        action = torch.full((4, 2), 0.1, requires_grad=True)
        batch.step(action)
        gradients += torch.autograd.grad(batch.step(action)[0].sum(), action)
    assert torch.equal(*gradients)
    envs.set_state(envs.get_state())


class Solver(PointMass):
    """Its step iterates until it is done, in a loop of its own."""

    def step(self, state: Any, action: jax.Array) -> Any:
        def more(loop: tuple[Any, Any]) -> Any:
            return (loop[0] < 4) & (jnp.abs(loop[1]).max() > 1e-3)

        _, action = jax.lax.while_loop(more, lambda loop: (loop[0] + 1, loop[1] / 2), (0, action))
        return super().step(state, action)


class Waves(PointMass):
    """A part of its state has no real numbers."""

    def reset(self, rng: jax.Array) -> Any:
        state = super().reset(rng)
        return replace(state, info={**state.info, "wave": jnp.zeros((), jnp.complex64)})


class Called(PointMass):
    """Its step leaves jax."""

    def step(self, state: Any, action: jax.Array) -> Any:
        shape = jax.ShapeDtypeStruct(action.shape, action.dtype)
        return super().step(state, jax.pure_callback(np.sin, shape, action))


@pytest.mark.parametrize(
    ("env", "text"),
    [
        (Solver(), r"while_loop(.|\n)*without a loop of unknown length"),
        (Waves(), "complex64"),
        (Called(), "callback"),
        (ScriptedBraxEnv([2]), r"are floats, got Discrete\(3\)"),
    ],
)
def test_environment__without_gradients_is_refused(env: Any, text: str) -> None:
    with pytest.raises(EnvContractError, match=text):
        make_batch(env)
    assert make_batch(env, differentiable=False, info_keys=[]).num_envs == 4


class TwoHands(PointMass):
    """Its actions are a dict."""

    action_space = spaces.Dict(left=spaces.Box(-1, 1, (1,)), right=spaces.Box(-1, 1, (1,)))

    def step(self, state: Any, action: Any) -> Any:
        return super().step(state, jnp.concatenate([action["left"], 2 * action["right"]]))


def test_dict_actions__have_gradients_of_each_part() -> None:
    envs = make_batch(TwoHands())
    envs.reset(seed=0)
    actions = {name: torch.full((4, 1), 0.1, requires_grad=True) for name in ("left", "right")}
    obs, rewards, *_ = envs.step(actions)
    obs.sum().backward()
    assert (actions["left"].grad != 0).all()
    assert not torch.equal(actions["left"].grad, actions["right"].grad)
    envs.reset(seed=0)
    window = {name: leaf.detach().repeat(2, 1, 1) for name, leaf in actions.items()}
    torch.testing.assert_close(envs.unroll(window)[1][0], rewards)
