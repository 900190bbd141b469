"""`TorchRLEnv`: actions, infos and options, and what it refuses."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torchrl.envs.utils import check_env_specs

from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError
from gymbridge.trainers.torchrl import TorchRLEnv, make_torchrl
from gymbridge.trainers.torchrl.specs import to_observation_specs
from tests.support.brax_samples import count_on, start
from tests.support.falling_ball import make_ball
from tests.support.torchrl_samples import (
    NUM_ENVS,
    lean,
    make,
    make_cart_pole,
    make_counting,
    roll_out,
)


@pytest.mark.filterwarnings("ignore:.*multi-dimensional MultiDiscrete")
@pytest.mark.parametrize(
    ("space", "given", "wanted"),
    [
        (gym.spaces.Discrete(3, start=2), [4, 2], [4, 2]),
        (gym.spaces.MultiDiscrete([2, 3], start=[1, 1]), [[2, 3], [1, 1]], [[2, 3], [1, 1]]),
        (gym.spaces.MultiDiscrete([[2, 3], [2, 3]]), [[[1, 2], [0, 0]]], [[[1, 2], [0, 0]]]),
        (gym.spaces.MultiDiscrete([2, 3]), [[0, 1, 0, 0, 1], [1, 0, 0, 1, 0]], [[1, 2], [0, 1]]),
        (gym.spaces.Discrete(2), [[0.2, 0.8], [0.9, 0.1]], [1, 0]),
        (gym.spaces.Discrete(2), [[False, True], [True, False]], [1, 0]),
    ],
)
def test_actions__are_decoded_as_their_spec_says(space: Any, given: Any, wanted: Any) -> None:
    env = make_counting(action_space=space)
    assert env._to_actions(torch.tensor(given)).tolist() == wanted
    env.rand_step(env.reset())


def test_actions__are_one_hot_or_integers() -> None:
    one_hot, integers = make("discrete"), make_cart_pole()
    assert one_hot.action_spec.shape == (NUM_ENVS, 2)
    assert integers.action_spec.shape == (NUM_ENVS,)

    def lean_one_hot(td: Any) -> Any:
        action = torch.nn.functional.one_hot(lean(td)["action"], 2)
        return td.set("action", action)

    found = roll_out(one_hot, 30, policy=lean_one_hot)
    assert torch.equal(found["observation"], roll_out(integers, 30)["observation"])


def test_actions__of_another_shape_are_refused() -> None:
    """A narrow or wide one-hot would be another action."""
    env = make("discrete")
    td = env.reset()
    for given in (torch.ones(NUM_ENVS, 1), torch.eye(7)[-NUM_ENVS:]):
        with pytest.raises(ActionError, match=r"must have shape \(4, 2\)"):
            env.step(td.clone().set("action", given.long(), inplace=False))
    with pytest.raises(ArgumentTypeError, match=r"must be a torch.Tensor of shape \(4, 2\), got N"):
        env.step(td.clone())
    assert env.rand_step(td)["next", "info", "elapsed_step"].tolist() == [1] * NUM_ENVS


def test_actions__in_a_dict_are_those_of_the_batch() -> None:
    def step(state: Any, action: Any) -> Any:
        reward = action["push"][0] + 10.0 * action["gear"]
        return count_on(state, action["push"], reward=reward)

    parts = {"push": gym.spaces.Box(-1, 1, (1,)), "gear": gym.spaces.Discrete(3)}
    env = make_counting(step=step, action_space=gym.spaces.Dict(parts))
    check_env_specs(env)
    td = env.reset()
    td["action", "push"] = torch.tensor([[0.5], [0.25]])
    td["action", "gear"] = torch.tensor([2, 0])  # integers, also without categorical encoding
    assert env.step(td)["next", "reward"].tolist() == [[20.5], [0.25]]


@pytest.mark.parametrize("name", ["device", "shape", "batch_size", "names", "reward"])
def test_entries_under_names_of_torchrl__are_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"observations under '{name}', which TorchRL uses"):
        to_observation_specs(gym.spaces.Dict({name: gym.spaces.Box(0, 1)}))
    if name == "reward":  # infos have a place of their own, where this name is free
        return
    with pytest.raises(ArgumentError, match=f"infos under '{name}', which TorchRL uses itself"):
        make_counting(reset=lambda rng: start(rng, info={name: 1.0 * rng[0]}))


def test_unsigned_observations_and_infos__are_int64() -> None:
    def reset(rng: Any) -> Any:
        values = jnp.array([7, 300, 5], jnp.uint16)
        return start(rng, obs=values, info={"drawn": values.astype(jnp.uint32)})

    def step(state: Any, action: Any) -> Any:
        return count_on(state, action, obs=state.obs)

    space = gym.spaces.Box(0, 999, (3,), np.uint16)
    env = make_counting(reset=reset, step=step, observation_space=space)
    check_env_specs(env)
    assert env.envs.reset()[1]["drawn"].dtype == torch.uint32
    td = env.reset()
    for found in (td["observation"], td["info", "drawn"]):
        assert found.dtype == torch.int64
        assert found.tolist() == [[7, 300, 5]] * 2
    assert env.observation_spec["observation"].dtype == torch.int64


def test_infos__collide_with_no_name_of_torchrl() -> None:
    env = make("atari")
    options = {"autoreset_mode": "Disabled", "arrays": "torch"}
    envs: Any = gym.make_vec("EnvPool/Pong-v5", num_envs=NUM_ENVS, **options)
    env.set_seed(5)
    td = env.reset()
    envs.reset(seed=5)
    for _ in range(3):
        td = env.rand_step(td)
        _, rewards, terminations, _, infos = envs.step(td["action"].argmax(-1))
        assert torch.equal(td["next", "reward"][:, 0], rewards.float())
        assert torch.equal(td["next", "terminated"][:, 0], terminations)
        for name in ("reward", "terminated"):
            if name in infos:
                assert torch.equal(td["next", "info", name], infos[name]), name
        assert {name for name in infos if name[0] != "_"} == set(td["next", "info"].keys())
        td = env.step_mdp(td)


def test_options__reach_the_batch() -> None:
    env = TorchRLEnv(make_ball(2, arrays="torch", autoreset_mode="Disabled"))
    moon = np.tile(np.float32([0, 0, -1.62]), (2, 1))
    td = env.reset(options={"randomization": {"gravity": moon}})
    np.testing.assert_array_equal(td["info", "randomization", "gravity"], moon)


def test_available_envs__are_all_ids() -> None:
    ids = TorchRLEnv.available_envs
    assert {"EnvPool/CartPole-v1", "Brax/ant-v0", "Playground/CartpoleBalance-v0"} < set(ids)
    assert set(ids) <= set(gym.registry)


def test_bad_input__is_refused() -> None:
    env = make_cart_pole()
    with pytest.raises(ArgumentError, match=r"use torchrl's GymWrapper\(gymnasium.make_vec"):
        make_torchrl("CartPole-v1", 2)
    for name in ("categorical_action_encoding", "from_pixels"):
        with pytest.raises(ArgumentTypeError, match=f"`{name}` must be True or False, got 'no'"):
            make_torchrl("EnvPool/CartPole-v1", 2, **{name: "no"})
    with pytest.raises(ArgumentTypeError, match="without wrappers, got VectorWrapper"):
        TorchRLEnv(gym.vector.VectorWrapper(env.envs))
    with pytest.raises(ArgumentError, match="`device` is fixed when a batch is built"):
        env.to("meta")
    assert env.to("cpu") is env
    with pytest.raises(ArgumentError, match="differentiable=True"):
        make("brax").detach()


def test_reset__takes_no_other_word_than_a_seed() -> None:
    env = make_cart_pole()
    with pytest.raises(ArgumentError, match="TorchRL's mask is the entry '_reset'"):
        env.reset(options={"reset_mask": [True] * NUM_ENVS})
    with pytest.raises(TypeError, match="sede"):
        env.reset(sede=3)
