"""The scripted episodes on which the parts of `examples/ppo.py` are tested."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from gymnasium.vector.utils import batch_space

__all__ = ["LENGTHS", "NUM_STEPS", "TRUNCATES", "joined", "spaces_of"]

# Three environments whose episodes end in both ways, on the rollout's last row too (the third at
# step 4 of the first rollout), so that the second rollout begins with a restart row.
LENGTHS = [[2, 3, 1], [4, 1, 2], [5, 2, 2]]
TRUNCATES = [[False, True, True], [True, False, True], [True, False, False]]
NUM_STEPS = 5


def spaces_of(observation_space, action_space):
    """What an agent reads of a batch."""
    return SimpleNamespace(
        single_observation_space=observation_space,
        single_action_space=action_space,
        observation_space=batch_space(observation_space, 2),
        unwrapped=SimpleNamespace(arrays="numpy"),
    )


def joined(rollouts, name):
    """Return a field of all rollouts, one after the other."""
    return np.concatenate([getattr(rollout, name).numpy() for rollout, _ in rollouts])
