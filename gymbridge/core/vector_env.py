"""The vector environment that every engine shares."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from gymnasium import Space
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gymbridge.core import requests
from gymbridge.core.actions import make_action_reader
from gymbridge.core.arrays import make_adapter
from gymbridge.core.arrays.adapter import ArrayAdapter, identity
from gymbridge.core.episode import EpisodeRule, Simulator, TimeStep, View
from gymbridge.core.infos import make_info_layout
from gymbridge.core.processes import OneThread, check_open, note_batch
from gymbridge.core.runner import HostRunner, MakeRunner
from gymbridge.core.specs import fit_spec, reduce_batch
from gymbridge.core.sub_envs import SubEnvs
from gymbridge.errors import ArgumentError, EpisodeEndedError, GymbridgeError, ResetNeededError

__all__ = ["BridgeVectorEnv"]


class BridgeVectorEnv(VectorEnv[Any, Any, Any]):
    """A `gymnasium.vector.VectorEnv` over any `Simulator`.

    It is pickled and copied as its arguments: the copy is a new batch, which is not yet reset. A
    batch of a JAX engine is copied by `FunctionalVectorEnv.__copy__`.

    Args:
        simulator: The batch of simulations; see `Simulator`.
        max_episode_steps: Steps after which an episode is truncated, counted in steps of this
            batch; None for the task's own limit, -1 for none.
        autoreset_mode: When an ended environment restarts: an `AutoresetMode`, or "NextStep",
            "SameStep" or "Disabled".
        arrays: Kind of arrays that `reset` and `step` return: "numpy", "torch" or "jax".
        device: Where those arrays are: "cpu", "cuda", "cuda:1", "cpu:all", a `torch.device` or a
            `jax.Device`; None for the simulator's own device.
        native: Kind of the arrays that the runner takes and returns: "numpy", "torch" or "jax";
            "graph" for JAX in torch's graph.
        make_runner: Function that returns what runs the episode rule; see `gymbridge.core.runner`.
        view: What `render` draws; None for a batch without `render`.

    Attributes:
        arrays: Kind of the arrays.
        device: Where they are, a `torch.device` or `jax.Device`, or a `jax.sharding.NamedSharding`
            over several; None for numpy arrays.
        autoreset_mode: The mode, also in `metadata`.
        max_episode_steps: The limit in force, or None.
        seed_range: The largest seed that the engine uses as it is; see `reset` for larger ones.
        sub_envs: Attributes of the single environments; see `call`.

    Example:
        >>> from gymbridge.testing import scripted_vector_env
        >>> envs = scripted_vector_env(lengths=[1, 2], autoreset_mode="SameStep")
        >>> envs.reset(seed=0)[0]
        array([0., 0.], dtype=float32)
        >>> obs, rewards, terminations, truncations, infos = envs.step([0, 0])
        >>> terminations, infos["final_obs"]
        (array([ True, False]), array([array(1., dtype=float32), None], dtype=object))
    """

    action_space: Space[Any]
    observation_space: Space[Any]
    single_action_space: Space[Any]
    single_observation_space: Space[Any]
    _construction: tuple[tuple[Any, ...], dict[str, Any]]
    _spec: EnvSpec | None = None
    is_forked = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Remember the arguments: they are what is pickled."""
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
        native: str = "numpy",
        make_runner: MakeRunner = HostRunner,
        view: View | None = None,
    ) -> None:
        adapter = make_adapter(native, arrays, device)
        self.arrays, self.device = adapter.arrays, adapter.device
        self.autoreset_mode = requests.read_autoreset_mode(autoreset_mode)
        self.max_episode_steps = requests.read_limit(max_episode_steps, simulator.task_limit)
        self.seed_range = simulator.seed_range
        metadata = copy.deepcopy(simulator.metadata)
        self.metadata = {**metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = None if view is None else "rgb_array"
        self._renderer = None if view is None else simulator.make_renderer(view)
        self._declare_spaces(simulator, adapter)
        self._simulator, self._to_user = simulator, adapter.to_user
        self._read_mask, self._make_reader = adapter.read_mask, adapter.make_action_reader
        self._wait_for_reads, self._to_runner = adapter.wait_for_reads, adapter.to_runner
        self._read_actions = make_action_reader(
            self.single_action_space, (self.num_envs,), self._make_reader
        )
        limit = self.max_episode_steps
        rule = EpisodeRule(simulator, self.autoreset_mode, limit, adapter.count_rows)
        self._infos = make_info_layout(adapter, self.num_envs, has_final=rule.restarts_ended)
        self._runner = make_runner(rule, self._infos)
        options = simulator.reset_options
        self._readers = {name: self._runner.link(read) for name, read in options.items()}
        # Reading flags costs nothing on the host; elsewhere ended rows stay as they are instead.
        self._refuses_ended = rule.refuses_ended and "numpy" in (native, arrays)
        self._read_ended = identity if native == "numpy" else adapter.to_user
        self._seeds: tuple[int, ...] | None = None
        self._carry: Any = None  # what the runner keeps between two calls
        self._one_thread = OneThread()
        self.sub_envs = SubEnvs(simulator)
        note_batch(self)

    def _declare_spaces(self, simulator: Simulator[Any], adapter: ArrayAdapter) -> None:
        self.num_envs = simulator.num_envs
        # Copies, since copied batches share a simulator and a space has a random stream.
        spaces = simulator.single_observation_space, simulator.single_action_space
        observation_space, action_space = map(adapter.to_space, copy.deepcopy(spaces))
        self.single_observation_space, self.single_action_space = observation_space, action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def __reduce__(self) -> Any:
        """Pickle and copy as the arguments; see `core.specs`."""
        return reduce_batch(self, *self._construction)

    @property
    def spec(self) -> EnvSpec | None:
        """The spec from `gymnasium.make_vec`, with limit and mode in force; or None."""
        return self._spec

    @spec.setter
    def spec(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, spec: EnvSpec | None
    ) -> None:
        """Take what Gymnasium hands over after construction."""
        self._spec = fit_spec(spec, self.max_episode_steps, self.autoreset_mode)

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed last given to each environment, or one drawn from the operating system."""
        if self._seeds is None:
            self._seeds = requests.draw_seeds(self.num_envs, self.seed_range)
        return self._seeds

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes, in every environment or under ``options["reset_mask"]``.

        Args:
            seed: None to continue each random stream, an int s to seed environment i with s + i,
                or a list with one int or None per environment. Under a mask it applies to the
                environments under the mask. A seed above `seed_range` is hashed into that range;
                `np_random_seed` has it as given.
            options: None or a dict with ``"reset_mask"``, (num_envs,) bool with at least one True,
                and further options of the engine.

        Returns:
            observations: (num_envs, ...), outside the mask the current ones.
            infos: Dict with a (num_envs,) bool mask beside each key, False outside the mask.

        Raises:
            ArgumentError: `seed` or `options` has an invalid value.
            ArgumentTypeError: `seed` or `options` has a value of the wrong type.
            ResetNeededError: The first reset has a mask that is not True everywhere.
            BusyError: Another call of the batch is running.
            ClosedError: After `close`.
        """
        with self._one_thread:
            return self._reset(seed, options)

    def _reset(self, seed: Any, options: Any) -> tuple[Any, dict[str, Any]]:
        check_open(self)
        mask, others = requests.read_options(options, self.num_envs, self._read_mask, self._readers)
        given = requests.read_seeds(seed, self.num_envs)
        if self._carry is None and not mask.all():
            raise ResetNeededError(
                "`options['reset_mask']` needs running episodes; call `reset()` without it first."
            )
        known = requests.merge_seeds(given, mask, self.np_random_seed)
        seeds = requests.fold_seeds(known if self._carry is None else given, self.seed_range)
        seeds = seeds._replace(options=others or None)
        # A reset of all environments with given seeds needs no previous carry.
        carry = None if mask.all() and seeds.given.all() else self._carry
        self._wait_for_reads()
        try:
            outcome = self._runner.reset(carry, self._to_runner(mask), seeds)
            obs, *_, infos = self._infos.to_gymnasium(outcome)
        # A signal handler may raise anything. Our own errors come before the engine is called.
        except BaseException as error:
            # The engine may have taken the seeds, so the next reset gives it `np_random_seed`.
            if carry is None and not isinstance(error, GymbridgeError):
                self._carry = None
            raise
        self._carry, self._seeds = outcome.carry, known
        return obs, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one step in every environment.

        Args:
            actions: (num_envs, ...), numpy or of the kind of `arrays`; lists with numpy arrays.

        Returns:
            observations: (num_envs, ...).
            rewards: (num_envs,) float.
            terminations: (num_envs,) bool, ended by the task's own rule.
            truncations: (num_envs,) bool, cut by a limit and not terminated.
            infos: Dict with a (num_envs,) bool mask beside each key.

        Raises:
            ActionError: Actions have the wrong shape, or with numpy arrays integers lie outside
                their space. With torch and jax arrays integers are clipped instead.
            ArgumentError: Actions are on another device than the batch.
            ArgumentTypeError: Actions have a type or dtype that cannot be cast.
            EpisodeEndedError: With `AutoresetMode.DISABLED`, an ended environment was not reset.
                With torch or jax arrays, engines in JAX or torch leave it as it is, with reward 0.
            DivergedError: With ``nonfinite="raise"``, an environment produced NaN or Inf.
            ResetNeededError: Before the first `reset`, or after an interrupted call.
            BusyError, ClosedError: As in `reset`.
        """
        with self._one_thread:
            return self._step(actions, None, self._infos.to_gymnasium)

    def step_some(self, actions: Any, mask: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one step in the environments under `mask`; the others stay as they are.

        Args:
            actions: (num_envs, ...), as in `step`; those outside the mask are checked, and ignored.
            mask: (num_envs,) bool, as ``options["reset_mask"]`` is.

        Returns:
            What `step` returns; outside the mask the former observations and flags, and reward 0.

        Raises:
            ArgumentError: The mode is not "Disabled", or the mask has another shape or no True.
            ArgumentTypeError: The mask is not an array of bools.
            EpisodeEndedError: An ended environment under the mask was not reset. See also `step`.
        """
        if self.autoreset_mode != AutoresetMode.DISABLED:
            raise ArgumentError(
                "`step_some` needs `autoreset_mode='Disabled'`, got "
                f"{self.autoreset_mode.value!r}, where a step also restarts ended episodes."
            )
        rows = requests.read_mask("`mask`", self._read_mask("`mask`", mask), self.num_envs)
        with self._one_thread:
            return self._step(actions, self._to_runner(rows), self._infos.to_gymnasium)

    def step_time_steps(self, actions: Any) -> tuple[TimeStep, np.ndarray, TimeStep | None]:
        """Take one step, as `step` does, and return infos of every environment without masks.

        Returns:
            time_step: What `step` returns, with such infos.
            over: (num_envs,) bool, environments whose episode ended.
            final: With `AutoresetMode.SAME_STEP`, the time step before restarts; None without any.

        Raises:
            ArgumentError: The batch has torch or jax arrays. Other errors are those of `step`.
        """
        if self.arrays != "numpy":
            raise ArgumentError(
                f"`step_time_steps` needs numpy arrays, not {self.arrays}; use `step`."
            )
        # With numpy arrays the layout is a `SparseInfos`, which has this method.
        infos: Any = self._infos
        with self._one_thread:
            return self._step(actions, None, infos.to_time_steps)

    def _step(self, actions: Any, rows: np.ndarray | None, lay_out: Callable[[Any], Any]) -> Any:
        """Take one step in all rows, or in those of a mask; `lay_out` makes the returned values."""
        carry = self._running("step") if self._carry is None else self._carry  # the former raises
        actions = self._read_actions(actions)
        if self._refuses_ended:
            ended = carry.ended if rows is None else carry.ended & rows
            if (ids := np.flatnonzero(self._read_ended(ended))).size:
                raise EpisodeEndedError(
                    f"Environments {ids.tolist()} have ended and autoreset is disabled; call "
                    "`reset(options={'reset_mask': terminations | truncations})` before `step`."
                )
        if rows is not None:
            self._wait_for_reads()
            carry = self._runner.freeze(carry, ~rows)
        outcome = self._runner.step(carry, actions)
        returned = lay_out(outcome)
        self._carry = outcome.carry
        return returned

    def render(self) -> tuple[np.ndarray, ...]:
        """Draw each environment as it is now.

        With `AutoresetMode.SAME_STEP`, an environment whose episode ended in the last step is drawn
        in the initial state of the next episode.

        Returns:
            frames: num_envs arrays, (height, width, 3) uint8, which no later call overwrites.

        Raises:
            ArgumentError: The batch was built without ``render_mode="rgb_array"``.
            ResetNeededError: Before the first `reset`, or after an interrupted call.
            NotInstalledError: The frames need OpenGL, and no library for it works.
            BusyError: Another call of the batch is running.
            ClosedError: After `close`.
        """
        check_open(self)
        if self._renderer is None:
            raise ArgumentError("`render` needs a batch built with `render_mode='rgb_array'`.")
        with self._one_thread:
            state = self._runner.unpack(self._running("render")).state
            return tuple(self._renderer.draw(state))

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return attribute `name` of each environment, or what it returns if it is callable.

        Raises:
            AttributeError: No environment has the attribute.
            ClosedError: After `close`.
        """
        check_open(self)
        return self.sub_envs.call(self, name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return attribute `name` of each environment."""
        return self.call(name)

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Give each environment a user-defined attribute; a list or tuple has one value for each.

        What the batch, the engine's object, EnvPool's configuration or Brax's ``sys`` has is fixed
        when the batch is built, as are keywords of its class. None of it can be set: setting it
        would change nothing.

        Raises:
            ArgumentError: The attribute is fixed, or a list has another length than `num_envs`.
            ClosedError: After `close`.
        """
        check_open(self)
        self.sub_envs.set_attr(self, name, values)

    def _running(self, name: str) -> Any:
        """Return the carry for a method without actions, or raise: it needs running episodes."""
        if self._carry is None:
            check_open(self)
            raise ResetNeededError(f"`{name}` needs running episodes; call `reset()` first.")
        self._wait_for_reads()
        return self._carry

    def _check_functional(self) -> None:
        """Raise unless the batch is open and has jax arrays; for classes that are functions too."""
        check_open(self)
        if self.arrays != "jax":
            raise ArgumentError(
                f"`functional` needs a batch built with `arrays='jax'`, got {self.arrays!r}."
            )

    def after_fork(self) -> None:
        """Become a batch of the parent, in a forked child; see `core.processes`."""
        self.is_forked, self._carry, self._one_thread = True, None, OneThread()

    def close_extras(self, **kwargs: Any) -> None:
        """Release the simulator.

        Raises:
            BusyError: Another call of the batch is running.
        """
        if self.is_forked or not hasattr(self, "_one_thread"):
            # After a fork the pool's threads are gone, so closing would hang. Gymnasium 1.2 also
            # closes what its constructor refused.
            return
        with self._one_thread:
            self._carry, self.closed = None, True
            try:
                if self._renderer is not None:
                    self._renderer.close()
            finally:
                self._simulator.close()
