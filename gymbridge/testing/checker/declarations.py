"""Rules about what an environment declares before its first call."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_differing_spaces, batch_space

from gymbridge.testing.checker.rule import Ledger, Rule, extra
from gymbridge.testing.checker.values import read

__all__ = ["can_be_driven", "check_declarations", "single_observation_spaces"]

_BASE = "vector/vector_env.py, `VectorEnv`"
_BATCHES = "tests/vector/testing_utils.py; vector/sync_vector_env.py, `SyncVectorEnv.__init__`"

VECTOR_ENV = Rule("vector-env", "The factory returns a `gymnasium.vector.VectorEnv`.", _BASE)
NUM_ENVS = Rule("num-envs", "`num_envs` is a positive int.", _BASE)
SPACES = Rule("spaces", "The four spaces are `gymnasium.Space`s.", _BASE)
BATCH_OBSERVATIONS = Rule(
    "batch-observation-space",
    "`observation_space` is `batch_space(single_observation_space, num_envs)`.",
    _BATCHES,
    needs="a space that is equal to a copy of itself",
)
BATCH_ACTIONS = Rule(
    "batch-action-space",
    "`action_space` is `batch_space(single_action_space, num_envs)`.",
    _BATCHES,
    needs="a space that is equal to a copy of itself",
)
AUTORESET_MODE = Rule(
    "autoreset-mode",
    '`metadata["autoreset_mode"]` is an `AutoresetMode`.',
    "vector/vector_env.py, `VectorEnv`; envs/registration.py, `make_vec`",
)
RENDER_MODE = Rule(
    "render-mode",
    '`render_mode` is None or one of `metadata["render_modes"]`.',
    "core.py, `Env.render`; wrappers/vector/rendering.py",
)
MODE_ATTRIBUTE = extra(
    "mode-attribute",
    "`autoreset_mode` is also an attribute, equal to that in `metadata`.",
    "vector/sync_vector_env.py, `SyncVectorEnv.__init__`",
    needs="`autoreset-mode` to hold",
)
OWN_METADATA = extra(
    "own-metadata",
    "Each instance has its own `metadata`: a change in one is not seen in another.",
    "tests/vector/test_sync_vector_env.py, `test_metadata_sync_vector_env`",
    needs="`metadata` that is a dict",
)

_SPACES = ("single_observation_space", "observation_space", "single_action_space", "action_space")


def check_declarations(envs: Any, another: Any, ledger: Ledger) -> None:
    """Check the attributes of an environment, and those of another from the same factory."""
    num_envs = read(envs, "num_envs")
    is_count = isinstance(num_envs, int) and num_envs > 0
    ledger.expect(VECTOR_ENV, "a VectorEnv", type(envs).__mro__, isinstance(envs, VectorEnv))
    ledger.expect(NUM_ENVS, "a positive int", num_envs, is_count)
    found = {name: type(read(envs, name)) for name in _SPACES}
    wrong = {name: kind for name, kind in found.items() if not issubclass(kind, gym.Space)}
    ledger.expect(SPACES, "four spaces", wrong or "four spaces")
    if is_count and not wrong:
        for rule, kind in ((BATCH_OBSERVATIONS, "observation"), (BATCH_ACTIONS, "action")):
            _check_batch_space(envs, ledger, rule, kind)
    _check_metadata(envs, another, ledger)


def _check_batch_space(envs: Any, ledger: Ledger, rule: Rule, kind: str) -> None:
    single, space = getattr(envs, f"single_{kind}_space"), getattr(envs, f"{kind}_space")
    expected = batch_space(single, envs.num_envs)
    if expected != batch_space(single, envs.num_envs):
        return  # A user's own space may differ even from a copy of itself.
    if kind == "observation" and _has_different_spaces(envs):
        expected = batch_differing_spaces(single_observation_spaces(envs))
    ledger.expect(rule, expected, space, space == expected)


def _has_different_spaces(envs: Any) -> bool:
    """Return whether the spaces of environments differ, as `SyncVectorEnv` lets them."""
    return read(read(envs, "unwrapped"), "observation_mode") == "different"


def single_observation_spaces(envs: Any) -> list[gym.Space[Any]]:
    """Return the observation space of each environment."""
    if _has_different_spaces(envs) and read(envs, "unwrapped") is envs:
        return list(envs.get_attr("observation_space"))
    return [envs.single_observation_space] * envs.num_envs


def _check_metadata(envs: Any, another: Any, ledger: Ledger) -> None:
    metadata = read(envs, "metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    mode = metadata.get("autoreset_mode")
    is_mode = isinstance(mode, AutoresetMode)
    ledger.expect(AUTORESET_MODE, "an AutoresetMode", mode, is_mode)
    if is_mode:
        attribute = read(envs, "autoreset_mode")
        ledger.expect(MODE_ATTRIBUTE, mode, attribute, attribute == mode)
    modes, render_mode = metadata.get("render_modes") or (), read(envs, "render_mode")
    is_known = render_mode is None or render_mode in modes
    ledger.expect(RENDER_MODE, f"None or one of {modes}", render_mode, is_known)
    other = read(another, "metadata")
    if isinstance(other, dict):
        note = "a note of the check"
        metadata[note] = True
        seen = "one dict for two instances" if note in other else "metadata of its own"
        del metadata[note]
        ledger.expect(OWN_METADATA, "metadata of its own", seen)


def can_be_driven(envs: Any, ledger: Ledger) -> bool:
    """Return whether an environment has the spaces and the methods that calls need."""
    methods = all(callable(read(envs, name)) for name in ("reset", "step", "close"))
    has_metadata = isinstance(read(envs, "metadata"), dict)
    return methods and has_metadata and not ledger.is_broken(NUM_ENVS, SPACES)
