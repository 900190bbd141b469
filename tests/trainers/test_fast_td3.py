"""The environments that the page on FastTD3 gives its script, as the script reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import numpy as np
import pytest
import torch
from gymnasium import spaces

from gymbridge import JaxEnv, JaxVectorEnv

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "trainers" / "fast-td3.md"
NUM_ENVS, SEED = 4, 3


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the page's block defines."""
    pytest.importorskip("mujoco_playground")
    pattern = r"<!-- environments of FastTD3 -->\n```python\n(.*?)```"
    (block,) = re.findall(pattern, PAGE.read_text(encoding="utf-8"), re.DOTALL)
    found: dict[str, Any] = {}
    exec(block, found)
    return found


class Walk(JaxEnv):
    """A robot's two observations; it falls beyond 0.7."""

    observation_space = spaces.Dict(
        state=spaces.Box(-9, 9, (1,)), privileged_state=spaces.Box(-9, 9, (2,))
    )
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, key: Any) -> Any:
        place = jax.random.uniform(key, (1,), minval=-0.5, maxval=0.5)
        return place, self._see(place), {}

    def step(self, key: Any, state: Any, action: Any) -> Any:
        place = state + 0.4 * action
        return place, self._see(place), place[0], abs(place[0]) > 0.7, False, {}

    def _see(self, place: Any) -> Any:
        return {"state": place, "privileged_state": jax.numpy.concatenate([place, 2 * place])}


def make_batch(task: str, arrays: str) -> Any:
    options: Any = {"num_envs": NUM_ENVS, "max_episode_steps": 5, "autoreset_mode": "SameStep"}
    if task == "robot":
        return JaxVectorEnv(Walk(), arrays=arrays, **options)
    pytest.importorskip("envpool")
    return gym.make_vec("EnvPool/Pendulum-v1", arrays=arrays, **options)


@pytest.mark.parametrize(("task", "sizes"), [("robot", (1, 2)), ("pendulum", (3, 3))])
def test_steps__have_the_last_observation_of_each_episode(
    page: dict[str, Any], task: str, sizes: tuple[int, int]
) -> None:
    env, reference = page["FastTD3Env"](make_batch(task, "torch"), SEED), make_batch(task, "numpy")
    assert (env.num_envs, env.num_actions, env.max_episode_steps) == (NUM_ENVS, 1, 5)
    assert (env.num_obs, env.num_privileged_obs) == sizes
    assert env.asymmetric_obs == (task == "robot")

    def split(obs: Any) -> Any:
        return (obs["state"], obs["privileged_state"]) if task == "robot" else (obs, obs)

    wanted = split(reference.reset(seed=SEED)[0])
    for found, part in zip(env.reset_with_critic_obs(), wanted, strict=True):
        np.testing.assert_array_equal(found, part)
    ends = np.zeros(2, int)
    rng = np.random.default_rng(0)
    for _ in range(12):
        actions = rng.uniform(-2, 2, (NUM_ENVS, 1)).astype(np.float32)
        obs, rewards, dones, extras = env.step(torch.from_numpy(actions))
        wanted = reference.step(actions.clip(-1, 1))
        over = wanted[2] | wanted[3]
        ends += wanted[2].sum(), wanted[3].sum()
        np.testing.assert_array_equal(rewards, wanted[1])
        np.testing.assert_array_equal(dones, over)
        np.testing.assert_array_equal(extras["time_outs"], wanted[3])
        seen = obs, extras["observations"]["critic"]
        last = extras["observations"]["raw"]["obs"], extras["observations"]["raw"]["critic_obs"]
        for found, part in zip(seen, split(wanted[0]), strict=True):
            np.testing.assert_array_equal(found, part)
        for row in np.flatnonzero(over):
            for found, part in zip(last, split(wanted[4]["final_obs"][row]), strict=True):
                np.testing.assert_array_equal(found[row], part)
    assert ends[1] > 0
    assert (ends[0] > 0) == (task == "robot")


@pytest.mark.slow
def test_make_env__gives_batches_of_both_sizes_and_no_pictures(page: dict[str, Any]) -> None:
    train, evaluate, drawn = page["make_env"]("CartpoleBalance", SEED, 3, 2, 0)
    assert (train.num_envs, evaluate.num_envs, drawn) == (3, 2, None)
    assert train.max_episode_steps == 1000
    actions = torch.zeros(3, 1)
    assert train.reset().shape == train.step(actions)[0].shape == (3, train.num_obs)
    with pytest.raises(ValueError, match="config_overrides"):
        page["make_env"]("CartpoleBalance", SEED, 3, 2, 0, use_tuned_reward=True)
