"""The key property: whatever a user calls, a batch gives what `SyncVectorEnv` gives.

Two differences are documented and encoded here: rewards keep the engine's float (`SyncVectorEnv`
widens them to float64), and an end by the task's own rule on the last allowed step is terminated
only, which `ScriptedEnv` does by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from gymbridge import BridgeVectorEnv
from gymbridge.errors import EpisodeEndedError
from gymbridge.testing import scripted_vector_env
from tests.support.batches import shared_batch
from tests.support.scripted_rows import ScriptedEnv, make_brax_env
from tests.support.strategies import Reset, Script, Step, calls, limits, scripts, seeds
from tests.support.trees import assert_same

SCRIPT_SEEDS = st.integers(0, 2**32 - 16)
BRAX_SEEDS = st.sampled_from([0, 1, 5, 77, 2**31 - 1, 2**32 - 16])
"""Few, since the reference repeats each draw of an episode by itself."""


class Witness(gym.Wrapper[Any, Any, Any, Any]):
    """A reference environment that counts what the examples reach."""

    def __init__(self, env: gym.Env[Any, Any], limit: int | None, seen: Counter[str]) -> None:
        super().__init__(env)
        self._limit, self._seen = limit, seen

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        late = self._limit is not None and obs >= self._limit
        self._seen["terminated"] += terminated
        self._seen["tie"] += terminated and late
        self._seen["cut by the limit"] += truncated and late
        self._seen["cut by the task"] += truncated and not late
        return obs, reward, terminated, truncated, info


def make_host_reference(
    script: Script, mode: str, limit: int | None, seen: Counter[str]
) -> SyncVectorEnv:
    rows = zip(*script, strict=True)
    makers = [lambda row=row: Witness(ScriptedEnv(*row, limit), limit, seen) for row in rows]
    return SyncVectorEnv(makers, autoreset_mode=mode)


def make_brax_reference(
    num_envs: int, mode: str, limit: int | None, seen: Counter[str]
) -> SyncVectorEnv:
    makers = [lambda: Witness(make_brax_env(limit), limit, seen)] * num_envs
    return SyncVectorEnv(makers, autoreset_mode=mode)


class Duet:
    """Our batch and the reference, which get the same calls and must give the same results."""

    def __init__(self, ours: BridgeVectorEnv, reference: SyncVectorEnv, seen: Counter[str]) -> None:
        self.ours, self.reference, self.seen = ours, reference, seen
        self.ended = np.zeros(ours.num_envs, np.bool_)

    def begin(self, seed: Any) -> None:
        """Reset both for the first time; the reference with the seeds that ours reports."""
        returned = self.ours.reset(seed=seed)
        self._compare(returned, self.reference.reset(seed=list(self.ours.np_random_seed)))
        self.ended[:] = False

    def play(self, sequence: Iterable[Step | Reset]) -> None:
        for call in sequence:
            if isinstance(call, Step):
                self._step(call.actions)
            else:
                self._reset(call)

    def _reset(self, call: Reset) -> None:
        kind = "full reset" if call.mask is None else "partial reset"
        self.seen[kind] += 1
        self.seen[f"{kind}, list with gaps"] += isinstance(call.seed, list) and None in call.seed
        left_alone = call.mask is not None and bool((self.ended > call.mask).any())
        self.seen["ended row left alone"] += left_alone
        self._compare(
            self.ours.reset(seed=call.seed, options=_options(call.mask)),
            self.reference.reset(seed=call.seed, options=_options(call.mask)),
        )
        self.ended &= False if call.mask is None else ~call.mask

    def _step(self, actions: np.ndarray) -> None:
        if self.ended.any() and self.ours.autoreset_mode == AutoresetMode.DISABLED:
            # The reference breaks off half-way here, so only ours is asked.
            with pytest.raises(EpisodeEndedError):
                self.ours.step(actions)
            self._reset(Reset(None, self.ended.copy()))
        obs, rewards, *flags, infos = self.ours.step(actions)
        assert rewards.dtype == np.float32
        expected = self.reference.step(actions)
        self._compare((obs, rewards.astype(np.float64), *flags, infos), expected)
        self.seen["final_obs"] += "final_obs" in infos
        self.ended = flags[0] | flags[1]

    def _compare(self, returned: Any, expected: Any) -> None:
        assert_same(returned, expected)
        assert self.ours.np_random_seed == self.reference.np_random_seed


def _options(mask: np.ndarray | None) -> dict[str, Any] | None:
    """Return options of their own for each call: `SyncVectorEnv` takes the mask out of them."""
    return None if mask is None else {"reset_mask": mask.copy()}


def assert_reached(seen: Counter[str], mode: str, limit: Any = ...) -> None:
    """Raise if the examples never came to something that the property speaks of."""
    wanted = {"terminated", "cut by the task", "full reset", "partial reset"}
    wanted |= {"full reset, list with gaps", "partial reset, list with gaps"}
    if limit is not None:
        wanted |= {"tie", "cut by the limit"}
    if mode == "SameStep":
        wanted.add("final_obs")
    else:
        wanted.add("ended row left alone")
    assert not {kind for kind in wanted if seen[kind] < 5}, seen


@pytest.mark.parametrize(("native", "examples"), [("numpy", 200), ("torch", 120)])
def test_host_batch__equals_sync_vector_env(mode: str, native: str, examples: int) -> None:
    if native == "torch":
        pytest.importorskip("torch")
        from tests.support.tensor_script import tensor_vector_env as make
    else:
        make = scripted_vector_env
    seen: Counter[str] = Counter()

    @settings(max_examples=examples)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        script, limit = data.draw(scripts()), data.draw(limits())
        num_envs = len(script.lengths)
        ours = make(*script, max_episode_steps=limit, autoreset_mode=mode)
        duet = Duet(ours, make_host_reference(script, mode, limit, seen), seen)
        duet.begin(data.draw(seeds(num_envs, SCRIPT_SEEDS)))
        duet.play(data.draw(calls(num_envs, SCRIPT_SEEDS)))

    check()
    assert_reached(seen, mode)


@pytest.mark.parametrize(("num_envs", "limit"), [(3, None), (10, 3)])
def test_brax_batch__equals_sync_vector_env(mode: str, num_envs: int, limit: int | None) -> None:
    ours = shared_batch("brax", mode, num_envs=num_envs, limit=limit)
    seen: Counter[str] = Counter()

    @settings(max_examples=40)
    @given(BRAX_SEEDS, calls(num_envs, BRAX_SEEDS))
    def check(seed: int, sequence: list[Step | Reset]) -> None:
        duet = Duet(ours, make_brax_reference(num_envs, mode, limit, seen), seen)
        duet.begin(seed)
        duet.play(sequence)

    check()
    assert_reached(seen, mode, limit)
