"""Cheap tasks of other JAX suites, beside the suites' own steps, alone and with their autoreset."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from steps import Contest, Step, own_step, play

from gymbridge import JaxEnv, JaxVectorEnv

sys.path.insert(0, str(Path(__file__).parents[1] / "suites"))

ALONE, RESTARTING = "its step alone", "its step with its autoreset"


def compare(env: JaxEnv, num_envs: int, own: Mapping[str, Step]) -> Contest:
    """Compare a batch in two modes with two steps of a suite."""
    steps = dict(own)
    for mode in ("NextStep", "SameStep"):
        steps[mode] = play(JaxVectorEnv(env, num_envs, autoreset_mode=mode))
    bars = {ALONE: None, RESTARTING: 1.5}
    over = {(mode, one): bar for one, bar in bars.items() for mode in ("NextStep", "SameStep")}
    return Contest(steps, over)


def draw(num_envs: int, num_actions: int) -> np.ndarray:
    """Return the actions of 16 steps."""
    return np.random.default_rng(0).integers(0, num_actions, (16, num_envs), np.int32)


def jumanji(num_envs: int, _: str) -> Contest:
    """Compare 2048 of jumanji."""
    import jumanji
    from from_jumanji import FromJumanji
    from jumanji.wrappers import AutoResetWrapper

    env = jumanji.make("Game2048-v1")
    own = {
        name: own_step(
            jax.vmap(one.reset),
            jax.vmap(lambda carry, action, one=one: one.step(carry[0], action)),
            num_envs,
            draw(num_envs, 4),
            lambda carry: carry[1],
        )
        for name, one in ((ALONE, env), (RESTARTING, AutoResetWrapper(env)))
    }
    return compare(FromJumanji(env), num_envs, own)


def gymnax(num_envs: int, _: str) -> Contest:
    """Compare CartPole of gymnax."""
    import gymnax
    from from_gymnax import FromGymnax

    env, params = gymnax.make("CartPole-v1")

    def alone(carry: Any, action: Any) -> Any:
        key, before, _ = carry
        obs, state, reward, over, _ = env.step_env(key, before, action, params)
        return key, state, (obs, reward, over, env.is_truncated(state, params))

    def restarting(carry: Any, action: Any) -> Any:
        obs, state, *others, _ = env.step(*carry[:2], action, params)
        return carry[0], state, (obs, *others)

    def reset(key: Any, step: Any) -> Any:
        """Return the carry, whose last part has the shapes of what a step returns."""
        carry = key, env.reset_env(key, params)[1], None
        shapes = jax.eval_shape(step, carry, 0)[2]
        return *carry[:2], jax.tree.map(
            lambda leaf: jax.numpy.zeros(leaf.shape, leaf.dtype), shapes
        )

    own = {
        name: own_step(
            jax.vmap(lambda key, step=step: reset(key, step)),
            jax.vmap(step),
            num_envs,
            draw(num_envs, 2),
            lambda carry: carry[2],
        )
        for name, step in ((ALONE, alone), (RESTARTING, restarting))
    }
    return compare(FromGymnax(env), num_envs, own)
