"""MuJoCo Playground as a `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from gymnasium.vector import VectorEnv

from gymbridge.core.extras import needs
from gymbridge.core.opengl import import_mujoco
from gymbridge.errors import nearest, unexpected_keyword
from gymbridge.private.notices import quiet

with needs("playground", "PlaygroundVectorEnv"), quiet():
    import_mujoco()
    from gymbridge.jax_env.engine_env import EngineEnv
    from gymbridge.jax_vector_env import (
        JaxVectorEnv,
        Recipe,
        Shared,
        Task,
        sort_keywords,
        takes_keywords_of,
    )
    from gymbridge.playground.building import (
        FIELDS,
        build_env,
        check_once,
        episode_steps,
        find_impl,
    )
    from gymbridge.playground.meshes import find_menagerie
    from gymbridge.playground.warp import check_alone
    from gymbridge.private.playground import finding_meshes, smooth_tolerance

__all__ = ["PlaygroundVectorEnv"]


# skrl knows Gymnasium's classes by their direct bases, so `VectorEnv` is named among them.
class PlaygroundVectorEnv(  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
    JaxVectorEnv, VectorEnv[Any, Any, Any]
):
    """A batch of MuJoCo Playground environments, stepped and restarted by one compiled function.

    Args:
        env: Name of a registered Playground environment, or any `mujoco_playground.MjxEnv` without
            training wrappers.
        num_envs: Size of the batch.
        config: An `ml_collections.ConfigDict` for a named environment; None for its default.
        config_overrides: Entries of the configuration by dotted path.
        impl: Implementation of MJX for a named environment, also an entry of the configuration:
            "jax", the default here, or "warp", Playground's own default. "warp" needs `warp-lang`,
            runs on one device and has no gradients. Its environments share the contact capacity,
            the entries `naconmax` and `naccdmax`, which are set so that they suffice for
            `num_envs`; one that is given may not be less for each environment than Playground's is
            for each of 8,192.
        **kwargs: Keywords of `JaxVectorEnv`, and `randomization_fn`, `carried`,
            `mjx_solver_gradient`, `action_space` and `observation_space`, for which see
            `BraxVectorEnv`. The entry ``"AutoResetWrapper_preserve_info"`` of ``state.info`` is
            carried without being named. By default
            `max_episode_steps` is ceil(`episode_length` / `action_repeat`) of the configuration,
            and `action_repeat` the configuration's; another one in `config_overrides` is an error.
            A function from `mujoco_playground.registry.get_domain_randomizer` works unchanged as
            `randomization_fn`. The space of observations that are mappings is a `spaces.Dict`.

    Raises:
        UnknownTaskError: No registered environment has that name.
        KeywordError: `PlaygroundVectorEnv` does not take one of the keywords.
        EnvContractError: The environment cannot be batched; the message names the rule.
        NotInstalledError: The meshes of the robot are not on disk, or an argument needs a library
            that is not installed, such as torch.
        SimulationError: Playground cannot build or trace the environment, or this process was
            forked after JAX had started. Other errors are those of `JaxVectorEnv`.

    Example:
        >>> envs = PlaygroundVectorEnv("CartpoleBalance", num_envs=2)
        >>> envs.observation_space.shape, envs.max_episode_steps
        ((2, 5), 1000)
    """

    @takes_keywords_of(JaxVectorEnv, EngineEnv)
    def __init__(
        self,
        env: Any,
        num_envs: int = 1,
        *,
        config: Any = None,
        config_overrides: Mapping[str, Any] | None = None,
        impl: str | None = None,
        **kwargs: Any,
    ) -> None:
        shared, engines, others = sort_keywords(kwargs, JaxVectorEnv, EngineEnv)
        for name in others:
            known = inspect.signature(PlaygroundVectorEnv).parameters.keys() - {"env", "kwargs"}
            raise unexpected_keyword("PlaygroundVectorEnv", name, repr(env), nearest(name, known))

        def make(found: Shared) -> Task:
            implementation = find_impl(env, config, config_overrides, impl)
            check_once("action_repeat", found.action_repeat, config_overrides)
            if implementation == "warp":
                check_alone(found.place, found.differentiable)
            built = build_env(env, config, config_overrides, implementation, found.num_envs)
            repeat, limit = episode_steps(built, found.action_repeat)
            smooth_tolerance()
            draw = finding_meshes(engines.get("randomization_fn"), find_menagerie)
            keywords = {**engines, "randomization_fn": draw}
            made = EngineEnv(built, FIELDS, found.info_keys, found.differentiable, **keywords)
            return Task(made, limit, repeat)

        super().__init__(Recipe(make), num_envs, **shared)
