"""Brax's `Env` as a `FunctionalEnv`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymbridge.brax.private import brax_envs
from gymbridge.functional.protocol import FunctionalEnv
from gymbridge.state_envs.contract import Contract, Style
from gymbridge.state_envs.randomization import randomize
from gymbridge.state_envs.state_env import StateEnv
from gymbridge.state_envs.viewer import make_page

__all__ = ["translate"]

_STYLE = Style(
    engine="Brax",
    argument="brax_env",
    state="brax.envs.State",
    physics="pipeline_state",
    model="sys",
    mj_model="sys.mj_model",
    package="brax",
    make_page=make_page,
    training=(brax_envs.training.__name__,),
)


def translate(
    brax_env: brax_envs.Env, randomization_fn: Callable[..., Any] | None = None, **options: Any
) -> FunctionalEnv[Any]:
    """Return one Brax environment, traced and checked; the options are those of `Contract`."""
    return randomize(StateEnv(Contract(brax_env, _STYLE, **options)), randomization_fn)
