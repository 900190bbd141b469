"""A pool's `reset` and `step` inside functions that JAX compiles, by callbacks.

The carry of these functions is a number, the turn in which the pool answered. A callback returns a
few buffers that the compiled function takes apart.

Each call needs the carry of the one before, which is what keeps callbacks in order. JAX's ordered
effects are not used: after an error in a function that JAX runs asynchronously they fail with it in
every later function of the thread (https://github.com/jax-ml/jax/issues/37587).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from gymbridge.core.actions import make_action_reader
from gymbridge.core.arrays import make_adapter
from gymbridge.core.arrays.adapter import identity, map_arrays
from gymbridge.core.arrays.jax import TracedReader, pack_arrays, unpack_tree
from gymbridge.core.arrays.packing import Packed
from gymbridge.core.infos import make_info_layout
from gymbridge.core.processes import OneThread
from gymbridge.core.requests import check_mask, fold_seeds
from gymbridge.envpool.runner import PoolCarry, PoolRunner
from gymbridge.errors import ArgumentError, ArgumentTypeError, ClosedError, ResetNeededError

__all__ = ["PoolFunctions"]


class _AfterCallbacks(OneThread):
    """The lock of the class, which waits for what JAX has still to run in this thread."""

    def __enter__(self) -> None:
        # The error of a function is raised where its result is used.
        with suppress(jax.errors.JaxRuntimeError):
            jax.effects_barrier()
        self.enter_callback()

    enter_callback = OneThread.__enter__


class PoolFunctions:
    """`reset` and `step` of the pool of a batch with jax arrays on one device, `place`.

    See `EnvPoolVectorEnv.functional`. Of `carry`, only shapes are used until `begin`.

    Attributes:
        lock: For the calls of the batch, since a pool serves one at a time.
    """

    def __init__(self, runner: PoolRunner, carry: PoolCarry, place: Any) -> None:
        rule, simulator = runner.rule, runner.rule.simulator
        self._num_envs = simulator.num_envs
        self._runner, self._pool, self._place = runner, simulator.pool, place
        self.lock = _AfterCallbacks()
        self._holds_ended = rule.refuses_ended
        adapter = make_adapter("jax", "jax", place)
        self._infos = make_info_layout(adapter, self._num_envs, has_final=rule.restarts_ended)
        space = adapter.to_space(simulator.single_action_space)
        self._read_actions = make_action_reader(space, (self._num_envs,), TracedReader)
        self._no_seeds = fold_seeds([None] * self._num_envs, simulator.seed_range)
        shown = runner.show(carry, np.ones(self._num_envs, np.bool_)), runner.show(carry, None)
        self._reset_shapes, self._step_shapes = jax.eval_shape(identity, [*map(_pack, shown)])

    def begin(self, carry: PoolCarry) -> jax.Array:
        """Go on from a carry of the batch, and return it as these functions take it.

        Raises:
            ResetNeededError: The episodes have gone on since.
        """
        self._pool.check_turn(carry.state.turn)
        self._held = carry  # the newest, which these functions or the batch left
        return jax.device_put(_to_uint32(carry.state.turn), self._place)

    def reset(self, carry: Any, mask: Any, seeds: None = None) -> tuple[Any, tuple[Any, Any]]:
        """Begin new episodes under `mask`, (num_envs,) bool."""
        if seeds is not None:
            raise ArgumentError(
                "`seeds` must be None: EnvPool fixes seeds when a pool is built, which cannot "
                "happen inside a function that JAX compiles. Call `envs.reset(seed=...)`, and then "
                "`envs.functional()`."
            )
        mask = _read_mask(mask, self._num_envs)
        carry, (obs, *_, infos) = self._call(self._reset_on_host, self._reset_shapes, carry, mask)
        return carry, (obs, infos)

    def step(self, carry: Any, actions: Any) -> tuple[Any, Any]:
        """Take one step in every environment; with Disabled, ended ones stay as they are."""
        actions = self._read_actions(actions)
        return self._call(self._step_on_host, self._step_shapes, carry, actions)

    def _call(self, work: Any, shapes: Packed, carry: Any, given: Any) -> tuple[Any, Any]:
        _check_carry(carry)
        args = _refuse_transforms((carry, given))
        result = unpack_tree(io_callback(partial(self._call_back, work), shapes, *args))
        return result.carry, self._infos.to_gymnasium(result)

    def _call_back(self, work: Any, turn: Any, given: Any) -> Packed:
        self.lock.enter_callback()
        try:
            if self._pool.is_closed:
                raise ClosedError("The batch of these functions is closed; build a new one.")
            outcome = work(turn, map_arrays(np.asarray, given))
            self._held = outcome.carry
            return _pack(outcome)
        finally:
            self.lock.release()

    def _reset_on_host(self, turn: Any, mask: np.ndarray) -> Any:
        # To begin everywhere, nothing of what was before is needed.
        carry = self._held if mask.all() else self._find(turn)
        return self._runner.reset(carry, mask.copy(), self._no_seeds)

    def _step_on_host(self, turn: Any, actions: Any) -> Any:
        carry = self._find(turn)
        if self._holds_ended:
            carry = self._runner.freeze(carry, carry.ended)
        return self._runner.step(carry, actions)

    def _find(self, turn: Any) -> PoolCarry:
        """Return the carry of a turn, which must be the pool's last."""
        newest = self._pool.turn
        if self._held.state.turn != newest or np.asarray(turn) != _to_uint32(newest):
            raise ResetNeededError(
                "`carry` must be the newest: an EnvPool batch has one course of episodes, and a "
                "later call has gone on with it. Pass the carry that the last call returned, or "
                "call `reset(carry, mask)` with a mask that is True everywhere."
            )
        return self._held


def _pack(outcome: Any) -> Packed:
    return pack_arrays(outcome._replace(carry=_to_uint32(outcome.carry.state.turn)))


def _read_mask(mask: Any, num_envs: int) -> jax.Array:
    try:
        array = jnp.asarray(mask)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"`mask` must be an array of bools, ({num_envs},), got {mask!r}; to begin everywhere, "
            f"pass `jnp.ones({num_envs}, bool)`."
        ) from error
    check_mask("`mask`", array, num_envs)
    return array


def _check_carry(carry: Any) -> None:
    if (getattr(carry, "shape", None), getattr(carry, "dtype", None)) != ((), np.uint32):
        raise ArgumentTypeError(
            "`carry` must be the number that `functional()`, `reset` or `step` returned, () "
            f"uint32, got {carry!r}."
        )


def _to_uint32(turn: int) -> np.ndarray:
    """Return a turn as it is counted on the device, which begins again after the largest."""
    return np.asarray(turn).astype(np.uint32)


@jax.custom_jvp
def _refuse_transforms(args: Any) -> Any:
    """Return the arguments, which neither `jax.vmap` nor a gradient may reach."""
    return _refuse_vmap(args)


@_refuse_transforms.defjvp
def _refuse_gradients(*_: Any) -> Any:
    raise ArgumentError(
        "`jax.grad`, `jax.jvp` and the like cannot pass through an EnvPool batch: its simulators "
        "are C++ without derivatives. Use `jax.lax.stop_gradient(actions)`."
    )


@jax.custom_batching.custom_vmap
def _refuse_vmap(args: Any) -> Any:
    return args


@_refuse_vmap.def_vmap
def _refuse_axis(*_: Any) -> Any:
    raise ArgumentError(
        "`jax.vmap` cannot map an EnvPool batch, which has one course of episodes. Build it with "
        "more environments."
    )
