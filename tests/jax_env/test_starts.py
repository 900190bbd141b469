"""Episodes that begin at chosen positions and velocities."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brax import envs as brax_envs

from gymbridge import BraxVectorEnv
from gymbridge.errors import ArgumentError
from tests.support.trees import assert_same

Q = np.array([[0.1, 0.2, 0.05, 0.06], [0.4, -0.3, 0.1, -0.1], [0, 0, 0.02, 0.03]], np.float32)
QD = np.array([[0.5, -0.5, 0, 0]] * 3, np.float32)


@pytest.fixture(scope="module")
def reacher() -> Any:
    return BraxVectorEnv("reacher", 3, backend="spring", autoreset_mode="SameStep")


def begin_plain(q: Any, qd: Any) -> tuple[Any, Any]:
    """Return Brax's own state at these positions, the target among them, and its observation."""
    env: Any = brax_envs.get_environment("reacher", backend="spring")
    state = env.pipeline_init(jnp.asarray(q), jnp.asarray(qd))
    return state, env._get_obs(state)


def test_episode__begins_there_as_in_plain_brax(reacher: Any) -> None:
    reacher.reset(seed=0)
    obs = reacher.reset(options={"q": Q, "qd": QD})[0]
    wanted = [begin_plain(*row)[1] for row in zip(Q, QD, strict=True)]
    np.testing.assert_allclose(obs, wanted, atol=1e-6)
    env: Any = brax_envs.get_environment("reacher", backend="spring")
    state = jax.jit(env.reset)(jax.random.PRNGKey(0))
    state = state.replace(pipeline_state=begin_plain(Q[0], QD[0])[0])
    actions = np.full((3, 2), 0.3, np.float32)
    after = jax.jit(env.step)(state, jnp.asarray(actions[0]))
    obs, rewards = reacher.step(actions)[:2]
    np.testing.assert_allclose(obs[0], after.obs, atol=1e-5)
    np.testing.assert_allclose(rewards[0], after.reward, atol=1e-5)


def test_other_rows_and_later_episodes__begin_by_themselves(reacher: Any) -> None:
    first = reacher.reset(seed=[1, 2, 3])[0]
    mask = np.array([True, False, True])
    obs = reacher.reset(options={"q": Q, "reset_mask": mask})[0]
    assert_same(obs[1], first[1])
    np.testing.assert_allclose(obs[0, 4:6], Q[0, 2:], atol=1e-6)
    reacher.reset(seed=[1, 2, 3])
    own = reacher.reset()[0]
    reacher.reset(seed=[1, 2, 3], options={"q": Q})
    assert_same(reacher.reset()[0], own)


def test_velocities_alone__leave_the_positions_to_the_environment(reacher: Any) -> None:
    first = reacher.reset(seed=0)[0]
    obs = reacher.reset(seed=0, options={"qd": QD})[0]
    assert_same(obs[:, :6], first[:, :6])
    assert not np.allclose(obs[:, 6:8], first[:, 6:8])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"q": Q[:, :3]}, r"`options\['q'\]` must have shape \(3, 4\), got \(3, 3\)"),
        ({"q": Q * np.nan}, r"`options\['q'\]` must be finite"),
        ({"qpos": Q}, r"unknown key 'qpos'; known: 'q', 'qd', 'reset_mask'"),
    ],
)
def test_wrong_start__is_refused_before_anything_changes(
    reacher: Any, options: dict[str, Any], message: str
) -> None:
    reacher.reset(seed=0)
    state = reacher.get_state()
    with pytest.raises(ArgumentError, match=message):
        reacher.reset(options=options)
    for name, leaf in reacher.get_state().leaves.items():
        np.testing.assert_array_equal(leaf, state.leaves[name])


def test_environment_that_begins_no_simulation__has_no_such_option() -> None:
    envs = BraxVectorEnv("fast", 2)
    with pytest.raises(ArgumentError, match="unknown key 'q'"):
        envs.reset(options={"q": np.zeros((2, 1))})


def test_simulation_begun_in_a_function_compiled_before__has_no_such_option() -> None:
    """JAX keeps its trace, in which there is nothing to put in."""

    class Compiled(brax_envs.inverted_pendulum.InvertedPendulum):
        def reset(self, rng: Any) -> Any:
            return self._compiled(rng)

        def __init__(self) -> None:
            super().__init__(backend="spring")
            self._compiled = jax.jit(super().reset)

    envs = BraxVectorEnv(Compiled(), 2)
    with pytest.raises(ArgumentError, match="unknown key 'q'"):
        envs.reset(options={"q": np.zeros((2, 2))})
    assert np.isfinite(envs.reset(seed=0)[0]).all()


@pytest.mark.parametrize("kind", ["keywords", "own attribute"])
def test_other_ways_to_begin__go_on_as_before(kind: str) -> None:
    class Pendulum(brax_envs.inverted_pendulum.InvertedPendulum):
        def reset(self, rng: Any) -> Any:
            if kind == "own attribute":
                return super().reset(rng)
            state = self.pipeline_init(q=self.sys.init_q, qd=jnp.zeros(2))
            zero = jnp.zeros(())
            info = {"time_out": zero}
            return brax_envs.State(state, self._get_obs(state), zero, zero, info=info)

    env: Any = Pendulum(backend="spring")
    begin = env.pipeline_init
    if kind == "own attribute":
        env.pipeline_init = begin
    before = dict(vars(env))
    envs = BraxVectorEnv(env, 2)
    assert np.isfinite(envs.reset(seed=0)[0]).all()
    assert vars(env).keys() == before.keys()
    assert env.pipeline_init == begin
    options = {"q": np.array([[0.3, 0], [0, 0.1]])}
    if kind == "own attribute":
        np.testing.assert_allclose(envs.reset(options=options)[0][:, :2], options["q"], atol=1e-6)
    else:
        with pytest.raises(ArgumentError, match="unknown key 'q'"):
            envs.reset(options=options)
