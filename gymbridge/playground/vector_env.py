"""MuJoCo Playground as a `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gymnasium import Space
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.core.extras import needs
from gymbridge.core.jax_private import apart
from gymbridge.core.opengl import import_mujoco
from gymbridge.core.rendering import read_view
from gymbridge.core.requests import read_autoreset_mode, read_count
from gymbridge.errors import nearest, unexpected_keyword
from gymbridge.gradients.vector_env import DifferentiableVectorEnv, choose_runner
from gymbridge.state_envs.notices import quiet

with needs("playground", "PlaygroundVectorEnv"), quiet():
    import_mujoco()
    from gymbridge.core.arrays.jax_devices import find_place
    from gymbridge.functional.simulator import FunctionalSimulator
    from gymbridge.playground.translation import (
        build_env,
        check_once,
        episode_steps,
        find_impl,
        translate,
    )
    from gymbridge.playground.warp import check_alone
    from gymbridge.state_envs.mjx_private import read_solver_gradient

__all__ = ["PlaygroundVectorEnv"]


# skrl knows Gymnasium's classes by their direct bases, so `VectorEnv` is named among them.
class PlaygroundVectorEnv(  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
    DifferentiableVectorEnv, VectorEnv[Any, Any, Any]
):
    """A batch of MuJoCo Playground environments, stepped and restarted by one compiled function.

    Args:
        env: Name of a registered Playground environment, or any `mujoco_playground.MjxEnv` without
            training wrappers.
        num_envs: Size of the batch.
        max_episode_steps: Time limit in steps of this batch; None for the task's own,
            ceil(`episode_length` / `action_repeat`) of its configuration, -1 for none.
        autoreset_mode: `AutoresetMode` or "NextStep", "SameStep", "Disabled".
        arrays: What `reset` and `step` return and what actions are: "numpy", "torch" or "jax".
        device: Where the simulation runs and its arrays are; see `BraxVectorEnv`.
        action_repeat: Simulator steps per step; rewards add up, and an environment stops at its
            episode's end. None for the configuration's; an error if `config_overrides` has another.
        info_keys: Which metrics and entries of ``state.info`` are in the infos: None for as many as
            fit into 1 kB per environment, "all", or a list of names.
        nonfinite: What happens when an environment produces NaN or Inf: "terminate", "raise" or
            "ignore"; see `BraxVectorEnv`.
        differentiable: With ``arrays="torch"``, whether `step` carries torch's graph; see
            `DifferentiableVectorEnv`.
        residuals: "store" or "recompute"; see `BraxVectorEnv`.
        mjx_solver_gradient: "auto", "unroll" or "implicit"; see `BraxVectorEnv`.
        randomization_fn: Function that draws the physics of each episode; see `BraxVectorEnv`. A
            function from `mujoco_playground.registry.get_domain_randomizer` works unchanged.
        config: An `ml_collections.ConfigDict` for a named environment; None for its default.
        config_overrides: Entries of the configuration by dotted path.
        impl: Implementation of MJX for a named environment, also an entry of the configuration:
            "jax", the default here, or "warp", Playground's own default. "warp" needs `warp-lang`,
            runs on one device and has no gradients. Its environments share the room for contacts,
            the entries `naconmax` and `naccdmax`, which are set so that they suffice for
            `num_envs`; one that is given may not be less for each environment than Playground's is
            for each of 8,192.
        action_space: Space of one action, if the environment declares none; default [-1, 1].
        observation_space: Space of one observation, if the environment declares none; for mappings
            a `spaces.Dict`.
        render_mode, render_size, camera: See `BraxVectorEnv`.

    Raises:
        UnknownTaskError: No registered environment has that name.
        KeywordError: `PlaygroundVectorEnv` does not take one of the keywords.
        ArgumentError: An argument has an invalid value.
        ArgumentTypeError: An argument has the wrong type.
        EnvContractError: The environment cannot be batched; the message names the rule.
        NotInstalledError: The meshes of the robot are not on disk, or an argument needs a library
            that is not installed, such as torch.
        SimulationError: Playground cannot build or trace the environment, or this process was
            forked after JAX had started.

    Seeds and episodes are those of `BraxVectorEnv`.

    Example:
        >>> envs = PlaygroundVectorEnv("CartpoleBalance", num_envs=2)
        >>> envs.observation_space.shape, envs.max_episode_steps
        ((2, 5), 1000)
    """

    @apart()
    def __init__(
        self,
        env: Any,
        num_envs: int = 1,
        *,
        max_episode_steps: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        arrays: str = "numpy",
        device: Any = None,
        action_repeat: int | None = None,
        info_keys: Sequence[str] | str | None = None,
        nonfinite: str = "terminate",
        differentiable: bool = False,
        residuals: str = "store",
        mjx_solver_gradient: str = "auto",
        randomization_fn: Callable[..., Any] | None = None,
        config: Any = None,
        config_overrides: Mapping[str, Any] | None = None,
        impl: str | None = None,
        action_space: Space[Any] | None = None,
        observation_space: Space[Any] | None = None,
        render_mode: str | None = None,
        render_size: tuple[int, int] | None = None,
        camera: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        _refuse(kwargs, env)
        num_envs = read_count("num_envs", num_envs)
        view = read_view(render_mode, render_size, camera)
        if action_repeat is not None:
            action_repeat = read_count("action_repeat", action_repeat)
        runner = choose_runner(arrays, nonfinite, differentiable, residuals)
        place = find_place(device, num_envs)
        mode = read_autoreset_mode(autoreset_mode)
        gradient = read_solver_gradient(mjx_solver_gradient, differentiable=differentiable)
        found = find_impl(env, config, config_overrides, impl)
        check_once("action_repeat", action_repeat, config_overrides)
        if found == "warp":
            check_alone(place, differentiable)
        mjx_env = build_env(env, config, config_overrides, found, num_envs)
        repeat, limit = episode_steps(mjx_env, action_repeat)
        translated = translate(
            mjx_env,
            action_space=action_space,
            observation_space=observation_space,
            info_keys=info_keys,
            randomization_fn=randomization_fn,
            mjx_solver_gradient=gradient,
        )
        simulator = FunctionalSimulator(
            translated,
            num_envs,
            device=place,
            task_limit=limit,
            action_repeat=repeat,
            guarded=nonfinite != "ignore",
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


def _refuse(kwargs: dict[str, Any], env: Any) -> None:
    for name in kwargs:
        parameters = inspect.signature(PlaygroundVectorEnv.__init__).parameters
        known = parameters.keys() - {"self", "env", "kwargs"}
        raise unexpected_keyword("PlaygroundVectorEnv", name, repr(env), nearest(name, known))
