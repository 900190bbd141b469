"""The rule of a batch as its runners compile it, on one device or over several.

Each device runs the rule on its own rows, since no row needs another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from gymbridge.core.episode import Carry, EpisodeRule, ResetRequest, StepResult
from gymbridge.jax_env.simulator import JaxSimulator

__all__ = ["JaxRule", "find_sharding", "spread"]


class JaxRule(EpisodeRule[JaxSimulator]):
    """The rule, whose carry has no more of the last time step than the next call needs.

    Where a call may leave a row as it is, that is all; otherwise it is the observation. Each leaf
    that a compiled function takes or returns costs some microseconds.

    Args:
        rule: Episode rule of a batch.
        of_one_device: Whether to be the rule of the rows of one device.
    """

    def __init__(self, rule: EpisodeRule[JaxSimulator], *, of_one_device: bool = False) -> None:
        simulator = rule.simulator
        if of_one_device and simulator.num_devices > 1:
            simulator = simulator.split()
        super().__init__(simulator, rule.mode, rule.limit)

    def reset(self, carry: Any, mask: Any, seeds: ResetRequest | None) -> StepResult:
        """Begin new episodes; see `EpisodeRule.reset`."""
        return self._without_rest(super().reset(carry, mask, seeds))

    def step(self, carry: Carry, actions: Any) -> StepResult:
        """Take one step; see `EpisodeRule.step`."""
        return self._without_rest(super().step(carry, actions))

    def _without_rest(self, result: StepResult) -> StepResult:
        if self.refuses_ended:
            return result
        carry: Carry = result.carry
        return result._replace(carry=carry._replace(state=carry.state.without_rest()))


def spread(
    function: Callable[..., Any], place: Any, *, in_axes: Any = 0, out_axes: Any = 0
) -> Callable[..., Any]:
    """Return a function of the rows of one device as a function of the whole batch.

    Args:
        function: Function of trees of arrays.
        place: Where the batch is, a `jax.Device` or `jax.sharding.NamedSharding`.
        in_axes: Axis of the environments in the arguments: one number, or a tuple with one for each
            argument.
        out_axes: The same for what the function returns.
    """
    if not hasattr(place, "mesh"):
        return function

    def find_spec(axis: int) -> Any:
        return jax.sharding.PartitionSpec(*[None] * axis, *place.spec)

    specs = {
        "in_specs": jax.tree.map(find_spec, in_axes),
        "out_specs": jax.tree.map(find_spec, out_axes),
    }
    # No value is the same on all devices, so there is nothing to check.
    return jax.shard_map(function, mesh=place.mesh, **specs, check_vma=False)


def find_sharding(place: Any) -> Any:
    """Return where outputs are that lead with the environments, as `jax.jit` takes it."""
    return place if hasattr(place, "mesh") else jax.sharding.SingleDeviceSharding(place)
