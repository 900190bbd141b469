"""RLlib trains on our ids: the scripts, and on a cluster of two nodes."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.example_runs import read_table, run_script
from tests.support.python_runs import run_python
from tests.support.rllib_samples import (
    CARTPOLE,
    NUM_ENVS,
    PENDULUM,
    SEED,
    cluster_utils,
    make_config,
    ray,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, in great number

ROOT = Path(__file__).parents[2]

LOCAL = {"RAY_ADDRESS": "local"}
"""A new cluster, whatever else runs here."""


def test_scaling_page__trains(tmp_path):
    text = (ROOT / "docs" / "how-to" / "trainers" / "rllib.md").read_text(encoding="utf-8")
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "rllib" in b]
    script = tmp_path / "rllib_page.py"
    script.write_text(block, encoding="utf-8")
    assert 5 < float(run_python(script, **LOCAL).lines[-1]) <= 200


def test_rllib_example__solves_cart_pole_and_plays_what_it_saved(tmp_path):
    line = run_script("rllib_ppo", f"--out={tmp_path}/saved", **LOCAL).lines[-1]
    mean, steps = re.fullmatch(
        r"EnvPool/CartPole-v1: mean return (\S+) after (\d+) steps, \d+ s", line
    ).groups()
    assert float(mean) >= 450
    assert int(steps) < 400_000
    table = read_table(tmp_path / "saved" / "progress.csv")
    assert (table["env_steps"][-1], table["mean_return"][-1]) == (
        int(steps),
        pytest.approx(float(mean), abs=0.01),
    )
    play = f"--evaluate={tmp_path}/saved"
    played = run_script("rllib_ppo", play, **LOCAL).lines[-1]
    mean = re.fullmatch(r"EnvPool/CartPole-v1: mean return (\S+) over 16 episodes", played)[1]
    assert float(mean) >= 450


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Two nodes of one core each, whose JAX has as many CPU devices as by default."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JAX_NUM_CPU_DEVICES")  # XLA has a thread for each device
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

    def report(runner: Any) -> dict[str, Any]:
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

    return algo.env_runner_group.foreach_env_runner(report, local_env_runner=False)


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
