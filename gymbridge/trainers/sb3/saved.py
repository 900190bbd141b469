"""The policy of a model that Stable-Baselines3 saved, without the algorithm that trained it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gymnasium import Space
from gymnasium.vector import VectorEnv
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.common.vec_env import VecNormalize

from gymbridge.errors import ArgumentError
from gymbridge.trainers.sb3.zero_based import from_zero, to_zero

__all__ = ["find_vecnormalize", "load_actor"]


def load_actor(
    path: Path, envs: VectorEnv[Any, Any, Any], statistics: Path | None = None
) -> Callable[[Any], Any]:
    """Return a function from observations to the deterministic actions of a saved policy.

    Args:
        path: File that ``save`` of an algorithm of Stable-Baselines3 wrote.
        envs: The batch to act in. The policy was trained in a `Sb3VecEnv` of such a batch.
        statistics: File that ``save`` of the `VecNormalize` wrote in which it was trained, or None.
    """
    loaded: Any = load_from_zip_file(path, device="cpu")
    data, parameters, _ = loaded
    make, options = data["policy_class"], data["policy_kwargs"]
    if issubclass(make, ActorCriticPolicy):  # PPO and A2C give it to them beside `policy_kwargs`
        options = {**options, "use_sde": data["use_sde"]}
    policy = make(data["observation_space"], data["action_space"], lambda _: 0.0, **options)
    policy.load_state_dict(parameters["policy"])
    policy.set_training_mode(False)

    normalize = _load_normalize(statistics, data["observation_space"])

    def act(obs: Any) -> Any:
        obs = normalize(to_zero(envs.single_observation_space, obs))
        actions, _ = policy.predict(obs, deterministic=True)
        return from_zero(envs.single_action_space, actions)

    return act


def _load_normalize(path: Path | None, space: Space[Any]) -> Callable[[Any], Any]:
    if path is None:
        return lambda obs: obs
    try:
        loaded = pickle.loads(path.read_bytes())
    except Exception as error:  # Unpickling raises whatever the file leads to.
        raise ArgumentError(
            f"{path} cannot be read as statistics of a VecNormalize: {error!r}"
        ) from error
    if not isinstance(loaded, VecNormalize):
        raise ArgumentError(f"{path} must hold a VecNormalize, got {type(loaded).__name__}.")
    if loaded.observation_space.shape != space.shape:
        raise ArgumentError(
            f"{path} must hold statistics of observations of shape {space.shape}, as the policy "
            f"takes them, got {loaded.observation_space.shape}."
        )
    return loaded.normalize_obs


def find_vecnormalize(path: Path) -> str | None:
    """Return what shows that a saved policy was trained in a `VecNormalize`; None if nothing does.

    It looks for saved statistics beside the policy and in the folder of its name, where RL Zoo
    keeps them. Then it looks into the policy: PPO and A2C keep an observation before normalisation.
    Other algorithms keep one in any case, so nothing in them shows it.
    """
    for folder in (path.parent, path.with_suffix("")):
        for file in sorted(folder.glob("*.pkl")):
            with file.open("rb") as opened:
                if b"VecNormalize" in opened.read(200):  # the name of the class comes first
                    return f"{file} has statistics of one"
    data: Any = load_from_zip_file(path, device="cpu")[0]
    is_on_policy = issubclass(data["policy_class"], ActorCriticPolicy)
    if is_on_policy and data.get("_last_original_obs") is not None:
        return "it holds an observation from before normalisation"
    return None
