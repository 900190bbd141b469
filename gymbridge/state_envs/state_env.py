"""Environments whose states are like Brax's, as a `FunctionalEnv`: Brax's own and Playground's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp

from gymbridge.core.episode import Renderer, TimeStep, View, split_ends
from gymbridge.errors import unexpected_keyword
from gymbridge.functional.protocol import Drawing, Facts
from gymbridge.functional.rendering import OwnRenderer
from gymbridge.functional.rows import make_finite
from gymbridge.state_envs.contract import Contract
from gymbridge.state_envs.coordinates import find_coordinates
from gymbridge.state_envs.rendering import Drawn, MujocoRenderer

__all__ = ["StateEnv"]


class StateEnv:
    """One environment, traced and checked.

    Its states are dataclasses with `obs`, `reward`, `done`, `metrics` and `info`, and a field with
    the state of the simulation.

    Args:
        contract: The environment with its spaces and infos.
    """

    def __init__(self, contract: Contract) -> None:
        self.observation_space = contract.observation_space
        self.action_space = contract.action_space
        self.leaves, unwrapped = contract.leaves, contract.env.unwrapped
        backend = getattr(unwrapped, "backend", None)
        self.facts = Facts(
            name=f"{type(unwrapped).__name__}{f' (backend {backend})' if backend else ''}",
            engine=contract.env,
            model=None if contract.leaves is None else contract.leaves.model,
            step_seconds=_as_seconds(_read(contract.env, "dt")),
            coordinates=find_coordinates(contract),
        )
        if contract.solver and contract.solver.obstacle:
            self.facts = self.facts._replace(loop_advice=contract.solver.obstacle)
        self.reset, self.step = contract.reset, contract.step
        self._physics, self._select_info = contract.style.physics, contract.select_info
        self._style = contract.style
        self._render = _own_render(contract.env, contract.style.package)
        self._mj_model = _read(unwrapped, contract.style.mj_model)

    @property
    def drawing(self) -> Drawing:
        """By MuJoCo, or by the environment's own `render`; the viewer shows models of MuJoCo."""
        model, make_page = self._mj_model, None
        if model is not None:
            make_page = partial(self._style.make_page, self.facts, model)
        is_possible = self._render is not None or model is not None
        return Drawing(self._make_renderer, self._drawn, is_possible, make_page)

    def read(self, state: Any) -> TimeStep:
        """Return what a user sees; `info["truncation"]` is Brax's name for an end by timeout."""
        over = state.done > 0
        cut = state.info["truncation"] > 0 if "truncation" in state.info else over & False
        info = self._select_info(state)
        return TimeStep(state.obs, state.reward, *split_ends(over, cut), info)

    def write(self, state: Any, obs: Any, reward: jax.Array) -> Any:
        """Return the state with another observation and reward."""
        return replace(state, obs=obs, reward=reward)

    def finish(self, state: Any) -> Any:
        """Return the state with `done` 1, no truncation, and 0 for NaN and Inf in its infos."""
        info = jax.tree_util.tree_map_with_path(_finish_info, state.info)
        metrics = jax.tree.map(make_finite, state.metrics)
        return replace(state, done=jnp.ones_like(state.done), metrics=metrics, info=info)

    def positions(self, state: Any) -> Any:
        """Return the generalised positions and velocities; none without physics."""
        names = ("q", "qd", "qpos", "qvel")
        return [getattr(self.physics_leaves(state), name, None) for name in names]

    def _make_renderer(self, view: View) -> Renderer:
        """Return the renderer for what `_drawn` returns: the environment's own, if it has one.

        Raises:
            KeywordError: The environment cannot be drawn, or its own `render` takes no such choice.
            ArgumentError: The model has no such camera.
        """
        unexpected = partial(unexpected_keyword, f"{self._style.engine}VectorEnv")
        render = self._render
        if render is not None:
            for name, value in zip(("render_size", "camera"), view, strict=True):
                if value is not None:
                    why = "the environment draws itself, by its `render(state)`; leave it out"
                    raise unexpected(name, self.facts.name, why)
            return OwnRenderer(lambda drawn: render(drawn.states), self.facts.name)
        if self._mj_model is None:
            why = (
                "the environment has no MuJoCo model; give it a method `render(state)` that "
                "returns an image"
            )
            raise unexpected("render_mode", self.facts.name, why)
        return MujocoRenderer(self._mj_model, view)

    def _drawn(self, state: Any) -> Drawn:
        """Return what frames of a batch of states are drawn from."""
        return Drawn(state, self.physics_leaves(state), {})

    def physics_leaves(self, state: Any) -> Any:
        """Return the whole state of the simulation."""
        return getattr(state, self._physics)


def _own_render(env: Any, package: str) -> Callable[[Any], Any] | None:
    """Return the environment's `render`, unless it is the engine's, which takes a trajectory."""
    render = _read(env, "render")
    if not callable(render):
        return None
    module = getattr(getattr(render, "__func__", render), "__module__", None) or ""
    return None if module.partition(".")[0] == package else render


def _read(env: Any, path: str) -> Any:
    """Return an attribute by its path; None where there is none, or a property raises."""
    try:
        return attrgetter(path)(env)
    except Exception:  # The engine's properties may be abstract, or read a model that is missing.
        return None


def _as_seconds(value: Any) -> float | None:
    """Return a step's simulated seconds, if they are any."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 < seconds < math.inf else None


def _finish_info(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
    is_truncation = [getattr(entry, "key", None) for entry in path] == ["truncation"]
    return jnp.zeros_like(leaf) if is_truncation else make_finite(leaf)
