"""A batch spread over two devices does what it does on one."""

from __future__ import annotations

import pickle
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box

from gymbridge import BraxVectorEnv, EnvPoolVectorEnv, JaxEnv, JaxVectorEnv
from gymbridge.brax.vector_env import _count_calls
from gymbridge.core.arrays import jax_devices, make_adapter
from gymbridge.core.arrays.jax_devices import _say_idle, check_threads, start_jax_on
from gymbridge.core.devices import Device
from gymbridge.errors import ArgumentError, DivergedError
from gymbridge.private.jax import count_threads
from tests.support.batches import KIND_LENGTHS, KIND_TRUNCATES, to_numpy
from tests.support.brax_samples import SampleEnv
from tests.support.falling_ball import shared_ball
from tests.support.jax_samples import Drift
from tests.support.player import draw_at, play
from tests.support.python_runs import run_python
from tests.support.scripted_brax import ScriptedBraxEnv
from tests.support.trees import assert_same

TWO = ("cpu:0", "cpu:1")
NUM_ENVS = 8


@cache
def scripted(device: Any, arrays: str, mode: str) -> BraxVectorEnv:
    """Return a batch whose every episode draws its length, which compiles in a moment."""
    options = {"arrays": arrays, "autoreset_mode": mode, "max_episode_steps": 4, "device": device}
    return BraxVectorEnv(ScriptedBraxEnv(KIND_LENGTHS, KIND_TRUNCATES), NUM_ENVS, **options)


def run(envs: Any, num_steps: int = 40) -> list[Any]:
    """Return what a run returns; some environments are reset by hand, in the end with seeds."""
    log = play(envs, num_steps, begins=False, disturb=np.random.default_rng(num_steps))
    some = {"reset_mask": np.arange(NUM_ENVS) % 3 == 0}
    log.append(to_numpy(envs.reset(seed=[*range(NUM_ENVS)], options=some)))
    return log + play(envs, 5, begins=False)


def ends(log: list[Any]) -> int:
    return sum((entry[2] | entry[3]).sum() for entry in log if len(entry) == 5)


def test_physics_that_are_drawn__are_those_of_one_device() -> None:
    logs = []
    given = np.linspace(1, 10, NUM_ENVS, dtype=np.float32)
    for device in (None, TWO):
        envs = shared_ball(NUM_ENVS, device=device, max_episode_steps=7)
        first = to_numpy(envs.reset(seed=5))
        log = run(envs, 18)
        options = {"randomization": {"link.mass": given}}
        logs.append([first, *log, to_numpy(envs.reset(options=options)), *run(envs, 3)])
    for here, there in zip(*logs, strict=True):
        leaves = zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True)
        for left, right in leaves:
            np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
    drawn = logs[0][0][1]["randomization"]["link.mass"]
    assert len(np.unique(drawn)) == NUM_ENVS
    assert ends(logs[0]) > 8


def test_arrays__are_spread_evenly_and_taken_from_the_devices() -> None:
    envs = scripted(TWO, "jax", "NextStep")
    obs, _ = envs.reset(seed=0)
    assert obs.sharding == envs.device
    assert [shard.data.shape[0] for shard in obs.addressable_shards] == [4] * 2
    actions = jax.device_put(draw_at(envs, 0), envs.device)
    assert envs.step(actions)[0].sharding == envs.device
    with pytest.raises(ArgumentError, match=r"jax\.device_put\(actions, envs\.device\)"):
        envs.step(jax.device_put(actions, jax.devices()[0]))


def test_snapshots__move_between_placements(tmp_path: Path) -> None:
    one, two = (scripted(device, "numpy", "NextStep") for device in (None, TWO))
    for here, there in ((one, two), (two, one)):
        here.reset(seed=7)
        run(here, 9)
        here.save_state(tmp_path / "state")
        obs = there.load_state(tmp_path / "state")
        assert_same(obs, here.set_state(here.get_state()))
        assert_same(run(there, 9), run(here, 9))


def test_frames__are_those_of_one_device() -> None:
    env, frames = ScriptedBraxEnv(KIND_LENGTHS, KIND_TRUNCATES), []
    for device in (None, TWO):
        envs = BraxVectorEnv(env, NUM_ENVS, device=device, render_mode="rgb_array")
        envs.reset(seed=3)
        envs.step(draw_at(envs, 0))
        envs.reset(options={"reset_mask": np.arange(NUM_ENVS) % 3 == 0})
        frames.append(np.stack(envs.render()))
    np.testing.assert_array_equal(*frames)
    assert frames[0][:, 0, 0, 0].tolist() == [0, 1, 1] * 2 + [0, 1]


def test_batch__pickles_with_its_devices() -> None:
    sharding = scripted(("cpu:1", "cpu:0"), "jax", "NextStep").device
    two = jax.devices()[:2]
    for device in (list(TWO), two, tuple(two), sharding, "cpu:all"):
        envs = BraxVectorEnv("fast", 4, device=device, arrays="jax")
        again = pickle.loads(pickle.dumps(envs))
        assert again.device == envs.device
        assert len(again.device.device_set) == 2
    assert_same(to_numpy(again.reset(seed=1)), to_numpy(envs.reset(seed=1)))
    assert BraxVectorEnv("fast", 3, device=["cpu:1"], arrays="jax").device == jax.devices()[1]


def test_actions__may_be_on_the_devices_in_another_order() -> None:
    one, other = (
        scripted(device, "jax", "NextStep") for device in (("cpu:0", "cpu:1"), ("cpu:1", "cpu:0"))
    )
    one.reset(seed=0)
    other.reset(seed=0)
    actions = np.arange(one.num_envs) % 3
    placed = jax.device_put(actions, other.device)
    assert_same(to_numpy(one.step(placed)[:4]), to_numpy(other.step(actions)[:4]))


def test_diverged__are_found_on_each_device() -> None:
    env = SampleEnv(step=lambda state, action: state.replace(obs=state.obs / action.sum()))
    envs = BraxVectorEnv(env, 8, device=TWO, nonfinite="raise")
    envs.reset(seed=0)
    actions = np.ones((8, 1), np.float32)
    actions[[1, 6]] = 0
    with pytest.raises(DivergedError, match=r"\[1, 6\]"):
        envs.step(actions)
    envs.step(np.ones((8, 1), np.float32))


def test_settings__hold_on_each_device() -> None:
    class Told(Adds):
        def reset(self, key: Any) -> Any:
            return *super().reset(key)[:2], {"count": 0.0}

        def step(self, key: Any, state: Any, action: Any) -> Any:
            after, obs, _, *flags, _ = super().step(key, state, action)
            return after, obs, 1.0, *flags, {"count": 1.0}

    options: dict[str, Any] = {"action_repeat": 3, "summed_infos": ["count"]}
    envs = JaxVectorEnv(Told(), 2, device=TWO, nonfinite="ignore", **options)
    assert sorted(envs.reset(seed=0)[1]) == ["_count", "count"]
    _, rewards, *_, infos = envs.step(np.zeros((2, 2), np.float32))
    assert (rewards.tolist(), infos["count"].tolist()) == ([3, 3], [3, 3])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"device": ["cpu:0", "cpu:0"]}, r"list of different ones.*\[cpu, cpu\]"),
        ({"device": ["cpu:0", "cuda:0"]}, r"of one platform, got \[cpu, cuda:0\]"),
        ({"device": []}, r"list of different ones of one platform, got \[\]"),
        ({"device": ["cpu:0", "cpu:9"]}, "must be one that JAX has, got 'cpu:9'"),
        ({"device": TWO, "num_envs": 9}, "multiple of the 2 devices, got 9; use 8 or 10"),
        ({"device": TWO, "num_envs": 1}, "multiple of the 2 devices, got 1; use 2"),
        ({"device": ["cpu:all"]}, "by itself, 'cpu:all', got 'cpu:all'"),
        ({"device": "cpu:1:all"}, "by itself, 'cpu:all', got 'cpu:1:all'"),
        ({"device": ":all"}, "by itself, 'cpu:all', got ':all'"),
        ({"device": "cuda:all"}, "must be one that JAX has, got 'cuda:0'"),
    ],
)
def test_devices__that_cannot_be_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        BraxVectorEnv("fast", **{"num_envs": 8} | options)


def test_functional__carries_the_batch_over_its_devices() -> None:
    """Actions and observations are dicts, and each step draws."""
    logs = []
    for device in (None, TWO):
        options = {"arrays": "jax", "autoreset_mode": "SameStep", "device": device}
        envs = JaxVectorEnv(Drift(), NUM_ENVS, **options)
        envs.action_space.seed(1)
        actions = [envs.action_space.sample() for _ in range(16)]
        envs.reset(seed=4)
        carry, reset, step = envs.functional()
        step, reset, log = jax.jit(step), jax.jit(reset), []
        for action in actions:
            carry, returned = step(carry, action)
            log += [to_numpy(returned), to_numpy(envs.step(action))]
        carry, first = reset(carry, np.arange(NUM_ENVS) % 3 == 0, np.arange(NUM_ENVS))
        logs.append([*log, to_numpy(first), to_numpy(step(carry, actions[0])[1])])
    assert_same(logs[1], logs[0], digits=1e-6)
    assert_same(logs[0][:-2:2], logs[0][1:-2:2], digits=1e-6)
    assert carry.ended.sharding == envs.device
    assert ends(logs[0]) > 8


@pytest.mark.parametrize(
    ("num_envs", "count", "advice"),
    [(8, 2, None), (7, 1, "num_envs=7 on 1 of 2 devices.*6 or 8"), (1, 1, None)],
)
def test_every_device__is_used_if_it_divides_the_batch(
    num_envs: int, count: int, advice: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    _say_idle.cache_clear()
    for kind in ("numpy", "torch", "jax"):
        envs = BraxVectorEnv("fast", num_envs, device="cpu:all", arrays=kind)
        assert envs._simulator.num_devices == count
        assert str(envs.device) in ("None", "cpu") or kind == "jax"
    warned = [record.message for record in caplog.records if "num_envs" in record.message]
    assert len(warned) == (advice is not None), "said once"
    assert advice is None or re.search(advice, warned[0])


@pytest.fixture
def _few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if JAX had started on two cores before any batch was built."""
    jax.devices()  # which starts it
    for name in ("NPROC", "PJRT_NPROC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(jax_devices, "_THREADS", [])
    for name in ("count_affinity", "count_cores"):
        monkeypatch.setattr(jax_devices, name, lambda: 2)
    jax_devices._say_threads.cache_clear()


@pytest.mark.usefixtures("_few_threads")
@pytest.mark.parametrize(("device", "threads"), [("cpu:all", 5), (TWO, 5), ("cpu", 3), (None, 3)])
def test_few_threads__are_warned_of_where_steps_factorize(
    device: Any, threads: int, caplog: pytest.LogCaptureFixture
) -> None:
    batches = [(device, 4, 0, 0), ("cpu:all", 1, 2, 0), *[(device, 4, 2, 1)] * 2]
    for given, num_envs, calls, count in batches:
        check_threads(start_jax_on(given, num_envs, calls=calls), num_envs, calls, lambda: True)
        assert caplog.text.count(f"NPROC to {threads} before JAX starts") == count


@pytest.mark.usefixtures("_few_threads")
def test_few_threads__are_enough_if_the_user_set_them(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, threads, count in [("NPROC", "3", 0), ("PJRT_NPROC", "2", 1), ("NPROC", "²", 1)]:
        monkeypatch.setenv(name, threads)
        check_threads(start_jax_on("cpu", 4), 4, 2, lambda: True)
        assert caplog.text.count("NPROC to 3 before JAX starts") == count


class Solves(JaxEnv):
    """Solves a linear system in each step, in a loop."""

    observation_space = action_space = Box(-1, 1, (2,), np.float32)

    def reset(self, key: Any) -> Any:
        return jnp.zeros(2), jnp.zeros(2), {}

    def step(self, key: Any, state: Any, action: Any) -> Any:
        after = self._solve(state)
        return after, after, 0.0, jnp.zeros((), bool), jnp.zeros((), bool), {}

    def _solve(self, state: Any) -> Any:
        return jax.lax.fori_loop(0, 2, lambda _, x: jnp.linalg.solve(jnp.eye(2), x), state)


class Adds(Solves):
    def _solve(self, state: Any) -> Any:
        return state + 1


@pytest.mark.usefixtures("_few_threads")
def test_few_threads__are_warned_of_where_the_trace_factorizes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    JaxVectorEnv(Adds(), 4)
    BraxVectorEnv(ScriptedBraxEnv([3]), 4)
    assert "NPROC" not in caplog.text
    JaxVectorEnv(Solves(), 4)
    assert caplog.text.count("NPROC to 3 before JAX starts") == 1
    assert f"you have {version('jaxlib')}" in caplog.text


@pytest.mark.parametrize(
    ("cores", "devices", "calls", "threads"),
    [
        (1, 1, 2, 1),
        (2, 1, 2, 3),
        (4, 1, 2, 4),
        (2, 2, 2, 5),
        (2, 1, 1, 2),
        (2, 2, 1, 3),
        (2, 2, 0, 2),
    ],
)
def test_threads__are_more_than_calls_that_wait(
    cores: int, devices: int, calls: int, threads: int
) -> None:
    assert count_threads(cores, devices, calls) == threads


@pytest.mark.parametrize(
    ("brax_env", "backend", "calls"),
    [
        ("ant", "spring", 0),
        ("ant", None, 1),
        ("ant", "generalized", 1),
        ("ant", "mjx", 2),
        ("of_a_user", "spring", 2),
        (SimpleNamespace(backend="positional"), None, 0),
        (SimpleNamespace(backend="generalized"), None, 2),
        (SimpleNamespace(), None, 2),
    ],
)
def test_brax__says_how_many_factorizations_run_at_a_time(
    brax_env: Any, backend: str | None, calls: int
) -> None:
    assert _count_calls(brax_env, backend) == calls


def test_several_gpus__are_no_place_for_tensors_and_several_devices_none_for_envpool() -> None:
    several = tuple(Device("cuda", index) for index in range(2))
    with pytest.raises(ArgumentError, match=r"torch arrays.*\[cuda:0, cuda:1\].*examples/ddp\.py"):
        make_adapter("jax", "torch", several)
    with pytest.raises(ArgumentError, match="must be one device for EnvPool"):
        EnvPoolVectorEnv("CartPole-v1", 4, device=TWO, arrays="jax")
    with pytest.raises(ArgumentError, match="one device for EnvPool, got 'cuda:all'"):
        EnvPoolVectorEnv("CartPole-v1", 4, device="cuda:all", arrays="torch")
    envs = EnvPoolVectorEnv("CartPole-v1", 4, device="cpu:all", arrays="torch")
    assert str(envs.device) == "cpu", "its threads are on all cores already"


STARTED = """
import gymnasium, jax
import gymbridge
from gymbridge.core.cores import count_cores
gymbridge.BraxVectorEnv("fast", 6, device="cpu")  # JAX has started
try:
    gymnasium.make_vec("Brax/fast-v0", 6, device="cpu:all")
    assert count_cores() == 1
except gymbridge.GymbridgeError as error:
    assert f"call jax.config.update('jax_num_cpu_devices', {count_cores()})" in str(error), error
"""

FACTORIZE = """
import faulthandler, os
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
import jax, jax.numpy as jnp, numpy as np
from gymbridge import BraxVectorEnv
from gymbridge.core.arrays.jax_devices import start_jax_on
from gymbridge.core.cores import count_cores

@jax.jit
def factorize(x):
    mass, damped, sine, cosine = x, x, x, x
    for _ in range(6):
        mass = jnp.linalg.cholesky(mass @ mass.mT + jnp.eye(40))
        damped = jnp.linalg.cholesky(damped @ damped.mT + 2 * jnp.eye(40))
        sine, cosine = jnp.sin(sine @ sine.mT), jnp.cos(cosine @ cosine.mT)
    return mass, damped, sine, cosine

def wait_for_it(size, place):
    faulthandler.dump_traceback_later(60, exit=True)
    x = np.tile(2 * np.eye(40, dtype=np.float32), (size, 1, 1))
    for _ in range(100):
        jax.block_until_ready(factorize(jax.device_put(x, place)))
"""
"""Two factorizations at the same time, as in MJX's step: with few threads they wait for ever."""

FRESH = """
start_jax_on("cpu:all", 12)
envs = BraxVectorEnv("fast", 12 * count_cores(), device="cpu:all", arrays="jax")
envs.reset(seed=0)
envs.step(jax.device_put(envs.action_space.sample(), envs.unwrapped.device))
assert len(jax.devices()) == envs.unwrapped._simulator.num_devices == count_cores()
assert "NPROC" not in os.environ
wait_for_it(64 * count_cores(), envs.unwrapped.device)
"""

ONE = """
start_jax_on(None, 6)
assert "NPROC" not in os.environ
wait_for_it(64, None)
"""

LISTED = """
flags = os.environ.get("XLA_FLAGS", "")
os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count=2"
wait_for_it(128, start_jax_on(["cpu:0", "cpu:1"], 6))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "script", [STARTED, FRESH, ONE, LISTED], ids=["started", "fresh", "one", "listed"]
)
def test_every_core__has_a_device_if_jax_starts_with_them(script: str) -> None:
    run_python("-c", f"{FACTORIZE}\n{script}", JAX_NUM_CPU_DEVICES="-1")


def test_part_of_a_spread_batch__is_on_its_device_whatever_the_default_is() -> None:
    """It restarts as that device does, which may be of another kind than the default one."""
    envs = BraxVectorEnv(ScriptedBraxEnv([3]), NUM_ENVS, device=list(TWO))
    with jax.default_device(jax.devices("cpu")[1]):
        assert envs._simulator.split().device == jax.devices("cpu")[0]
