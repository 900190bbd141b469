"""Partial resets touch their rows only, and actions have many forms."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")

from envpool_runs import act_all, leaves_of, make
from trees import assert_same

MASK = np.array([True, False, True, False])


def rows(returned: Any, mask: np.ndarray) -> list[Any]:
    """Return some rows of what a step returned, infos of ends aside."""
    obs, *results, infos = returned
    engine = {key: value for key, value in infos.items() if "final" not in key}
    parts = [part for tree in (obs, engine) for part in leaves_of(tree)] + results
    return [part[mask] for part in parts]


@pytest.mark.parametrize("task_id", ["CartPole-v1", "LunarLander-v3", "MiniGrid-Empty-5x5-v0"])
def test_partial_reset__leaves_the_other_rows_as_they_are(task_id: str, mode: str) -> None:
    """Every third call is a partial reset of the same rows; a twin without them is the measure."""
    envs, twin = (make(task_id, 4, mode, max_episode_steps=11) for _ in range(2))
    assert_same(envs.reset(seed=3), twin.reset(seed=3))
    ended = 0
    for step in range(45):
        actions = act_all(envs, 0, step)
        found, expected = envs.step(actions), twin.step(actions)
        assert_same(rows(found, ~MASK), rows(expected, ~MASK))
        overs = [outcome[2] | outcome[3] for outcome in (found, expected)]
        ended += overs[1][~MASK].sum()
        if step % 3 == 0:
            obs, infos = envs.reset(options={"reset_mask": MASK})
            before = leaves_of(found[0])
            assert_same([leaf[~MASK] for leaf in leaves_of(obs)], [leaf[~MASK] for leaf in before])
            np.testing.assert_array_equal(infos["_elapsed_step"], MASK)
            assert not infos["elapsed_step"].any()
            overs[0] &= ~MASK
        if mode == "Disabled":
            for batch, over in zip((envs, twin), overs, strict=True):
                if over.any():
                    batch.reset(options={"reset_mask": over})
    assert ended > 4


ACTION_FORMS: dict[str, tuple[str, Callable[[np.ndarray], Any]]] = {
    "int64": ("CartPole-v1", lambda actions: actions.astype(np.int64)),
    "every other of an array": ("CartPole-v1", lambda actions: np.repeat(actions, 2)[::2]),
    "big endian": ("CartPole-v1", lambda actions: actions.astype(">i4")),
    "float64": ("Pendulum-v1", lambda actions: actions.astype(np.float64)),
    "fortran": ("HalfCheetah-v5", np.asfortranarray),
    "every other row": ("HalfCheetah-v5", lambda actions: np.repeat(actions, 2, axis=0)[::2]),
}


@pytest.mark.parametrize("form", ACTION_FORMS)
def test_actions__may_have_many_forms(form: str) -> None:
    task_id, convert = ACTION_FORMS[form]
    envs, twin = make(task_id, 4), make(task_id, 4)
    assert_same(envs.reset(seed=1), twin.reset(seed=1))
    for step in range(12):
        actions = act_all(envs, 0, step)
        given = convert(actions)
        assert_same(envs.step(given), twin.step(actions))
        np.testing.assert_array_equal(given, actions)


def test_pool__goes_with_its_batch(mode: str) -> None:
    """No circle of references keeps its threads until the garbage collector runs."""
    gc.collect()
    gc.disable()
    before = len(os.listdir("/proc/self/task"))
    try:
        envs = make("CartPole-v1", 4, mode, num_threads=2)
        envs.reset(seed=0)
        assert len(os.listdir("/proc/self/task")) > before
        del envs
        assert len(os.listdir("/proc/self/task")) == before
    finally:
        gc.enable()
