"""`envs.linearize`: the derivatives of the next step are those of plain JAX."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from mujoco_playground import registry

from gymbridge import BraxVectorEnv, JaxVectorEnv, PlaygroundVectorEnv
from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
    EnvContractError,
    ResetNeededError,
    SimulationError,
)
from tests.support.jax_samples import Glide
from tests.support.point_mass import PointMass, make_batch
from tests.support.puck import Puck

NUM_ENVS = 3
ACTIONS = np.float32([[0.3, -0.2], [0.1, 0.9], [-0.5, 0.0]])


@cache
def _make_glide(arrays: str) -> JaxVectorEnv:
    return JaxVectorEnv(Glide(), NUM_ENVS, arrays=arrays)


def _assert_close(found: Any, wanted: Any) -> None:
    atol = 1e-5 * np.abs(wanted).max()
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=0, atol=atol)


def test_linearize__gives_the_derivatives_by_name_in_every_kind_of_arrays(kind: str) -> None:
    envs = _make_glide(kind)
    place = np.asarray(envs.reset(seed=1)[0])
    found = envs.linearize(ACTIONS, fields=["state"])
    assert found.fields == {"state": slice(0, 2)}
    assert {type(array) for array in found[:3]} == {type(envs.reset(seed=1)[0])}
    np.testing.assert_allclose(np.asarray(found.x), place)
    diagonal = jax.vmap(jnp.diag)
    _assert_close(found.A, diagonal(1 + np.sin(ACTIONS)))
    _assert_close(found.B, diagonal(np.cos(ACTIONS) * place))


def test_linearize__does_not_move_the_batch() -> None:
    envs = _make_glide("numpy")
    envs.reset(seed=1)
    wanted = envs.step(ACTIONS)[0]
    envs.reset(seed=1)
    envs.linearize(ACTIONS, fields=["state"])
    np.testing.assert_array_equal(envs.step(ACTIONS)[0], wanted)


class Forced(NamedTuple):
    """A motion, and a force that derives from it."""

    q: Any
    qd: Any
    force: Any


class Lagged(PointMass):
    """A step reads the force that the last one computed, as in Brax's own pipelines."""

    def pipeline_init(self, q: Any, qd: Any) -> Any:
        return Forced(q, qd, jnp.sin(q) * (1 + qd))

    def reset(self, rng: Any) -> Any:
        state = super().reset(rng)
        motion: Any = state.pipeline_state
        return state.replace(pipeline_state=self.pipeline_init(motion.q, motion.qd))

    def step(self, state: Any, action: Any) -> Any:
        now = state.pipeline_state
        speed = now.qd + 0.3 * jnp.tanh(now.q * action) + now.force
        after = self.pipeline_init(now.q + 0.5 * jnp.sin(speed), speed)
        return state.replace(pipeline_state=after, obs=self._obs(after), reward=-speed.sum())


@pytest.mark.parametrize("action_repeat", [1, 2])
def test_linearize__computes_anew_what_derives_from_the_coordinates(action_repeat: int) -> None:
    """In a batch with a graph, too, where it has none."""
    env = Lagged()
    envs = make_batch(env, NUM_ENVS, action_repeat=action_repeat)
    envs.reset(seed=1)
    for _ in range(2):
        envs.step(torch.from_numpy(ACTIONS))
    state, columns = envs.physics_state, envs.physics_state_fields
    found = envs.linearize(torch.from_numpy(ACTIONS).requires_grad_())
    assert list(found.fields) == ["pipeline_state.q", "pipeline_state.qd"]
    assert not any(array.requires_grad for array in found[:3])
    for name, place in found.fields.items():
        assert torch.equal(found.x[:, place], state[:, columns[name]])

    def advance(x: Any, action: Any) -> Any:
        now = env.reset(jax.random.PRNGKey(0)).replace(pipeline_state=env.pipeline_init(*x))
        for _ in range(action_repeat):
            now = env.step(now, action)
        return jnp.stack([now.pipeline_state.q, now.pipeline_state.qd])

    x = found.x.numpy().reshape(NUM_ENVS, 2, 2)
    by_state, by_action = jax.vmap(jax.jacfwd(advance, (0, 1)))(x, ACTIONS)
    _assert_close(found.A, by_state.reshape(NUM_ENVS, 4, 4))
    _assert_close(found.B, by_action.reshape(NUM_ENVS, 4, 2))


def test_linearize__is_compiled_once_for_a_choice_of_fields(caplog: Any) -> None:
    envs = JaxVectorEnv(Glide(), NUM_ENVS)
    envs.reset(seed=0)
    with caplog.at_level("INFO", "gymbridge"):
        for fields in (["state"], ("state",), ["seen.obs"], ["state"]):
            envs.linearize(ACTIONS, fields)
    assert [record.message.split(" of ")[0] for record in caplog.records] == [
        "Compiling linearize"
    ] * 2


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        (None, ArgumentError, "`fields` must name the leaves .* are .'state', 'seen.obs'"),
        (["stat"], ArgumentError, "got 'stat'; did you mean 'state'"),
        (["steps"], ArgumentError, "must name float leaves of the state, got 'steps'"),
        (["state", "state"], ArgumentError, "name each leaf once"),
        ("state", ArgumentTypeError, "a list of names or None, got 'state'"),
        ([], ArgumentTypeError, r"a list of names or None, got \[\]"),
        ([[0]], ArgumentTypeError, "a list of names or None"),
    ],
)
def test_linearize__refuses_other_fields(fields: Any, error: Any, text: str) -> None:
    envs = _make_glide("numpy")
    envs.reset(seed=0)
    with pytest.raises(error, match=text):
        envs.linearize(ACTIONS, fields)


def test_linearize__needs_a_reset_and_floats() -> None:
    class Choice(Glide):
        action_space = Discrete(2)

        def step(self, key: Any, state: Any, action: Any) -> Any:
            return super().step(key, state, jnp.float32(action))

    with pytest.raises(ResetNeededError, match="`linearize`"):
        JaxVectorEnv(Glide(), NUM_ENVS).linearize(ACTIONS, ["state"])
    envs = JaxVectorEnv(Choice(), NUM_ENVS)
    envs.reset(seed=0)
    with pytest.raises(EnvContractError, match=r"actions that are floats, got Discrete\(2\)"):
        envs.linearize([0, 1, 0], ["state"])


def test_linearize__names_a_step_that_forward_mode_cannot_pass() -> None:
    @jax.custom_vjp
    def odd(x: Any) -> Any:
        return x

    odd.defvjp(lambda x: (x, None), lambda _, cotangent: (cotangent,))

    class Odd(Glide):
        def step(self, key: Any, state: Any, action: Any) -> Any:
            return super().step(key, odd(state), action)

    envs = JaxVectorEnv(Odd(), NUM_ENVS)
    envs.reset(seed=0)
    with pytest.raises(SimulationError, match=r"the step of Odd in forward mode\. TypeError"):
        envs.linearize(ACTIONS, ["state"])


def check_by_hand(env: Any, envs: Any, place: Any, read: Any) -> None:
    """Check against `jax.jacfwd` of the engine's own step, where one episode has begun.

    Args:
        env: Of the engine.
        envs: A batch of the same, with one action.
        place: (state, x) -> state at these coordinates.
        read: state -> coordinates.
    """
    actions = np.float32([[0.3], [0.1], [-0.5]])
    envs.reset(seed=0)
    found = envs.linearize(actions)
    state = jax.jit(env.reset)(jax.random.PRNGKey(0))

    def advance(x: Any, action: Any) -> Any:
        return read(env.step(place(state, x), action))

    by_hand = jax.jit(jax.vmap(jax.jacfwd(advance, (0, 1))))(found.x, actions)
    for ours, wanted in zip(found[:2], by_hand, strict=True):
        _assert_close(ours, np.asarray(wanted))


@pytest.mark.slow
def test_linearize__is_jacfwd_of_plain_brax() -> None:
    """A ball that slides, under a gravity that the batch draws."""
    env, drawn = Puck("spring"), {"gravity": jnp.float32([1, 0, -5])}
    envs = BraxVectorEnv(Puck("spring"), NUM_ENVS, randomization_fn=lambda *_: drawn)
    env.sys = env.sys.tree_replace(drawn)

    def place(state: Any, x: Any) -> Any:
        return state.replace(pipeline_state=env.pipeline_init(x[:2], x[2:]))

    def read(state: Any) -> Any:
        return jnp.concatenate([state.pipeline_state.q, state.pipeline_state.qd])

    check_by_hand(env, envs, place, read)


@pytest.mark.slow
def test_linearize__is_jacfwd_of_plain_playground() -> None:
    """On MJX, through the loop of its solver."""
    name = "CartpoleSwingup"
    env = registry.load(name, config_overrides={"impl": "jax"})

    def place(state: Any, x: Any) -> Any:
        return state.replace(data=state.data.replace(qpos=x[:2], qvel=x[2:]))

    def read(state: Any) -> Any:
        return jnp.concatenate([state.data.qpos, state.data.qvel])

    check_by_hand(env, PlaygroundVectorEnv(name, NUM_ENVS), place, read)
