"""Any JAX environment as a `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.core.extras import needs
from gymbridge.core.jax_private import apart
from gymbridge.core.rendering import read_view
from gymbridge.core.requests import read_autoreset_mode, read_count, read_limit
from gymbridge.errors import ArgumentTypeError
from gymbridge.gradients.vector_env import DifferentiableVectorEnv, choose_runner
from gymbridge.jax_env.env import JaxEnv

with needs("jax", "JaxVectorEnv"):
    from gymbridge.core.arrays.jax_devices import find_place
    from gymbridge.functional.simulator import FunctionalSimulator
    from gymbridge.jax_env.translation import TranslatedEnv

__all__ = ["JaxVectorEnv"]


# skrl knows Gymnasium's classes by their direct bases, so `VectorEnv` is named among them.
class JaxVectorEnv(  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
    DifferentiableVectorEnv, VectorEnv[Any, Any, Any]
):
    """A batch of any JAX environment, stepped and restarted by one compiled function.

    Args:
        env: The environment; see `JaxEnv`. It is traced here, so later changes of its attributes
            have no effect on this batch.
        num_envs: Size of the batch.
        max_episode_steps: Time limit in steps of this batch; None for the environment's own, -1 for
            none.
        autoreset_mode: `AutoresetMode` or "NextStep", "SameStep", "Disabled".
        arrays: What `reset` and `step` return and what actions are: "numpy", "torch" or "jax".
        device: Where the batch and its arrays are; see `BraxVectorEnv`.
        action_repeat: Steps of the environment per step of the batch; rewards add up, and an
            environment stops at its episode's end.
        info_keys: Which infos there are: None or "all" for those that `reset` and `step` return, or
            a list of names.
        nonfinite: What happens when an environment produces NaN or Inf in its observation, its
            reward or the leaves that `JaxEnv.positions` names: "terminate", "raise" (numpy arrays
            only) or "ignore"; see `BraxVectorEnv`. An environment whose observations hold Inf on
            purpose needs "ignore".
        differentiable: With ``arrays="torch"``, whether `step` carries torch's graph; see
            `DifferentiableVectorEnv`.
        residuals: What a differentiable step keeps for the backward pass: "store" or "recompute".
        render_mode: None, or "rgb_array" for `render`, if the environment has a method
            ``render(state) -> (height, width, 3) uint8``. It gets one state, and may use numpy.

    Raises:
        ArgumentError: An argument has an invalid value, or a space does not fit.
        ArgumentTypeError: An argument has the wrong type.
        KeywordError: `render_mode` is given, and the environment has no `render`.
        NotInstalledError: JAX, or for ``arrays="torch"`` torch, is not installed.
        EnvContractError: The environment cannot be batched; the message names the leaf.
        SimulationError: `reset` or `step` cannot be traced, or this process was forked after JAX
            had started.

    A seed up to 2**32 - 1 is used as it is; see `reset` for larger ones. Episode k of an
    environment with seed s begins in the same state whatever the batch size, mode or neighbours.

    A batch keeps for each environment its state, its last observation, reward, flags and infos, the
    key of the episode (8 bytes) and the number of steps (4 bytes).
    """

    @apart()
    def __init__(
        self,
        env: JaxEnv,
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
        render_mode: str | None = None,
    ) -> None:
        if not isinstance(env, JaxEnv):
            hint = f"an instance of it, {env.__name__}()" if isinstance(env, type) else "a subclass"
            raise ArgumentTypeError(f"`env` must be a gymbridge.JaxEnv, got {env!r}; pass {hint}.")
        num_envs = read_count("num_envs", num_envs)
        view = read_view(render_mode, None, None)
        runner = choose_runner(arrays, nonfinite, differentiable, residuals)
        place = find_place(device, num_envs)
        mode = read_autoreset_mode(autoreset_mode)
        simulator = FunctionalSimulator(
            TranslatedEnv(env, info_keys),
            num_envs,
            device=place,
            task_limit=read_limit(env.max_episode_steps, None),
            action_repeat=read_count("action_repeat", action_repeat),
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
