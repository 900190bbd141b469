"""`TianshouVectorEnv`: what Tianshou's collectors store, and PPO as its page has it."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from tianshou.algorithm.algorithm_base import RandomActionPolicy
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import BaseVectorEnv, VectorEnvNormObs

from gymbridge import EnvPoolVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError, ResetNeededError
from gymbridge.trainers.tianshou import TianshouVectorEnv, make_tianshou
from gymbridge.wrappers import RescaleAction
from tests.support.cartpole import check_transitions
from tests.support.example_runs import run_page_script
from tests.support.small_batches import counting_batch, playground_batch

CARTPOLE = "EnvPool/CartPole-v1"


def make_collector(envs: Any, size: int = 1000) -> Any:
    num_envs = len(envs)
    buffer = VectorReplayBuffer(size, num_envs)
    collector = Collector(RandomActionPolicy(envs.action_space[0]), envs, buffer)
    collector.reset()
    return collector


def test_transitions__are_cartpole_s() -> None:
    envs = make_tianshou(CARTPOLE, 4, max_episode_steps=25)
    envs.seed(3)
    collector = make_collector(envs)
    collector.collect(n_step=1000, random=True)
    stored = collector.buffer[:]
    assert len(stored) == 1000
    check_transitions(stored.obs, stored.act, stored.obs_next, stored.terminated, stored.truncated)
    assert (stored.rew == 1).all()
    ended = stored.terminated | stored.truncated
    begun = np.abs(stored.obs[1:]).max(1) <= 0.05
    assert begun[ended[:-1]].all()
    same_env = stored.info.env_id[1:] == stored.info.env_id[:-1]
    goes_on = ~ended[:-1] & same_env
    np.testing.assert_array_equal(stored.obs[1:][goes_on], stored.obs_next[:-1][goes_on])


def test_episodes__are_collected_from_fewer_and_fewer_environments() -> None:
    collector = make_collector(make_tianshou(CARTPOLE, 4, max_episode_steps=20))
    stats = collector.collect(n_episode=6, random=True)
    assert stats.n_collected_episodes == len(stats.lens) == 6
    assert (stats.returns == stats.lens).all()
    assert collector.buffer[:].done.sum() == 6


def test_steps__are_those_of_the_named_environments_in_their_order() -> None:
    envs, reference = make_tianshou(CARTPOLE, 4), EnvPoolVectorEnv("CartPole-v1", 4)
    assert isinstance(envs, BaseVectorEnv)
    assert (len(envs), envs.is_async, len(envs.action_space)) == (4, False, 4)
    first, infos = envs.reset(seed=5)
    np.testing.assert_array_equal(first, reference.reset(seed=5)[0])
    assert infos.shape == (4,)
    assert infos.dtype == object
    wanted = reference.step(np.array([1, 0, 1, 0]))
    obs, rewards, terminations, truncations, infos = envs.step([1, 0], [2, 1])
    np.testing.assert_array_equal(obs, wanted[0][[2, 1]])
    assert [flags.tolist() for flags in (rewards, terminations, truncations)] == [
        [1, 1],
        [False, False],
        [False, False],
    ]
    assert [(info["env_id"], info["elapsed_step"]) for info in infos] == [(2, 1), (1, 1)]
    obs, *_ = envs.step([1, 0], [0, 3])  # which stayed as they were
    np.testing.assert_array_equal(obs, wanted[0][[0, 3]])
    obs, infos = envs.reset(3)
    assert obs.shape == (1, 4)
    assert [info["elapsed_step"] for info in infos] == [0]
    assert [info["elapsed_step"] for info in envs.step([0, 0], [3, 0])[4]] == [1, 2]
    assert [info["elapsed_step"] for info in envs.step(np.zeros(4, int))[4]] == [3, 2, 2, 2]


def test_seed__begins_the_same_episodes() -> None:
    envs = make_tianshou(CARTPOLE, 3)
    assert envs.seed(7) == envs.seed([7, 8, 9]) == [[7], [8], [9]]
    runs = []
    for _ in range(2):
        envs.seed(7)
        runs.append([envs.reset()[0], [envs.action_space[0].sample() for _ in range(20)]])
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    assert len(np.unique(runs[0][0], axis=0)) == 3
    assert runs[0][1] == runs[1][1]
    with pytest.raises(ResetNeededError):
        make_tianshou(CARTPOLE, 3).reset([1])


def test_dicts__are_an_array_of_objects() -> None:
    envs = TianshouVectorEnv(playground_batch(3, "Disabled", arrays="numpy"))
    envs.seed(0)
    collector = make_collector(envs, 30)
    collector.collect(n_step=12)
    stored = collector.buffer[:]
    assert set(stored.obs.keys()) == {"state", "privileged_state"}
    goes_on = ~stored.done[:3]  # of the first environment's four steps
    assert goes_on.any()
    after, before = stored.obs.state[1:4][goes_on], stored.obs_next.state[:3][goes_on]
    np.testing.assert_array_equal(after, before)


def test_actions__are_numbered_from_zero_and_rescaled_by_our_wrapper() -> None:
    """The reward is the sum of the action."""
    space = gym.spaces.Discrete(3, start=2)
    batch = counting_batch(2, "Disabled", action_space=space, arrays="numpy")
    envs = TianshouVectorEnv(batch)
    envs.reset()
    assert envs.action_space[1] == gym.spaces.Discrete(3)
    assert envs.step([2, 0])[1].tolist() == [4, 2]
    assert envs.step([1], 1)[1].tolist() == [3]
    box = counting_batch(2, "Disabled", action_space=gym.spaces.Box(-2, 2, (1,)), arrays="numpy")
    envs = TianshouVectorEnv(RescaleAction(box, -1, 1))
    envs.reset()
    assert envs.action_space[0] == gym.spaces.Box(-1, 1, (1,))
    assert envs.step(np.array([[0.5]], np.float32), [1])[1].tolist() == [1]
    assert envs.render() == [None, None]
    assert envs.get_env_attr("render_mode", 1) == [None]


def test_tianshou_s_own_wrapper__takes_it() -> None:
    envs = make_tianshou("EnvPool/Pendulum-v1", 2, render_mode=None)
    make_collector(VectorEnvNormObs(envs)).collect(n_step=20)
    assert envs.render() == [None, None]
    assert envs.get_env_attr("render_mode", 1) == [None]
    envs.close()
    assert envs.is_closed
    assert envs.envs.closed


def test_copy__is_around_its_own_batch() -> None:
    first = make_tianshou(CARTPOLE, 2)
    begun = first.reset(seed=0)[0]
    second = copy.copy(first)
    np.testing.assert_array_equal(second.reset(seed=0)[0], begun)
    second.close()
    assert [info["elapsed_step"] for info in first.step([0, 1])[4]] == [1, 1]


def test_bad_input__is_refused_and_changes_nothing() -> None:
    with pytest.raises(ArgumentError, match=r"use Tianshou's own `DummyVectorEnv`"):
        make_tianshou("CartPole-v1", 2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'limit'"):
        make_tianshou(CARTPOLE, 2, limit=3)
    with pytest.raises(ArgumentError, match=r"autoreset_mode='Disabled'"):
        make_tianshou(CARTPOLE, 2, autoreset_mode="NextStep")
    theirs = gym.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    theirs.metadata["autoreset_mode"] = gym.vector.AutoresetMode.DISABLED
    with pytest.raises(ArgumentTypeError, match="got SyncVectorEnv, which cannot step a part"):
        TianshouVectorEnv(theirs)
    envs = make_tianshou(CARTPOLE, 3)
    begun = envs.reset(seed=0)[0]
    errors = ArgumentError, ArgumentTypeError
    words = "distinct environments from 0 to 2|of ints"
    for ids in ([0, 0], [3], [-1], [], [0.5], [[0], [1]]):
        with pytest.raises(errors, match=words):
            envs.step(np.zeros(len(ids), int), ids)
        with pytest.raises(errors, match=words):
            envs.reset(ids)
    with pytest.raises(
        ArgumentError, match=r"one row for each of 2 environments, got shape \(3,\)"
    ):
        envs.step([0, 0, 0], [0, 1])
    wanted = EnvPoolVectorEnv("CartPole-v1", 3)
    np.testing.assert_array_equal(begun, wanted.reset(seed=0)[0])
    np.testing.assert_array_equal(envs.step([0, 1, 0])[0], wanted.step(np.array([0, 1, 0]))[0])


@pytest.mark.slow
def test_ppo__learns_as_the_page_says() -> None:
    assert run_page_script("tianshou.md")["result"].best_reward > 450
