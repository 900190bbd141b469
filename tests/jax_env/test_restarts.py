"""Which states an episode begins in, and what a restart costs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import torch
from gymnasium import spaces

from gymbridge import BraxVectorEnv
from tests.support.batches import to_numpy
from tests.support.brax_samples import SampleEnv, count_on, start
from tests.support.player import calls, play
from tests.support.point_mass import make_batch as make_masses
from tests.support.trees import assert_same


def reset_at_once(envs: Any) -> Any:
    """Let a batch on the CPU reset as one on an accelerator does; before its first call."""
    assert envs._simulator._resets_in_chunks
    envs._simulator._resets_in_chunks = False
    return envs


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_resets_of_all_rows_at_once__give_what_chunks_give(mode: str) -> None:
    """With gradients, which differ by an ulp: the two programs are not the same."""
    found = []
    for change in (lambda envs: envs, reset_at_once):
        envs = change(make_masses(num_envs=10, autoreset_mode=mode, max_episode_steps=4))
        actions = torch.linspace(-1, 1, 20).reshape(10, 2).requires_grad_()
        log, loss = play(envs, 3), torch.zeros(())
        # From here on some rows end before the others.
        log.append(to_numpy(envs.reset(options={"reset_mask": np.arange(10) % 3 == 0})))
        kinds = set()
        for call in calls(envs, 6, begins=False, act=lambda _, actions=actions: actions):
            log.append(call.found)
            if not call.is_reset:
                loss = loss + call.returned[1].sum()
                kinds.add(len(set(call.found[3].tolist())))
        assert kinds == {1, 2}
        loss.backward()
        found.append((log, to_numpy(actions.grad)))
    assert_same(found[1][0], found[0][0])
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-6)
    assert np.abs(found[0][1]).min() > 0


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("is_accelerator", [False, True])
def test_restarts__cost_nothing_without_ends_and_at_most_about_one_full_reset(
    mode: str, is_accelerator: bool
) -> None:
    """The environment reports each of its resets that is really run, and ends on command."""
    run: list[Any] = []

    def reset(rng: jax.Array) -> Any:
        jax.debug.callback(lambda draw: run.append(draw), jax.random.bits(rng))
        return start(rng)

    env = SampleEnv(
        reset,
        lambda state, act: count_on(state, 1.0 * act, done=1.0 * act[0]),
        action_space=spaces.MultiBinary(1),
    )
    envs = BraxVectorEnv(env, 64, autoreset_mode=mode)
    if is_accelerator:
        reset_at_once(envs)
    envs.reset(seed=0)
    costs = []
    for ends in (0, 1, 20, 64):
        jax.effects_barrier()
        run.clear()
        actions = (np.arange(64) < ends)[:, None].astype(np.int8)
        envs.step(actions)
        if mode == "NextStep":
            envs.step(np.zeros((64, 1), np.int8))
        jax.effects_barrier()
        costs.append(len(run))
    nothing, one, some, full = costs
    assert nothing == 0
    assert 64 <= full <= 64 + one
    assert one == some == full == 64 if is_accelerator else 1 <= one < some < full
