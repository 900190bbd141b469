"""Gymnasium's `FuncEnv` as a third engine: all that it takes."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from gymnasium.experimental.functional import FuncEnv

from gymbridge import BridgeVectorEnv
from gymbridge.core.episode import TimeStep
from gymbridge.functional.protocol import Facts
from gymbridge.functional.runners import JitRunner
from gymbridge.functional.simulator import FunctionalSimulator
from gymbridge.functional.vector_env import FunctionalVectorEnv


class State(NamedTuple):
    inner: Any
    key: jax.Array
    seen: TimeStep  # a `FuncEnv` stores no observation, so what a user sees is kept beside


class FuncEnvTranslation:
    drawing = None

    def __init__(self, env: FuncEnv) -> None:
        self.engine, self.facts = env, Facts(type(env).__name__, env)
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def reset(self, key: jax.Array) -> State:
        key, first = jax.random.split(key)
        inner = self.engine.initial(first)
        return State(inner, key, self._see(inner, first, jnp.zeros(()), jnp.zeros((), bool)))

    def step(self, state: State, action: Any) -> State:
        key, now = jax.random.split(state.key)
        inner = self.engine.transition(state.inner, action, now)
        reward = jnp.asarray(self.engine.reward(state.inner, action, inner, now), jnp.float32)
        return State(inner, key, self._see(inner, now, reward, self.engine.terminal(inner, now)))

    def read(self, state: State) -> TimeStep:
        return state.seen

    def write(self, state: State, obs: Any, reward: Any) -> State:
        return state._replace(seen=state.seen._replace(obs=obs, reward=reward))

    def finish(self, state: State) -> State:
        return state._replace(seen=state.seen._replace(terminated=jnp.ones((), bool)))

    def positions(self, state: State) -> Any:
        return state.inner

    physics_leaves = positions

    def _see(self, inner: Any, key: jax.Array, reward: jax.Array, over: jax.Array) -> TimeStep:
        obs, info = self.engine.observation(inner, key), self.engine.state_info(inner)
        return TimeStep(obs, reward, over, over & False, info)


def make_func_env(env: FuncEnv, num_envs: int, **kwargs: Any) -> BridgeVectorEnv:
    simulator = FunctionalSimulator(FuncEnvTranslation(env), num_envs, task_limit=500)
    return FunctionalVectorEnv(simulator, runner=JitRunner, **kwargs)
