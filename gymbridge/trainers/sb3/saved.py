"""The policy of a model that Stable-Baselines3 saved, without the algorithm that trained it."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gymnasium.vector import VectorEnv
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.save_util import load_from_zip_file

from gymbridge.trainers.zero_based import from_zero, to_zero

__all__ = ["load_actor"]

_LOG = logging.getLogger("gymbridge")


def load_actor(
    path: Path, envs: VectorEnv[Any, Any, Any], statistics: Path | None = None
) -> Callable[[Any], Any]:
    """Return a function from observations of a batch to deterministic actions of a saved policy.

    The policy was trained in a `Sb3VecEnv` of such a batch, and `statistics` is the file of its
    `VecNormalize`, or None. For None it warns where the model was trained in one and shows it: PPO
    and A2C keep an observation before normalisation, other algorithms one in any case.
    """
    loaded: Any = load_from_zip_file(path, device="cpu")
    data, parameters, _ = loaded
    make, options = data["policy_class"], data["policy_kwargs"]
    is_on_policy = issubclass(make, ActorCriticPolicy)
    if is_on_policy:  # PPO and A2C give it to them beside `policy_kwargs`
        options = {**options, "use_sde": data["use_sde"]}
    policy = make(data["observation_space"], data["action_space"], lambda _: 0.0, **options)
    policy.load_state_dict(parameters["policy"])
    policy.set_training_mode(False)
    normalize = statistics and pickle.loads(statistics.read_bytes()).normalize_obs
    if normalize is None and is_on_policy and data.get("_last_original_obs") is not None:
        _LOG.warning(
            "%s was trained in a VecNormalize. Without its statistics the policy gets other "
            "observations than in training; give them by `--vecnormalize FILE`.",
            path,
        )

    from_env = to_zero(envs.single_observation_space)
    to_env = from_zero(envs.single_action_space)

    def act(obs: Any) -> Any:
        obs = from_env(obs)
        obs = obs if normalize is None else normalize(obs)
        actions, _ = policy.predict(obs, deterministic=True)
        return to_env(actions)

    return act
