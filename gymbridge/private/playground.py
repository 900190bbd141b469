"""Uses of private names of Playground, as of playground 0.2.0, and of mujoco-mjx 3.17 over Warp."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from mujoco_playground import registry

__all__ = [
    "finding_meshes",
    "hide_iterations",
    "meshes_of",
    "registered",
    "smooth_tolerance",
    "starting_at",
]

_MESHES = {
    "aero_hand": ("tetheria_aero_hand_open",),
    "aloha": ("aloha",),
    "apollo": ("apptronik_apollo",),
    "barkour": ("google_barkour_vb",),
    "berkeley_humanoid": ("berkeley_humanoid",),
    "franka_emika_panda": ("franka_emika_panda",),
    "franka_emika_panda_robotiq": ("franka_emika_panda", "robotiq_2f85_v4"),
    "g1": ("unitree_g1",),
    "go1": ("unitree_go1",),
    "h1": ("unitree_h1",),
    "leap_hand": ("leap_hand",),
    "op3": ("robotis_op3",),
    "spot": ("boston_dynamics_spot",),
    "t1": ("booster_t1",),
}
"""Folders of mujoco_menagerie that the robots in a package of Playground's read."""

FindMenagerie = Callable[[str, Collection[str], Path], AbstractContextManager[Path]]
"""From a robot, the folders of mujoco_menagerie that it reads, and Playground's own folder, to the
folder in which Playground finds them while the context lasts."""

_lock = threading.RLock()
"""Held while Playground's modules are changed, such as the folder in which it looks for meshes."""


def registered() -> dict[str, Any]:
    """Return Playground's environment classes by name: the `_envs` of its three suites."""
    suites = (registry.dm_control_suite, registry.locomotion, registry.manipulation)
    return {name: kind for suite in suites for name, kind in getattr(suite, "_envs", {}).items()}


def hide_iterations(env: Any) -> None:
    """Hide what Warp prints where the solver has used up its iterations; overflows still show.

    Most robots have few iterations on purpose, so that Warp would print lines for most environments
    in each step. MJX in JAX prints nothing. An environment stays as it is if it has no
    `_mjx_model`, or if MJX prints no such lines, as before mujoco-mjx 3.13.
    """
    model: Any = getattr(env.unwrapped, "_mjx_model", None)
    options: Any = getattr(getattr(model, "opt", None), "_impl", None)
    shown = getattr(options, "warn_overflow", None)
    if shown is None or isinstance(shown, bool):
        return
    from mujoco.mjx.third_party.mujoco_warp import OverflowType

    shown &= ~(OverflowType.ITERATIONS | OverflowType.LS_ITERATIONS)
    env.unwrapped._mjx_model = model.tree_replace({"opt._impl.warn_overflow": int(shown)})


def smooth_tolerance() -> None:
    """Let reverse mode pass Playground's `reward.tolerance` where the upper bound is infinite.

    Inside such bounds it selects 1 in the place of a sigmoid of -inf. The derivative of most
    sigmoids there is NaN, which reverse mode multiplies by 0: NaN for the whole step. Theirs at 0
    takes its place. Values are computed as before.
    """
    reward: Any = sys.modules.get("mujoco_playground._src.reward")
    with _lock:
        sigmoids = getattr(reward, "_sigmoids", None)
        if sigmoids is not None and not hasattr(sigmoids, "__wrapped__"):
            reward._sigmoids = _smooth(sigmoids)


def _smooth(sigmoids: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(sigmoids)
    def smooth(x: Any, *args: Any) -> Any:
        evaluate = jax.custom_jvp(lambda x: sigmoids(x, *args))

        @evaluate.defjvp
        def differentiate(primals: Any, tangents: Any) -> Any:
            (x,) = primals
            finite = jnp.where(jnp.isneginf(x), 0, x)
            return evaluate(x), jax.jvp(lambda x: sigmoids(x, *args), (finite,), tangents)[1]

        return evaluate(x)

    return smooth


@contextmanager
def starting_at(_: Any, place: Callable[[Any, Any], tuple[Any, Any]]) -> Iterator[None]:
    """Let environments begin their simulation at other positions and velocities inside the block.

    `place` replaces those that `mjx_env.make_data` returns; the environment computes all else.
    """
    module: Any = registry.mjx_env

    with _lock:
        own = module.make_data

        @wraps(own)
        def begin(*args: Any, **kwargs: Any) -> Any:
            data = own(*args, **kwargs)
            qpos, qvel = place(data.qpos, data.qvel)
            return data.replace(qpos=qpos, qvel=qvel)

        module.make_data = begin
        try:
            yield
        finally:
            module.make_data = own


@contextmanager
def meshes_of(name: str, find: FindMenagerie) -> Iterator[None]:
    """Let Playground find the meshes of a registered environment inside the block.

    Playground's `load` would download them where its own folder is missing.
    """
    if name in registry.dm_control_suite.ALL_ENVS:
        yield
        return
    with _found(name, _find_needed(registered()[name]), find):
        yield


def finding_meshes(
    function: Callable[..., Any] | None, find: FindMenagerie
) -> Callable[..., Any] | None:
    """Return a function of Playground's that builds its robot where the meshes are on disk.

    The hands' randomisation functions do so, to look up names. Anything else is returned as it is.
    """
    own: Any = getattr(function, "func", function)
    needed = _find_in_module(getattr(own, "__module__", ""))
    if function is None or not needed:
        return function

    def call(*args: Any) -> Any:
        with _found(own.__module__, needed, find):
            return function(*args)

    return call


@contextmanager
def _found(name: str, needed: tuple[str, ...], find: FindMenagerie) -> Iterator[None]:
    """Let Playground find folders of mujoco_menagerie inside the block."""
    module: Any = registry.mjx_env
    with _lock, find(name, needed, Path(module.MENAGERIE_PATH)) as folder:
        own = module.MENAGERIE_PATH
        module.MENAGERIE_PATH = type(own)(folder)
        try:
            yield
        finally:
            module.MENAGERIE_PATH = own


def _find_needed(kind: Any) -> tuple[str, ...]:
    """Return the folders that a class reads: those of a robot of Playground's, or of its base."""
    bases = getattr(getattr(kind, "func", kind), "__mro__", ())
    return next(filter(None, (_find_in_module(base.__module__) for base in bases)), ())


def _find_in_module(module: str) -> tuple[str, ...]:
    """Return the folders that the robot of a module of Playground's reads."""
    package = module.rpartition(".")[0]
    robot = package.rpartition(".")[2]
    return _MESHES.get(robot, ()) if package.startswith("mujoco_playground.") else ()
