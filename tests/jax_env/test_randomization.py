"""Physics drawn at the start of each episode: which episode has which, and where they are read."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from gymbridge.single_env import SingleEnv
from tests.support.batches import KINDS, MODES
from tests.support.brax_samples import episode_key
from tests.support.episode_runs import episodes
from tests.support.falling_ball import (
    PATHS,
    make_ball,
    play_values,
    shared_ball,
)
from tests.support.trees import assert_same

NUM_ENVS = 4
SEED = 3
STREAM = 0x70687973
"""What is folded into the key of an episode for its physics: seeds keep their draws by it."""


@pytest.mark.parametrize(("mode", "kind"), [*zip(MODES, KINDS, strict=True)])
def test_physics__are_those_of_seed_and_episode_in_every_call(mode: str, kind: str) -> None:
    envs = shared_ball(NUM_ENVS, autoreset_mode=mode, arrays=kind, max_episode_steps=7)
    for row, own in enumerate(episodes(envs, 25, SEED)):
        assert len(own) > 3
        for episode, wanted in zip(own, play_values(SEED + row, len(own)), strict=True):
            for moment in episode:
                found = moment.info["randomization"]
                assert found.keys() == wanted.keys()
                for path in PATHS:
                    np.testing.assert_allclose(found[path], wanted[path], rtol=1e-6)


def test_physics__do_not_change_the_key_of_reset() -> None:
    options = {"autoreset_mode": "NextStep", "max_episode_steps": 2}
    plain = make_ball(NUM_ENVS, randomization_fn=None, **options)
    envs = shared_ball(NUM_ENVS, **options)
    assert_same(envs.reset(seed=5)[0], plain.reset(seed=5)[0])
    for step in range(1, 10):
        (obs, *_), (expected, *_) = (batch.step(np.zeros((NUM_ENVS, 1))) for batch in (envs, plain))
        assert np.array_equal(obs, expected) == (step % 3 == 0)


def test_state__has_only_the_leaves_that_vary() -> None:
    options = {"arrays": "torch", "differentiable": True}
    fields = make_ball(2, **options).physics_state_fields
    plain = make_ball(2, randomization_fn=None, **options).physics_state_fields
    assert set(fields) == {*plain, *(f"physics.{path}" for path in PATHS)}
    sizes = {name: place.stop - place.start for name, place in fields.items()}
    assert (sizes["physics.gravity"], sizes["physics.link.mass"]) == (3, 1)


def test_diverged_row__keeps_its_physics() -> None:
    envs = shared_ball(NUM_ENVS)
    _, before = envs.reset(seed=0)
    actions = np.zeros((NUM_ENVS, 1), np.float32)
    actions[1] = np.inf
    _, _, terminations, _, infos = envs.step(actions)
    assert infos["nonfinite"].tolist() == [False, True, False, False] == terminations.tolist()
    assert_same(infos["randomization"], before["randomization"])


def test_single_environment__has_its_physics_in_the_info() -> None:
    env = SingleEnv(make_ball(1, autoreset_mode="Disabled"))
    first = env.reset(seed=0)[1]["randomization"]["gravity"]
    assert first.shape == (3,)
    after = env.step(np.zeros(1, np.float32))[4]["randomization"]["gravity"]
    np.testing.assert_array_equal(after, first)
    assert env.reset()[1]["randomization"]["gravity"][2] != first[2]
    options = {"randomization": {"gravity": np.float32([[0, 0, -1]])}}
    assert env.reset(options=options)[1]["randomization"]["gravity"].tolist() == [0, 0, -1]


def test_draw__has_a_stream_of_its_own_folded_from_the_key_of_the_episode() -> None:
    seen: list[Any] = []

    def draw_key(model: Any, key: jax.Array) -> dict[str, Any]:
        return {"gravity": jax.random.normal(key, (3,))}

    envs = make_ball(2, randomization_fn=draw_key, autoreset_mode="Disabled")
    for episode in range(2):
        infos = envs.reset(seed=SEED if episode == 0 else None)[1]
        for row in range(2):
            key = episode_key(SEED + row, episode)
            wanted = jax.random.normal(jax.random.fold_in(key, STREAM), (3,))
            found = infos["randomization"]["gravity"][row]
            np.testing.assert_array_equal(found, wanted)
            assert (found != jax.random.normal(key, (3,))).any()
            seen.append(found)
    assert len(np.unique(np.stack(seen), axis=0)) == 4
