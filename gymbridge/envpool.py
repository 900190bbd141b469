"""EnvPool as a `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
    KeywordError,
    NotInstalledError,
    UnknownTaskError,
    nearest,
)
from gymbridge.requests import read_count, read_limit
from gymbridge.vector_env import BridgeVectorEnv

try:
    import envpool
    from envpool.registration import registry

    from gymbridge.backends.envpool import EnvPoolSimulator
    from gymbridge.backends.envpool_build import read_config
    from gymbridge.backends.envpool_limits import default_limit, limit_rule
except ImportError as error:
    if (error.name or "").split(".")[0] == "gymbridge":
        raise
    raise NotInstalledError(
        f"EnvPoolVectorEnv needs envpool: pip install 'gymbridge[envpool]' ({error})."
    ) from error

__all__ = ["EnvPoolVectorEnv"]

_OWNED = {
    "differentiable": "EnvPool's environments are C++ and have no gradients; Brax's have",
    "residuals": "EnvPool's environments are C++ and have no gradients; Brax's have",
    "batch_size": "batches are synchronous here; leave it out",
    "env_seed": "seeds are given to `reset(seed=...)`",
    "env_type": "it is always gymnasium here; leave it out",
    "gym_reset_return_info": "infos are always returned; leave it out",
    "max_num_players": "tasks have one player here; leave it out",
    "render_mode": "rendering is not available; leave it out",
    "seed": "seeds are given to `reset(seed=...)`",
    "action_repeat": "EnvPool's own keyword for it is `frame_skip`",
}


_COUNTS = {
    "frame_skip",
    "frame_stack",
    "img_height",
    "img_width",
    "noop_max",
    "num_threads",
    "stack_num",
}
"""Keywords on whose values below 1 EnvPool aborts the process; 0 threads leave it the choice."""

_CHEAP_FAMILIES = ("classic_control", "toy_text")
"""Families whose step takes less time than to hand it to a worker, so that by default they get one
worker: a second one makes batches of any size slower, or hardly faster."""

_DRAWS_IN_RESET = {
    "Acrobot-v1",
    "CartPole-v0",
    "CartPole-v1",
    "Catch-v0",
    "CliffWalking-v0",
    "CliffWalking-v1",
    "CliffWalkingSlippery-v1",
    "FrozenLake-v1",
    "FrozenLake8x8-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "NChain-v0",
    "Pendulum-v0",
    "Pendulum-v1",
    "Taxi-v3",
    "phys2d/CartPole-v0",
    "phys2d/CartPole-v1",
    "phys2d/Pendulum-v0",
    "tabular/CliffWalking-v0",
}
"""Tasks of those families whose first states depend on no number that a step has drawn."""

_MAKE_KEYWORDS = {"from_pixels", "render_width", "render_height", "render_camera_id"}
"""Keywords that `envpool.make` takes beside the task's own configuration."""


# skrl tells Gymnasium's classes by their direct bases, so `VectorEnv` is named among them.
class EnvPoolVectorEnv(  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
    BridgeVectorEnv, VectorEnv[Any, Any, Any]
):
    """A pool of EnvPool environments.

    Args:
        task_id: EnvPool's name of the task, such as "Pong-v5".
        num_envs: Size of the batch.
        max_episode_steps: Time limit in steps of this batch; None for the task's own, -1 for none.
        autoreset_mode: `AutoresetMode` or "NextStep", "SameStep", "Disabled".
        arrays: What `reset` and `step` return and what actions are: "numpy", "torch" or "jax".
        device: Where tensors and jax arrays are: "cpu", "cuda", "cuda:1", a `torch.device` or a
            `jax.Device`; None for the CPU, where the pool runs.
        info_keys: Which infos are carried: None for all but ``env_id``, ``players.env_id`` and
            ``ram``, "all", or a list of names.
        **kwargs: Keywords of `envpool.make`, such as ``num_threads=`` or ``frame_skip=``.

    Raises:
        UnknownTaskError: The installed EnvPool has no such task.
        KeywordError: A keyword that the task does not take.
        ArgumentError: A value out of its rule, or a task with several players.
        SimulationError: EnvPool cannot build the task on this machine.

    EnvPool fixes seeds when a pool is built, so it is built at the first `reset`, and built anew by
    each `reset(seed=...)`. Seeds run from 0 to 2**31 - 1, the last environment's included.

    Example:
        >>> envs = EnvPoolVectorEnv("CartPole-v1", num_envs=2)
        >>> observations, infos = envs.reset(seed=0)
        >>> observations.shape, infos["elapsed_step"]
        ((2, 4), array([0, 0], dtype=int32))
        >>> envs.step([0, 1])[1]
        array([1., 1.], dtype=float32)
    """

    def __init__(
        self,
        task_id: str,
        num_envs: int = 1,
        *,
        max_episode_steps: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        arrays: str = "numpy",
        device: Any = None,
        info_keys: Sequence[str] | str | None = None,
        **kwargs: Any,
    ) -> None:
        num_envs = read_count("num_envs", num_envs)
        _check_task(task_id)
        family = registry.specs[task_id][0].removeprefix("envpool.")
        rule = limit_rule(task_id, family)
        declared = _read_config(task_id, kwargs, rule.owns)
        limit = read_limit(max_episode_steps, None)
        if rule.applies_by_default or max_episode_steps is not None:
            kwargs = {**kwargs, **rule.keywords(limit, kwargs)}
        if family == "vizdoom":  # games that start together crash where each makes this folder
            with suppress(OSError):  # which VizDoom itself will tell
                Path("_vizdoom").mkdir()
        if family in _CHEAP_FAMILIES:
            kwargs.setdefault("num_threads", 1)
        simulator = EnvPoolSimulator(
            task_id,
            num_envs,
            task_limit=default_limit(task_id, declared["max_episode_steps"]),
            info_keys=info_keys,
            config=kwargs,
            draws_in_reset=task_id in _DRAWS_IN_RESET,
        )
        super().__init__(
            simulator,
            max_episode_steps=max_episode_steps,
            autoreset_mode=autoreset_mode,
            arrays=arrays,
            device=device,
        )


def _check_task(task_id: Any) -> None:
    if not isinstance(task_id, str):
        raise ArgumentTypeError(
            f"`task_id` must be the name of an EnvPool task, got {type(task_id).__name__}."
        )
    known = envpool.list_all_envs()
    if task_id not in known:
        raise UnknownTaskError(
            f"`task_id` must be a task of the installed envpool {envpool.__version__}, got "
            f"{task_id!r}; {nearest(task_id, known)}"
        )


def _read_config(
    task_id: str, kwargs: dict[str, Any], owned_by_limit: tuple[str, ...]
) -> dict[str, Any]:
    """Raise for keywords that the task does not take; return its default configuration."""
    for name in kwargs:
        if name in _OWNED:
            raise KeywordError(f"`{name}` cannot be given: {_OWNED[name]}.")
        if name in owned_by_limit:
            raise KeywordError(f"`{name}` cannot be given: use `max_episode_steps`.")
    config = read_config(task_id)
    if config["max_num_players"] > 1:
        raise ArgumentError(
            f"`task_id` must be a task with one player, got {task_id!r} with "
            f"{config['max_num_players']}: a batch here has one row per environment."
        )
    known = (config.keys() - _OWNED.keys()) | _MAKE_KEYWORDS
    for name, value in kwargs.items():
        if name not in known:
            raise KeywordError(
                f"`{name}` is no parameter of EnvPoolVectorEnv or of EnvPool's {task_id!r}; "
                f"{nearest(name, known | {'autoreset_mode', 'info_keys', 'max_episode_steps'})}"
            )
        if name in _COUNTS and not (name == "num_threads" and value == 0):
            read_count(name, value)
    return config
