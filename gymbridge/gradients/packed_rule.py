"""The rule over carries whose floats are one array, and time steps without what has a gradient.

The floats of the engine's state and of the observation are packed into one array, so that a step
has two inputs with a gradient (packed state, actions) and few such outputs (packed state,
observations, reward). The rest, which has none, stays on the jax side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gymbridge.core.episode import Carry, EpisodeRule, ResetRequest, StepResult
from gymbridge.core.infos import InfoLayout
from gymbridge.jax_env.carries import carry_shapes, name_leaves
from gymbridge.jax_env.compilation import log_compilation
from gymbridge.jax_env.runners import JaxRule
from gymbridge.jax_env.simulator import JaxSimulator

__all__ = ["PackedRule", "Packing", "join"]


class Packing:
    """Float leaves of the engine's state and of the observation as one array.

    Args:
        rule: Episode rule whose carries are packed.

    Attributes:
        fields: Columns of each leaf that is packed, by name.
    """

    def __init__(self, rule: EpisodeRule[JaxSimulator]) -> None:
        carry, wanted = carry_shapes(rule), {*rule.simulator.field_names()}
        leaves, self._structure = jax.tree.flatten(carry)
        named = [*zip(name_leaves(rule.simulator, carry), leaves, strict=True)]
        self._is_packed = [name in wanted and _is_float(leaf) for name, leaf in named]
        floats = dict(itertools.compress(named, self._is_packed))
        self._floats = [*floats.values()]
        self._dtype = jnp.result_type(*[leaf.dtype for leaf in self._floats])
        self._ends = np.cumsum([math.prod(leaf.shape[1:]) for leaf in self._floats]).tolist()
        columns = (slice(*ends) for ends in itertools.pairwise([0, *self._ends]))
        self.fields = dict(zip(floats, columns, strict=True))

    def pack(self, carry: Carry) -> tuple[jax.Array, tuple[Any, ...]]:
        """Return the leaves that are packed, (num_envs, size), and the rest."""
        leaves = [*zip(jax.tree.leaves(carry), self._is_packed, strict=True)]
        floats = [leaf for leaf, is_packed in leaves if is_packed]
        columns = [leaf.reshape(leaf.shape[0], -1).astype(self._dtype) for leaf in floats]
        rest = tuple(leaf for leaf, is_packed in leaves if not is_packed)
        return jnp.concatenate(columns, 1), rest

    def unpack(self, packed: Any, rest: tuple[Any, ...]) -> Carry:
        """Return the carry with these float leaves, (num_envs, size), and this rest."""
        columns = jnp.split(packed, self._ends[:-1], 1)
        floats: Iterator[Any] = (
            column.reshape(like.shape).astype(like.dtype)
            for column, like in zip(columns, self._floats, strict=True)
        )
        others = iter(rest)
        leaves = [next(floats if is_packed else others) for is_packed in self._is_packed]
        return jax.tree.unflatten(self._structure, leaves)


class PackedRule:
    """The rule of the rows of one device, over packed carries: functions to be spread.

    `reset`, `step` and `unroll` are for `JaxFunction`. They return the packed carry and what has a
    gradient of the time step, and the rest of both.

    Args:
        rule: Episode rule of the batch.
        infos: The layout of its infos.
        recompute: Whether the backward pass of `unroll` computes each step again.
    """

    def __init__(self, rule: EpisodeRule[JaxSimulator], infos: InfoLayout, recompute: bool) -> None:
        self._batch, self._infos = rule.simulator, infos
        self._rule = JaxRule(rule, of_one_device=True)
        self.packing, self._recompute = Packing(self._rule), recompute

    def first_reset(self, mask: Any, seeds: ResetRequest) -> tuple[Any, Any, StepResult]:
        """Return the first carry, packed and rest, and the rest of the result."""
        log_compilation("reset", self._batch)
        outcome = self._infos.collect_infos(self._rule.reset(None, mask, seeds))
        return *self.packing.pack(outcome.carry), outcome._replace(carry=None)

    def reset(self, inputs: tuple[Any], rest: tuple[Any, Any, ResetRequest]) -> Any:
        """Begin new episodes, given the packed carry, and its rest with the mask and seeds."""
        log_compilation("reset", self._batch)
        carry_rest, mask, seeds = rest
        carry = self.packing.unpack(*inputs, carry_rest)
        return self._pack(self._infos.collect_infos(self._rule.reset(carry, mask, seeds)))

    def step(self, inputs: tuple[Any, Any], rest: Any) -> Any:
        """Take one step, given the packed carry and the actions, and the carry's rest."""
        log_compilation("step", self._batch)
        packed, actions = inputs
        return self._pack(self._advance(self.packing.unpack(packed, rest), actions))

    def unroll(self, inputs: tuple[Any, Any], rest: Any) -> Any:
        """Take T steps, with actions that lead with T."""
        log_compilation("unroll", self._batch)
        packed, actions = inputs
        body = jax.checkpoint(self._scanned) if self._recompute else self._scanned
        carry, results = jax.lax.scan(body, self.packing.unpack(packed, rest), actions)
        return self._pack(results._replace(carry=carry))

    def read_obs(self, packed: Any, rest: Any) -> Any:
        """Return the current observation."""
        return self.packing.unpack(packed, rest).state.rows.seen.obs

    def _scanned(self, carry: Carry, actions: Any) -> tuple[Carry, StepResult]:
        outcome = self._advance(carry, actions)
        return outcome.carry, outcome._replace(carry=None)

    def _advance(self, carry: Carry, actions: Any) -> StepResult:
        return self._infos.collect_infos(self._rule.step(carry, actions))

    def _pack(self, outcome: StepResult) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        packed, rest = self.packing.pack(outcome.carry)
        floats, result = _split(outcome._replace(carry=None))
        return (packed, floats), (rest, result)


@jax.tree_util.register_static
class _Float:
    """Stands where an array with a gradient is put."""


_FLOAT = _Float()


def _split(result: StepResult) -> tuple[list[Any], StepResult]:
    """Return what has a gradient, and the result with `_FLOAT` in its place."""
    floats: list[Any] = []

    def take(leaf: Any) -> Any:
        if not _is_float(leaf):
            return leaf
        floats.append(leaf)
        return _FLOAT

    seen, final = result.time_step, result.final
    obs, reward = jax.tree.map(take, (seen.obs, seen.reward))
    if final is not None:
        final = final._replace(obs=jax.tree.map(take, final.obs))
    seen = seen._replace(obs=obs, reward=reward)
    return floats, result._replace(time_step=seen, final=final)


def join(result: StepResult, tensors: Iterator[Any], to_torch: Callable[[Any], Any]) -> StepResult:
    """Return a result as tensors, with those that have a gradient in their place."""
    leaves, structure = jax.tree.flatten(result, is_leaf=lambda leaf: leaf is _FLOAT)
    joined = [next(tensors) if leaf is _FLOAT else to_torch(leaf) for leaf in leaves]
    return jax.tree.unflatten(structure, joined)


def _is_float(leaf: Any) -> bool:
    """Return whether an array, or whatever has the `dtype` of one, can have a gradient."""
    return jnp.issubdtype(leaf.dtype, jnp.floating)
