"""MuJoCo Warp under Playground: arrays that all environments share, and contact capacity."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
from mujoco_playground import State, wrapper

from gymbridge.core.requests import read_number
from gymbridge.errors import ArgumentError, NotInstalledError
from gymbridge.jax_env.tracing import KEY

__all__ = ["WithoutShared", "check_alone", "fit_contacts", "prepare_warp", "set_contact_capacity"]

_LEAST, _MOST = 1024, 8192
"""Environments that the contact capacity in Playground's configurations is meant for."""

_lock = threading.Lock()

_SMALLEST = 4096
"""Contact capacity of a small batch, unless Playground's is less; with more, steps cost more."""


def prepare_warp() -> None:
    """Hide the lines that Warp prints of its kernels; its warnings and overflows still show."""
    if find_spec("warp") is None:
        raise NotInstalledError(
            "`impl='warp'` needs MuJoCo Warp: `pip install warp-lang`. `impl='jax'` needs nothing."
        )
    with _lock:
        _hide_kernels()


@cache
def _hide_kernels() -> None:
    """Change Warp's default, and once: another level, and a later one, is the user's."""
    import warp

    if warp.config.log_level == warp.LOG_INFO:
        warp.config.log_level = warp.LOG_WARNING


def check_alone(place: Any, differentiable: bool) -> None:
    """Raise `ArgumentError` for what a batch over Warp cannot have: gradients, several devices."""
    if differentiable:
        raise ArgumentError(
            "`differentiable=True` needs `impl='jax'`, got 'warp': MuJoCo Warp has no gradients."
        )
    if len(getattr(place, "device_set", ())) > 1:
        raise ArgumentError(
            f"`device` must be one device with `impl='warp'`, got {len(place.device_set)}: the "
            "contacts of a batch lie together. Use one batch per device, or `impl='jax'`."
        )


def set_contact_capacity(
    config: Any, default: Any, overrides: dict[str, Any], num_envs: int
) -> dict[str, int | None]:
    """Return the entries of a configuration that are the contact capacity of a batch.

    They are `naconmax`, and `naccdmax` of tasks that have it: contacts of convex geometry, at most
    as many. `default` is the task's own configuration, and `config` and `overrides` are the user's.
    """
    capacities: dict[str, int | None] = {}
    for name in ("naconmax", "naccdmax"):
        if name in config:
            found, own = config[name], default.get(name)
            given = overrides.get(name, None if found == own else found)
            fitted, most = fit_contacts(name, given, own, num_envs), capacities.get("naconmax")
            if fitted and most and fitted > most:
                if given is not None:
                    raise ArgumentError(
                        f"`{name}` must be at most `naconmax`, which is {most}, got {given}; raise "
                        "`naconmax` in `config_overrides` as well."
                    )
                fitted = most
            capacities[name] = fitted
    return capacities


def fit_contacts(name: str, given: int | None, default: int | None, num_envs: int) -> int | None:
    """Return the contact capacity that all environments of a batch share.

    Warp drops the contacts beyond it, so that environments depend on each other. The numbers of
    Playground's configurations are meant for 1,024 environments or more, 8,192 at most.

    It is the user's number, `given`. Without one it is as many for each environment as the task's
    default gives to each of 1,024, and at least 4,096 in all where the default is more.
    """
    if given is not None:
        given = read_number(name, given)
    if not default:
        return given
    if given is None:
        return max(-(-default * num_envs // _LEAST), min(default, _SMALLEST))
    if given < (least := -(-default * num_envs // _MOST)):
        raise ArgumentError(
            f"`{name}` must be at least {least} for this task with num_envs={num_envs}, got "
            f"{given}: it is shared by the whole batch, and Warp drops the contacts beyond it. "
            "Leave it out for a number that is large enough."
        )
    return given


class WithoutShared(wrapper.Wrapper):
    """An environment over Warp whose states hold only what each environment has for itself.

    Warp keeps contacts and solver arrays of all environments together, in arrays without an axis
    for environments. They are overwritten in each step before they are read. Therefore `reset` and
    `step` return None in their place, and `step` puts zeros there before it calls the environment.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._shared: list[Any] | None = None
        self._structure: Any = None

    @property
    def render(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The environment's own, which may draw one state and not a trajectory."""
        return self.env.render

    def reset(self, rng: jax.Array) -> State:
        """Return the initial state, without what is shared."""
        return self._without(self.env.reset(rng))

    def step(self, state: State, action: jax.Array) -> State:
        """Return the next state, without what is shared."""
        shared = self._find_shared()
        leaves = iter(jax.tree.leaves(state.data))
        full = [
            next(leaves) if leaf is None else jnp.zeros(leaf.shape, leaf.dtype) for leaf in shared
        ]
        data = jax.tree.unflatten(self._structure, full)
        return self._without(self.env.step(replace(state, data=data), action))

    def _without(self, state: State) -> State:
        leaves = zip(jax.tree.leaves(state.data), self._find_shared(), strict=True)
        own = [leaf if shared is None else None for leaf, shared in leaves]
        return replace(state, data=jax.tree.unflatten(self._structure, own))

    def _find_shared(self) -> list[Any]:
        """Return the shape of each leaf that has it for two sizes of a batch, None for others."""
        if self._shared is None:
            reset = jax.vmap(lambda key: self.env.reset(key).data)
            keys = (jax.ShapeDtypeStruct((size, *KEY.shape), KEY.dtype) for size in (2, 3))
            small, large = (jax.eval_shape(reset, some) for some in keys)
            leaves = zip(jax.tree.leaves(small), jax.tree.leaves(large), strict=True)
            self._shared = [one if one.shape == other.shape else None for one, other in leaves]
            self._structure = jax.tree.structure(small)
        return self._shared
