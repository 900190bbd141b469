"""The policy of a model that Stable-Baselines3 saved, without the algorithm that trained it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gymnasium.vector import VectorEnv
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.save_util import load_from_zip_file

from gymbridge.trainers.sb3.zero_based import from_zero, to_zero

__all__ = ["load_actor"]


def load_actor(path: Path, envs: VectorEnv[Any, Any, Any]) -> Callable[[Any], Any]:
    """Return a function from observations to the deterministic actions of a saved policy.

    Args:
        path: File that ``save`` of an algorithm of Stable-Baselines3 wrote.
        envs: The batch to act in. The policy was trained in a `Sb3VecEnv` of such a batch.
    """
    loaded: Any = load_from_zip_file(path, device="cpu")
    data, parameters, _ = loaded
    make, options = data["policy_class"], data["policy_kwargs"]
    if issubclass(make, ActorCriticPolicy):  # PPO and A2C give it to them beside `policy_kwargs`
        options = {**options, "use_sde": data["use_sde"]}
    policy = make(data["observation_space"], data["action_space"], lambda _: 0.0, **options)
    policy.load_state_dict(parameters["policy"])
    policy.set_training_mode(False)

    def act(obs: Any) -> Any:
        actions, _ = policy.predict(to_zero(envs.single_observation_space, obs), deterministic=True)
        return from_zero(envs.single_action_space, actions)

    return act
