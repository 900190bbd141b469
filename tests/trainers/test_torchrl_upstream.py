"""What TorchRL's own tests ask of its `BraxEnv` and its thread pool holds for `TorchRLEnv`.

Its tests are `test/libs/test_brax.py` and `test_envpool.py`. Others of their assertions are in the
files beside this one: specs, transforms, gradients, partial resets and steps.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("torchrl")
pytest.importorskip("envpool.registration")

import torch
from tensordict import TensorDict
from torchrl.collectors import Collector
from torchrl.envs import ParallelEnv, SerialEnv
from torchrl_samples import NUM_ENVS, lean, make, make_cart_pole

from gymbridge.trainers.torchrl import TorchRLEnv


@pytest.mark.parametrize("task", ["box", "brax"])
def test_builds__with_one_seed_have_one_rollout(task: str) -> None:
    found = []
    for seed in (3, 3, 4):
        env = make(task)
        final_seed = env.set_seed(seed)
        torch.manual_seed(0)
        found.append((final_seed, env.rollout(8, break_when_any_done=False)))
    (seed, rollout), (same_seed, same), (_, other) = found
    assert seed == same_seed
    for key in ("observation", "action", ("next", "observation"), ("next", "reward")):
        assert torch.equal(rollout[key], same[key]), key
    if task == "box":  # Brax's fast begins at zero
        assert not torch.equal(rollout["observation"], other["observation"])


def test_constructors__build_the_same() -> None:
    pytest.importorskip("brax.envs")
    from gymbridge import BraxVectorEnv

    options: Any = {"autoreset_mode": "Disabled", "arrays": "torch", "max_episode_steps": 5}
    wrapped, made = TorchRLEnv(BraxVectorEnv("fast", NUM_ENVS, **options)), make("brax")
    assert wrapped.observation_spec == made.observation_spec
    assert wrapped.full_action_spec == made.full_action_spec
    assert repr(made).startswith("TorchRLEnv(")
    assert "fast" in repr(made)
    assert repr(made).endswith(", device='cpu')")


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        (SerialEnv, "box"),
        (SerialEnv, "brax"),
        pytest.param(ParallelEnv, "brax", marks=pytest.mark.slow),
    ],
)
def test_several_batches__are_each_their_own(kind: Any, task: str) -> None:
    """`ParallelEnv` has a process for each."""
    envs = kind(2, partial(make, task))
    envs.set_seed(0)
    torch.manual_seed(0)
    actions = [envs.full_action_spec["action"].rand() for _ in range(7)]
    steps = [envs.reset()]
    for action in actions:
        steps.append(envs.step_and_maybe_reset(steps[-1].clone().set("action", action))[1])
    envs.close()
    assert steps[0].batch_size == (2, NUM_ENVS)
    for index in range(2):
        alone = make(task)
        alone.set_seed(0 if index == 0 else make(task).set_seed(0))
        td = alone.reset()
        for step, action in enumerate(actions):
            assert torch.equal(td["observation"], steps[step]["observation"][index]), step
            td = alone.step_and_maybe_reset(td.set("action", action[index]))[1]


def test_windows__leave_no_memory() -> None:
    """TorchRL's test detaches each step; here `detach` cuts the graph of a window."""
    jax = pytest.importorskip("jax")
    env = make("brax", differentiable=True, max_episode_steps=None)
    counts, td = [], env.reset()
    for _ in range(4):
        for _ in range(20):
            td = env.step_mdp(env.step(td.set("action", torch.zeros(NUM_ENVS, 1))))
        env.detach()
        td = td.detach()
        counts.append(len(jax.live_arrays()))
    assert counts[1] == counts[2] == counts[3]


def test_rand_step__begins_without_a_tensordict() -> None:
    env = make("box")
    env.reset()
    assert env.rand_step()["next", "reward"].shape == (NUM_ENVS, 1)
    with pytest.raises(RuntimeError, match="batch_size"):
        env.step(TensorDict({"action": torch.zeros(9, 6)}, [9]))


def test_reset_mask__may_have_one_axis() -> None:
    env = make_cart_pole()
    td = env.reset()
    later = env.reset(td.clone().set("_reset", torch.tensor([True, False, True, False])))
    changed = (td["observation"] != later["observation"]).any(1)
    assert changed.tolist() == [True, False, True, False]


@pytest.mark.filterwarnings("ignore:The env passed to Collector")
def test_environment__is_open_until_it_or_its_collector_is_closed() -> None:
    env = make("discrete", categorical_action_encoding=True)
    assert not env.is_closed
    collector = Collector(env, lean, frames_per_batch=8, total_frames=80)
    next(iter(collector))
    assert not env.is_closed
    collector.shutdown()
    assert env.is_closed
    assert env.envs.closed
    view = make("discrete")
    batch = view.envs
    del view
    assert not batch.closed, "a view that is collected leaves the batch open"
