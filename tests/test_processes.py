"""Batches are pickled as their construction and built in workers; a fork is told from a spawn."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from typing import Any

import gymnasium as gym
import jax
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv

import gymbridge
from gymbridge.errors import ArgumentError
from gymbridge.testing import ScriptedSimulator
from tests.support.player import play
from tests.support.process_samples import NUM_STEPS, build_and_play, unpickle_and_play
from tests.support.python_runs import run_python
from tests.support.trees import assert_same

ENGINES = ("Brax/fast-v0", "EnvPool/CartPole-v1")


@pytest.fixture(params=ENGINES)
def env_id(request: pytest.FixtureRequest) -> str:
    return request.param


class Placed(gymbridge.BridgeVectorEnv):
    """A batch with a constructor of its own."""

    def __init__(self, num_envs: int, place: Any, device: str) -> None:
        super().__init__(ScriptedSimulator([2] * num_envs))
        self.place, self.name = place, device


def test_pickle__leaves_the_arguments_of_a_subclass_alone() -> None:
    twin = pickle.loads(pickle.dumps(Placed(2, jax.devices()[0], device="quad rotor")))
    assert (twin.place, twin.name) == ("cpu:0", "quad rotor")


def test_pickle__keeps_arrays_gradients_and_a_device_of_jax() -> None:
    options = {"arrays": "torch", "differentiable": True, "device": jax.devices()[0]}
    twin = pickle.loads(pickle.dumps(gymbridge.BraxVectorEnv("fast", 2, **options)))
    twin.reset(seed=0)
    assert twin.step(torch.zeros(2, 1, requires_grad=True))[0].requires_grad


@pytest.mark.parametrize(
    ("env_id", "method"), [*zip(ENGINES, ("spawn", "forkserver"), strict=True)]
)
def test_worker__builds_and_unpickles_its_own(env_id: str, method: str) -> None:
    kwargs = {"num_envs": 2, "max_episode_steps": 3}
    envs = gym.make_vec(env_id, **kwargs)
    wanted = play(envs, NUM_STEPS)
    with multiprocessing.get_context(method).Pool(1) as pool:
        found = pool.apply(build_and_play, (env_id, kwargs))
        unpickled = pool.apply(unpickle_and_play, (pickle.dumps(envs),))
    assert_same(found, wanted)
    assert_same(unpickled, wanted)


FORK = """
import os, sys, warnings
import gymnasium as gym
import jax.numpy as jnp
import gymbridge
from tests.support.process_samples import report
env_id = sys.argv[1]
envs = gym.make_vec(env_id, num_envs=2)
envs.reset(seed=0)
jnp.zeros(3)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    child = os.fork()
if child:
    os.waitpid(child, 0)
    print("parent", [str(warning.message)[:22] for warning in caught], flush=True)
    envs.step(envs.action_space.sample())
    print("parent goes on", flush=True)
else:
    report(lambda: envs.step(envs.action_space.sample()), envs.reset,
           lambda: gym.make_vec(env_id, num_envs=2).reset(seed=0),
           lambda: gym.make_vec(env_id, num_envs=2, arrays="jax"))
    os._exit(0)
"""


def test_forked_child__gets_an_error_instead_of_hanging(env_id: str) -> None:
    output = run_python("-c", FORK, env_id).out
    lines = [line for line in output.splitlines() if line.startswith("child")]
    for line in lines[:2]:
        assert "was built before this process was forked" in line
        assert "'spawn'" in line
    if env_id.startswith("Brax"):
        assert "JAX had started before this process was forked" in lines[2]
    else:
        assert lines[2] == "child runs", "a pool starts threads of its own"
    assert "JAX had started before this process was forked" in lines[3]
    assert "os.fork() was called" in output
    assert output.endswith("parent goes on\n")


FORK_GRAPH = """
import os, signal
import torch
from gymbridge import BraxVectorEnv
from tests.support.process_samples import report
envs = BraxVectorEnv("fast", 64, arrays="torch", differentiable=True)
envs.reset(seed=0)
actions = torch.zeros(64, 1, requires_grad=True)
loss = envs.step(actions)[0].sum()
state, window, physics = envs.get_state(), torch.zeros(2, 64, 1), envs.physics_state
child = os.fork()
if child:
    print("child ends", os.waitpid(child, 0)[1], flush=True)
    loss.backward()
    print("parent", bool(actions.grad.abs().sum() >= 0), len(envs.step(actions)), flush=True)
else:
    signal.alarm(60)
    report(loss.backward, envs.detach, envs.get_state, lambda: envs.set_state(state),
           lambda: envs.unroll(window), lambda: envs.physics_state,
           lambda: setattr(envs, "physics_state", physics), envs.render)
    envs.close()
    os._exit(0)
"""


@pytest.mark.slow
def test_forked_graph__gets_an_error_instead_of_hanging() -> None:
    """A backward pass of a step that the parent took needs the parent's threads."""
    lines = run_python("-c", FORK_GRAPH).lines
    assert "JAX had started before this process was forked" in lines[0]
    assert len(lines) == 10
    for line in lines[1:8]:
        assert "was built before this process was forked" in line
    assert lines[8:] == ["child ends 0", "parent True 5"]


FAST = "Brax/fast-v0"


@pytest.mark.parametrize(
    "build",
    [
        lambda: gym.make_vec(FAST, 2, vectorization_mode="async"),
        lambda: gym.make_vec(
            FAST, 2, vectorization_mode="async", vector_kwargs={"context": "fork"}
        ),
        lambda: AsyncVectorEnv([lambda: gym.make(FAST)] * 2),
    ],
    ids=["default", "fork", "class"],
)
def test_processes_of_gymnasium__are_refused_before_jax_is_forked(
    build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("A process starts."))
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none: None)
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["fork", "spawn"])
    message = (
        "`context` of AsyncVectorEnv must not be 'fork'.*`vectorization_mode='async'`.*'spawn'"
    )
    with pytest.raises(ArgumentError, match=message):
        build()


FORK_ASYNC = """
import os
from gymbridge.envpool import AsyncEnvPool
from tests.support.process_samples import report
pool = AsyncEnvPool("CartPole-v1", 4, 2)
pool.async_reset(seed=0)
ids = pool.recv()[-1]["env_id"]
child = os.fork()
if child:
    os.waitpid(child, 0)
    pool.send([0, 1], ids)
    print("parent", len(pool.recv()), flush=True)
else:
    report(pool.recv, lambda: pool.send([0, 1], ids), pool.async_reset,
           lambda: pool.async_reset(seed=1), lambda: pool.async_reset(env_ids=ids))
    pool.close()
    os._exit(0)
"""


def test_forked_asynchronous_pool__gets_an_error_instead_of_hanging() -> None:
    *lines, last = run_python("-c", FORK_ASYNC).lines
    assert len(lines) == 5
    for line in lines:
        assert "AsyncEnvPool with 4 environments was built before this process was forked" in line
    assert last == "parent 5"


FORK_AND_DROP = """
import gc, multiprocessing, sys
import gymnasium as gym
import gymbridge
envs = gym.make_vec(sys.argv[1], num_envs=4, num_threads=2)
envs.reset(seed=0)

def use(how):
    global envs
    if how == "close":
        envs.close()
    envs = gym.make_vec(sys.argv[1], num_envs=4) if how == "rebuild" else None
    gc.collect()
    print("child ends")

for how in ("close", "drop", "rebuild"):
    child = multiprocessing.get_context("fork").Process(target=use, args=[how])
    child.start()
    child.join(60)
    print("exit code", child.exitcode)
    child.kill()
"""


def test_forked_child__may_drop_what_it_inherited() -> None:
    """A pool without its threads ends the process that destroys it."""
    printed = run_python("-c", FORK_AND_DROP, "EnvPool/Pong-v5")
    assert printed.lines == ["child ends", "exit code 0"] * 3
