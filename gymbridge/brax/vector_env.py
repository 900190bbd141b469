"""Brax as a `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from gymnasium import Space
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.brax.tasks import BRAX_LIMIT, BRAX_NAMES
from gymbridge.core.extras import needs
from gymbridge.core.jax_private import apart, default_promotion
from gymbridge.core.opengl import import_mujoco
from gymbridge.core.rendering import read_view
from gymbridge.core.requests import read_autoreset_mode, read_count
from gymbridge.errors import (
    ArgumentTypeError,
    SimulationError,
    UnknownTaskError,
    nearest,
    unexpected_keyword,
)
from gymbridge.gradients.vector_env import DifferentiableVectorEnv, choose_runner

with needs("brax", "BraxVectorEnv"):
    import_mujoco()
    from gymbridge.brax.private import brax_envs, registered
    from gymbridge.brax.translation import translate
    from gymbridge.core.arrays.jax_devices import find_place
    from gymbridge.functional.simulator import FunctionalSimulator
    from gymbridge.state_envs.mjx_private import read_solver_gradient
    from gymbridge.state_envs.notices import quiet

__all__ = ["BraxVectorEnv"]

_CALLS = {"spring": 0, "positional": 0, "generalized": 1, "mjx": 2}
"""LAPACK calls on the batch's matrices at the same time, by backend of Brax's own tasks.

"generalized" has one, in `reset`: these tasks invert the mass matrix by iterations in a step.
"""


def _count_calls(brax_env: Any, backend: Any) -> int:
    """Return the LAPACK calls that may run at the same time; two where that is not known."""
    if isinstance(brax_env, str):
        return _CALLS.get(str(backend or "generalized"), 2) if brax_env in BRAX_NAMES else 2
    is_plain = _CALLS.get(str(getattr(brax_env, "backend", None))) == 0
    return 0 if is_plain else 2


# skrl knows Gymnasium's classes by their direct bases, so `VectorEnv` is named among them.
class BraxVectorEnv(  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
    DifferentiableVectorEnv, VectorEnv[Any, Any, Any]
):
    """A batch of Brax environments, stepped and restarted by one compiled function.

    Args:
        brax_env: Name of a registered Brax environment, or any `brax.envs.Env` without Brax's
            training wrappers.
        num_envs: Size of the batch.
        max_episode_steps: Time limit in steps of this batch; None for the task's own (1000 for
            registered environments, none for an environment object), -1 for none.
        autoreset_mode: `AutoresetMode` or "NextStep", "SameStep", "Disabled".
        arrays: What `reset` and `step` return and what actions are: "numpy", "torch" or "jax".
        device: Where the simulation runs and its arrays are: "cpu", "cuda", "cuda:1", a
            `torch.device` or a `jax.Device`; None for JAX's default device. "cpu:all" spreads the
            batch over all cores: it asks JAX for a CPU device per core, so it comes before
            anything else uses JAX, and takes the largest number of them that divides `num_envs`.
            "cuda:all" and a list of devices spread it as well; torch arrays need CPU devices.
        action_repeat: Simulator steps per step; rewards add up, and an environment stops at its
            episode's end.
        info_keys: Which metrics and entries of ``state.info`` are in the infos: None for as many as
            fit into 1 kB per environment, "all", or a list of names.
        nonfinite: What happens when an environment produces NaN or Inf. "terminate" ends that
            environment with reward 0 and its last finite observation, and flags it in
            ``infos["nonfinite"]``. "raise" (numpy arrays only) raises and rolls the step back.
            "ignore" returns the values. The check covers observation, reward and generalised
            positions and velocities.
        differentiable: With ``arrays="torch"``, whether `step` carries torch's graph; see
            `DifferentiableVectorEnv`.
        residuals: What a differentiable step keeps for the backward pass. "store" keeps what it
            needs; "recompute" keeps state and actions and computes the step again (gradient
            checkpointing). Needs ``differentiable=True``.
        mjx_solver_gradient: How gradients pass MJX's constraint solver, with ``backend="mjx"``.
            "unroll" differentiates every iteration, so the gradient is that of what is computed;
            its cost grows with `opt.iterations`. "implicit" differentiates the optimum that the
            solver looks for, so the gradient is that of what is computed only where the solver
            reaches its tolerance. "auto" unrolls up to 10 iterations, and is implicit above and
            with elliptic friction cones. The choice does not change what `step` returns. Needs
            ``differentiable=True``.
        randomization_fn: Function that draws the physics of each episode: (sys, key) -> a dict of
            leaves by dotted path, such as ``{"gravity": (3,) float}``, or Brax's own kind of
            function, (sys, (n, 2) keys) -> (sys with leaves (n, ...), axes). The values are in
            ``infos["randomization"]``. To set them, call
            ``reset(options={"randomization": {path: (num_envs, ...)}})``.
        action_space: Space of one action, if the environment declares none; default [-1, 1], which
            is what `step` of every registered environment takes.
        observation_space: Space of one observation, if the environment declares none.
        render_mode: None, or "rgb_array" for `render`.
        render_size: Width and height of frames in pixels; None for 320 x 240.
        camera: Number or name of a camera of the model, -1 for the free one; None for the one named
            "track", which follows the robot, if there is one.
        **kwargs: Keywords of the registered environment's class, such as ``backend=`` ("spring",
            "generalized", "positional", "mjx") and ``n_frames=``.

    Raises:
        UnknownTaskError: No registered environment has that name.
        KeywordError: The environment does not take one of the keywords.
        ArgumentError: An argument has an invalid value.
        ArgumentTypeError: An argument has the wrong type.
        NotInstalledError: An argument needs a library that is not installed, such as torch.
        EnvContractError: The environment cannot be batched; the message names the rule.
        SimulationError: Brax cannot build or trace the environment, or this process was forked
            after JAX had started.

    A seed up to 2**32 - 1 is used as it is; see `reset` for larger ones. Episode k of an
    environment with seed s begins in the same state whatever the batch size, mode or neighbours.

    Example:
        >>> envs = BraxVectorEnv("fast", num_envs=2)
        >>> envs.reset(seed=0)[0]
        array([[0., 0.],
               [0., 0.]], dtype=float32)
        >>> envs.single_action_space
        Box(-1.0, 1.0, (1,), float32)
    """

    @apart()
    def __init__(
        self,
        brax_env: str | brax_envs.Env,
        num_envs: int = 1,
        *,
        max_episode_steps: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        arrays: str = "numpy",
        device: Any = None,
        action_repeat: int = 1,
        info_keys: Sequence[str] | str | None = None,
        nonfinite: str = "terminate",
        differentiable: bool = False,
        residuals: str = "store",
        mjx_solver_gradient: str = "auto",
        randomization_fn: Callable[..., Any] | None = None,
        action_space: Space[Any] | None = None,
        observation_space: Space[Any] | None = None,
        render_mode: str | None = None,
        render_size: tuple[int, int] | None = None,
        camera: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        num_envs = read_count("num_envs", num_envs)
        view = read_view(render_mode, render_size, camera)
        runner = choose_runner(arrays, nonfinite, differentiable, residuals)
        calls = _count_calls(brax_env, kwargs.get("backend"))
        place = find_place(device, num_envs, calls=calls)
        mode = read_autoreset_mode(autoreset_mode)
        repeat = read_count("action_repeat", action_repeat)
        gradient = read_solver_gradient(mjx_solver_gradient, differentiable=differentiable)
        env = translate(
            _make_brax_env(brax_env, kwargs),
            action_space=action_space,
            observation_space=observation_space,
            info_keys=info_keys,
            randomization_fn=randomization_fn,
            mjx_solver_gradient=gradient,
        )
        simulator = FunctionalSimulator(
            env,
            num_envs,
            device=place,
            task_limit=BRAX_LIMIT if isinstance(brax_env, str) else None,
            action_repeat=repeat,
            guarded=nonfinite != "ignore",
            calls=calls,
        )
        super().__init__(
            simulator,
            max_episode_steps=max_episode_steps,
            autoreset_mode=mode,
            arrays=arrays,
            device=place,
            runner=runner,
            view=view,
        )


def _make_brax_env(brax_env: str | brax_envs.Env, kwargs: dict[str, Any]) -> brax_envs.Env:
    """Return the environment to batch, built from the registry if a name was given."""
    if isinstance(brax_env, brax_envs.Env):
        if kwargs:
            name, built = next(iter(kwargs)), f"a built {type(brax_env).__name__}"
            close = nearest(name, _PARAMETERS)
            advice = "give keywords of the environment to its own constructor"
            hint = close if close.endswith("?") else advice
            raise unexpected_keyword("BraxVectorEnv", name, built, hint)
        return brax_env
    if not isinstance(brax_env, str):
        raise ArgumentTypeError(
            "`brax_env` must be the name of a registered Brax environment or a brax.envs.Env, got "
            f"{type(brax_env).__name__}."
        )
    registry = registered()
    if brax_env not in registry:
        raise UnknownTaskError(
            f"`brax_env` must be a registered Brax environment, got {brax_env!r}; "
            f"{nearest(brax_env, registry)}"
        )
    known, is_open = _keywords(registry[brax_env])
    for name in kwargs:
        if name not in known and not is_open:
            hint = nearest(name, known | _PARAMETERS)
            raise unexpected_keyword("BraxVectorEnv", name, repr(brax_env), hint)
    try:
        with quiet(), default_promotion():
            return brax_envs.get_environment(brax_env, **kwargs)
    except Exception as error:
        raise SimulationError(
            f"Brax cannot build {brax_env!r} with {kwargs}: {type(error).__name__}: {error}"
        ) from error


def _keywords(factory: Callable[..., Any]) -> tuple[set[str], bool]:
    """Return the keywords that a class or function takes, and whether it takes any others too.

    A class hands its ``**kwargs`` to its base, so those of the bases count, up to the first that
    takes none.
    """
    calls: list[Any] = [factory]
    if isinstance(factory, type):
        bases = [base for base in factory.__mro__ if base is not object]
        calls = [vars(base)["__init__"] for base in bases if "__init__" in vars(base)]
    names: set[str] = set()
    is_open = False
    for call in calls:
        parameters = inspect.signature(call).parameters.values()
        names |= {p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
        is_open = any(p.kind is p.VAR_KEYWORD for p in parameters)
        if not is_open:
            break
    return names - {"self", "sys"}, is_open


_PARAMETERS = _keywords(BraxVectorEnv.__init__)[0] - {"brax_env"}
