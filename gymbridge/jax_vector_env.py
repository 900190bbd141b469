"""Any JAX environment as a `gymnasium.vector.VectorEnv`: the constructor of all engines in JAX."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.core.actions import make_action_reader
from gymbridge.core.arrays.adapter import list_arrays
from gymbridge.core.extras import needs
from gymbridge.core.processes import check_open
from gymbridge.core.rendering import read_view
from gymbridge.core.requests import read_autoreset_mode, read_count, read_flag, read_limit
from gymbridge.core.runner import MakeRunner
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.jax_env.env import JaxEnv
from gymbridge.private.jax import apart

with needs("jax", "JaxVectorEnv"):
    from gymbridge.core.arrays.jax_devices import start_jax_on
    from gymbridge.jax_env.runners import JitRunner
    from gymbridge.jax_env.simulator import JaxSimulator
    from gymbridge.jax_env.traced import TracedEnv
    from gymbridge.jax_env.vector_env import FunctionalVectorEnv

if TYPE_CHECKING:
    from torch import Tensor

    from gymbridge.gradients.runner import GraphCarry, GraphRunner

__all__ = ["JaxVectorEnv", "Recipe", "Shared", "Task", "sort_keywords", "takes_keywords_of"]

_NONFINITE = ("terminate", "raise", "ignore")
_RESIDUALS = ("store", "recompute")


class Shared(NamedTuple):
    """Keywords that all engines in JAX share, as the environment of a batch may depend on them."""

    num_envs: int
    place: Any  # a `jax.Device` or `jax.sharding.NamedSharding`
    action_repeat: int | None
    info_keys: Sequence[str] | str | None
    differentiable: bool


class Task(NamedTuple):
    """The environment of a batch, and the defaults that come with it."""

    env: JaxEnv
    limit: int | None  # default time limit in steps of the batch
    action_repeat: int = 1
    info_keys: Sequence[str] | str | None = None  # those that the environment has not chosen itself


class Recipe(NamedTuple):
    """How an engine makes the environment of a batch, once JAX has started."""

    make: Callable[[Shared], Task]
    calls: int = 2  # LAPACK calls on the batch's matrices that a step may have at the same time


# skrl knows Gymnasium's classes by their direct bases, so `VectorEnv` is named among them.
class JaxVectorEnv(  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
    FunctionalVectorEnv, VectorEnv[Any, Any, Any]
):
    """A batch of any JAX environment, stepped and restarted by one compiled function.

    If it is built with ``differentiable=True``, `step` carries torch's graph from actions and state
    to observations, rewards, ``final_obs`` and the next state. The graph grows until `detach`.
    Flags and other infos have no gradient. No gradient passes from an episode into the one before
    it, nor through a step in which the environment produced NaN or Inf. A step or a partial reset
    under `torch.no_grad` cuts the graph of every environment.

    Args:
        env: The environment; see `JaxEnv`. It is traced here, so later changes of its attributes
            have no effect on this batch.
        num_envs: Size of the batch.
        max_episode_steps: Time limit in steps of this batch; None for the task's own, -1 for none.
        autoreset_mode: `AutoresetMode` or "NextStep", "SameStep", "Disabled".
        arrays: What `reset` and `step` return and what actions are: "numpy", "torch" or "jax".
        device: Where the simulation runs and its arrays are: "cpu", "cuda", "cuda:1", a
            `torch.device` or a `jax.Device`; None for JAX's default device. "cpu:all" spreads the
            batch over all cores: it asks JAX for a CPU device per core, so it comes before
            anything else uses JAX, and takes the largest number of them that divides `num_envs`.
            "cuda:all" and a list of devices spread it as well; torch arrays need CPU devices.
        action_repeat: Steps of the environment per step of the batch; rewards add up, and an
            environment stops at its episode's end. None for the task's own, which is 1 for most.
        info_keys: Which infos there are: None for the environment's choice, which is all of a
            `JaxEnv`, "all", or a list of names.
        summed_infos: Names of infos that add up over the repeated steps, as rewards do; the others
            are those of the last one.
        nonfinite: What happens when an environment produces NaN or Inf. "terminate" ends that
            environment with reward 0 and its last finite observation, and flags it in
            ``infos["nonfinite"]``. "raise" (numpy arrays only) raises and rolls the step back.
            "ignore" returns the values. The check covers observation, reward and the leaves that
            `JaxEnv.positions` names: none by default, generalised positions and velocities of Brax
            and Playground. An environment whose observations hold Inf on purpose needs "ignore".
        differentiable: With ``arrays="torch"``, whether `step` carries torch's graph.
        residuals: What a differentiable step keeps for the backward pass. "store" keeps what it
            needs; "recompute" keeps state and actions and computes the step again (gradient
            checkpointing). Needs ``differentiable=True``.
        render_mode: None, or "rgb_array" for `render`: by the environment's own method
            ``render(state) -> (height, width, 3) uint8``, which gets one state and may use numpy,
            or else by MuJoCo, if the environment has a model of MuJoCo's.
        render_size: Width and height of MuJoCo's frames in pixels; None for 320 x 240.
        camera: Number or name of a camera of the model, -1 for the free one; None for the one named
            "track", which follows the robot, if there is one.

    Raises:
        ArgumentError: An argument has an invalid value, or a space does not fit.
        ArgumentTypeError: An argument has the wrong type.
        KeywordError: The environment cannot be drawn, or the batch does not take one of the
            keywords.
        NotInstalledError: JAX, or for ``arrays="torch"`` torch, is not installed.
        EnvContractError: The environment cannot be batched; the message names the leaf.
        SimulationError: `reset` or `step` cannot be traced, or this process was forked after JAX
            had started.

    A seed up to 2**32 - 1 is used as it is; see `reset` for larger ones. Episode k of an
    environment with seed s begins in the same state whatever the batch size, mode or neighbours.

    A batch keeps for each environment its state and its last observation, with Disabled also its
    last reward, flags and infos. If the environment's `step` draws random numbers, it also keeps
    the key of the episode (8 bytes) and the number of steps (4 bytes).
    """

    @apart()
    def __init__(
        self,
        env: JaxEnv | Recipe,
        num_envs: int = 1,
        *,
        max_episode_steps: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        arrays: str = "numpy",
        device: Any = None,
        action_repeat: int | None = None,
        info_keys: Sequence[str] | str | None = None,
        summed_infos: Sequence[str] = (),
        nonfinite: str = "terminate",
        differentiable: bool = False,
        residuals: str = "store",
        render_mode: str | None = None,
        render_size: tuple[int, int] | None = None,
        camera: int | str | None = None,
    ) -> None:
        recipe = env if isinstance(env, Recipe) else _recipe_of(env)
        num_envs = read_count("num_envs", num_envs)
        view = read_view(render_mode, render_size, camera)
        if action_repeat is not None:
            action_repeat = read_count("action_repeat", action_repeat)
        make_runner = _choose_runner(arrays, nonfinite, differentiable, residuals)
        mode = read_autoreset_mode(autoreset_mode)
        place = start_jax_on(device, num_envs, calls=recipe.calls)
        task = recipe.make(Shared(num_envs, place, action_repeat, info_keys, differentiable))
        simulator = JaxSimulator(
            TracedEnv(task.env, task.info_keys),
            num_envs,
            device=place,
            task_limit=task.limit,
            action_repeat=task.action_repeat,
            summed=summed_infos,
            guarded=nonfinite != "ignore",
            calls=recipe.calls,
        )
        self._is_differentiable = differentiable
        super().__init__(
            simulator,
            max_episode_steps=max_episode_steps,
            autoreset_mode=mode,
            arrays=arrays,
            device=place,
            native="graph" if differentiable else "jax",
            make_runner=make_runner,
            view=view,
        )

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
            lead = _window_length(actions), self.num_envs
            read = make_action_reader(self.single_action_space, lead, self._make_reader)
            outcome = runner.unroll(carry, read(actions))
            returned = self._infos.to_gymnasium(outcome)
            self._carry = outcome.carry
            return returned

    @property
    def physics_state(self) -> Tensor:
        """All floats of the engine's state, (num_envs, S); see `physics_state_fields` for columns.

        The tensor is part of the graph, so it can have a gradient and hooks. Writing into it
        changes nothing. Assign a tensor instead, with or without a graph. The current observation
        has columns as well, which are not computed again from the others.

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
        if not self._is_differentiable:
            raise ArgumentError(
                f"`{name}` needs a batch that was built with `arrays='torch', differentiable=True`."
            )
        return runner


def takes_keywords_of(*others: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Let the signature of a constructor show keywords that it hands on.

    `inspect.signature` then has the keyword-only parameters of other functions or classes before
    ``**kwargs``.
    """

    def show(init: Any) -> Any:
        own = inspect.signature(init)
        *first, kwargs = own.parameters.values()
        shared = [p for other in others for p in _keyword_only(other).values()]
        init.__signature__ = own.replace(parameters=[*first, *shared, kwargs])
        return init

    return show


def sort_keywords(kwargs: dict[str, Any], *takers: Callable[..., Any]) -> list[dict[str, Any]]:
    """Return the keywords of each function or class, as in `takes_keywords_of`, and the others."""
    others = dict(kwargs)
    sorted_ = [{k: others.pop(k) for k in _keyword_only(one) if k in others} for one in takers]
    return [*sorted_, others]


def _keyword_only(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    found = inspect.signature(function).parameters
    return {name: p for name, p in found.items() if p.kind is p.KEYWORD_ONLY}


def _recipe_of(env: Any) -> Recipe:
    if not isinstance(env, JaxEnv):
        hint = f"an instance of it, {env.__name__}()" if isinstance(env, type) else "a subclass"
        raise ArgumentTypeError(f"`env` must be a gymbridge.JaxEnv, got {env!r}; pass {hint}.")

    def make(shared: Shared) -> Task:
        limit = read_limit(env.max_episode_steps, None)
        return Task(env, limit, shared.action_repeat or 1, shared.info_keys)

    return Recipe(make)


def _choose_runner(arrays: str, nonfinite: str, differentiable: bool, residuals: str) -> MakeRunner:
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
            return partial(JitRunner, raises=nonfinite == "raise")
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
        from gymbridge.gradients.runner import GraphRunner
    return partial(GraphRunner, recompute=residuals == "recompute")


def _window_length(actions: Any) -> int:
    leaf = next(iter(list_arrays(actions)), None)
    shape = tuple(getattr(leaf, "shape", ()))
    if len(shape) < 2 or shape[0] < 1:
        raise ArgumentError(
            "`actions` must lead with (T, num_envs), where T is the number of steps and at least "
            f"1, got {shape or type(leaf).__name__}."
        )
    return shape[0]
