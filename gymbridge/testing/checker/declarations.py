"""Checks of what an environment declares before its first call."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_differing_spaces, batch_space

from gymbridge.testing.checker.ledger import Ledger
from gymbridge.testing.checker.rules import Rule, Rules
from gymbridge.testing.checker.values import read

__all__ = ["can_be_driven", "check_declarations", "single_observation_spaces"]

_SPACES = ("single_observation_space", "observation_space", "single_action_space", "action_space")


def check_declarations(envs: Any, another: Any, ledger: Ledger) -> None:
    """Check the attributes of an environment, and those of another from the same factory."""
    num_envs = read(envs, "num_envs")
    is_count = isinstance(num_envs, int) and num_envs > 0
    ledger.expect(Rules.VECTOR_ENV, "a VectorEnv", type(envs).__mro__, isinstance(envs, VectorEnv))
    ledger.expect(Rules.NUM_ENVS, "a positive int", num_envs, is_count)
    found = {name: type(read(envs, name)) for name in _SPACES}
    wrong = {name: kind for name, kind in found.items() if not issubclass(kind, gym.Space)}
    ledger.expect(Rules.SPACES, "four spaces", wrong or "four spaces")
    if is_count and not wrong:
        _check_batch_space(envs, ledger, Rules.BATCH_OBSERVATION_SPACE, "observation")
        _check_batch_space(envs, ledger, Rules.BATCH_ACTION_SPACE, "action")
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
    if ledger.expect(Rules.AUTORESET_MODE, "an AutoresetMode", mode, is_mode):
        attribute = read(envs, "autoreset_mode")
        ledger.expect(Rules.MODE_ATTRIBUTE, mode, attribute, attribute == mode)
    modes, render_mode = metadata.get("render_modes") or (), read(envs, "render_mode")
    is_known = render_mode is None or render_mode in modes
    ledger.expect(Rules.RENDER_MODE, f"None or one of {modes}", render_mode, is_known)
    other = read(another, "metadata")
    if isinstance(other, dict):
        note = "a note of the check"
        metadata[note] = True
        seen = "one dict for two instances" if note in other else "metadata of its own"
        del metadata[note]
        ledger.expect(Rules.OWN_METADATA, "metadata of its own", seen)


def can_be_driven(envs: Any, ledger: Ledger) -> bool:
    """Return whether an environment has the spaces and the methods that calls need."""
    methods = all(callable(read(envs, name)) for name in ("reset", "step", "close"))
    has_metadata = isinstance(read(envs, "metadata"), dict)
    return methods and has_metadata and not ledger.is_broken(Rules.NUM_ENVS, Rules.SPACES)
