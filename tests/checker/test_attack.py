"""Correct environments of unusual kinds break no rule, and nonsense raises nothing."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

from gymbridge.testing import Report, check_vector_env
from tests.support.offenders import DISABLED, NEXT, SAME, after_steps
from tests.support.walking_tasks import TASKS, Bandit, DifferentBounds, Level, Refuses, SideWalk
from tests.support.walks import BROKEN_BY_SYNC, Walk, ids, make_walks


def check(make: Any, steps: int = 40, seed: int = 0) -> Report:
    report = check_vector_env(make, steps=steps, seed=seed)
    print(report)
    return report


def take_mode(tasks: list[Any], mode: AutoresetMode | str, **options: Any) -> Any:
    """Return a factory from which the check can have a reference with another mode."""
    return lambda autoreset_mode=mode: SyncVectorEnv(
        tasks, autoreset_mode=autoreset_mode, **options
    )


def assert_correct(report: Report, *extras: str) -> None:
    assert not report.broken
    assert ids(report, "broken") - BROKEN_BY_SYNC == set(extras)


@pytest.mark.parametrize(
    ("task", "mode"),
    [(task, SAME) for task in TASKS] + [*zip(TASKS, itertools.cycle([NEXT, DISABLED]))],
)
def test_correct_task__breaks_no_rule(
    task: Callable[[], gym.Env[Any, Any]], mode: AutoresetMode
) -> None:
    report = check(take_mode([task] * 4, mode))
    assert_correct(report, *({"fresh-states"} if task is Level else ()))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("task", [SideWalk, Bandit])
def test_equal_by_chance__breaks_no_rule(task: Any, seed: int, mode: str) -> None:
    report = check(take_mode([task], mode), 100, seed)
    assert_correct(report)


def test_spaces_and_limits_of_their_own__break_no_rule(mode: str) -> None:
    tasks = [partial(DifferentBounds, scale) for scale in (3, 1, 2)]
    assert_correct(check(take_mode(tasks, mode, observation_mode="different")))
    assert_correct(check(take_mode([partial(Walk, limit) for limit in (1, 5, 8)], mode)))


@pytest.mark.parametrize(
    ("num_envs", "limit", "mode"), [*((1, 1, mode) for mode in AutoresetMode), (32, 3, SAME)]
)
def test_all_sizes__break_no_rule(num_envs: int, limit: int, mode: AutoresetMode) -> None:
    assert_correct(check(take_mode([partial(Walk, limit)] * num_envs, mode), 20))


@pytest.mark.filterwarnings("ignore:.*Calling `close` while waiting")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of `__del__`
def test_worker_that_fails_after_an_end__breaks_no_rule() -> None:
    options: Any = {"context": "forkserver", "autoreset_mode": DISABLED}
    report = check(lambda: AsyncVectorEnv([Refuses] * 2, **options), 30)
    assert_correct(report, "pickle")
    gc.collect()


@pytest.mark.parametrize(
    ("wrapper", "rule", "extras"),
    [
        (wrappers.RecordEpisodeStatistics, None, {"inner-info-masks", "mode-attribute"}),
        (partial(wrappers.ClipReward, max_reward=1.0), None, {"mode-attribute", "pickle"}),
        (wrappers.FlattenObservation, None, {"pickle"}),
        (wrappers.NormalizeReward, "seed-repeats", set()),
        (wrappers.DictInfoToList, "reset-returns", set()),
    ],
    ids=["statistics", "clip", "flatten", "normalize", "list"],
)
def test_wrapper__breaks_no_rule_of_gymnasium_unless_it_is_no_vector_env_any_more(
    wrapper: Any, rule: str | None, extras: set[str]
) -> None:
    report = check(lambda: wrapper(make_walks(NEXT)), 60)
    if rule is not None:
        assert [result.id for result in report.broken] == [rule]
        return
    assert_correct(report, "set-attr", *extras)
    assert not report.not_reached


class Arrays(SyncVectorEnv):
    """Returns arrays in place of tuples."""

    def get_attr(self, name: str) -> Any:
        return np.array(super().get_attr(name))

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return np.array(super().call(name, *args, **kwargs))


class FramesOfAllSizes(SyncVectorEnv):
    """Returns frames that do not fit together, in a list."""

    def render(self) -> Any:
        return [np.zeros((env + 1, 2, 3), np.uint8) for env in range(self.num_envs)]


class Raises(SyncVectorEnv):
    """Raises at each seventh step."""

    count = 0

    def step(self, actions: Any) -> Any:
        Raises.count += 1
        if Raises.count % 7 == 0:
            raise RuntimeError("a step failed")
        return super().step(actions)


def lists(returned: Any) -> Any:
    *arrays, infos = returned
    return *(array.tolist() for array in arrays), infos


def nones(returned: Any) -> Any:
    return None, None, None, None, {}


def infos_without_sense(returned: Any) -> Any:
    infos = {"a": None, "_a": 3, "b": {}, "_b": None, "c": "s", "final_obs": 3}
    return *returned[:-1], infos


class Properties(SyncVectorEnv):
    """Has attributes that raise."""

    np_random_seed = property(lambda self: 1 / 0)
    spec = property(lambda self: 1 / 0, lambda self, spec: None)

    def close(self, **kwargs: Any) -> None:
        raise RuntimeError("it cannot be closed")


class DonatesResults(SyncVectorEnv):
    """Deletes the observations of the call before, as JAX does with a buffer that is donated."""

    _last: Any = None

    def step(self, actions: Any) -> Any:
        obs, *rest = super().step(actions)
        if self._last is not None:
            self._last.delete()
        self._last = sys.modules["jax"].numpy.asarray(obs)
        return self._last, *rest


def test_result__that_was_deleted_breaks_ownership() -> None:
    pytest.importorskip("jax")
    report = check(lambda: make_walks(SAME, kind=DonatesResults))
    (result,) = report.broken
    assert result.id == "ownership"
    assert "Array has been deleted" in str(result.evidence)


@pytest.mark.parametrize(
    ("kind", "rules"),
    [
        (Arrays, {"seed-recorded"}),
        (FramesOfAllSizes, {"render"}),
        (Raises, {"step-returns"}),
        (after_steps(lists), {"observations"}),
        (after_steps(nones), {"observations"}),
        (after_steps(infos_without_sense), {"info-lengths", "info-masks"}),
        (Properties, {"seed-recorded", "close"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_nonsense__breaks_rules_and_raises_nothing(
    kind: type[SyncVectorEnv], rules: set[str]
) -> None:
    report = check(lambda: make_walks(SAME, kind=kind))
    assert rules <= {result.id for result in report.broken}
