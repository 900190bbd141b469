"""What wrappers refuse, and what they keep: order, gradients, snapshots, the user's arrays."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import RescaleAction as OneRescaled
from gymnasium.wrappers import vector

from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError, EnvContractError
from gymbridge.trainers.cleanrl import CleanRLVectorEnv
from gymbridge.wrappers import (
    ClipReward,
    FrameStackObservation,
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
    RescaleAction,
)
from tests.support.batches import Cell, cells, make_batch, shared_batch, to_kind, to_numpy
from tests.support.player import play
from tests.support.reads import count_reads
from tests.support.trees import assert_same, spoil

ACTIONS = np.zeros((4, 1), np.float32)


def wrap(envs: Any, *, records: bool = False) -> Any:
    """Return a batch in all wrappers."""
    envs = RescaleAction(envs, -2, 2)
    envs = RecordEpisodeStatistics(envs) if records else envs
    envs = FrameStackObservation(NormalizeObservation(envs, clip=5), 2)
    return ClipReward(NormalizeReward(envs, statistics="env"), -0.5, 0.5)


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda e: NormalizeObservation(FrameStackObservation(e, 2)), "put FrameStackObservation arou"),
    (lambda e: NormalizeObservation(NormalizeObservation(e)), "leave one out"),
    (lambda e: NormalizeReward(ClipReward(e, 0)), "put ClipReward around NormalizeReward"),
    (lambda e: NormalizeReward(vector.ClipReward(e, 0, 1)), "no ClipReward inside NormalizeReward"),
    (lambda e: RecordEpisodeStatistics(NormalizeReward(e)), "put NormalizeReward around"),
    (lambda e: FrameStackObservation(FrameStackObservation(e, 2), 2), "leave one out"),
    (lambda e: NormalizeObservation(e, 0), "`epsilon` must be a positive number, got 0"),
    (lambda e: NormalizeObservation(e, float("nan")), "`epsilon`"),
    (lambda e: NormalizeObservation(e, clip=-1), "`clip` must be a positive number, got -1"),
    (lambda e: NormalizeObservation(e, statistics="all"), "`statistics` must be 'batch'.*'all'"),
    (lambda e: NormalizeReward(e, 1.5), "`gamma` must be a number from 0 to 1, got 1.5"),
    (lambda e: ClipReward(e), "`min_reward` and `max_reward` must be numbers"),
    (lambda e: ClipReward(e, 2, 1), "in this order"),
    (lambda e: ClipReward(e, "0"), "must be numbers"),
    (lambda e: RescaleAction(e, 1, 1), "`min_action` and `max_action` must be finite numbers"),
    (lambda e: RescaleAction(e, -np.inf, 1), "finite"),
    (lambda e: RescaleAction(e, [-1, -1], 1), r"arrays of shape \(1,\)"),
    (lambda e: FrameStackObservation(e, 0), "`stack_size` must be at least 1, got 0"),
    (lambda e: FrameStackObservation(e, 2, padding_type="none"), "`padding_type` .*got 'none'"),
    (lambda e: FrameStackObservation(e, 2, padding_type=ACTIONS), "`padding_type`"),
]


@pytest.mark.parametrize(("make", "words"), WRONG)
def test_wrong_order_or_argument__is_refused(make: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        make(shared_batch("fast", arrays="torch"))


def test_other_spaces_and_types__are_refused() -> None:
    frozen = gym.make_vec("FrozenLake-v1", 2)
    with pytest.raises(ArgumentError, match="must have observations in Boxes"):
        NormalizeObservation(frozen)
    with pytest.raises(ArgumentError, match="must have actions in a bounded Box"):
        RescaleAction(frozen, -1, 1)
    for wrapper in (NormalizeReward, NormalizeObservation, ClipReward):
        with pytest.raises(ArgumentTypeError, match=r"`env` must be a gymnasium\.vector"):
            wrapper(gym.make("CartPole-v1"), 0.5)
    with pytest.raises(ArgumentTypeError, match="`stack_size` must be an int"):
        FrameStackObservation(frozen, 1.5)


def test_infos_of_another_layout__are_refused_where_final_observations_are_missing() -> None:
    view = CleanRLVectorEnv(make_batch("host", "SameStep"))
    envs = NormalizeObservation(view)
    envs.reset(seed=0)
    with pytest.raises(EnvContractError, match=r"environments \[2\] without .*put this wrapper"):
        envs.step(np.ones(4, np.int64))


def test_refused_actions__change_nothing(kind: str) -> None:
    envs = wrap(make_batch("fast", "SameStep", arrays=kind))
    envs.reset(seed=0)
    count = envs.env.return_rms.count
    for wrong in (ACTIONS[:3], ACTIONS.repeat(2, 1)):
        with pytest.raises(ActionError, match=r"must have shape \(4, 1\)"):
            envs.step(to_kind(wrong, kind))
    assert (envs.env.return_rms.count == count).all()


def test_actions__are_stretched_as_gymnasium_does(kind: str) -> None:
    class Echo(gym.Env[Any, Any]):
        action_space = spaces.Box(np.float32([-1, 3]), np.float32([2, 7]))
        observation_space = spaces.Box(-99, 99, (2,))

        def step(self, action: Any) -> Any:
            return action, 0.0, False, False, {}

    low, high = np.float32(-0.5), np.float32([0.25, 3.0])
    batch = make_batch("fast", arrays=kind)
    batch.single_action_space = Echo.action_space
    taken = []
    batch.step = lambda actions: (taken.append(actions), 0, 0, 0, {})
    envs, one = RescaleAction(batch, low, high), OneRescaled(Echo(), low, high)
    assert envs.single_action_space == one.action_space
    drawn = np.float32([[-0.5, 3.0], [0.1, 0.2], [0.25, -0.5], [4, 5]])
    for actions in (drawn, to_kind(drawn, kind)):
        envs.step(actions)
        wanted = [one.step(action)[0] for action in drawn]
        np.testing.assert_allclose(to_numpy(taken[-1]), wanted, 1e-5, 1e-6)
        assert type(taken[-1]) is type(to_kind(drawn, kind))


def test_rewards__are_clipped_and_keep_their_dtype(kind: str) -> None:
    plain, *batches = (make_batch("host", arrays=kind) for _ in range(4))
    bounds = (
        {"min_reward": 1},
        {"max_reward": np.float64(1.1)},
        {"min_reward": 1, "max_reward": 1.1},
    )
    for batch, given in zip(batches, bounds, strict=True):
        envs = ClipReward(batch, **given)
        for one in (envs, plain):
            one.reset(seed=0)
        wanted = to_numpy(plain.step(np.array([0, 1, 2, 1]))[1])
        found = to_numpy(envs.step(np.array([0, 1, 2, 1]))[1])
        limits = given.get("min_reward"), given.get("max_reward")
        np.testing.assert_allclose(found, wanted.clip(*limits), 1e-6)
        assert found.dtype == wanted.dtype


def test_dict__is_normalised_and_stacked_by_its_leaves(kind: str) -> None:
    envs = make_batch("host", "SameStep", arrays=kind)
    box = envs.single_observation_space
    envs.single_observation_space = spaces.Dict({"one": box, "more": spaces.Dict({"two": box})})
    step, reset = envs.step, envs.reset

    def spread(obs: Any) -> Any:
        return {"one": obs, "more": {"two": obs + 1}}

    def step_dict(actions: Any) -> Any:
        obs, *rest, infos = step(actions)
        final = infos.get("final_obs")
        if kind == "numpy" and final is not None:
            rows = [None if row is None else spread(row) for row in final]
            infos["final_obs"] = np.array(rows, object)
        elif final is not None:
            infos["final_obs"] = spread(final)
        return spread(obs), *rest, infos

    envs.reset = lambda **kwargs: (spread(reset(**kwargs)[0]), {})
    envs.step = step_dict
    wrapped = FrameStackObservation(NormalizeObservation(envs), 2)
    twin = FrameStackObservation(
        NormalizeObservation(make_batch("host", "SameStep", arrays=kind)), 2
    )
    assert wrapped.single_observation_space["more"]["two"].shape == (2,)
    for one in (wrapped, twin):
        one.reset(seed=0)
    for _ in range(9):
        (obs, *_, infos), (wanted, *_, wanted_infos) = (
            to_numpy(one.step(np.ones(4, np.int64))) for one in (wrapped, twin)
        )
        np.testing.assert_allclose(obs["one"], wanted)
        np.testing.assert_allclose(obs["more"]["two"].shape, wanted.shape)
        for index, row in enumerate(wanted_infos.get("final_obs", ())):
            found = infos["final_obs"]
            if kind == "numpy" and row is not None:
                np.testing.assert_allclose(found[index]["one"], row)
            elif kind != "numpy":
                np.testing.assert_allclose(found["one"][index], row)
    assert wrapped.env.obs_rms["more"]["two"].mean == pytest.approx(
        wrapped.env.obs_rms["one"].mean + 1, abs=1e-5
    )


def test_frozen_moments__stay_and_can_be_those_of_another_run(kind: str, tmp_path: Path) -> None:
    envs, other = (NormalizeObservation(make_batch("fast", arrays=kind)) for _ in range(2))
    envs.reset(seed=0)
    envs.step(ACTIONS)
    envs.update_running_mean = False
    before = envs.obs_rms
    last = envs.step(ACTIONS)[0]
    np.savez(tmp_path / "moments.npz", **before._asdict())
    other.obs_rms = before._replace(**np.load(tmp_path / "moments.npz"))
    other.update_running_mean = False
    other.reset(seed=0)
    for _ in range(2):
        obs = other.step(ACTIONS)[0]
    assert_same(to_numpy(obs), to_numpy(last))
    for moments in (envs.obs_rms, other.obs_rms, pickle.loads(pickle.dumps(envs)).obs_rms):
        assert_same(moments._asdict(), before._asdict())
    with pytest.raises(
        ArgumentError, match=r"`moments.mean` must be an array of shape \(2,\), got"
    ):
        other.obs_rms = before._replace(mean=np.zeros(3))
    with pytest.raises(ArgumentError, match=r"`moments.mean` .*got nothing"):
        other.obs_rms = 3


def play_steps(envs: Any, num_steps: int, **options: Any) -> list[Any]:
    """Return what calls return, without the seconds of episodes."""
    found = play(envs, num_steps, **options)
    for call in found:
        call[-1].get("episode", {}).pop("t", None)
    return found


@pytest.mark.parametrize("cell", cells(("fast", "two_devices")))
def test_snapshot__has_the_state_of_every_wrapper(cell: Cell, tmp_path: Path) -> None:
    engine, kind, mode = cell
    pytest.importorskip(kind)

    def make(arrays: str) -> Any:
        envs = make_batch(engine, mode, limit=3, arrays=arrays)
        if engine == "fast":
            return wrap(envs, records=True)
        envs = NormalizeObservation(RecordEpisodeStatistics(envs))
        return NormalizeReward(FrameStackObservation(envs, 2))

    envs, other = make(kind), make(kind)
    play_steps(envs, 5)
    current = to_numpy(envs.get_state().leaves["FrameStackObservation.obs"])
    envs.save_state(tmp_path / "state")
    wanted = play_steps(envs, 6, begins=False)
    assert any(call[-1]["_episode"].any() for call in wanted if "_episode" in call[-1])
    for batch in (envs, other):
        assert_same(to_numpy(batch.load_state(tmp_path / "state")), current)
        assert_same(play_steps(batch, 6, begins=False), wanted)
    state = envs.get_state()
    with pytest.raises(ArgumentError, match="NormalizeReward"):
        envs.unwrapped.set_state(state)
    with pytest.raises(ArgumentError, match="NormalizeReward=nothing"):
        envs.set_state(envs.unwrapped.get_state())
    twin = NormalizeObservation(make_batch(engine, mode, limit=3, arrays=kind), epsilon=1e-3)
    with pytest.raises(ArgumentError, match=r"has NormalizeObservation=\{.*0\.001"):
        twin.set_state(state)


def test_gradients__pass_observations_and_rewards_and_stop_at_detach() -> None:
    torch = pytest.importorskip("torch")
    options = {"arrays": "torch", "differentiable": True}
    envs, plain = (make_batch("fast", "SameStep", **options) for _ in range(2))
    stacked = FrameStackObservation(NormalizeObservation(envs), 2)
    envs = NormalizeReward(stacked)
    actions = torch.zeros(4, 1, requires_grad=True)
    for one in (envs, plain):
        one.reset(seed=0)
    obs, rewards, *_ = envs.step(actions)
    raw, raw_rewards, *_ = plain.step(actions)
    var = torch.tensor(stacked.env.obs_rms.var).sqrt()
    [found] = torch.autograd.grad(obs[:, 1].sum() + rewards.sum(), actions, retain_graph=True)
    scaled = (raw / var).sum() + (raw_rewards / np.sqrt(envs.return_rms.var)).sum()
    [wanted] = torch.autograd.grad(scaled, actions)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
    current = envs.detach()
    torch.testing.assert_close(current, obs)
    assert not current.requires_grad
    next_obs, rewards, *_ = envs.step(actions)
    (next_obs.sum() + rewards.sum()).backward()


def test_step__reads_no_value(arrays: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    envs = wrap(make_batch("fast", mode, limit=2, arrays=arrays), records=True)
    actions, mask = to_kind(ACTIONS, arrays), to_kind(np.array([True, False] * 2), arrays)

    def run() -> None:
        for _ in range(4):
            envs.step(actions)
        if mode == "Disabled":
            envs.step_some(actions, np.array([True, False] * 2))

    envs.reset(seed=0)
    run()  # compiles
    envs.reset(options={"reset_mask": mask})
    with count_reads("jax", monkeypatch) as simulated, count_reads(arrays, monkeypatch) as counter:
        run()
    copies = simulated["numpy"]  # small tensors on the CPU are copies by numpy
    assert (counter.total(), simulated.total()) == (0, copies if arrays == "torch" else 0)


def test_returned_arrays__belong_to_the_user(kind: str, mode: str) -> None:
    runs = []
    for touch in (lambda call: None, spoil(kind)):
        envs = wrap(make_batch("fast", mode, limit=3, arrays=kind), records=True)
        runs.append(play_steps(envs, 8, touch=touch))
    assert_same(runs[1], runs[0])
