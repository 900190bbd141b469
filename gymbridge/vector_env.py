"""The vector environment that every engine shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gymbridge.actions import make_action_reader
from gymbridge.arrays import Edge, make_edge
from gymbridge.episode import AutoresetRule, Carry, Outcome, ResetRule, Seeds, Simulator, Tick
from gymbridge.errors import (
    ArgumentError,
    ClosedError,
    EpisodeEndedError,
    ResetNeededError,
    SimulationError,
)
from gymbridge.infos import DenseInfos, SparseInfos
from gymbridge.processes import note_batch
from gymbridge.requests import (
    fit_spec,
    name_device,
    read_autoreset_mode,
    read_device,
    read_limit,
    read_options,
    read_seeds,
)
from gymbridge.sub_envs import SubEnvs

__all__ = ["BridgeVectorEnv"]


class BridgeVectorEnv(VectorEnv[Any, Any, Any]):
    """A `gymnasium.vector.VectorEnv` over any `Simulator`.

    Args:
        simulator: Provider of physics.
        max_episode_steps: Steps after which an episode is truncated, counted in steps of this
            batch; None for the task's own limit, -1 for none.
        autoreset_mode: When ended environments begin again.
        arrays: What `reset` and `step` return and what actions are: "numpy", "torch" or "jax".
        device: Where those arrays are: "cpu", "cuda", "cuda:1", a `torch.device` or a `jax.Device`;
            None for where the simulator has them.

    Attributes:
        arrays: Kind of the arrays.
        device: Where they are, a `torch.device` or `jax.Device`; None for numpy arrays.
        autoreset_mode: The mode, also in `metadata`.
        max_episode_steps: The limit in force, or None.

    Example:
        >>> from gymbridge.testing import scripted_vector_env
        >>> envs = scripted_vector_env(lengths=[1, 2], autoreset_mode="SameStep")
        >>> envs.reset(seed=0)[0]
        array([0., 0.], dtype=float32)
        >>> obs, rewards, terminations, truncations, infos = envs.step([0, 0])
        >>> terminations, infos["final_obs"]
        (array([ True, False]), array([array(1., dtype=float32), None], dtype=object))
    """

    _is_forked = False
    _construction: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> BridgeVectorEnv:
        """Remember the construction: that is what is pickled."""
        envs = super().__new__(cls)
        envs._construction = (args, kwargs)
        return envs

    def __init__(
        self,
        simulator: Simulator[Any],
        *,
        max_episode_steps: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        arrays: str = "numpy",
        device: Any = None,
    ) -> None:
        edge = make_edge(simulator.native, arrays, read_device(device))
        self.arrays, self.device = edge.arrays, edge.device
        self.autoreset_mode = read_autoreset_mode(autoreset_mode)
        self.max_episode_steps = read_limit(max_episode_steps, simulator.task_limit)
        self.metadata = {**simulator.metadata, "autoreset_mode": self.autoreset_mode}
        self._declare_spaces(simulator, edge)
        self._simulator = simulator
        self._read_mask, self._make_reader = edge.read_mask, edge.make_action_reader
        self._read_actions = make_action_reader(
            self.single_action_space, (self.num_envs,), self._make_reader
        )
        self._all = np.ones(self.num_envs, np.bool_)
        self._rule = rule = AutoresetRule(simulator, self.autoreset_mode, self.max_episode_steps)
        lay_out = DenseInfos if edge.is_dense else SparseInfos
        infos = lay_out(edge, self.num_envs, has_final=rule.restarts_ended)
        self._begin = simulator.compile(ResetRule(simulator), infos.arrange_reset)
        self._advance = simulator.compile(rule, infos.arrange_step)
        self._arrange_step = infos.arrange_step
        self._show_reset, self._show_step = infos.show_reset, infos.show_step
        self._show_ticks = getattr(infos, "show_ticks", None)
        # Reading flags costs nothing on the host; elsewhere ended rows are held instead.
        is_readable = simulator.native == "numpy" or not edge.is_dense
        self._refuses_ended = rule.refuses_ended and is_readable
        self._seeds: tuple[int, ...] | None = None
        self._carry: Any = None  # the rule's, between two calls
        self._sub_envs = SubEnvs(simulator)
        self._spec: EnvSpec | None = None
        note_batch(self)

    def _declare_spaces(self, simulator: Simulator[Any], edge: Edge) -> None:
        self.num_envs = simulator.num_envs
        self.single_observation_space = edge.to_space(simulator.single_observation_space)
        self.single_action_space = edge.to_space(simulator.single_action_space)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def __reduce__(self) -> Any:
        """Pickle and copy as the construction: a new batch of the same kind, not yet reset."""
        args, kwargs = self._construction
        args = tuple(name_device(value) for value in args)
        kwargs = {key: name_device(value) for key, value in kwargs.items()}
        return _rebuild, (type(self), args, kwargs, self._spec)

    @property
    def spec(self) -> EnvSpec | None:
        """What `gymnasium.make_vec` built this batch from, with the limit in force; else None."""
        return self._spec

    @spec.setter
    def spec(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, spec: EnvSpec | None
    ) -> None:
        """Take what `gymnasium.make_vec` hands over after construction."""
        self._spec = fit_spec(spec, self.max_episode_steps, self.autoreset_mode)

    @property
    def seed_range(self) -> int:
        """The largest seed that an environment of this batch takes."""
        return self._simulator.seed_range

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of each environment; drawn from the operating system if none was given yet."""
        if self._seeds is None:
            first = np.random.SeedSequence().generate_state(1)[0]
            last = self._simulator.seed_range - self.num_envs + 1
            self._seeds = tuple(int(first % last) + index for index in range(self.num_envs))
        return self._seeds

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes, in every environment or under ``options["reset_mask"]``.

        Args:
            seed: None to draw on, an int s to seed environment i with s + i, or a list with one
                int or None per environment; under a mask it is true of the rows under it.
            options: None or ``{"reset_mask": (num_envs,) bool}``.

        Returns:
            observations: (num_envs, ...), the current one outside the mask.
            infos: Of the environments under the mask.

        Raises:
            ArgumentError: A value of `seed` or `options` breaks its rule.
            ArgumentTypeError: A type does.
            ResetNeededError: A partial reset before the first full one.
            ClosedError: After `close`.
        """
        self._check_open()
        mask = read_options(options, self.num_envs, self._read_mask)
        seeds = read_seeds(seed, self.num_envs, self._simulator.seed_range)
        if mask is not None and self._carry is None:
            raise ResetNeededError(
                "`options['reset_mask']` needs episodes that run; call `reset()` without it first."
            )
        known = np.array(self.np_random_seed, np.uint32)
        if self._carry is None:
            seeds = Seeds(np.where(seeds.given, seeds.values, known), self._all.copy())
        is_all = mask is None
        mask = self._all.copy() if mask is None else mask
        # Nothing of what was before is needed where every episode begins from a given seed.
        outcome = self._begin(None if is_all and seeds.given.all() else self._carry, mask, seeds)
        shown = self._show_reset(outcome, mask)
        self._carry = outcome.carry
        self._seeds = tuple(np.where(seeds.given & mask, seeds.values, known).tolist())
        return shown

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one step in every environment.

        Args:
            actions: (num_envs, ...) in the action space; a list of single actions will do.

        Returns:
            observations: (num_envs, ...).
            rewards: (num_envs,) float.
            terminations: (num_envs,) bool, ended by the task's own rule.
            truncations: (num_envs,) bool, cut by a limit and not terminated.
            infos: With a mask beside each key.

        Raises:
            ActionError: An action has the wrong shape or lies outside a discrete space.
            ArgumentTypeError: An action has a type or dtype that cannot be cast.
            EpisodeEndedError: With `AutoresetMode.DISABLED`, an ended environment was not reset.
            ResetNeededError: Before the first `reset`, or after a call that was cut short.
            ClosedError: After `close`.
        """
        return self._step(actions, self._show_step)

    def step_ticks(self, actions: Any) -> tuple[Tick, np.ndarray, Tick | None]:
        """Take one step, as `step` does, for those who lay out infos in another way.

        Returns:
            tick: What `step` returns, with infos without masks, true of every environment.
            over: (num_envs,) bool, environments whose episode ended.
            final: With `AutoresetMode.SAME_STEP`, if some ended: the tick before they began anew.

        Raises:
            ArgumentError: The batch gives torch or jax arrays; otherwise see `step`.
        """
        if self._show_ticks is None:
            raise ArgumentError(f"`step_ticks` needs numpy arrays, not {self.arrays}; use `step`.")
        return self._step(actions, self._show_ticks)

    def _step(self, actions: Any, show: Callable[[Outcome], Any]) -> Any:
        carry = self._carry
        if carry is None:
            self._check_open()
            raise ResetNeededError("`step` needs running episodes; call `reset()` first.")
        actions = self._read_actions(actions)
        if self._refuses_ended:
            self._check_running(carry)
        outcome = self._advance(carry, actions)
        shown = show(outcome)
        self._carry = outcome.carry
        return shown

    def render(self) -> tuple[Any, ...] | None:
        """Return one frame per environment; no engine renders yet.

        Raises:
            NotImplementedError: Always, on an open batch.
            ClosedError: After `close`.
        """
        self._check_open()
        return super().render()

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return attribute `name` of each environment, called if it can be; see `SyncVectorEnv`."""
        self._check_open()
        return self._sub_envs.call(self, name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return attribute `name` of each environment."""
        return self.call(name)

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Set attribute `name` of each environment; a list or tuple gives each its own value."""
        self._check_open()
        self._sub_envs.set_attr(self, name, values)

    def close_extras(self, **kwargs: Any) -> None:
        """Release the simulator."""
        self._carry = None
        if self._is_forked:  # the engine's threads, for which closing waits, are the parent's
            return
        if hasattr(self, "_simulator"):  # Gymnasium 1.2 closes what its constructor refused, too
            self._simulator.close()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError(f"{self} is closed; build a new one.")
        if self._is_forked:
            raise SimulationError(
                f"{self} was built before this process was forked, and its threads did not come "
                "along; build it in the worker, started with multiprocessing's 'spawn' or "
                "'forkserver'."
            )

    def _check_running(self, carry: Carry) -> None:
        ended = np.flatnonzero(carry.ended)
        if ended.size:
            raise EpisodeEndedError(
                f"Environments {ended.tolist()} have ended and autoreset is disabled; call "
                "`reset(options={'reset_mask': terminations | truncations})` before `step`."
            )


def _rebuild(
    kind: type[BridgeVectorEnv], args: tuple[Any, ...], kwargs: dict[str, Any], spec: EnvSpec | None
) -> BridgeVectorEnv:
    envs = kind(*args, **kwargs)
    envs._spec = spec
    return envs
