"""Batches are pickled as their construction and built in workers; a fork is told from a spawn."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from process_samples import build_and_play, play, unpickle_and_play

import gymbridge
from gymbridge.testing import ScriptedSimulator, scripted_vector_env

ENGINES = {"brax": "Brax/fast-v0", "envpool": "EnvPool/CartPole-v1"}


@pytest.fixture(params=ENGINES)
def env_id(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return ENGINES[request.param]


class Placed(gymbridge.BridgeVectorEnv):
    """A batch with a constructor of its own."""

    def __init__(self, num_envs: int, place: Any, device: str) -> None:
        super().__init__(ScriptedSimulator([2] * num_envs))
        self.place, self.name = place, device


@pytest.mark.parametrize("duplicate", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy])
def test_pickle__is_the_construction(env_id: str, duplicate: Any) -> None:
    kwargs = {"num_envs": 3, "autoreset_mode": "SameStep", "max_episode_steps": 3}
    envs = gym.make_vec(env_id, **kwargs)
    played = play(envs)
    twin = duplicate(envs)
    assert type(twin) is type(envs)
    assert twin.spec == envs.spec
    assert twin.metadata == envs.metadata
    assert twin.max_episode_steps == 3
    with pytest.raises(gymbridge.errors.ResetNeededError):
        twin.step(envs.action_space.sample())
    np.testing.assert_array_equal(play(twin), played)
    assert gym.make_vec(twin.spec).max_episode_steps == 3


def test_pickle__of_any_simulator_takes_it_along() -> None:
    envs = scripted_vector_env([2, 3])
    twin = pickle.loads(pickle.dumps(envs))
    np.testing.assert_array_equal(play(twin), play(envs))


def test_pickle__of_a_closed_batch_is_an_open_one(env_id: str) -> None:
    envs = gym.make_vec(env_id, num_envs=2)
    envs.close()
    assert play(pickle.loads(pickle.dumps(envs))).shape[1] == 2


def test_pickle__names_the_device_of_jax() -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("brax")
    (device, *_) = jax.devices()
    twin = pickle.loads(pickle.dumps(gymbridge.BraxVectorEnv("fast", 2, device=device)))
    assert play(twin).shape[1] == 2


def test_pickle__leaves_the_arguments_of_a_subclass_alone() -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("brax")
    twin = pickle.loads(pickle.dumps(Placed(2, jax.devices()[0], device="quad rotor")))
    assert (twin.place, twin.name) == ("cpu:0", "quad rotor")


def test_pickle__keeps_arrays_and_gradients() -> None:
    pytest.importorskip("brax")
    torch = pytest.importorskip("torch")
    options = {"arrays": "torch", "differentiable": True}
    twin = pickle.loads(pickle.dumps(gymbridge.BraxVectorEnv("fast", 2, **options)))
    twin.reset(seed=0)
    assert twin.step(torch.zeros(2, 1, requires_grad=True))[0].requires_grad


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_worker__builds_and_unpickles_its_own(env_id: str, method: str) -> None:
    kwargs = {"num_envs": 2, "max_episode_steps": 3}
    envs = gym.make_vec(env_id, **kwargs)
    wanted = play(envs)
    with multiprocessing.get_context(method).Pool(1) as pool:
        found = pool.apply(build_and_play, (env_id, kwargs))
        unpickled = pool.apply(unpickle_and_play, (pickle.dumps(envs),))
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(unpickled, wanted)


FORK = """
import os, sys, warnings
import gymnasium as gym
import gymbridge
env_id = sys.argv[1]
envs = gym.make_vec(env_id, num_envs=2)
envs.reset(seed=0)
child = None
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    child = os.fork()
if child:
    os.waitpid(child, 0)
    print("parent", [str(warning.message)[:22] for warning in told], flush=True)
    envs.step(envs.action_space.sample())
    print("parent goes on", flush=True)
else:
    for use in (lambda: envs.step(envs.action_space.sample()), envs.reset,
                lambda: gym.make_vec(env_id, num_envs=2).reset(seed=0)):
        try:
            use()
            print("child runs", flush=True)
        except gymbridge.errors.SimulationError as error:
            print("child", error, flush=True)
    os._exit(0)
"""


FORK_OF_JAX = """
import os
import jax.numpy as jnp
from gymbridge import BraxVectorEnv, EnvPoolVectorEnv
from gymbridge.errors import SimulationError
jnp.zeros(3)
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    for make, name, arrays in (
        (BraxVectorEnv, "fast", "numpy"), (EnvPoolVectorEnv, "Catch-v0", "jax")
    ):
        try:
            make(name, arrays=arrays)
        except SimulationError as error:
            print(error, flush=True)
    os._exit(0)
"""


def test_forked_child__is_told_of_jax_whoever_started_it() -> None:
    pytest.importorskip("brax")
    pytest.importorskip("envpool")
    command = [sys.executable, "-W", "ignore", "-c", FORK_OF_JAX]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.count("JAX had started before this process was forked") == 2


FORK_AND_DROP = """
import gc, multiprocessing, sys, warnings
warnings.simplefilter("ignore")
import gymnasium as gym
import gymbridge
envs = gym.make_vec(sys.argv[1], num_envs=4, num_threads=2)
envs.reset(seed=0)

def use():
    global envs
    if sys.argv[2] == "close":
        envs.close()
    envs = gym.make_vec(sys.argv[1], num_envs=4) if sys.argv[2] == "rebuild" else None
    gc.collect()
    print("child ends")

child = multiprocessing.get_context("fork").Process(target=use)
child.start()
child.join(60)
print("exit code", child.exitcode)
child.kill()
"""


@pytest.mark.parametrize("how", ["close", "drop", "rebuild"])
def test_forked_child__may_drop_what_it_inherited(how: str) -> None:
    """A pool without its threads ends the process that destroys it."""
    pytest.importorskip("envpool")
    command = [sys.executable, "-c", FORK_AND_DROP, "EnvPool/Pong-v5", how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines() == ["child ends", "exit code 0"], done.stderr


def test_forked_child__is_told_instead_of_hanging(env_id: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, env_id],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("child")]
    assert all("was built before this process was forked" in line for line in told[:2])
    assert all("'spawn'" in line for line in told[:2])
    if env_id.startswith("Brax"):
        assert "JAX had started before this process was forked" in told[2]
        assert "os.fork() was called" in done.stdout
    else:
        assert told[2] == "child runs", "a pool starts threads of its own"
    assert done.stdout.endswith("parent goes on\n")
