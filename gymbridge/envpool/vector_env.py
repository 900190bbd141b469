"""EnvPool as a `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.core.extras import needs
from gymbridge.core.rendering import read_view
from gymbridge.core.requests import read_count
from gymbridge.core.vector_env import BridgeVectorEnv
from gymbridge.errors import SimulationError

with needs("envpool", "EnvPoolVectorEnv"):
    from gymbridge.envpool.runner import PoolRunner
    from gymbridge.envpool.simulator import EnvPoolSimulator

if TYPE_CHECKING:
    from gymbridge.envpool.functions import PoolFunctions

__all__ = ["EnvPoolVectorEnv"]


# skrl knows Gymnasium's classes by their direct bases, so `VectorEnv` is named among them.
class EnvPoolVectorEnv(  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
    BridgeVectorEnv, VectorEnv[Any, Any, Any]
):
    """A pool of EnvPool environments, each with one player or with several.

    Args:
        task_id: EnvPool's name of the task, such as "Pong-v5".
        num_envs: Size of the batch.
        max_episode_steps: Time limit in steps of this batch; None for the task's own, -1 for none.
        autoreset_mode: `AutoresetMode` or "NextStep", "SameStep", "Disabled".
        arrays: What `reset` and `step` return and what actions are: "numpy", "torch" or "jax".
        device: Where tensors and jax arrays are: "cpu", "cuda", "cuda:1", a `torch.device` or a
            `jax.Device`; None for the CPU, where the pool runs. "cpu:all" is "cpu": the pool's
            threads are on all cores already.
        info_keys: Which infos are carried: None for all but ``env_id``, ``players.env_id``,
            ``players.id`` and ``ram``, "all", or a list of names.
        render_mode: None, or "rgb_array" for `render`.
        render_size: Width and height of frames in pixels; None for the task's own.
        camera: Number of a camera of a MuJoCo task, -1 or None for its default.
        **kwargs: Keywords of `envpool.make`, such as ``num_threads=`` or ``frame_skip=``.

    Attributes:
        num_players: Number of players of an environment.
        takes_turns: Whether one of several players moves in each step. If so, observations and
            legal actions are those of ``infos["current_player"]``, and a reward is that of the
            player who moved. If all move at once, observations and actions have an axis of players,
            and a reward is the sum. ``infos["rewards"]``, (num_envs, players), has each player's.

    Raises:
        UnknownTaskError: The installed EnvPool has no such task.
        KeywordError: A keyword that the task does not take.
        ArgumentError: An argument has an invalid value, or several players observe a Dict each.
        ArgumentTypeError: An argument has a wrong type.
        SimulationError: EnvPool cannot build the task on this machine.

    EnvPool fixes seeds when a pool is built, so it is built at the first `reset`, and built anew by
    each `reset(seed=...)`. A seed up to 2**31 - 1 is used as it is; see `reset` for larger ones.

    Example:
        >>> envs = EnvPoolVectorEnv("CartPole-v1", num_envs=2)
        >>> observations, infos = envs.reset(seed=0)
        >>> observations.shape, infos["elapsed_step"]
        ((2, 4), array([0, 0], dtype=int32))
        >>> envs.step([0, 1])[1]
        array([1., 1.], dtype=float32)
    """

    _runner: PoolRunner
    _functions: PoolFunctions | None = None

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
        render_mode: str | None = None,
        render_size: tuple[int, int] | None = None,
        camera: int | None = None,
        **kwargs: Any,
    ) -> None:
        num_envs = read_count("num_envs", num_envs)
        view = read_view(render_mode, render_size, camera)
        simulator = EnvPoolSimulator(
            "EnvPoolVectorEnv", task_id, num_envs, max_episode_steps, info_keys, kwargs
        )
        players = simulator.players
        self.num_players, self.takes_turns = players.count, players.take_turns
        super().__init__(
            simulator,
            max_episode_steps=max_episode_steps,
            autoreset_mode=autoreset_mode,
            arrays=arrays,
            device=device,
            make_runner=PoolRunner,
            view=view,
        )

    def functional(self) -> tuple[Any, Callable[..., Any], Callable[..., Any]]:
        """Return the batch as functions, which `jax.jit` and `jax.lax.scan` take.

        Each call of them is a callback that takes the exact step on the host. Modes, limits,
        restarts and infos are those of the class; with Disabled, ended environments stay as they
        are until their reset, with reward 0.

        The episodes live in the pool and cannot be copied. Therefore ``carry`` stands for their
        present state, and serves for one call of `step` or `reset`, which returns the next one.
        After that, an older carry raises an error of JAX, and a `step` of the class raises as well.
        A reset of every environment, by the class or with any carry, begins new episodes.

        Returns:
            ``carry``, a number, and two functions: ``reset(carry, mask) -> (carry, (observations,
            infos))``, with mask (num_envs,) bool, which continues the random streams;
            ``step(carry, actions) -> (carry, returned)``, with the five values of `step`.

        Raises:
            ArgumentError: The batch was not built with ``arrays="jax"``. The functions raise it for
                seeds, since EnvPool fixes these when a pool is built, and if `jax.vmap` or a
                gradient reaches them.
            ResetNeededError: Before the first `reset`, or functions of an earlier call have gone
                on with the episodes.
        """
        self._check_functional()
        from gymbridge.envpool.functions import PoolFunctions

        with self._one_thread:
            carry = self._running("functional")
            if self._functions is None:
                self._functions = PoolFunctions(self._runner, carry, self.device)
                self._one_thread = self._functions.lock
            return self._functions.begin(carry), self._functions.reset, self._functions.step

    def get_state(self, *_: Any, **__: Any) -> Any:
        """Refuse: EnvPool gives no access to the state of its environments.

        Raises:
            SimulationError: Always. `set_state`, `save_state` and `load_state` raise it as well.
        """
        raise SimulationError(
            "EnvPool has no snapshots, because it gives no access to the state of its "
            "environments. Repeat the run from `envs.np_random_seed` with the same actions, or "
            "save the policy and begin new episodes."
        )

    set_state = save_state = load_state = get_state
