"""`RslRlVecEnv`: what rsl_rl's runner reads, over batches of tensors of every engine."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.wrappers.vector import TransformReward
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError
from gymbridge.trainers.rsl_rl import RslRlVecEnv, make_rsl_rl
from tests.support.brax_samples import count_on
from tests.support.example_runs import EXAMPLES, load_script
from tests.support.small_batches import (
    GAMMA,
    RSL_RL_CFG,
    counting_batch,
    playground_batch,
    wheel_batch,
    wheel_values,
)

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "trainers" / "rsl-rl.md"
NUM_ENVS, SEED = 4, 3
PENDULUM = "EnvPool/Pendulum-v1"


def test_steps__are_those_of_the_batch() -> None:
    options: Any = {"num_envs": NUM_ENVS, "max_episode_steps": 5}
    env = make_rsl_rl(PENDULUM, **options)
    reference = gym.make_vec(PENDULUM, autoreset_mode="SameStep", **options)
    wanted = reference.reset(seed=SEED)
    np.testing.assert_array_equal(env.reset(seed=SEED)["policy"], wanted[0])
    rng = np.random.default_rng(0)
    lengths = np.zeros(NUM_ENVS, int)
    returns = np.zeros(NUM_ENVS)
    for step in range(1, 13):
        actions = rng.uniform(-4, 4, (NUM_ENVS, 1)).astype(np.float32)  # beyond [-2, 2]
        with torch.inference_mode(step % 2 == 0):  # as in rsl_rl's runner, and as outside of it
            obs, rewards, dones, extras = env.step(torch.from_numpy(actions))
        wanted = reference.step(actions.clip(-2, 2))
        assert obs["policy"].dtype == rewards.dtype == torch.float32
        np.testing.assert_array_equal(obs["policy"], wanted[0])
        np.testing.assert_array_equal(rewards, wanted[1])
        np.testing.assert_array_equal(dones, (wanted[2] | wanted[3]).astype(int))
        np.testing.assert_array_equal(extras["time_outs"], wanted[3])
        lengths, returns = lengths + 1, returns + wanted[1]
        assert ("log" in extras) == ("final_observations" in extras) == (step % 5 == 0)
        if "log" in extras:
            final_obs = np.stack(wanted[4]["final_obs"])
            np.testing.assert_array_equal(extras["final_observations"]["policy"], final_obs)
            assert extras["log"]["/episode/length"].item() == 5
            assert extras["log"]["/episode/return"].item() == pytest.approx(returns.mean(), 1e-5)
            lengths, returns = 0 * lengths, 0 * returns
        assert env.episode_length_buf.tolist() == lengths.tolist()


def test_get_observations__changes_nothing() -> None:
    env = make_rsl_rl(PENDULUM, NUM_ENVS, max_episode_steps=5)
    first = env.get_observations()
    assert first.batch_size == (NUM_ENVS,)
    first["policy"].zero_()
    again = env.get_observations()
    assert (again["policy"] != 0).any()
    obs, *_ = env.step(torch.zeros(NUM_ENVS, 1))
    assert torch.equal(env.get_observations()["policy"], obs["policy"])
    obs["policy"] += 9
    assert (env.get_observations()["policy"] != obs["policy"]).all()
    assert env.episode_length_buf.tolist() == [1] * NUM_ENVS


def test_groups__are_the_keys_of_a_dict() -> None:
    env = RslRlVecEnv(playground_batch(3, "SameStep"))
    assert set(env.get_observations().keys()) == {"state", "privileged_state"}
    assert env.max_episode_length == 2**31 - 1
    obs, *_ = env.step(torch.full((3, 1), 0.5))
    assert obs["state"].tolist() == [[0.5, 1.0]] * 3


def count_to_draw(state: Any, action: Any) -> Any:
    """Step an episode that takes as many steps as it drew, up to 4."""
    return count_on(state, action, done=(state.obs[0] + 1 >= 1 + 4 * state.obs[1] // 1) * 1.0)


def test_final_observations__are_the_true_next_ones() -> None:
    env = RslRlVecEnv(counting_batch(16, "SameStep", step=count_to_draw, max_episode_steps=3))
    env.reset(seed=0)  # where each step ends some episodes
    before = env.get_observations()["policy"]
    for _ in range(9):
        obs, _, dones, extras = env.step(torch.zeros(16, 1))
        assert 0 < dones.sum() < 16
        final_obs = extras["final_observations"]
        assert final_obs.batch_size == (16,)
        assert torch.equal(final_obs["policy"], before + torch.tensor([1.0, 0.0]))
        assert torch.equal((final_obs["policy"] == obs["policy"]).all(-1), dones == 0)
        before = obs["policy"]


def test_actions__are_clipped_and_keep_their_place() -> None:
    """The reward is the sum of the action; Pendulum's own clip would hide ours."""
    space = gym.spaces.Box(-1, np.float32([1, 2]))
    env = RslRlVecEnv(counting_batch(3, "SameStep", action_space=space))
    actions = torch.tensor([[4.0, 0.0], [0.5, 4.0], [-4.0, 0.25]])
    assert env.step(actions)[1].tolist() == [1, 2.5, -0.75]
    assert actions[0, 0] == 4
    for shape in ((2, 3), (6,), (3, 2, 1), (3, 1)):
        with pytest.raises(ActionError, match=r"must have shape \(3, 2\)"):
            env.step(torch.zeros(shape))
    with pytest.raises(ArgumentTypeError, match=r"Tensor of shape \(3, 2\), got ndarray"):
        env.step(np.zeros((3, 2)))  # type: ignore[arg-type]
    assert env.episode_length_buf.tolist() == [1, 1, 1]


def test_ends__by_the_task_on_the_last_step_are_no_timeouts() -> None:
    """The log is of those that ended alone."""
    env = RslRlVecEnv(counting_batch(64, "SameStep", step=count_to_draw, max_episode_steps=3))
    actions = torch.linspace(-1, 1, 64).unsqueeze(1)  # which are the rewards
    lengths = torch.zeros(64)
    drawn = 1 + 4 * env.reset(seed=0)["policy"][:, 1] // 1
    for _ in range(9):
        obs, _, dones, extras = env.step(actions)
        lengths += 1
        terminated, ended = lengths == drawn, dones.bool()
        assert torch.equal(ended, terminated | (lengths == 3))
        assert torch.equal(extras["time_outs"], (lengths == 3) & ~terminated)
        assert extras["log"]["/episode/length"] == lengths[ended].mean()
        mean = (lengths * actions[:, 0])[ended].mean()
        torch.testing.assert_close(extras["log"]["/episode/return"], mean)
        assert (terminated & (lengths == 3)).any() or lengths.max() < 3
        lengths[ended] = 0
        drawn = torch.where(ended, 1 + 4 * obs["policy"][:, 1] // 1, drawn)


def test_scalars__are_groups_of_one() -> None:
    env = make_rsl_rl("EnvPool/WalkerRun-v1", 2)
    groups = env.get_observations()
    assert all(group.shape == (2, group[0].numel()) for group in groups.values())
    assert all(group.dtype == torch.float32 for group in groups.values())
    config = copy.deepcopy(RSL_RL_CFG)
    config["obs_groups"] = {model: list(groups.keys()) for model in ("actor", "critic")}
    OnPolicyRunner(env, config, device="cpu").learn(1)


def test_attributes__are_those_that_rsl_rl_reads() -> None:
    env = make_rsl_rl("EnvPool/HalfCheetah-v5", 2, max_episode_steps=7)
    assert (env.num_envs, env.num_actions, env.max_episode_length) == (2, 6, 7)
    assert env.device == torch.device("cpu")
    assert env.cfg.to_dict() == {}  # which the loggers of W&B and Neptune call
    assert make_rsl_rl(PENDULUM, 1, cfg={"task": "swing"}).cfg.to_dict() == {"task": "swing"}
    assert env.step_dt == 1
    named = RslRlVecEnv(env.envs, cfg={"task": "cheetah"})
    assert named.cfg.to_dict() == {"task": "cheetah"}
    copied = pickle.loads(pickle.dumps(named))
    assert copied.cfg == named.cfg
    assert copied.step(torch.zeros(2, 6))[2].tolist() == [0, 0]


def test_log__keeps_no_graph() -> None:
    env = make_rsl_rl("Brax/fast-v0", 2, differentiable=True, max_episode_steps=2)
    actions = torch.zeros(2, 1, requires_grad=True)
    log = [env.step(actions)[3] for _ in range(2)][1]["log"]
    assert not log["/episode/return"].requires_grad


def test_return_that_is_not_finite__is_forgotten_with_its_episode() -> None:
    envs, divisors = make_rsl_rl(PENDULUM, 2, max_episode_steps=2).envs, iter([0, 1, 1, 1])
    env = RslRlVecEnv(TransformReward(envs, lambda rewards: rewards / next(divisors)))
    logs = [env.step(torch.zeros(2, 1))[3].get("log") for _ in range(4)]
    assert not logs[1]["/episode/return"].isfinite()
    assert logs[3]["/episode/return"].isfinite()


def final_value_ppo() -> Any:
    return load_script(EXAMPLES / "rsl_rl_ppo.py").FinalValuePPO


@pytest.mark.parametrize("critic", ["MLPModel", "RNNModel"])
def test_final_value_ppo__bootstraps_time_outs_alone(critic: str) -> None:
    env = RslRlVecEnv(counting_batch(16, "SameStep", step=count_to_draw, max_episode_steps=3))
    env.reset(seed=0)  # where each step ends some episodes
    config = copy.deepcopy(RSL_RL_CFG)
    config["critic"]["class_name"] = critic
    config["algorithm"].update(class_name=final_value_ppo(), gamma=GAMMA)
    alg, obs, ends = OnPolicyRunner(env, config, device="cpu").alg, env.get_observations(), 0
    with torch.inference_mode():
        for step in range(6):
            obs, rewards, dones, extras = env.step(alg.act(obs))
            given, twin = rewards.clone(), copy.deepcopy(alg.critic)
            twin.reset(dones)
            memory = copy.deepcopy(twin.get_hidden_state())
            values = copy.deepcopy(alg.critic)(extras["final_observations"])[:, 0]
            alg.process_env_step(obs, rewards, dones, extras)
            stored = alg.storage.rewards[step, :, 0]
            torch.testing.assert_close(stored, given + GAMMA * values * extras["time_outs"])
            torch.testing.assert_close(alg.critic.get_hidden_state(), memory)
            assert torch.equal(rewards, given)  # which rsl_rl logs
            assert "time_outs" in extras
            ends += extras["time_outs"].sum()
    assert 0 < ends < dones.numel() * 6


def test_final_value_ppo__reads_no_value_where_the_task_ended() -> None:
    """A task may end an episode because its numbers overflowed."""
    env = RslRlVecEnv(counting_batch(2, "SameStep", max_episode_steps=1))
    config = copy.deepcopy(RSL_RL_CFG)
    config["algorithm"].update(class_name=final_value_ppo())
    alg, obs = OnPolicyRunner(env, config, device="cpu").alg, env.get_observations()
    with torch.inference_mode():
        obs, rewards, dones, extras = env.step(alg.act(obs))
        extras["time_outs"] = torch.tensor([True, False])
        extras["final_observations"]["policy"][1] = torch.nan
        alg.process_env_step(obs, rewards, dones, extras)
    assert alg.storage.rewards[0, 1] == rewards[1]
    assert alg.storage.rewards[0, 0] != rewards[0]


def wheel_error(algorithm: Any, seed: int) -> float:
    """Return the mean error of the values that rsl_rl learns on the wheel."""
    torch.manual_seed(seed)
    envs = wheel_batch(16, "SameStep")
    envs.reset(seed=seed)
    config = copy.deepcopy(RSL_RL_CFG)
    options = {"gamma": GAMMA, "lam": 0.95, "schedule": "fixed", "learning_rate": 3e-3}
    config["algorithm"].update(class_name=algorithm, use_clipped_value_loss=False, **options)
    runner = OnPolicyRunner(RslRlVecEnv(envs), config, device="cpu")
    runner.learn(30)
    angles = torch.arange(12) * torch.pi / 6
    points = torch.stack([angles.cos(), angles.sin()], -1)
    values = runner.alg.critic(TensorDict({"policy": points}, [12]))[:, 0]
    return (values - wheel_values(points)).abs().mean().item()


@pytest.mark.slow
def test_values__are_true_where_final_observations_bootstrap() -> None:
    errors = [[wheel_error(kind, seed) for seed in range(3)] for kind in ("PPO", final_value_ppo())]
    found = re.findall(r"\| (\d\.\d+), (\d\.\d+), (\d\.\d+) \|", PAGE.read_text(encoding="utf-8"))
    wanted = [[*map(float, row)] for row in found]
    assert np.array(errors) == pytest.approx(np.array(wanted), abs=0.05)


def test_length__cannot_be_assigned() -> None:
    env = make_rsl_rl(PENDULUM, 2)
    message = r"`episode_length_buf` cannot be assigned.*init_at_random_ep_len=False"
    with pytest.raises(ArgumentError, match=message):
        env.episode_length_buf = torch.zeros(2)  # as with `init_at_random_ep_len=True`


def test_other_id__is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"must be an id of gymbridge.*got 'Pendulum-v1'"):
        make_rsl_rl("Pendulum-v1", 2)
