"""Any SameStep vector environment as a Stable-Baselines3 ``VecEnv``."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.vec_env import VecEnv

from gymbridge.core.requests import read_seed
from gymbridge.core.rows import split_infos
from gymbridge.core.vector_env import BridgeVectorEnv
from gymbridge.errors import ArgumentError, ResetNeededError
from gymbridge.trainers.batches import check_batch
from gymbridge.trainers.sb3.row_steps import Rows, step_rows
from gymbridge.trainers.zero_based import from_zero, to_zero, zero_based_space

__all__ = ["Sb3VecEnv"]


class Sb3VecEnv(VecEnv):
    """A ``VecEnv`` view of a `gymnasium.vector.VectorEnv` that restarts episodes in the same step.

    Args:
        vector_env: The batch, with ``metadata["autoreset_mode"]`` SameStep: of gymbridge, of
            Gymnasium (`SyncVectorEnv`) or of others, with vector wrappers around it or not.

    Attributes:
        vector_env: The batch.
        reset_infos: (num_envs,) dicts, the info with which each running episode began.
        observation_space, action_space: Those of one environment. A `Discrete` or `MultiDiscrete`
            always begins at 0 here, and observations and actions are shifted accordingly.

    Raises:
        ArgumentTypeError: `vector_env` is not a vector environment.
        ArgumentError: It has another autoreset mode, gives no numpy arrays, or has observations
            that are nested deeper than Stable-Baselines3 can read.

    The infos of a step are those of the step itself. Where the step ended an episode, they hold a
    copy of the final observation as ``terminal_observation``, and the infos of the new episode are
    in `reset_infos`. ``TimeLimit.truncated`` is in every info. Later calls do not change what was
    returned.

    Example:
        >>> from gymbridge.testing import scripted_vector_env
        >>> envs = Sb3VecEnv(scripted_vector_env(lengths=[1, 2], autoreset_mode="SameStep"))
        >>> envs.reset()
        array([0., 0.], dtype=float32)
        >>> observations, rewards, dones, infos = envs.step(np.array([1, 2]))
        >>> observations, dones
        (array([0., 1.], dtype=float32), array([ True, False]))
        >>> infos[0]["terminal_observation"], infos[0]["TimeLimit.truncated"]
        (array(1., dtype=float32), False)
    """

    __copy__ = copy.deepcopy  # around a copied batch, not around the same one

    def __init__(self, vector_env: VectorEnv[Any, Any, Any]) -> None:
        hint = "Stable-Baselines3 takes a single environment as it is"
        check_batch("vector_env", vector_env, "Stable-Baselines3", AutoresetMode.SAME_STEP, hint)
        space, action_space = vector_env.single_observation_space, vector_env.single_action_space
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else ()
        if any(isinstance(part, spaces.Dict | spaces.Tuple) for part in parts):
            raise ArgumentError(
                "`vector_env` must have observations that are nested once at most, as "
                f"Stable-Baselines3 expects, got {space}; flatten them where they are made, such "
                "as by gymnasium.wrappers.FlattenObservation inside SyncVectorEnv."
            )
        self.vector_env = vector_env
        self._batch: Any = vector_env.unwrapped
        self._rows: Any = self._batch.envs if isinstance(self._batch, SyncVectorEnv) else None
        self._actions: Any = None
        own_spaces = map(zero_based_space, copy.deepcopy((space, action_space)))
        super().__init__(vector_env.num_envs, *own_spaces)
        self.metadata = copy.deepcopy(vector_env.metadata)
        self._from_env = to_zero(space)
        is_binary = isinstance(action_space, spaces.MultiBinary)  # policies draw floats
        self._to_env = partial(np.asarray, dtype=np.int8) if is_binary else from_zero(action_space)

    @property
    def spec(self) -> EnvSpec | None:
        """What `gymnasium.make_vec` built the batch from."""
        return self.vector_env.spec

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed environment i with ``seed + i`` at the next reset; later resets are not seeded.

        Args:
            seed: The seed; None draws one, as in Stable-Baselines3.

        Raises:
            ArgumentError: The seed is negative.
            ArgumentTypeError: The seed is not an int.
        """
        return super().seed(read_seed(seed))

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Set the options of the next reset.

        Args:
            options: A dict for all environments, or a list with an equal dict for each.

        Raises:
            ArgumentError: The list has dicts that differ, or the options have a ``reset_mask``,
                which would reset only a part of the batch.
        """
        given = options if isinstance(options, list) else [options]
        entries = [one or {} for one in given]
        if not all(data_equivalence(entries[0], entry) for entry in entries):
            raise ArgumentError(
                "`options` must be the same for all environments, since a batch is reset by one "
                f"call, got {options}; pass one dict."
            )
        if "reset_mask" in entries[0]:
            raise ArgumentError(
                "`options` must not have 'reset_mask', because this `reset` resets all "
                "environments; leave it out."
            )
        super().set_options(entries[0])

    def reset(self) -> Any:
        """Begin new episodes everywhere, with the seed and the options that were set for it.

        Returns:
            Observations, (num_envs, ...); a dict or tuple of arrays for a `Dict` or `Tuple` space.
        """
        # The other environments have the seeds that follow the first one.
        seed, options = self._seeds[0], self._options[0] or None
        obs, infos = self.vector_env.reset(seed=seed, options=options)
        # The list stays the same, since a monitor may share it.
        self.reset_infos[:] = split_infos(infos, self.num_envs)
        self._reset_seeds()
        self._reset_options()
        is_ours = isinstance(self.vector_env, BridgeVectorEnv)
        return self._from_env(obs if is_ours else copy.deepcopy(obs))

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions, (num_envs, ...), for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Take one step in every environment.

        Returns:
            observations: (num_envs, ...), of the new episode where one ended.
            rewards: (num_envs,) float32.
            dones: (num_envs,) bool, terminated or truncated.
            infos: (num_envs,) dicts.

        Raises:
            EnvContractError: An episode ended and the batch does not give its final observation.
            ResetNeededError: No episodes are running, such as after an interrupted ``learn``.
        """
        obs, rewards, dones, cut, infos, ended = self._step()
        for row, is_cut in zip(infos, cut.tolist(), strict=True):
            row["TimeLimit.truncated"] = is_cut
        for index, final_obs, reset_info in ended:
            infos[index]["terminal_observation"] = self._from_env(final_obs)
            self.reset_infos[index] = reset_info
        return self._from_env(obs), rewards.astype(np.float32, copy=False), dones, infos

    def _step(self) -> Rows:
        """Step the batch; where it needs a reset, say how a model of SB3 is made to do it."""
        try:
            return step_rows(self.vector_env, self._to_env(self._actions))
        except ResetNeededError as error:
            raise ResetNeededError(
                f"{error} Stable-Baselines3 does not reset while it keeps observations: after an "
                "interrupted `learn`, call `model.set_env(model.get_env())`, which drops them, "
                "before `learn(..., reset_num_timesteps=False)`."
            ) from error

    def close(self) -> None:
        """Close the batch."""
        self.vector_env.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return a frame of each environment; without "rgb_array", warn and return Nones."""
        if self.render_mode == "rgb_array":
            return [np.asarray(frame) for frame in self.vector_env.render() or ()]
        warnings.warn(
            f"The render mode is {self.render_mode!r}, and images need 'rgb_array'; build the "
            "batch with `render_mode='rgb_array'`.",
            stacklevel=2,
        )
        return [None] * self.num_envs

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of each environment; a method is returned, not called.

        In a batch of another project without `call`, each environment has the batch's attributes.

        Raises:
            AttributeError: One of them has no such attribute.
            IndexError: An index lies outside the batch.
        """
        ids = self._read_indices(indices)
        if self._rows is not None:
            return [self._rows[index].get_wrapper_attr(attr_name) for index in ids]
        if hasattr(self._batch, "call"):
            self._check_attribute(attr_name)
            values = self._batch.call("get_wrapper_attr", attr_name)
        else:
            is_space = attr_name in ("action_space", "observation_space")
            name = f"single_{attr_name}" if is_space else attr_name
            values = [getattr(self._batch, name)] * self.num_envs
        return [values[index] for index in ids]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of each environment to the same value.

        It is set on the layer that has it, or else on the outermost wrapper. Where a batch keeps
        the attributes, all environments have it, so one that is set for some must be there already.

        Raises:
            ArgumentError: The attribute is fixed when the batch is built.
            IndexError: An index lies outside the batch.
        """
        ids = self._read_indices(indices)
        if self._rows is not None:
            for index in ids:
                self._rows[index].set_wrapper_attr(attr_name, value)
            return
        values = [value] * self.num_envs
        if len({*ids}) < self.num_envs:
            values = self.get_attr(attr_name)
            for index in ids:
                values[index] = value
        self._batch.set_attr(attr_name, values)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Return what a method of each environment returns.

        Raises:
            ArgumentError: The batch can call a method only of all environments at once.
            AttributeError: One of them has no such method.
            IndexError: An index lies outside the batch.
        """
        ids = self._read_indices(indices)
        if self._rows is None and method_name == "render":
            frames = self._batch.render() or (None,) * self.num_envs
            return [frames[index] for index in ids]
        if self._rows is not None or isinstance(self._batch, BridgeVectorEnv):
            methods = self.get_attr(method_name, ids)
            return [method(*method_args, **method_kwargs) for method in methods]
        if ids != [*range(self.num_envs)]:
            raise ArgumentError(
                f"`indices` must be None for {type(self._batch).__name__}, which calls a method of "
                f"all environments at once, got {ids}; use SyncVectorEnv."
            )
        self._check_attribute(method_name)
        return list(self._batch.call(method_name, *method_args, **method_kwargs))

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """Return for each environment whether it or the batch is in a wrapper of that class.

        Workers of `AsyncVectorEnv` send no classes, so names of classes are compared there.
        """
        ids = self._read_indices(indices)
        layer = self.vector_env
        while isinstance(layer, VectorWrapper):
            if isinstance(layer, wrapper_class):
                return [True for _ in ids]
            layer = layer.env
        if self._rows is not None:
            return [is_wrapped(self._rows[index], wrapper_class) for index in ids]
        if isinstance(self._batch, BridgeVectorEnv) or not hasattr(self._batch, "call"):
            return [False for _ in ids]
        layers = [re.findall(r"<(\w+)", text) for text in self._batch.call("__str__")]
        return [wrapper_class.__name__ in layers[index] for index in ids]

    def _check_attribute(self, name: str) -> None:
        """Ask before anything is done: a worker of `AsyncVectorEnv` dies of an unknown name."""
        if not all(self._batch.call("has_wrapper_attr", name)):
            raise AttributeError(f"The environments of {self._batch} have no attribute {name!r}.")

    def _read_indices(self, indices: Any) -> list[int]:
        """Return indices from 0 up; negative ones count from the end, as for `DummyVecEnv`."""
        known = range(self.num_envs)
        return [known[index] for index in self._get_indices(indices)]
