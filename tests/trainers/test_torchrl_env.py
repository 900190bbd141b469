"""`TorchRLEnv`: specs, rollouts, partial resets and partial steps over every engine."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from tensordict import TensorDict
from torchrl.envs import ActionMask, GymWrapper, TransformedEnv
from torchrl.envs.utils import check_env_specs

from gymbridge.errors import ArgumentError, ResetNeededError
from tests.support.brax_samples import count_on, start
from tests.support.torchrl_samples import (
    FLAGS,
    NUM_ENVS,
    TASKS,
    lean,
    make,
    make_cart_pole,
    make_counting,
    make_staggered,
    roll_out,
)


@pytest.mark.parametrize("task", [*TASKS, "playground"])
def test_specs__are_what_comes(task: str) -> None:
    env = make(task)
    check_env_specs(env)
    assert env.batch_size == (NUM_ENVS,)
    assert env.device == torch.device("cpu")
    rollout = env.rollout(9, break_when_any_done=False)
    assert rollout.batch_size == (NUM_ENVS, 9)
    if task == "playground":
        assert {"state", "privileged_state"} < set(rollout.keys())
        assert rollout["next", "done"].any()


@pytest.mark.parametrize("task", ["box", "dict", "discrete observations", "brax"])
def test_specs__have_the_bounds_and_dtypes_of_the_spaces(task: str) -> None:
    env = make(task, categorical_action_encoding=True)
    envs = env.envs
    spaces = envs.single_observation_space
    parts = spaces.spaces if isinstance(spaces, gym.spaces.Dict) else {"observation": spaces}
    specs = {name: env.observation_spec[name] for name in parts}
    if isinstance(envs.single_action_space, gym.spaces.Box):
        parts = {**parts, "action": envs.single_action_space}
        specs["action"] = env.full_action_spec["action"]
    for name, space in parts.items():
        low, high = space_bounds(space)
        spec = specs[name]
        assert spec.dtype == torch.as_tensor(low).dtype
        assert spec.shape == (NUM_ENVS, *space.shape)
        for found, wanted in ((spec.space.low, low), (spec.space.high, high)):
            if np.isinf(wanted).all():  # of an `Unbounded`, the least and the greatest number
                assert (found.abs() == torch.finfo(spec.dtype).max).all() or found.isinf().all()
            else:
                assert torch.equal(found[0], torch.as_tensor(wanted))


def space_bounds(space: Any) -> tuple[Any, Any]:
    if isinstance(space, gym.spaces.Discrete):
        return space.start, space.dtype.type(space.start + space.n - 1)
    return space.low, space.high


def test_custom_brax_environment__has_the_keys_of_its_dict() -> None:
    def split(state: Any) -> Any:
        return state.replace(obs={"count": state.obs[:1], "rest": {"draw": state.obs[1:]}})

    def reset(rng: Any) -> Any:
        return split(start(rng))

    def step(state: Any, action: Any) -> Any:
        flat = jnp.concatenate([state.obs["count"], state.obs["rest"]["draw"]])
        return split(count_on(state.replace(obs=flat), action))

    env = make_counting(3, reset=reset, step=step)
    check_env_specs(env)
    assert {"count", "rest"} < set(env.observation_spec.keys())
    rollout = env.rollout(3)
    assert rollout["next", "count"][:, :, 0].tolist() == [[1, 2, 3]] * 3
    assert (rollout["next", "rest", "draw"] == rollout["rest", "draw"]).all()


def test_rollout__is_that_of_a_numpy_batch() -> None:
    options: Any = {"max_episode_steps": 9}
    envs = gym.make_vec("EnvPool/CartPole-v1", NUM_ENVS, autoreset_mode="Disabled", **options)
    wanted = roll_out(GymWrapper(envs, categorical_action_encoding=True))
    env = make("discrete", categorical_action_encoding=True, **options)
    env.set_seed(0)
    env.reset()  # as TorchRL's own `set_seed` does
    found = env.rollout(60, policy=lean, break_when_any_done=False)
    for flag in ("terminated", "truncated"):
        assert found["next", flag].any()
    for key in ("observation", *FLAGS, *(("next", key) for key in (*FLAGS, "observation"))):
        assert torch.equal(found[key], wanted[key]), key
    torch.testing.assert_close(found["next", "reward"].double(), wanted["next", "reward"].double())


def test_partial_steps__hold_the_environments_that_are_done() -> None:
    """With `break_when_all_done` TorchRL steps those that are not done yet."""
    env = make_staggered()
    env.set_seed(0)
    torch.manual_seed(0)
    rollout = env.rollout(60, break_when_all_done=True, break_when_any_done=False)
    done = rollout["next", "done"][..., 0]
    assert done[:, -1].all(), "held environments stay done"
    lengths = (~done).sum(1) + 1
    assert rollout.shape[1] == lengths.max()
    assert len(set(lengths.tolist())) > 1
    counts = rollout["next", "observation"][..., 0]
    steps = torch.arange(1, rollout.shape[1] + 1)
    assert torch.equal(counts, torch.minimum(steps, lengths.unsqueeze(1)).float())


@pytest.mark.parametrize(("engine", "name"), [("box", "observation"), ("playground", "state")])
def test_partial_step__leaves_the_environments_outside_the_mask(engine: str, name: str) -> None:
    """These run; `rollout` shows only environments that are done."""
    env = make(engine)
    td = env.rand_step(env.reset())
    td = env.rand_action(env.step_mdp(td))
    mask = torch.tensor([True, False, True, False])
    after = env.step(td.clone().set("_step", mask))["next"]
    assert torch.equal(after[name][~mask], td[name][~mask])
    assert (after[name][mask] != td[name][mask]).any(1).all()
    assert (after["reward"][~mask] == 0).all()
    assert not after["done"][~mask].any()
    again = env.rand_step(env.step_mdp(TensorDict({"next": after}, [NUM_ENVS])))["next"]
    assert (again[name] != after[name]).any(1)[~mask].all(), "they are held for one step"


def test_partial_reset__begins_the_episodes_under_the_mask_alone() -> None:
    env = make_cart_pole()
    env.set_seed(3)
    td = env.reset()
    for _ in range(3):
        td = env.step_mdp(env.step(lean(td)))
    rows = torch.tensor([True, False, False, True])
    for mask in (rows.unsqueeze(-1), rows):
        later = env.reset(td.clone().set("_reset", mask))
        assert torch.equal(later["observation"][~rows], td["observation"][~rows])
        assert (later["observation"][rows] != td["observation"][rows]).any(1).all()
        assert later["info", "elapsed_step"].tolist() == [0, 3, 3, 0]


@pytest.mark.filterwarnings("ignore:A partial `'_reset'` key")
def test_partial_reset__keeps_the_flags_of_the_others() -> None:
    env = make_staggered()
    td = env.rand_step(env.reset())
    while not td["next", "done"].any():
        td = env.rand_step(env.step_mdp(td))
    done = td["next", "done"]
    row = int(done[:, 0].nonzero()[0, 0])
    mask = torch.zeros_like(done)
    mask[(row + 1) % NUM_ENVS] = True
    later = env.reset(TensorDict({"_reset": mask}, env.batch_size))
    for flag in FLAGS:
        assert torch.equal(later[flag], td["next", flag] & ~mask), flag


def test_seed__is_that_of_the_next_full_reset() -> None:
    env = make_cart_pole()
    first = roll_out(env, 20)
    assert env.envs.np_random_seed == (0, 1, 2, 3)
    assert torch.equal(roll_out(env, 20)["observation"], first["observation"])
    env.set_seed(7)
    other = env.reset()["observation"]
    assert not torch.equal(other, first["observation"][:, 0])
    assert torch.equal(env.reset(seed=7)["observation"], other)


def test_seed__is_not_lost() -> None:
    """Not to a reset that is refused, and not to steps of episodes that ran before."""
    env = make_cart_pole()
    env.set_seed(3)
    wanted = env.reset()
    td = env.step_mdp(env.step(lean(env.reset())))
    env.set_seed(3)
    with pytest.raises(ArgumentError, match="bogus"):
        env.reset(options={"bogus": 1})
    with pytest.raises(ResetNeededError, match=r"`set_seed\(3\)` takes effect at a reset of all"):
        env.step(lean(td))
    assert torch.equal(env.reset()["observation"], wanted["observation"])


def test_partial_reset__keeps_the_infos_of_the_others() -> None:
    """Transforms read them, as `ActionMask` does here, before TorchRL merges."""

    def reset(rng: Any) -> Any:
        return start(rng, info={"mask": jnp.array([True, False, True])})

    def step(state: Any, action: Any) -> Any:
        return count_on(state, action, reward=action.astype(float))

    space = gym.spaces.Discrete(3)
    envs = make_counting(NUM_ENVS, reset=reset, step=step, action_space=space)
    env = TransformedEnv(envs, ActionMask(mask_key=("info", "mask")))
    td = env.step_mdp(env.rand_step(env.reset()))
    env.reset(td.set("_reset", torch.eye(NUM_ENVS, dtype=torch.bool)[:, :1]))
    assert env.action_spec.mask.tolist() == [[True, False, True]] * NUM_ENVS
