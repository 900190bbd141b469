"""What cannot have gradients is refused where a batch is built, with the way out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from gymnasium import spaces

from gymbridge.errors import EnvContractError
from gymbridge.testing.scripted_brax import ScriptedBraxEnv
from tests.support.point_mass import PointMass, make_batch


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
