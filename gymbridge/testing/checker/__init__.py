"""Checks any `gymnasium.vector.VectorEnv` against the rules of Gymnasium."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from gymnasium.vector import AutoresetMode

from gymbridge.core.requests import read_count
from gymbridge.testing.checker import declarations, lifecycle, replays, requests, seeds
from gymbridge.testing.checker.check import Check
from gymbridge.testing.checker.ledger import Ledger, StoppedError
from gymbridge.testing.checker.report import Evidence, Report, Result
from gymbridge.testing.checker.rules import RULES, Rule, Rules
from gymbridge.testing.checker.values import attempt, read_mode

__all__ = ["RULES", "Evidence", "Report", "Result", "Rule", "check_vector_env"]


def check_vector_env(make_env: Callable[..., Any], *, steps: int = 1000, seed: int = 0) -> Report:
    """Check a vector environment against the rules of Gymnasium, and against some of our own.

    The check records a run of the environment and repeats it, unchanged and with one thing changed
    at a time. An error of a call becomes evidence in the report; an error of `make_env` is raised.

    Args:
        make_env: Returns a new, independent environment, built in the same way each time. It is
            called up to three times. If it has a parameter `autoreset_mode`, it is called once
            more with NextStep where its environments have SameStep, to compare final
            observations. Without the parameter, their `spec` is used for this.
        steps: Batch steps of the longest run, at least 1. More steps reach more ends of episodes.
        seed: First seed. The same seed gives the same check.

    Returns:
        The outcome of every rule, with its evidence.

    Raises:
        ArgumentError: `steps` is below 1, or `seed` below 0.

    Example:
        >>> import gymnasium as gym
        >>> from gymbridge.testing import check_vector_env
        >>> def make_env():
        ...     return gym.make_vec("Acrobot-v1", 3, vectorization_mode="sync")
        >>> report = check_vector_env(make_env, steps=50)
        >>> report.raise_if_broken()
        >>> [rule.id for rule in report.extras if rule.outcome == "broken"]
        ['options-unchanged', 'refused-step', 'pickle', 'closed-refused']
    """
    steps, seed = read_count("steps", steps), read_count("seed", seed, least=0)
    ledger, made, check = Ledger(), [], None
    try:
        made.append(make_env())
        made.append(make_env())
        declarations.check_declarations(made[0], made[1], ledger)
        if declarations.can_be_driven(made[0], ledger):
            made.append(make_env())
            check = Check(make_env, made, ledger, seed, steps)
            _run(check)
        else:
            ledger.note_stop("the environment lacks what calls need")
    finally:
        for envs in made:
            with contextlib.suppress(Exception):  # `check_close` has reported it.
                envs.close()
    mode = read_mode(made[0])
    return Report(
        env=_name(made[0]),
        mode=mode.value if mode else None,
        seed=seed,
        steps=check.progress.num_steps if check else 0,
        terminations=check.statistics.ends["termination"] if check else 0,
        truncations=check.statistics.ends["truncation"] if check else 0,
        results=tuple(
            ledger.judge(rule, mode) for rule in RULES if mode is None or mode in rule.modes
        ),
    )


_REPEATS = (Rules.SEED_REPEATS,)

_PROBES: tuple[tuple[Callable[[Check], None], AutoresetMode | None, tuple[Rule, ...]], ...] = (
    (seeds.check_seeds, None, ()),
    (seeds.check_unseeded_reset, None, ()),
    (seeds.check_clearing, None, _REPEATS),
    (replays.check_ignored_actions, AutoresetMode.NEXT_STEP, _REPEATS),
    (replays.check_neighbours, None, _REPEATS),
    (replays.check_writes, None, _REPEATS),
    (requests.check_action_list, None, _REPEATS),
    (lifecycle.check_attributes, None, ()),
    (lifecycle.check_frames, None, ()),
    (lifecycle.check_spec, None, ()),
    (lifecycle.check_pickle, None, ()),
    (replays.check_final_values, AutoresetMode.SAME_STEP, ()),
    (replays.check_restarts, AutoresetMode.NEXT_STEP, _REPEATS),
    (requests.check_masks, None, ()),
    (requests.check_mask_seeds, None, _REPEATS),
    (seeds.check_seed_forms, None, ()),
    (requests.check_mask_errors, None, ()),
    (requests.check_ended, AutoresetMode.DISABLED, _REPEATS),
    (requests.check_action_counts, None, ()),
    (requests.check_step_before_reset, None, ()),
    (lifecycle.check_close, None, ()),
)
"""Each with the only mode where it is made, and the rules without which it would show nothing.

Those that may leave an environment unusable come last.
"""


def _run(check: Check) -> None:
    """Record a run and probe the environments."""
    _probe(check, Check.run_record)
    if not check.record:
        return
    check.progress.end_first_run(len(check.record))
    for number, (probe, mode, needed) in enumerate(_PROBES, 1):
        name = probe.__name__.removeprefix("check_").replace("_", " ")
        check.progress.stage = f"Test {number} of {len(_PROBES)}, {name}"
        if mode in (None, check.driver.mode) and not check.ledger.is_broken(*needed):
            _probe(check, probe)
    check.statistics.finish(check.ledger)


def _probe(check: Check, probe: Callable[[Check], None]) -> None:
    try:
        probe(check)
    except StoppedError as stop:
        check.ledger.note_stop(str(stop))


def _name(envs: Any) -> str:
    text = attempt(str, envs)  # It may name attributes that the environment lacks.
    return type(envs).__name__ if isinstance(text, Exception) else text
