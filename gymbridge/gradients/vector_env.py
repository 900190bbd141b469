"""A batch through which torch's gradients flow: `detach`, `unroll` and `physics_state`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymbridge.core.actions import make_action_reader
from gymbridge.core.extras import needs
from gymbridge.core.processes import check_open
from gymbridge.core.requests import read_flag
from gymbridge.errors import ArgumentError
from gymbridge.functional.vector_env import FunctionalVectorEnv

if TYPE_CHECKING:
    from torch import Tensor

    from gymbridge.functional.runners import FunctionalRunner
    from gymbridge.gradients.runner import GraphCarry, GraphRunner

__all__ = ["DifferentiableVectorEnv", "choose_runner"]

_NONFINITE = ("terminate", "raise", "ignore")
_RESIDUALS = ("store", "recompute")


def choose_runner(
    arrays: str, nonfinite: str, differentiable: bool, residuals: str
) -> type[FunctionalRunner]:
    """Return the runner that a batch of a functional environment needs.

    Raises:
        ArgumentError: An argument has an invalid value, or two cannot be combined.
        ArgumentTypeError: `differentiable` is not a bool.
        NotInstalledError: Gradients need torch, which is not installed.
    """
    from gymbridge.functional.runners import JitRunner, RaisingRunner

    if nonfinite not in _NONFINITE:
        raise ArgumentError(f"`nonfinite` must be one of {_NONFINITE}, got {nonfinite!r}.")
    if nonfinite == "raise" and arrays != "numpy":
        raise ArgumentError(
            f"`nonfinite='raise'` reads values on the host in each step, and `arrays={arrays!r}` "
            "excludes that; use `arrays='numpy'` or `nonfinite='terminate'`."
        )
    if residuals not in _RESIDUALS:
        raise ArgumentError(f"`residuals` must be one of {_RESIDUALS}, got {residuals!r}.")
    if not read_flag("differentiable", differentiable):
        if residuals == "store":
            return RaisingRunner if nonfinite == "raise" else JitRunner
        raise ArgumentError(
            f"`residuals={residuals!r}` needs `differentiable=True`, got {differentiable!r}; only "
            "a differentiable step has a backward pass."
        )
    if arrays != "torch":
        raise ArgumentError(
            "`differentiable=True` gives torch's gradients and needs `arrays='torch'`, got "
            f"{arrays!r}; with jax, differentiate the environment's own functions."
        )
    with needs("torch", "`differentiable=True`"):
        from gymbridge.gradients.runner import GraphRunner, RecomputingGraphRunner
    return GraphRunner if residuals == "store" else RecomputingGraphRunner


class DifferentiableVectorEnv(FunctionalVectorEnv):
    """A `FunctionalVectorEnv` through which torch's gradients can flow.

    If it is built with ``differentiable=True``, `step` carries torch's graph from actions and state
    to observations, rewards, ``final_obs`` and the next state. The graph grows until `detach`.
    Flags and other infos have no gradient. No gradient passes from an episode into the one before
    it, nor through a step in which the environment produced NaN or Inf. A step or a partial reset
    under `torch.no_grad` cuts the graph of every environment.
    """

    def detach(self) -> Any:
        """Cut the graph, as at the beginning of a window, and return the current observation.

        Returns:
            observations: (num_envs, ...), without a graph.

        Raises:
            ArgumentError: The batch was not built with ``differentiable=True``.
            ResetNeededError: Before the first `reset`.
            BusyError: Another call of the batch is running.
            ClosedError: After `close`.
        """
        with self._one_thread:
            runner, carry = self._graph("detach")
            carry = self._carry = carry._replace(tensor=None)
            return runner.observe(carry)

    def unroll(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take T steps as one node of the graph; the batch continues after the last one.

        Each T is compiled once. With ``residuals="recompute"`` the backward pass computes each step
        again from its state and action.

        Args:
            actions: (T, num_envs, ...) in the action space, T at least 1.

        Returns:
            What T calls of `step` return, each array with T as its first axis.

        Raises:
            ArgumentError: The batch was not built with ``differentiable=True``, or `actions` do not
                lead with (T, num_envs).
            ResetNeededError: Before the first `reset`. Other errors are those of `step`.
        """
        with self._one_thread:
            runner, carry = self._graph("unroll")
            outcome = runner.unroll(carry, self._read_window(actions))
            returned = self._infos.lay_out(outcome)
            self._carry = outcome.carry
            return returned

    @property
    def physics_state(self) -> Tensor:
        """All floats of the engine's state, (num_envs, S); see `physics_state_fields` for columns.

        The tensor is part of the graph, so it can have a gradient and hooks. Writing into it
        changes nothing. Assign a tensor instead, with or without a graph of its own. The current
        observation has columns of its own, which are not computed again from the others.

        Raises:
            ArgumentTypeError: An assigned value is not a dense tensor of the same dtype.
            ArgumentError: It has another shape or device, or the batch was not built with
                ``differentiable=True``.
            ResetNeededError: Before the first `reset`.
        """
        with self._one_thread:
            runner, carry = self._graph("physics_state")
            tensor, self._carry = runner.share(carry)
            return tensor

    @physics_state.setter
    def physics_state(self, state: Any) -> None:
        """Continue from another state, which keeps its graph."""
        with self._one_thread:
            runner, carry = self._graph("physics_state")
            self._carry = runner.take(carry, state)

    @property
    def physics_state_fields(self) -> dict[str, slice]:
        """Columns of `physics_state` by the field of the engine's state; see the engine's page."""
        return dict(self._graph_runner("physics_state_fields").packing.fields)

    def _graph(self, name: str) -> tuple[GraphRunner, GraphCarry]:
        return self._graph_runner(name), self._running(name)

    def _graph_runner(self, name: str) -> GraphRunner:
        check_open(self)
        runner: Any = self._runner
        if runner.native != "torch":
            raise ArgumentError(
                f"`{name}` needs a batch that was built with `arrays='torch', differentiable=True`."
            )
        return runner

    def _read_window(self, actions: Any) -> Any:
        """Return the checked actions of T steps."""
        length = _window_length(actions)
        lead = (length, self.num_envs)
        return make_action_reader(self.single_action_space, lead, self._make_reader)(actions)


def _window_length(actions: Any) -> int:
    leaf = actions
    while isinstance(leaf, dict) and leaf:
        leaf = next(iter(leaf.values()))
    shape = tuple(getattr(leaf, "shape", ()))
    if len(shape) < 2 or shape[0] < 1:
        raise ArgumentError(
            "`actions` must lead with (T, num_envs), where T is the number of steps and at least "
            f"1, got {shape or type(leaf).__name__}."
        )
    return shape[0]
