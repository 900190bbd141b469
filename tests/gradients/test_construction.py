"""What cannot have gradients is refused where a batch is built, with the way out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
from gymnasium import spaces
from point_mass import PointMass, make_batch

from gymbridge import BraxVectorEnv, EnvPoolVectorEnv
from gymbridge.errors import ArgumentError, EnvContractError
from gymbridge.testing.scripted_brax import ScriptedBraxEnv


class Solver(PointMass):
    """Its step iterates until it is done, as MJX's solver does."""

    backend = "mjx"
    iterations = 4

    def step(self, state: Any, action: jax.Array) -> Any:
        def more(loop: tuple[Any, Any]) -> Any:
            return (loop[0] < self.iterations) & (jnp.abs(loop[1]).max() > 1e-3)

        if self.iterations > 1:
            _, action = jax.lax.while_loop(
                more, lambda loop: (loop[0] + 1, loop[1] / 2), (0, action)
            )
        return super().step(state, action)


def test_reverse_mode__is_tried_at_construction() -> None:
    with pytest.raises(EnvContractError, match=r"while_loop(.|\n)*opt.iterations(.|\n)*'spring'"):
        BraxVectorEnv(Solver(), 2, arrays="torch", differentiable=True)
    unrolled = Solver()
    unrolled.iterations = 1
    assert BraxVectorEnv(unrolled, 2, arrays="torch", differentiable=True).num_envs == 2
    assert BraxVectorEnv(Solver(), 2, arrays="torch").num_envs == 2


def test_mjx__with_more_than_one_solver_iteration_is_refused() -> None:
    with pytest.raises(EnvContractError, match="backend 'mjx'"):
        BraxVectorEnv("reacher", 2, backend="mjx", arrays="torch", differentiable=True)


def test_mjx__goes_with_the_option_that_the_error_names() -> None:
    from brax import envs as brax_envs

    env: Any = brax_envs.get_environment("reacher", backend="mjx")
    env.sys = env.sys.tree_replace({"opt.iterations": 1})
    assert BraxVectorEnv(env, 2, arrays="torch", differentiable=True).num_envs == 2


@pytest.mark.parametrize("arrays", ["numpy", "jax"])
def test_arrays__must_be_torch(arrays: str) -> None:
    with pytest.raises(ArgumentError, match=f"needs `arrays='torch'`, got '{arrays}'"):
        make_batch(2, arrays=arrays)


def test_actions__must_be_floats() -> None:
    with pytest.raises(EnvContractError, match=r"so floats, got Discrete\(3\)"):
        BraxVectorEnv(ScriptedBraxEnv([2]), 2, arrays="torch", differentiable=True)


def test_residuals__are_one_of_two() -> None:
    with pytest.raises(ArgumentError, match=r"\('store', 'recompute'\), got 'keep'"):
        make_batch(2, residuals="keep")


@pytest.mark.parametrize("name", ["differentiable", "residuals"])
def test_envpool__has_no_gradients(name: str) -> None:
    pytest.importorskip("envpool")
    with pytest.raises(ArgumentError, match=f"keyword argument '{name}' (.|\n)*C\\+\\+"):
        EnvPoolVectorEnv("CartPole-v1", 2, **{name: True})


class TwoHands(PointMass):
    """Its actions are a dict."""

    action_space = spaces.Dict(left=spaces.Box(-1, 1, (1,)), right=spaces.Box(-1, 1, (1,)))

    def step(self, state: Any, action: Any) -> Any:
        return super().step(state, jnp.concatenate([action["left"], 2 * action["right"]]))


def test_dict_actions__have_gradients_of_each_part() -> None:
    envs = BraxVectorEnv(TwoHands(), 3, arrays="torch", differentiable=True)
    envs.reset(seed=0)
    actions = {name: torch.full((3, 1), 0.1, requires_grad=True) for name in ("left", "right")}
    envs.step(actions)[0].sum().backward()
    assert (actions["left"].grad != 0).all()
    assert not torch.equal(actions["left"].grad, actions["right"].grad)
    envs.detach()
    window = {name: torch.full((4, 3, 1), 0.1, requires_grad=True) for name in actions}
    envs.unroll(window)[1].sum().backward()
    assert all((leaf.grad != 0).any() for leaf in window.values())


DOUBLE = """
import torch
from point_mass import make_batch
envs = make_batch(3, max_episode_steps=-1)
envs.reset(seed=0)
def loss_of(actions):
    envs.reset(seed=0)
    loss = 0
    for action in actions:
        obs, rewards, *_ = envs.step(action)
        loss = loss + obs.sum() + rewards.sum()
    assert obs.dtype == rewards.dtype == envs.physics_state.dtype == torch.float64
    return loss
torch.manual_seed(0)
actions = (0.3 * torch.randn(4, 3, 2, dtype=torch.float64)).requires_grad_()
assert torch.autograd.gradcheck(loss_of, actions, eps=1e-6, atol=1e-9, rtol=1e-7)
print("checked")
"""


def test_float64__passes_gradcheck() -> None:
    """In a process of its own: JAX takes 64 bits for all or none."""
    folder = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", DOUBLE],
        cwd=folder,
        env={"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu", "PATH": "", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.endswith("checked\n")
