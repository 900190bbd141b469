"""TorchRL's `GymWrapper` takes our batches as they are."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("torch")
pytest.importorskip("torchrl")
pytest.importorskip("envpool")

import torch
from torchrl import collectors
from torchrl.envs import GymEnv, GymWrapper, SerialEnv, StepCounter, TransformedEnv
from torchrl.envs.utils import check_env_specs

MODES = ("SameStep", "Disabled")
TASKS = {
    "discrete": ("EnvPool/CartPole-v1", {}),
    "box": ("EnvPool/Pendulum-v1", {"max_episode_steps": 5}),
    "dict": ("EnvPool/CheetahRun-v1", {"max_episode_steps": 5}),
    "discrete observations": ("EnvPool/FrozenLake-v1", {}),
    "atari": ("EnvPool/Pong-v5", {"info_keys": ["lives"]}),
    "playground": ("EnvPool/BarkourJoystick-v1", {"info_keys": ["elapsed_step"]}),
    "brax": ("Brax/fast-v0", {"max_episode_steps": 5}),
}


def wrap(env_id: str, mode: str, **kwargs: Any) -> GymWrapper:
    envs = gym.make_vec(env_id, num_envs=4, autoreset_mode=mode, **kwargs)
    is_discrete = isinstance(envs.action_space, gym.spaces.MultiDiscrete)
    return GymWrapper(envs, categorical_action_encoding=is_discrete)


@pytest.mark.parametrize(
    ("task", "mode"),
    [
        *((task, "Disabled") for task in TASKS),
        *((task, "SameStep") for task in ("discrete", "dict", "discrete observations", "atari")),
    ],
)
def test_specs__are_what_comes(task: str, mode: str) -> None:
    env_id, kwargs = TASKS[task]
    if env_id.startswith("Brax"):
        pytest.importorskip("brax")
    envs = gym.make_vec(env_id, num_envs=4, autoreset_mode=mode, **kwargs)
    # One-hot, its default, TorchRL cannot compare integers of observations in SAME_STEP.
    env = GymWrapper(envs, categorical_action_encoding=task == "discrete observations")
    check_env_specs(env)
    assert env.batch_size == (4,)


def test_infos_named_like_torchrl_s_entries__fail_in_same_step_alone() -> None:
    """The documented exception; if this one passes, the documentation is to be shortened."""
    check_env_specs(wrap("EnvPool/Pong-v5", "Disabled"))
    with pytest.raises(RuntimeError, match=r"incompatible.*for key reward"):
        wrap("EnvPool/Pong-v5", "SameStep")
    check_env_specs(wrap("EnvPool/BarkourJoystick-v1", "Disabled"))
    with pytest.raises(AssertionError, match="spec check failed at root"):
        wrap("EnvPool/BarkourJoystick-v1", "SameStep")


def play(mode: str, num_steps: int = 60) -> Any:
    """Return a rollout of a fixed policy whose episodes end one by one."""
    env = wrap("EnvPool/CartPole-v1", mode)
    env.set_seed(0)

    def act(td: Any) -> Any:
        return td.set("action", (td["observation"][..., 0] > 0).long())

    return env.rollout(num_steps, policy=act, break_when_any_done=False)


def test_rollouts__agree_between_the_modes() -> None:
    same_step, disabled = (play(mode) for mode in MODES)
    ends = disabled["next", "done"][..., 0]
    assert not ends.all(0).any(), "TorchRL resets the whole batch where every row ends at once"
    assert_final_observations(disabled)
    for key in disabled.keys(include_nested=True, leaves_only=True):
        assert torch.equal(same_step[key], disabled[key]), key


def assert_final_observations(rollout: Any) -> None:
    """Each episode ends in its final observation, with the pole down, and the next one is upright.

    Args:
        rollout: Of CartPole, (..., steps).
    """
    ends = rollout["next", "done"][..., :-1, 0]
    final, initial = rollout["next", "observation"][..., :-1, :], rollout["observation"][..., 1:, :]
    assert ends.sum() > 10
    assert ((final[..., 2].abs() > 0.2) | (final[..., 0].abs() > 2.4))[ends].all()
    assert (initial[ends].abs() < 0.06).all()
    assert torch.equal(final[~ends], initial[~ends])


def test_collector__collects() -> None:
    make = getattr(collectors, "Collector", None) or collectors.SyncDataCollector
    env = wrap("EnvPool/CartPole-v1", "SameStep")
    collector = make(env, None, frames_per_batch=80, total_frames=240)
    batches = list(collector)
    collector.shutdown()
    assert [batch.shape for batch in batches] == [(4, 20)] * 3
    assert sum(int(batch["next", "done"].sum()) for batch in batches) > 3


def test_next_step__is_refused_by_torchrl() -> None:
    with pytest.raises(RuntimeError, match="SAME_STEP or DISABLED"):
        wrap("EnvPool/CartPole-v1", "NextStep")


def test_batch_of_tensors__gives_the_rollout_of_a_numpy_batch() -> None:
    """TorchRL brings numpy actions, which every batch takes."""
    rollouts = []
    for arrays in ("numpy", "torch"):
        torch.manual_seed(0)
        env = wrap("EnvPool/CartPole-v1", "SameStep", arrays=arrays)
        env.set_seed(0)
        rollouts.append(env.rollout(40, break_when_any_done=False))
    assert rollouts[0]["next", "done"].any()
    for key in ("observation", "reward", "terminated", "truncated"):
        torch.testing.assert_close(rollouts[1]["next", key], rollouts[0]["next", key])


def test_step_counter__needs_disabled() -> None:
    """In SAME_STEP it fails with any batch, also with Gymnasium's own."""

    def count_steps(mode: str) -> Any:
        torch.manual_seed(0)
        env = TransformedEnv(wrap("EnvPool/CartPole-v1", mode), StepCounter(15), auto_unwrap=True)
        env.set_seed(0)
        return env.rollout(60, break_when_any_done=False)

    with pytest.raises(RuntimeError, match="reset mask that does not match the done mask"):
        count_steps("SameStep")
    rollout = count_steps("Disabled")
    assert rollout["next", "step_count"].max() == 15
    for flag in ("terminated", "truncated"):
        assert rollout["next", flag].any(), f"no episode was {flag}"
    ends = rollout["next", "done"][:, :-1, 0]
    assert (rollout["step_count"][:, 1:, 0][ends] == 0).all()


def roll_serial(make: Any) -> Any:
    torch.manual_seed(0)
    env = SerialEnv(2, make)
    env.set_seed(0)
    return env.rollout(60, break_when_any_done=False)


def test_serial_env__needs_same_step() -> None:
    """In DISABLED it fails with any batch, also with Gymnasium's own."""
    with pytest.raises(RuntimeError, match=r"output with shape \[4, 1\] doesn't match"):
        roll_serial(lambda: wrap("EnvPool/CartPole-v1", "Disabled"))
    rollout = roll_serial(lambda: wrap("EnvPool/CartPole-v1", "SameStep"))
    assert rollout.batch_size == (2, 4, 60)
    assert_final_observations(rollout)


def test_serial_env__has_a_limit_by_ours_or_by_a_counter_inside() -> None:
    ours = roll_serial(lambda: wrap("EnvPool/CartPole-v1", "SameStep", max_episode_steps=15))
    counted = roll_serial(
        lambda: TransformedEnv(wrap("EnvPool/CartPole-v1", "Disabled"), StepCounter(15))
    )
    for rollout in (ours, counted):
        assert rollout["next", "truncated"].any()
        length = torch.zeros(2, 4)
        for done in rollout["next", "done"][..., 0].unbind(-1):
            length += 1
            assert (length <= 15).all()
            length[done] = 0


@pytest.mark.parametrize(
    ("env_id", "frame_skip"),
    [("EnvPool/CartPole-v1", 1), ("EnvPool/Pendulum-v1", 3), ("Brax/fast-v0", 3)],
)
def test_gym_env__opens_a_single_environment(env_id: str, frame_skip: int) -> None:
    """It asks for ``frameskip=`` first, and repeats actions itself where that is refused."""
    if env_id.startswith("Brax"):
        pytest.importorskip("brax")
    env = GymEnv(env_id, frame_skip=frame_skip)
    assert env.wrapper_frame_skip == frame_skip
    check_env_specs(env)
    env.set_seed(2**32 + 1)
    assert env.rollout(4).batch_size == (4,)
