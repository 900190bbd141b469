"""TorchRL's `GymWrapper` takes our batches as they are."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("torch")
pytest.importorskip("torchrl")
pytest.importorskip("envpool")

import torch
from torchrl import collectors
from torchrl.envs import GymWrapper
from torchrl.envs.utils import check_env_specs

from gymbridge.errors import ArgumentTypeError

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


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """TorchRL tells of each check on the log."""
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)


def wrap(env_id: str, mode: str, **kwargs: Any) -> GymWrapper:
    envs = gym.make_vec(env_id, num_envs=4, autoreset_mode=mode, **kwargs)
    is_discrete = isinstance(envs.action_space, gym.spaces.MultiDiscrete)
    return GymWrapper(envs, categorical_action_encoding=is_discrete)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("mode", MODES)
def test_specs__are_what_comes(task: str, mode: str) -> None:
    env_id, kwargs = TASKS[task]
    if env_id.startswith("Brax"):
        pytest.importorskip("brax")
    env = wrap(env_id, mode, **kwargs)
    check_env_specs(env)
    assert env.batch_size == (4,)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("env_id", ["EnvPool/CartPole-v1", "EnvPool/Pendulum-v1"])
def test_specs__hold_with_the_defaults_of_torchrl(env_id: str, mode: str) -> None:
    check_env_specs(GymWrapper(gym.make_vec(env_id, num_envs=4, autoreset_mode=mode)))


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
    assert ends.sum() > 10
    assert not ends.all(0).any(), "TorchRL resets the whole batch where every row ends at once"
    for key in disabled.keys(include_nested=True, leaves_only=True):
        assert torch.equal(same_step[key], disabled[key]), key


def test_rollout__keeps_the_last_observation_of_each_episode() -> None:
    for mode in MODES:
        found = play(mode)
        ends = found["next", "done"][:, :-1, 0]
        last, fresh = found["next", "observation"][:, :-1], found["observation"][:, 1:]
        fallen = (last[..., 2].abs() > 0.2) | (last[..., 0].abs() > 2.4)
        assert fallen[ends].all(), "the pole is down"
        assert (fresh[ends].abs() < 0.06).all(), "the next episode begins upright"
        assert torch.equal(last[~ends], fresh[~ends])


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


def test_tensors__are_refused_with_the_way_out() -> None:
    """TorchRL brings numpy actions and takes numpy arrays."""
    with pytest.raises(ArgumentTypeError, match=r"arrays='numpy'"):
        check_env_specs(wrap("EnvPool/CartPole-v1", "Disabled", arrays="torch"))
