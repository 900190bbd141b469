"""Random good and bad calls of a batch: the rules of Hypothesis's state machine."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from gymbridge.errors import ArgumentError, SimulationError
from tests.support.batches import to_kind, to_numpy
from tests.support.call_pair import NUM_ENVS, POOLS, CallPair
from tests.support.garbage import (
    Bad,
    Huge,
    bad_actions,
    bad_masks,
    bad_options,
    bad_seeds,
    bad_states,
)
from tests.support.strategies import Actions, actions, masks, seeds
from tests.support.trees import assert_same

CLOSES_AFTER = 25  # calls

STATEFUL = ("brax", "fast")

SEEDS = st.sampled_from([0, 1, 5, 77, 2**31 - 1, 2**31, 2**32 - 16, 2**32, 2**64, Huge(2**20_000)])
"""Few, since the oracle repeats each draw of the Brax script by itself."""

NEVER_GOOD = [("render",), ("set_attr", "action_space", 1), ("set_attr", "mine", [1])]
NEVER_GOOD += [("get_state",), ("set_state", None)]  # of EnvPool


def _own(name: str) -> st.SearchStrategy[Any]:
    """Return the strategy that the running machine has under that name."""
    return st.runner().flatmap(lambda machine: machine.strategies[name])


class CallMachine(CallPair):
    """Calls a batch; see `CallPair`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.strategies = _make_strategies(self.envs)

    @initialize(has_begun=st.sampled_from([True, True, True, False]))
    def begin(self, has_begun: bool) -> None:
        if has_begun or self.setup.is_shared:
            self.begin_episodes(7, None)

    @rule(seed=_own("seeds"), mask=st.none() | masks(NUM_ENVS), data=st.data())
    def reset(self, seed: Any, mask: np.ndarray | None, data: st.DataObject) -> None:
        given = mask
        if mask is not None and data.draw(st.booleans()):
            given = to_kind(mask, self.setup.kind)
        options = data.draw(st.sampled_from([None, {}])) if mask is None else {"reset_mask": given}
        errors = self.state_errors(needs_reset=mask is not None and not mask.all())
        if self.setup.engine in POOLS:
            errors |= self.pool_errors(seed, mask)
        if errors:
            self.refuse(errors, "reset", seed=seed, options=options)
        else:
            self.begin_episodes(seed, mask, options)

    @rule(
        seed=_own("seeds"),
        bad_seed=_own("bad seeds"),
        options=_own("bad options"),
        actions=_own("actions"),
    )
    def reset_badly(self, seed: Any, bad_seed: Bad, options: Bad, actions: Actions) -> None:
        errors = self.state_errors()
        whole = {"reset_mask": np.ones(NUM_ENVS, np.bool_)}
        self.refuse(errors | bad_seed.errors, "reset", seed=bad_seed.value)
        self.refuse(errors | bad_seed.errors, "reset", seed=bad_seed.value, options=whole)
        self.refuse(errors | options.errors, "reset", seed=seed, options=options.value)
        both = errors | bad_seed.errors | options.errors
        self.refuse(both, "reset", seed=bad_seed.value, options=options.value)
        self.step_all(actions)

    @rule(run=_own("runs"), begins_ended=st.booleans())
    def step(self, run: list[Actions], begins_ended: bool) -> None:
        for one in run:
            self.step_all(one)
            if begins_ended and self.is_open and self.ended.any():
                self.begin_episodes(None, self.ended.copy(), {"reset_mask": self.ended.copy()})

    @rule(bad=_own("bad actions"), actions=_own("actions"))
    def step_badly(self, bad: Bad, actions: Actions) -> None:
        errors = self.state_errors(needs_reset=True, stepped=np.ones(NUM_ENVS, np.bool_))
        self.refuse(errors | bad.errors, "step", bad.value)
        self.step_all(actions)

    @rule(actions=_own("actions"), mask=masks(NUM_ENVS), data=st.data())
    def step_some(self, actions: Actions, mask: np.ndarray, data: st.DataObject) -> None:
        errors = self.state_errors(needs_reset=True, stepped=mask)
        errors |= set() if self.setup.mode == "Disabled" else {ArgumentError}
        given = to_kind(mask, data.draw(st.sampled_from(["numpy", self.setup.kind])))
        if errors:
            self.refuse(errors, "step_some", actions.given, given)
        else:
            self.check_step(self.compare("step_some", (actions.given, given)), actions, mask)

    @rule(actions=_own("actions"), bad=_own("bad actions"), mask=_own("bad masks"))
    def step_some_badly(self, actions: Actions, bad: Bad, mask: Bad) -> None:
        whole = np.ones(NUM_ENVS, np.bool_)
        errors = self.state_errors(needs_reset=True, stepped=whole)
        errors |= set() if self.setup.mode == "Disabled" else {ArgumentError}
        self.refuse(errors | mask.errors, "step_some", actions.given, mask.value)
        self.refuse(errors | bad.errors, "step_some", bad.value, whole)
        self.refuse(errors | bad.errors | mask.errors, "step_some", bad.value, mask.value)
        self.step_all(actions)

    @precondition(lambda self: self.setup.engine in STATEFUL)
    @rule()
    def get_state(self) -> None:
        errors = self.state_errors(needs_reset=True)
        if errors:
            self.refuse(errors, "get_state")
        else:
            self.count("get_state")
            states = self.envs.get_state(), self.twin.get_state()
            assert_same(*(to_numpy((dict(state.leaves), state.seeds)) for state in states))
            rows = copy.deepcopy(self.oracle.rows) if self.oracle else None
            self.snapshots.append((*states, rows, self.ended.copy()))

    @precondition(lambda self: self.snapshots and self.is_open)
    @rule(data=st.data())
    def set_state(self, data: st.DataObject) -> None:
        self.count("set_state")
        state, others, rows, ended = data.draw(st.sampled_from(self.snapshots))
        assert_same(to_numpy(self.envs.set_state(state)), to_numpy(self.twin.set_state(others)))
        assert self.envs.np_random_seed == state.seeds
        self.ended = ended.copy()
        if self.oracle:
            self.oracle.rows = copy.deepcopy(rows)

    @precondition(lambda self: self.setup.engine in STATEFUL)
    @rule(data=st.data())
    def set_state_badly(self, data: st.DataObject) -> None:
        bad = data.draw(bad_states(self.snapshots[-1][0] if self.snapshots else None))
        self.refuse(self.state_errors() | bad.errors, "set_state", bad.value)

    @rule(call=st.sampled_from(NEVER_GOOD))
    def call_what_it_has_not(self, call: Any) -> None:
        if "state" not in call[0]:
            self.refuse(self.state_errors() or {ArgumentError}, *call)
        elif self.setup.engine in POOLS:
            self.refuse({SimulationError}, *call)

    @precondition(lambda self: not self.setup.is_shared and self.num_calls > CLOSES_AFTER)
    @rule()
    def close(self) -> None:
        self.count("close")
        self.envs.close()
        self.twin.close()
        self.is_open = False


def _make_strategies(envs: Any) -> dict[str, st.SearchStrategy[Any]]:
    space, kind = envs.single_action_space, envs.arrays
    return {
        "seeds": seeds(NUM_ENVS, SEEDS),
        "actions": actions(space, NUM_ENVS, kind),
        "runs": st.lists(actions(space, NUM_ENVS, kind), min_size=1, max_size=5),
        "bad seeds": bad_seeds(NUM_ENVS),
        "bad options": bad_options(NUM_ENVS, kind),
        "bad masks": bad_masks(NUM_ENVS, kind),
        "bad actions": bad_actions(space, NUM_ENVS, kind),
    }
