"""RLlib itself: its env runners on our ids, in one process and on a cluster of two nodes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gymbridge import EnvPoolVectorEnv
from gymbridge.errors import ArgumentError

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")
ppo = pytest.importorskip("ray.rllib.algorithms.ppo")
rllib = pytest.importorskip("gymbridge.trainers.rllib")

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, in great number

ROOT = Path(__file__).parents[2]
CARTPOLE = "gymbridge:EnvPool/CartPole-v1"
PENDULUM = "gymbridge:Brax/inverted_pendulum-v0"
SEED, NUM_ENVS = 3, 8


def make_config(env: Any, num_env_runners: int = 0, **env_config: Any) -> Any:
    return (
        ppo.PPOConfig()
        .environment(env, env_config=env_config)
        .env_runners(
            env_runner_cls=rllib.BridgeEnvRunner,
            gym_env_vectorize_mode="vector_entry_point",
            num_env_runners=num_env_runners,
            num_envs_per_env_runner=NUM_ENVS,
            sample_timeout_s=300,  # the first sample waits for Brax's compiler
        )
        .training(train_batch_size_per_learner=512, minibatch_size=256, num_epochs=2)
        .debugging(seed=SEED)
    )


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
    """Return how many threads EnvPool has been told to use."""
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


@pytest.mark.parametrize("worker_index", [0, 1, 2])
def test_seeds__of_runners_are_apart(environ, worker_index):
    runner = make_runner(worker_index)
    sampled = runner.sample(num_timesteps=NUM_ENVS, random_actions=True)
    first = SEED + worker_index * NUM_ENVS
    seeds = tuple(range(first, first + NUM_ENVS))
    assert runner.env.unwrapped.np_random_seed == seeds
    expected, _ = EnvPoolVectorEnv("CartPole-v1", NUM_ENVS).reset(seed=list(seeds))
    begun = [episode.get_observations(0) for episode in sampled]
    np.testing.assert_array_equal(begun, expected)


def test_seeds__beyond_the_range_of_the_engine_are_an_error(environ):
    config = make_config(CARTPOLE).debugging(seed=2**31 - 1 - NUM_ENVS)
    runner = rllib.BridgeEnvRunner(config=config, worker_index=1)
    with pytest.raises(ArgumentError, match="seed"):
        runner.sample(num_timesteps=NUM_ENVS, random_actions=True)


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


def test_share__is_what_ray_reserves(environ):
    config = make_config(CARTPOLE).env_runners(num_cpus_per_env_runner=3)
    runner = rllib.BridgeEnvRunner(config=config, worker_index=1)
    assert count_threads(runner) == 3
    assert environ["NPROC"] == "3"
    assert "XLA_PYTHON_CLIENT_PREALLOCATE" not in environ
    assert config.env_config == {}


def test_share__what_the_user_says_goes_first(environ):
    environ["NPROC"] = "5"
    runner = make_runner(1, num_threads=2)
    assert count_threads(runner) == 2
    assert environ["NPROC"] == "5"


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
        (
            {"autoreset_mode": "SameStep"},
            r"NEXT_STEP, as RLlib expects.*leave `autoreset_mode` out",
        ),
        ({"arrays": "torch"}, "`env_config` must give numpy arrays, which RLlib expects"),
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
    with pytest.raises(ArgumentError, match="NEXT_STEP"):
        make_runner(2, make, mode="SameStep")
    assert [batch.closed for batch in batches] == [False, True]


def run_script(path: Any, *arguments: str) -> str:
    """Return what a script prints."""
    command = [sys.executable, str(path), *arguments]
    environ = {**os.environ, "RAY_ADDRESS": "local"}  # a new cluster, whatever else runs here
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_scaling_page__trains(tmp_path):
    text = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "rllib" in b]
    script = tmp_path / "rllib_page.py"
    script.write_text(block, encoding="utf-8")
    assert 5 < float(run_script(script).splitlines()[-1]) <= 200


def test_rllib_example__solves_cart_pole():
    line = run_script(ROOT / "examples" / "rllib_ppo.py").splitlines()[-1]
    mean, steps = re.fullmatch(
        r"EnvPool/CartPole-v1: mean return (\S+) after (\d+) steps, \d+ s", line
    ).groups()
    assert float(mean) >= 450
    assert int(steps) < 400_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Two nodes of one core each."""
    nodes = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address)
    yield
    ray.shutdown()
    nodes.shutdown()


def build(env: str, **env_config: Any) -> Any:
    # What is healthy is probed in every iteration, so that a lost runner is back soon.
    config = make_config(env, num_env_runners=2, **env_config)
    return config.fault_tolerance(env_runner_health_probe_timeout_s=30).build_algo()


def describe(algo: Any) -> list[dict[str, Any]]:
    """Return what each env runner says of itself."""

    def tell(runner: Any) -> dict[str, Any]:
        import os
        from pathlib import Path

        import ray

        names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
        return {
            "pid": os.getpid(),
            "node": ray.get_runtime_context().get_node_id(),
            "seeds": runner.env.unwrapped.np_random_seed,
            "config": runner.config.env_config,
            "xla_threads": names.count("tf_XLAEigen"),
        }

    return algo.env_runner_group.foreach_env_runner(tell, local_env_runner=False)


def check_seeds(runners: list[dict[str, Any]]) -> None:
    first = SEED + NUM_ENVS
    seeds = sorted(seed for runner in runners for seed in runner["seeds"])
    assert seeds == list(range(first, first + 2 * NUM_ENVS))


def test_cluster__trains_on_envpool_and_replaces_a_killed_runner(cluster):
    algo = build(CARTPOLE)
    first = algo.train()["env_runners"]
    before = describe(algo)
    assert len({runner["node"] for runner in before}) == 2
    check_seeds(before)
    assert [runner["config"] for runner in before] == [{"num_threads": 1}] * 2
    assert first["num_env_steps_sampled"] >= 512
    assert first["episode_return_mean"] > 5

    killed = before[0]["pid"]
    os.kill(killed, signal.SIGKILL)
    deadline = time.monotonic() + 180
    results = [algo.train()["env_runners"]]
    while algo.env_runner_group.num_healthy_remote_workers() < 2:
        assert time.monotonic() < deadline, "the runner was not replaced"
        results.append(algo.train()["env_runners"])
    results.append(algo.train()["env_runners"])
    after = describe(algo)
    assert len(after) == 2
    assert killed not in {runner["pid"] for runner in after}
    check_seeds(after)
    steps = [first["num_env_steps_sampled_lifetime"]]
    steps += [result["num_env_steps_sampled_lifetime"] for result in results]
    assert np.diff(steps).min() > 0
    algo.stop()


def test_cluster__trains_on_brax(cluster):
    pytest.importorskip("brax")
    algo = build(PENDULUM, backend="spring")
    weights = algo.get_module().get_state()
    result = algo.train()
    runners = describe(algo)
    check_seeds(runners)
    assert [runner["xla_threads"] for runner in runners] == [1, 1]
    assert result["env_runners"]["episode_return_mean"] > 3
    moved = algo.get_module().get_state()
    assert any(not np.array_equal(weights[name], moved[name]) for name in weights)
    algo.stop()
