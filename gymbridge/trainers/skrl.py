"""skrl: `SkrlWrapper` for batches of tensors, and `with_final_observations` for an agent.

Example::

    env = SkrlWrapper(gym.make_vec(id, 8, arrays="torch", autoreset_mode="SameStep"))
    agent = with_final_observations(PPO(...))
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from gymnasium import Space, spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from gymbridge.core.extras import needs
from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.trainers.batches import check_actions, check_batch, check_spaces

with needs("skrl", "gymbridge.trainers.skrl"):
    import torch
    from skrl.agents.torch import Agent
    from skrl.envs.wrappers.torch.gymnasium_envs import GymnasiumWrapper

__all__ = ["SkrlWrapper", "with_final_observations"]

AgentT = TypeVar("AgentT", bound=Agent)


def with_final_observations(agent: AgentT) -> AgentT:
    """Make an agent record final observations where episodes end, and return it.

    skrl's trainers record, as next observation, the one that they act on next. Where an episode
    ended this is the initial observation of the next one.

    Args:
        agent: An agent of skrl's, the only one of a `SkrlWrapper`.

    Raises:
        ArgumentTypeError: `agent` is not an agent of skrl's for torch.

    In a trainer, the agent raises an `ArgumentError` at the first step if the environment is not a
    `SkrlWrapper`, or is shared with other agents.
    """
    if not isinstance(agent, Agent):
        raise ArgumentTypeError(
            f"`agent` must be a skrl.agents.torch.Agent, got {type(agent).__name__}; build the "
            "agent first, as in `with_final_observations(PPO(...))`."
        )
    record: Any = partial(_record, agent.record_transition)
    agent.record_transition = record
    return agent


def _record(
    record: Callable[..., None], *, next_observations: torch.Tensor, infos: Any, **others: Any
) -> None:
    """Record a transition with the final observations of the infos."""
    final = infos.get("final_observations")
    if final is None or len(final) != len(next_observations):
        found = "none" if final is None else f"those of {len(final)} environments"
        raise ArgumentError(
            f"`infos['final_observations']` must be those of {len(next_observations)} "
            f"environments, got {found}; give the trainer a `SkrlWrapper`, whose batch keeps "
            "`infos['final_obs']`, and this agent alone."
        )
    record(next_observations=final, infos=infos, **others)


class SkrlWrapper(GymnasiumWrapper):
    """skrl's wrapper of vector environments, for tensors that stay on their device.

    In every step, skrl's own `wrap_env` turns actions into numpy arrays and copies the results.

    Args:
        envs: A batch with ``arrays="torch"`` in SameStep mode. Pass the agent to
            `with_final_observations`.

    Raises:
        ArgumentTypeError: `envs` is not a vector environment.
        ArgumentError: `envs` gives other arrays, has spaces that skrl does not support, or has
            another mode: in NextStep skrl would learn from the steps that ignore the action, and
            in Disabled it would never reset ended environments.

    Observations are flat; the parts of a `Dict` are in the order of their sorted keys, as in skrl.
    Discrete actions are numbered from 0, as skrl's policies draw them.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        hint = (
            "build one with `gymnasium.make_vec(id, num_envs=…, arrays='torch', "
            "autoreset_mode='SameStep')`"
        )
        check_batch("envs", envs, "SkrlWrapper", AutoresetMode.SAME_STEP, hint, arrays="torch")
        kinds = spaces.Box, spaces.Discrete, spaces.MultiDiscrete
        check_spaces(envs, "skrl", kinds, (*kinds, spaces.Dict))
        super().__init__(envs)
        # Copies, which models and agents may write into. skrl reads other attributes from `envs`.
        single_spaces = envs.single_observation_space, envs.single_action_space
        self.single_observation_space, self.single_action_space = copy.deepcopy(single_spaces)
        self.metadata = copy.deepcopy(envs.metadata)
        space: Any = self.single_action_space
        start = getattr(space, "start", torch.zeros(space.shape, dtype=torch.int8))
        self._start = torch.as_tensor(start, device=self.device)  # (...) as one action

    def __deepcopy__(self, memo: dict[int, Any]) -> SkrlWrapper:
        """Return a new wrapper around a copy of the batch."""
        # skrl's own class would look the method up in the batch.
        return type(self)(copy.deepcopy(self._env, memo))

    __copy__ = copy.deepcopy  # around a copied batch, not around the same one

    @property
    def observation_space(self) -> Space[Any]:
        """The space of one observation, before it is flattened."""
        return self.single_observation_space

    @property
    def action_space(self) -> Space[Any]:
        """The space of one action; agents number `Discrete` actions from 0."""
        return self.single_action_space

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Return a frame of each environment, a tuple of arrays; Nones without a render mode."""
        return self._env.unwrapped.call("render", *args, **kwargs)  # wrappers have no `call`

    def reset(self) -> tuple[torch.Tensor, Any]:
        """Begin new episodes the first time; later return the current observations, as skrl does.

        Returns:
            observations: (num_envs, size) float32, flat.
            infos: The infos of the batch.
        """
        if self._reset_once:
            obs, self._info = self._env.reset(seed=self._seed)
            self._observation, self._reset_once, self._seed = self._flatten(obs), False, None
        return cast("torch.Tensor", self._observation), self._info

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Any]:
        """Take one step in every environment.

        Args:
            actions: (num_envs, size), flat.

        Raises:
            ArgumentTypeError: `actions` are not a tensor.
            ActionError: They have another shape.

        Returns:
            observations: (num_envs, size) float32, flat, of the new episode where one ended.
            rewards: (num_envs, 1) float32.
            terminations: (num_envs, 1) bool.
            truncations: (num_envs, 1) bool.
            infos: The infos of the batch, and "final_observations", (num_envs, size) float32.

        Final observations are those with which episodes ended, and where none ended those above.
        """
        check_actions(actions, (self.num_envs, self._start.numel()))
        actions = actions.reshape(self.num_envs, *self._start.shape) + self._start
        obs, rewards, terminations, truncations, infos = self._env.step(actions)
        obs = self._flatten(obs)
        if "final_obs" in infos:
            infos = {**infos, "final_observations": self._flatten(infos["final_obs"])}
        self._observation, self._info = obs, infos
        flags = terminations.view(-1, 1), truncations.view(-1, 1)
        return obs, rewards.float().view(-1, 1), *flags, infos

    def _flatten(self, obs: Any) -> torch.Tensor:
        """Return observations as skrl's own wrapper makes them of numpy arrays."""
        if isinstance(obs, dict):
            return torch.cat([self._flatten(obs[key]) for key in sorted(obs)], dim=-1)
        return obs.reshape(self.num_envs, -1).float()
