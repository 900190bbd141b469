"""Cheap tasks of other JAX suites, beside the suites' own steps, alone and with their autoreset."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from steps import Contest, own_step, play

from gymbridge import JaxEnv, JaxVectorEnv

sys.path.insert(0, str(Path(__file__).parents[1] / "suites"))

ALONE, RESTARTING = "its step alone", "its step with its autoreset"


def compare(
    env: JaxEnv,
    num_envs: int,
    num_actions: int,
    own: Mapping[str, tuple[Any, Any]],
    seen: Callable[[Any], Any],
) -> Contest:
    """Compare a batch in two modes with two steps of a suite.

    `own` has its `reset`, of a key, and its `step`, of (carry, action), for one row. `seen` returns
    what a user sees of a carry.
    """
    actions = np.random.default_rng(0).integers(0, num_actions, (16, num_envs), np.int32)
    steps = {
        name: own_step(jax.vmap(reset), jax.vmap(step), num_envs, actions, seen)
        for name, (reset, step) in own.items()
    }
    modes = ("NextStep", "SameStep")
    steps |= {mode: play(JaxVectorEnv(env, num_envs, autoreset_mode=mode)) for mode in modes}
    bars = {ALONE: None, RESTARTING: 1.5}
    return Contest(steps, {(mode, one): bar for one, bar in bars.items() for mode in modes})


def jumanji(num_envs: int, _: str) -> Contest:
    """Compare 2048 of jumanji."""
    import jumanji
    from from_jumanji import FromJumanji
    from jumanji.wrappers import AutoResetWrapper

    env = jumanji.make("Game2048-v1")
    own = {
        name: (one.reset, lambda carry, action, one=one: one.step(carry[0], action))
        for name, one in ((ALONE, env), (RESTARTING, AutoResetWrapper(env)))
    }
    return compare(FromJumanji(env), num_envs, 4, own, lambda carry: carry[1])


def gymnax(num_envs: int, _: str) -> Contest:
    """Compare CartPole of gymnax; what a step returned is the last part of a carry."""
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

    def reset(key: Any) -> Any:
        return key, env.reset_env(key, params)[1], None

    own = {ALONE: (reset, alone), RESTARTING: (reset, restarting)}
    return compare(FromGymnax(env), num_envs, 2, own, lambda carry: carry[2])
