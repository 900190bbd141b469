"""RLlib's env runner on our ids, in one process."""

from __future__ import annotations

import os
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gymbridge import EnvPoolVectorEnv
from gymbridge.errors import ArgumentError
from tests.support.rllib_samples import CARTPOLE, NUM_ENVS, SEED, make_config, rllib

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, in great number


@pytest.fixture
def environ(monkeypatch) -> dict[str, str]:
    """The variables of this process, put back after the test."""
    for name in ("NPROC", "XLA_PYTHON_CLIENT_PREALLOCATE"):
        monkeypatch.setenv(name, "")
        del os.environ[name]
    return os.environ


def make_runner(worker_index: int, env: Any = CARTPOLE, **env_config: Any) -> Any:
    return rllib.BridgeEnvRunner(config=make_config(env, **env_config), worker_index=worker_index)


def count_threads(runner: Any) -> int:
    """Return how many threads EnvPool was given."""
    return runner.env.unwrapped.get_attr("config")[0].num_threads


def test_episodes__are_whole_and_true(environ):
    runner = make_runner(0, max_episode_steps=20)
    sampled = runner.sample(num_timesteps=800, random_actions=True)
    done = [episode for episode in sampled if episode.is_done]
    assert {episode.is_truncated for episode in done} == {True, False}
    for episode in done:
        obs = episode.get_observations()
        beyond = (np.abs(obs[:, 0]) > 2.4) | (np.abs(obs[:, 2]) > 12 * np.pi / 180)
        assert (np.abs(obs[0]) <= 0.05).all()  # where CartPole begins
        assert beyond.tolist() == [False] * len(episode) + [episode.is_terminated]
        assert episode.is_truncated == (not episode.is_terminated)
        assert episode.is_terminated or len(episode) == 20
        assert episode.get_rewards().tolist() == [1.0] * len(episode)
        assert episode.get_infos(-1)["elapsed_step"] == len(episode)


@pytest.mark.parametrize("worker_index", [0, 2])
def test_seeds__of_runners_are_apart(environ, worker_index):
    runner = make_runner(worker_index)
    sampled = runner.sample(num_timesteps=NUM_ENVS, random_actions=True)
    first = SEED + worker_index * NUM_ENVS
    seeds = tuple(range(first, first + NUM_ENVS))
    assert runner.env.unwrapped.np_random_seed == seeds
    expected, _ = EnvPoolVectorEnv("CartPole-v1", NUM_ENVS).reset(seed=list(seeds))
    begun = [episode.get_observations(0) for episode in sampled]
    np.testing.assert_array_equal(begun, expected)


def test_seeds__none_stays_none(environ):
    config = make_config(CARTPOLE).debugging(seed=None)
    drawn = []
    for _ in range(2):
        runner = rllib.BridgeEnvRunner(config=config, worker_index=1)
        runner.sample(num_timesteps=NUM_ENVS, random_actions=True)
        drawn.append(runner.env.unwrapped.np_random_seed)
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("in_evaluation", [False, True])
def test_seeds__count_once_but_in_evaluation(environ, in_evaluation):
    config = make_config(CARTPOLE, max_episode_steps=1)
    config.in_evaluation = in_evaluation
    runner = rllib.BridgeEnvRunner(config=config, worker_index=1)
    begun = []
    for _ in range(2):
        episodes = runner.sample(num_episodes=NUM_ENVS, random_actions=True)
        begun.append(sorted(episode.get_observations(0).tolist() for episode in episodes))
    assert (begun[0] == begun[1]) == in_evaluation
    first = SEED + NUM_ENVS + 1_000_000 * in_evaluation
    assert runner.env.unwrapped.np_random_seed == tuple(range(first, first + NUM_ENVS))


@pytest.mark.parametrize(("cores", "nproc"), [(1, "1"), (2, "3"), (3, "3")])
def test_share__is_what_ray_reserves_and_lets_no_step_wait_for_ever(environ, cores, nproc):
    config = make_config(CARTPOLE).env_runners(num_cpus_per_env_runner=cores)
    runner = rllib.BridgeEnvRunner(config=config, worker_index=1)
    assert count_threads(runner) == cores
    assert environ["NPROC"] == nproc
    assert "XLA_PYTHON_CLIENT_PREALLOCATE" not in environ
    assert config.env_config == {}


def test_share__what_the_user_says_goes_first(environ):
    environ["NPROC"] = "5"
    runner = make_runner(1, num_threads=2)
    assert count_threads(runner) == 2
    assert environ["NPROC"] == "5"


@pytest.mark.parametrize(
    "env", ["EnvPool/Pendulum-v1", "Brax/fast-v0", "Playground/CartpoleBalance-v0"]
)
def test_every_engine__is_sampled(environ, env):
    runner = make_runner(0, f"gymbridge:{env}", max_episode_steps=5)
    sampled = runner.sample(num_episodes=NUM_ENVS, random_actions=True)
    assert {len(episode) for episode in sampled if episode.is_done} == {5}
    assert len({float(r) for episode in sampled for r in episode.get_rewards()}) > 3


def test_limit__is_that_of_the_user_s_configuration(environ):
    overrides = {"episode_length": 5}
    runner = make_runner(0, "gymbridge:Playground/CartpoleBalance-v0", config_overrides=overrides)
    assert runner.env.unwrapped.max_episode_steps == 5


def test_share__of_the_local_runner_is_the_process(environ):
    runner = make_runner(0)
    assert "num_threads" not in runner.config.env_config
    assert "NPROC" not in environ


def test_share__of_a_gpu_leaves_memory_to_others(environ):
    config = make_config(CARTPOLE).env_runners(num_gpus_per_env_runner=0.5)
    rllib._limit_process(config)
    assert environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"


@pytest.mark.parametrize(
    ("env_config", "message"),
    [
        ({"autoreset_mode": "SameStep"}, "NextStep, as RLlib.*`autoreset_mode='NextStep'`"),
        ({"arrays": "torch"}, "`env_config` must give numpy arrays, as RLlib expects"),
    ],
)
def test_batch__must_be_what_rllib_reads(environ, env_config, message):
    with pytest.raises(ArgumentError, match=message):
        make_runner(1, **env_config)


def test_batch__may_be_anyones(environ):
    batches = []

    def make(env_config: dict[str, Any]) -> Any:
        mode = gym.vector.AutoresetMode(env_config["mode"])
        make_single = [lambda: gym.make("CartPole-v1")] * env_config["num_envs"]
        batches.append(gym.vector.SyncVectorEnv(make_single, autoreset_mode=mode))
        return batches[-1]

    runner = make_runner(2, make, mode="NextStep")
    runner.sample(num_timesteps=NUM_ENVS, random_actions=True)
    assert batches[0].np_random_seed[0] == SEED + 2 * NUM_ENVS
    with pytest.raises(ArgumentError, match="NextStep"):
        make_runner(2, make, mode="SameStep")
    assert [batch.closed for batch in batches] == [False, True]
