"""A batch beside a twin that gets only the good calls, and a bad call that changes nothing.

What good calls return is to the bit what the twin's return, and what plain Python says. A bad call
raises an error that its method documents, and leaves the run as if it had not been made.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections import Counter
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from gymnasium.vector import VectorEnv
from hypothesis.stateful import RuleBasedStateMachine

from gymbridge.errors import (
    ArgumentError,
    ClosedError,
    EpisodeEndedError,
    GymbridgeError,
    ResetNeededError,
)
from tests.support.batches import SCRIPTED, make_batch, to_numpy
from tests.support.oracle import Oracle, Row
from tests.support.scripted_rows import OwnScripted
from tests.support.strategies import Actions
from tests.support.trees import assert_same, scribble

NUM_ENVS, LIMIT = 3, 4

POOLS = ("envpool", "frozen_lake", "pendulum")


class Setup(NamedTuple):
    """What kind of batch is called."""

    engine: str
    mode: str
    kind: str
    is_shared: bool  # it lives on after an example, so it is never closed

    def make(self) -> Any:
        """Return a batch."""
        options = {"num_envs": NUM_ENVS, "limit": LIMIT, "arrays": self.kind}
        return make_batch(self.engine, self.mode, **options)

    def make_pair(self) -> Any:
        """Return a batch and its twin, new ones if they are not shared."""
        return _shared_pair(self) if self.is_shared else (self.make(), self.make())


@cache
def _shared_pair(setup: Setup) -> Any:
    return setup.make(), setup.make()


class CallPair(RuleBasedStateMachine):
    """The batch, its twin, the oracle of a scripted task, and what a user knows of their state.

    Args:
        setup: Kind of batch.
        seen: Counts the calls, good and bad, and the ends of episodes.
    """

    def __init__(self, setup: Setup, seen: Counter[str]) -> None:
        super().__init__()
        self.setup, self.seen = setup, seen
        self.envs, self.twin = setup.make_pair()
        self.oracle: Oracle | None = None
        if setup.engine in SCRIPTED:
            rows = [Row(OwnScripted(setup.engine, row), LIMIT) for row in range(NUM_ENVS)]
            self.oracle = Oracle(self.envs, rows)
        self.is_open, self.has_begun = True, False
        self.ended = np.zeros(NUM_ENVS, np.bool_)
        self.snapshots: list[Any] = []
        self.num_calls = 0
        self.refuses_ended = setup.mode == "Disabled" and (
            setup.kind == "numpy" or setup.engine in ("host", *POOLS)
        )

    def step_all(self, actions: Actions) -> None:
        """Make a good step of every environment, or one that is refused in this state."""
        errors = self.state_errors(needs_reset=True, stepped=np.ones(NUM_ENVS, np.bool_))
        if errors:
            self.refuse(errors, "step", actions.given)
        else:
            self.check_step(self.compare("step", (actions.given,)), actions)

    def check_step(self, found: Any, actions: Actions, mask: np.ndarray | None = None) -> None:
        """Compare what a good step returned with the oracle, and note the ends."""
        if self.oracle:
            self.oracle.check_step(found, actions.values, mask)
        over = found[2] | found[3]
        self.seen["ends"] += int(over.sum())
        self.ended = over if self.setup.mode == "Disabled" else self.ended

    def state_errors(
        self, *, needs_reset: bool = False, stepped: np.ndarray | None = None
    ) -> set[type[Exception]]:
        """Return the errors of a call with good arguments; none if it is good."""
        if not self.is_open:
            return {ClosedError}
        if needs_reset and not self.has_begun:
            return {ResetNeededError}
        if stepped is not None and self.refuses_ended and (self.ended & stepped).any():
            return {EpisodeEndedError}
        return set()

    def pool_errors(self, seed: Any, mask: np.ndarray | None) -> set[type[Exception]]:
        """Return the errors of seeds that a pool cannot take once it is built."""
        given = [entry is not None for entry in seed] if isinstance(seed, list) else [True]
        if seed is None or not any(given) or not self.has_begun:
            return set()
        is_partial = mask is not None and not mask.all()
        return {ArgumentError} if is_partial or not all(given) else set()

    def begin_episodes(self, seed: Any, mask: np.ndarray | None, options: Any = None) -> None:
        """Make a good reset."""
        whole = np.ones(NUM_ENVS, np.bool_) if mask is None else mask
        seeds = [seed + row for row in range(NUM_ENVS)] if isinstance(seed, int) else seed
        seeds = seeds or [None] * NUM_ENVS
        known, args = self.envs.np_random_seed, {"seed": seed, "options": options}
        if not self.has_begun:  # the system's seeds are taken; the twin is given them
            seeds = [old if new is None else new for old, new in zip(known, seeds, strict=True)]
            args["seed"] = seeds
        found = self.compare("reset", (), {"seed": seed, "options": options}, args)
        if self.oracle:
            for row, new, at in zip(self.oracle.rows, seeds, whole, strict=True):
                if at and new is not None:
                    row.env.seed(new)
            self.oracle.check_reset(found, whole)
        rows = zip(seeds, whole, known, strict=True)
        wanted = tuple(old if new is None or not at else new for new, at, old in rows)
        assert self.envs.np_random_seed == wanted
        self.has_begun, self.ended = True, self.ended & ~whole

    def compare(
        self,
        method: str,
        args: tuple[Any, ...],
        kwargs: Any = MappingProxyType({}),
        twin_s: Any = None,
    ) -> Any:
        """Make a good call of both, spoil what went in and out, and return copies of the latter."""
        self.count(method)
        mine, other = (copy.deepcopy((args, dict(some))) for some in (kwargs, twin_s or kwargs))
        returned = getattr(self.envs, method)(*mine[0], **mine[1])
        found = to_numpy(returned)
        assert_same(to_numpy(mine), to_numpy((args, dict(kwargs))), f"what {method} took")
        _spoil((mine, returned))
        assert_same(found, to_numpy(getattr(self.twin, method)(*other[0], **other[1])), method)
        return found

    def refuse(self, errors: Any, method: str, *args: Any, **kwargs: Any) -> None:
        """Make a bad call, which raises one of these errors."""
        self.count(f"bad {method}")
        before = self.envs.np_random_seed, self.envs.closed
        with pytest.raises(GymbridgeError) as caught:
            getattr(self.envs, method)(*args, **kwargs)
        assert type(caught.value) in errors, caught.value
        assert type(caught.value).__name__ in _documented(type(self.envs), method), caught.value
        assert (self.envs.np_random_seed, self.envs.closed) == before

    def count(self, name: str) -> None:
        self.seen[name] += 1
        self.num_calls += 1


def _spoil(tree: Any) -> None:
    """Write into all arrays and lists that can be written."""
    if isinstance(tree, dict | list | tuple):
        for value in tree.values() if isinstance(tree, dict) else tree:
            _spoil(value)
    if isinstance(tree, list | np.ndarray):
        scribble(tree)
    elif hasattr(tree, "fill_"):
        tree.fill_(1)


@cache
def _documented(batch: type[VectorEnv], method: str) -> frozenset[str]:
    """Return the names of the errors that a method's docstring lists."""
    raises = (inspect.getdoc(getattr(batch, method)) or "").partition("Raises:")[2]
    more = _documented(batch, "step") if method == "step_some" else frozenset()
    return more | set(re.findall(r"\w+Error", raises))
