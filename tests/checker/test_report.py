"""What a report says, whatever is checked."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gymbridge.errors import ArgumentError, BrokenRulesError, GymbridgeError
from gymbridge.testing import RULES, check_vector_env
from gymbridge.testing.checker.ledger import Ledger, Place
from gymbridge.testing.checker.rules import Rule
from tests.support.offenders import NEXT, SAME, float_flags
from tests.support.offenders_of_ends import (
    final_observation_of_another,
    swapped_final_observations,
)
from tests.support.walks import Walk, make_walks

BOX = spaces.Box(-1, 1, (2,))
SOMETHING = {
    "num_envs": 2,
    "metadata": {},
    "single_observation_space": BOX,
    "single_action_space": BOX,
    "observation_space": BOX,
    "action_space": BOX,
}


@pytest.mark.parametrize(
    "made",
    [
        None,
        object(),
        Walk(),
        SimpleNamespace(**SOMETHING),
        SimpleNamespace(**SOMETHING, reset=lambda **_: None, step=lambda _: 1, close=lambda: 1 / 0),
        SimpleNamespace(**SOMETHING | {"num_envs": "two", "metadata": None}),
        gym.vector.VectorEnv(),
    ],
    ids=["None", "object", "Env", "spaces", "methods", "nonsense", "empty"],
)
def test_object__that_is_no_vector_env_breaks_rules_and_raises_nothing(made: Any) -> None:
    report = check_vector_env(lambda: made, steps=5)
    broken = {result.id for result in report.broken}
    assert ("vector-env" in broken) is not isinstance(made, gym.vector.VectorEnv)
    assert broken
    assert "seed-repeats" in {result.id for result in report.not_reached}
    assert str(report)


@pytest.mark.parametrize("numbers", [{"steps": 0}, {"steps": -3}, {"seed": -1}])
def test_number_out_of_its_range__is_refused(numbers: dict[str, int]) -> None:
    with pytest.raises(ArgumentError, match=f"`{next(iter(numbers))}` must be at least"):
        check_vector_env(partial(make_walks, NEXT), **numbers)


def test_broken_rule__has_its_evidence() -> None:
    report = check_vector_env(partial(make_walks, NEXT, kind=float_flags), steps=50, seed=7)
    (flags,) = report.broken
    assert flags.level == "gymnasium"
    assert flags.evidence is not None
    assert (flags.evidence.seed, flags.evidence.step) == (7, 1)
    assert flags.evidence.expected == "bool of shape (4,)"
    assert flags.evidence.seen == "float32 of shape (4,)"
    with pytest.raises(BrokenRulesError, match="flags: Terminations and truncations") as caught:
        report.raise_if_broken()
    assert isinstance(caught.value, GymbridgeError)
    assert isinstance(caught.value, AssertionError)
    assert "seed 7, step 1: expected bool of shape (4,); seen: float32" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["results"][0]["outcome"] == "held"


def test_check__is_the_same_for_the_same_seed() -> None:
    reports = [
        str(check_vector_env(partial(make_walks, SAME), steps=40, seed=seed)) for seed in (3, 3, 4)
    ]
    assert reports[1] == reports[0]
    assert reports[2] != reports[0]


def test_rule__that_was_not_reached_is_never_held() -> None:
    endless = check_vector_env(lambda: SyncVectorEnv([Walk] * 2), steps=2)
    unreached = {result.id for result in endless.not_reached}
    assert unreached >= {"final-observation", "next-step-reward", "reset-clears-ends"}
    cut = check_vector_env(
        lambda: gym.make_vec("Pendulum-v1", 2, vectorization_mode="sync", max_episode_steps=5),
        steps=30,
    )
    (reward,) = (result for result in cut.not_reached if result.id == "next-step-reward")
    assert (cut.terminations, reward.note) == (0, "Kept, but no termination was compared.")
    assert reward.evidence is not None


class Shifted(Walk):
    """A walk with other observations."""

    def _observe(self) -> np.ndarray:
        return super()._observe() + np.float32(0.1)


def make_same(task: type[Walk] = Walk, mode: AutoresetMode = SAME) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: task(7)] * 2, autoreset_mode=mode)


def refuse_next_step(autoreset_mode: AutoresetMode = SAME) -> SyncVectorEnv:
    if autoreset_mode != SAME:
        raise ValueError("no other mode")
    return make_same()


def stay_the_same(autoreset_mode: AutoresetMode = SAME) -> SyncVectorEnv:
    return make_same()


def be_another(autoreset_mode: AutoresetMode = SAME) -> SyncVectorEnv:
    return make_same(Walk if autoreset_mode == SAME else Shifted, autoreset_mode)


@pytest.mark.parametrize(
    ("make", "note"),
    [
        (make_same, "`make_env` takes no `autoreset_mode`, and there is no spec"),
        (refuse_next_step, "could be built: ValueError('no other mode')"),
        (stay_the_same, "With NextStep, no episode was the same"),
        (be_another, "With NextStep, no episode was the same"),
    ],
    ids=["no parameter", "error", "same mode", "other task"],
)
def test_final_values__without_a_reference_say_why(make: Any, note: str) -> None:
    report = check_vector_env(make, steps=40)
    (final,) = (result for result in report.not_reached if result.id == "same-step-final-value")
    assert note in final.note
    assert not report.broken


def test_one_environment__has_no_neighbours() -> None:
    report = check_vector_env(lambda: SyncVectorEnv([lambda: Walk(5)]), steps=60)
    assert not report.broken
    unreached = {result.id for result in report.not_reached}
    assert unreached - {"render", "spec", "limit-kept"} == {"independent-steps"}


def test_composite_spaces__are_checked_entry_by_entry() -> None:
    class Composite(Walk):
        observation_space = spaces.Dict(
            {"walk": Walk.observation_space, "pair": spaces.Tuple([spaces.Discrete(9)] * 2)}
        )
        action_space = spaces.Dict({"move": spaces.Discrete(3), "text": spaces.Text(4)})

        def _observe(self) -> Any:
            return {"walk": super()._observe(), "pair": (np.int64(self._step), np.int64(0))}

        def step(self, action: Any) -> Any:
            return super().step(action["move"])

    report = check_vector_env(lambda: SyncVectorEnv([lambda: Composite(5)] * 3), steps=60)
    assert not report.broken, report
    assert len(report.held) > 25


def test_rules__are_listed_in_the_documentation() -> None:
    path = Path(__file__).parents[2] / "docs" / "how-to" / "checker.md"
    page = path.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for rule in RULES:
        level = rule.level
        if rule.documented_in is not None:
            level = f"{level} with {rule.documented_in.value}, else extra"
        if len(rule.modes) < len(AutoresetMode):
            level += f"; {', '.join(mode.value for mode in rule.modes)}"
        row = f"| `{rule.id}` | {rule.sentence} | {level} | {rule.source} |"
        assert row in rows


def test_rules__have_ids_of_their_own() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES) > 50
    assert all(rule.sentence.endswith(".") and rule.source for rule in RULES)


@pytest.mark.parametrize("fault", [swapped_final_observations, final_observation_of_another])
def test_final_values__that_neighbours_change_are_found_without_a_reference(fault: Any) -> None:
    def make() -> SyncVectorEnv:
        return fault([lambda: Walk(7)] * 4, autoreset_mode=SAME)

    assert [result.id for result in check_vector_env(make, steps=120).broken] == [
        "same-step-final-value"
    ]


def test_ledger__holds_a_rule_of_ends_only_with_both_kinds() -> None:
    rule = Rule("Something.", "somewhere", of_ends=True)
    ledger = Ledger()
    assert ledger.judge(rule, None).outcome == "not reached"
    ledger.expect(rule, 1, 1, place=Place(0, 1, 2), kind="termination")
    assert ledger.judge(rule, None).note == "Kept, but no truncation was compared."
    ledger.expect(rule, 1, 1, kind="truncation")
    assert ledger.judge(rule, None).outcome == "held"
    ledger.expect(rule, 1, 2, place=Place(0, 5, 0), kind="truncation")
    ledger.expect(rule, 1, 3, kind="truncation")
    result = ledger.judge(rule, None)
    assert (result.outcome, result.count) == ("broken", 4)
    assert str(result.evidence) == "seed 0, step 5, env 0: expected 1; seen: 2"
