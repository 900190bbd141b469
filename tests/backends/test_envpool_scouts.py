"""First states drawn ahead of time are those that the rows begin with, and spare an exchange."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("envpool")

from envpool_runs import act_all, make
from trees import assert_same

from gymbridge.backends.envpool_tasks import load_tasks
from gymbridge.envpool import _DRAWS_IN_RESET
from gymbridge.errors import ResetNeededError, SimulationError

CHEAP = ("classic_control", "toy_text")

BLACKJACK = ("Blackjack-v1", "tabular/Blackjack-v0")
"""Its steps draw cards from the numbers that its next first state depends on."""

SCOUTED = sorted(
    task_id
    for task_id, task in load_tasks().items()
    if task["family"] in CHEAP and task_id not in BLACKJACK
)


def has_scouts(envs: Any) -> bool:
    return envs._simulator.scouts is not None


def play(envs: Any, num_steps: int, *, seed: int | None = 11) -> list[Any]:
    """Return a run with partial resets, before which rows are late, and full ones on the way."""
    log: list[Any] = [] if seed is None else [envs.reset(seed=seed)]
    for step in range(num_steps):
        log.append(envs.step(act_all(envs, 3, step)))
        if step % 29 == 5:
            mask = (np.arange(envs.num_envs) + step) % 3 == 0
            log.append(envs.reset(options={"reset_mask": mask}))
        if step % 71 == 70:
            log.append(envs.reset())
    return log


def step_on(envs: Any) -> None:
    """Take steps until many episodes have ended."""
    for step in range(100):
        envs.step(act_all(envs, 3, step))


def count_ends(log: list[Any]) -> int:
    return sum(int((shown[2] | shown[3]).sum()) for shown in log if len(shown) == 5)


@pytest.mark.parametrize("limit", [None, 5])
@pytest.mark.parametrize("task_id", SCOUTED)
def test_scouted_batch__shows_what_two_exchanges_show(task_id: str, limit: int | None) -> None:
    ahead, asked = (
        make(task_id, 6, "SameStep", max_episode_steps=limit, num_threads=num_threads)
        for num_threads in (1, 2)
    )
    log = play(ahead, 240)
    assert_same(log, play(asked, 240))
    assert (has_scouts(ahead), has_scouts(asked)) == (True, False)
    assert limit is None or count_ends(log) > 100


def test_scouts__are_there_for_cheap_tasks_that_draw_in_resets_alone() -> None:
    for task_id in (*SCOUTED, *BLACKJACK, "HalfCheetah-v5"):
        for mode in ("SameStep", "NextStep", "Disabled"):
            envs = make(task_id, 2, mode)
            envs.reset(seed=0)
            assert has_scouts(envs) == (task_id in SCOUTED and mode == "SameStep")
            envs.close()
            assert not has_scouts(envs)


def test_step__is_one_exchange_in_nearly_every_case() -> None:
    envs = make("CartPole-v1", 64, "SameStep")
    envs.reset(seed=0)
    pool = envs._simulator.pool
    received: list[int] = []

    class Counting:
        """The pool, with its answers counted."""

        _reset = pool._reset

        def _recv(self) -> Any:
            answers = pool._recv()
            received.append(len(answers[0]))
            return answers

    envs._simulator.pool = envs._simulator.scouts._pool = Counting()
    rng = np.random.default_rng(0)
    log = [envs.step(rng.integers(0, 2, 64)) for _ in range(400)]
    assert count_ends(log) > 1000
    assert 400 <= len(received) < 440
    assert sum(received) < 400 * 64 + 2.2 * count_ends(log), "each restart is made by row and scout"


def test_infos__of_a_scouted_batch_have_the_rows_own_ids() -> None:
    envs = make("CartPole-v1", 3, "SameStep", info_keys="all")
    envs.reset(seed=0)
    for _ in range(30):  # an episode lasts about ten
        infos = envs.step(np.zeros(3, int))[4]
        assert infos["env_id"].tolist() == [0, 1, 2]
        assert infos["players"]["env_id"].tolist() == [0, 1, 2]


def test_engine__has_the_size_of_the_batch() -> None:
    envs = make("CartPole-v1", 3, "SameStep")
    obs, _ = envs.reset(seed=0)
    assert obs.shape == (3, 4)
    assert envs.get_attr("config")[0].num_envs == 3


def test_tasks__are_those_that_the_constructor_knows() -> None:
    """A new task of these families has scouts when somebody has seen that it may have them."""
    assert set(SCOUTED) == _DRAWS_IN_RESET


@pytest.mark.parametrize(
    ("task_id", "limit", "call"),
    [
        ("CartPole-v1", None, step_on),
        ("Pendulum-v1", 3, step_on),  # all episodes are cut
        ("CartPole-v1", None, lambda envs: envs.reset(options={"reset_mask": np.arange(8) > 5})),
        ("CartPole-v1", None, lambda envs: envs.reset()),
    ],
    ids=["step", "cut", "partial reset", "reset"],
)
def test_rows__that_begin_elsewhere_than_their_scouts_are_an_error(
    task_id: str, limit: int | None, call: Any
) -> None:
    """As they would if a future EnvPool drew random numbers in the steps of such a task."""
    envs = make(task_id, 8, "SameStep", max_episode_steps=limit)
    envs.reset(seed=0)
    scouts = envs._simulator.scouts
    scouts._draw()
    scouts._banks[0] += 1
    with pytest.raises(SimulationError, match=r"Environments among \[.*call `reset\(\)`"):
        call(envs)
    with pytest.raises(ResetNeededError, match="cut short"):
        envs.step(act_all(envs, 0, 0))
    assert envs.reset()[1]["elapsed_step"].tolist() == [0] * 8
    play(envs, 100, seed=None)


def test_late_row__that_begins_elsewhere_is_an_error_before_a_reset_of_others() -> None:
    envs = make("CartPole-v1", 8, "SameStep")
    envs.reset(seed=0)
    steps = 0
    while envs._carry.state.late is None:
        envs.step(act_all(envs, 3, steps))
        steps += 1
    state = envs._carry.state
    state.values[envs._simulator.layout.obs_places[0]][state.late] += 1
    mask = np.ones(8, np.bool_)
    mask[state.late] = False
    with pytest.raises(SimulationError, match=r"Environments among \["):
        envs.reset(options={"reset_mask": mask})


def test_episodes_of_one_step__end_in_every_exchange() -> None:
    ahead, asked = (make("Catch-v0", 5, "SameStep", height=2, num_threads=n) for n in (1, 2))
    log = play(ahead, 40)
    assert_same(log, play(asked, 40))
    assert count_ends(log) == 5 * 40


@pytest.mark.parametrize("arrays", ["torch", "jax"])
def test_scouted_batch__shows_tensors_of_the_same_values(arrays: str) -> None:
    library = pytest.importorskip("torch" if arrays == "torch" else "jax.numpy")
    host = make("CartPole-v1", 6, "SameStep")
    other = make("CartPole-v1", 6, "SameStep", arrays=arrays)
    host.reset(seed=2)
    other.reset(seed=2)
    kept: list[Any] = []
    for step in range(120):
        actions = act_all(host, 3, step)
        kept.append((other.step(library.asarray(actions)), host.step(actions)))
    assert has_scouts(other)
    for tensors, values in kept:  # read late: nothing may have written into them since
        assert_same([np.asarray(tensor) for tensor in tensors[:4]], list(values[:4]))


def test_kept_observations__hold_no_memory_of_scouts() -> None:
    envs = make("CartPole-v1", 64, "SameStep")
    envs.reset(seed=0)
    for step in range(40):
        obs = envs.step(act_all(envs, 0, step))[0]
        assert obs.base is None


def test_interrupted_seed__leaves_the_pool_and_the_scouts_of_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted:
        def __init__(self, *args: Any) -> None:
            raise KeyboardInterrupt

    envs, other = make("CartPole-v1", 8, "SameStep"), make("CartPole-v1", 8, "SameStep")
    for batch in (envs, other):
        play(batch, 60)
    with monkeypatch.context() as patch:
        patch.setattr("gymbridge.backends.envpool.Scouts", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            envs.reset(seed=4)
    assert_same(play(envs, 60, seed=None), play(other, 60, seed=None))
