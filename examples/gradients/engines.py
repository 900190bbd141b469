"""The environments of both engines, unbatched, and what is active in their physics.

A pair is ``name/backend``, where the backend is Brax's or "playground". gymbridge builds those of
Playground, since it finds the meshes of robots; they are Playground's own objects.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
from brax import contact
from brax import envs as brax_envs
from mujoco import mjx
from mujoco_playground import registry

from gymbridge.playground.building import build_env
from gymbridge.private.mjx import SolverGradient
from gymbridge.private.playground import smooth_tolerance


def make_env(name: str, backend: str) -> Any:
    """Return an environment of Brax or Playground."""
    if backend == "playground":
        return build_env(name, None, None, "jax", 1)
    return brax_envs.get_environment(name, backend=backend)


def uses_mjx(backend: str) -> bool:
    """Return whether the physics are MJX's."""
    return backend in ("mjx", "playground")


def step_with_gradients(env: Any, backend: str) -> Callable[[Any, Any], Any]:
    """Return the environment's own step.

    Reverse mode passes MJX's solver and Playground's `reward.tolerance` by gymbridge's rules.
    """
    smooth_tolerance()
    return SolverGradient("auto").wrap(env.step) if uses_mjx(backend) else env.step


def pick_obs(obs: Any) -> Any:
    """Return an observation's array; of a robot's, that which its policy sees."""
    return obs["state"] if isinstance(obs, Mapping) else obs


def watched_step(env: Any, backend: str) -> Callable[[Any, Any], tuple[Any, tuple[Any, ...]]]:
    """Return a step that tells what was active in its substeps; it may change the environment."""
    seen: list[Any] = []

    def scan(substep: Any, state: Any, length: int) -> Any:
        state, active = jax.lax.scan(substep, state, (), length)
        seen.append(active)
        return state

    def brax_step(state: Any, action: Any) -> Any:
        def substep(state: Any, _: Any) -> Any:
            state = env._pipeline.step(env.sys, state, action, env._debug)
            return state, _activity(env.sys, state)

        return scan(substep, state, env._n_frames)

    def mjx_step(model: Any, data: Any, action: Any, n_substeps: int = 1) -> Any:
        def substep(data: Any, _: Any) -> Any:
            data = mjx.step(model, data.replace(ctrl=action))
            return data, _mjx_activity(data)

        return scan(substep, data, n_substeps)

    def step(state: Any, action: Any) -> Any:
        seen.clear()
        module, own = registry.mjx_env, registry.mjx_env.step
        module.step = mjx_step
        try:
            return env.step(state, action), tuple(seen)
        finally:
            module.step = own

    if backend != "playground" and hasattr(env, "sys"):  # Brax's `fast` has no physics
        env.pipeline_step = brax_step
    return step


def _activity(system: Any, state: Any) -> list[Any]:
    """Return which contacts and joint limits of Brax's physics are active."""
    if hasattr(state, "_impl"):
        return _mjx_activity(state)
    active = []
    contacts = contact.get(system, state.x)
    if contacts is not None:
        active.append(contacts.dist < 0)
    if system.dof.limit is not None:
        angles, dofs = state.q[system.q_idx("123")], system.qd_idx("123")
        low, high = (bound[dofs] for bound in system.dof.limit)
        active += [angles < low, angles > high]
    return active


def _mjx_activity(data: Any) -> list[Any]:
    """Return which contacts and limits of MJX push, and which dry friction slides."""
    found, first = data._impl, data._impl.ne
    last = first + found.nf
    force, bound = found.efc_force, found.efc_frictionloss[first:last]
    return [abs(force[first:last]) >= bound, force[last:] != 0]
