"""Brax as a `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from gymnasium.vector import VectorEnv

from gymbridge.brax.tasks import BRAX_LIMIT, BRAX_NAMES
from gymbridge.core.extras import needs
from gymbridge.core.opengl import import_mujoco
from gymbridge.errors import (
    ArgumentTypeError,
    SimulationError,
    UnknownTaskError,
    nearest,
    unexpected_keyword,
)
from gymbridge.private.jax import default_promotion
from gymbridge.private.notices import quiet

with needs("brax", "BraxVectorEnv"):
    import_mujoco()
    from gymbridge.jax_env.engine_env import EngineEnv, StateFields
    from gymbridge.jax_vector_env import (
        JaxVectorEnv,
        Recipe,
        Shared,
        Task,
        sort_keywords,
        takes_keywords_of,
    )
    from gymbridge.private.brax import brax_envs, registered, starting_at

__all__ = ["FIELDS", "BraxVectorEnv"]

FIELDS = StateFields(
    engine="Brax",
    argument="brax_env",
    state="brax.envs.State",
    physics="pipeline_state",
    model="sys",
    mj_model="sys.mj_model",
    package="brax",
    starting_at=starting_at,
    training=(brax_envs.training.__name__,),
)
"""What the engine calls things."""

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
    JaxVectorEnv, VectorEnv[Any, Any, Any]
):
    """A batch of Brax environments, stepped and restarted by one compiled function.

    Args:
        brax_env: Name of a registered Brax environment, or any `brax.envs.Env` without Brax's
            training wrappers.
        num_envs: Size of the batch.
        randomization_fn: Function that draws the physics of each episode: (sys, key) -> a dict of
            leaves by dotted path, such as ``{"gravity": (3,) float}``, or Brax's own kind of
            function, (sys, (n, 2) keys) -> (sys with leaves (n, ...), axes). The values are in
            ``infos["randomization"]``. To set them, call
            ``reset(options={"randomization": {path: (num_envs, ...)}})``.
        carried: Names of entries of ``state.info`` that outlive their episode, such as the level of
            a curriculum. After the environment's own reset they have the values that the last step
            left; a seed brings the reset's own values back. They are infos, and options of `reset`.
        mjx_solver_gradient: How gradients pass MJX's constraint solver, with ``backend="mjx"``.
            "unroll" differentiates every iteration, so the gradient is that of what is computed;
            its cost grows with `opt.iterations`. "implicit" differentiates the optimum that the
            solver looks for, so the gradient is that of what is computed only where the solver
            reaches its tolerance. "auto" unrolls up to 10 iterations, and is implicit above and
            with elliptic friction cones. The choice does not change what `step` returns. Needs
            ``differentiable=True``.
        action_space: Space of one action, if the environment declares none; default [-1, 1], which
            is what `step` of every registered environment takes.
        observation_space: Space of one observation, if the environment declares none.
        **kwargs: Keywords of `JaxVectorEnv`, and those of the registered environment's class, such
            as ``backend=`` ("spring", "generalized", "positional", "mjx") and ``n_frames=``. By
            default `max_episode_steps` is 1000 for registered environments, and none for an
            environment object. `info_keys` are metrics and entries of ``state.info``, by default as
            many as fit into 1 kB per environment.

    Raises:
        UnknownTaskError: No registered environment has that name.
        KeywordError: The environment does not take one of the keywords.
        EnvContractError: The environment cannot be batched; the message names the rule.
        SimulationError: Brax cannot build or trace the environment, or this process was forked
            after JAX had started. Other errors are those of `JaxVectorEnv`.

    Example:
        >>> envs = BraxVectorEnv("fast", num_envs=2)
        >>> envs.reset(seed=0)[0]
        array([[0., 0.],
               [0., 0.]], dtype=float32)
        >>> envs.single_action_space
        Box(-1.0, 1.0, (1,), float32)
    """

    @takes_keywords_of(JaxVectorEnv, EngineEnv)
    def __init__(self, brax_env: str | brax_envs.Env, num_envs: int = 1, **kwargs: Any) -> None:
        shared, engines, others = sort_keywords(kwargs, JaxVectorEnv, EngineEnv)

        def make(found: Shared) -> Task:
            built = _make_brax_env(brax_env, others)
            env = EngineEnv(built, FIELDS, found.info_keys, found.differentiable, **engines)
            limit = BRAX_LIMIT if isinstance(brax_env, str) else None
            return Task(env, limit, found.action_repeat or 1)

        recipe = Recipe(make, _count_calls(brax_env, others.get("backend")))
        super().__init__(recipe, num_envs, **shared)


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
