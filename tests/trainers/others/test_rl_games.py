"""`RlGamesVecEnv`: what rl_games's runner reads, its PPO and its players."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from rl_games.torch_runner import Runner

from gymbridge import EnvPoolVectorEnv
from gymbridge.errors import ActionError, ArgumentError, ArgumentTypeError
from gymbridge.testing import scripted_vector_env
from gymbridge.trainers.rl_games import RlGamesVecEnv, make_rl_games, register_rl_games
from tests.support.cartpole import check_transitions
from tests.support.example_runs import run_page_script
from tests.support.small_batches import counting_batch, playground_batch

CARTPOLE = "EnvPool/CartPole-v1"
MLP = {"units": [16], "activation": "elu", "initializer": {"name": "default"}}
CONFIG: dict[str, Any] = {
    "name": "small",
    "env_name": "gymbridge",
    "device": "cpu",
    "device_name": "cpu",
    "torch_compile": False,
    "num_actors": 4,
    "horizon_length": 16,
    "minibatch_size": 32,
    "mini_epochs": 2,
    "max_epochs": 2,
    "score_to_win": 1000,
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "tau": 0.95,
    "e_clip": 0.2,
    "clip_value": False,
    "critic_coef": 1,
    "entropy_coef": 0.0,
    "grad_norm": 0.5,
    "truncate_grads": True,
    "normalize_input": False,
    "normalize_advantage": True,
    "lr_schedule": None,
    "reward_shaper": {},
    "bounds_loss_coef": 0.001,
    "player": {"games_num": 2, "print_stats": False},
}


@pytest.fixture(autouse=True)
def _empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """rl_games writes into the folder `runs`."""
    monkeypatch.chdir(tmp_path)


def make_runner(kind: str = "discrete", seed: int = 3, **config: Any) -> Any:
    """Return a runner of a small PPO."""
    register_rl_games()
    fixed = {"mu_activation": "None", "sigma_activation": "None", "fixed_sigma": True}
    inits = {"mu_init": {"name": "default"}, "sigma_init": {"name": "const_initializer", "val": 0}}
    space = {"discrete": {}} if kind == "discrete" else {"continuous": {**fixed, **inits}}
    network = {"name": "actor_critic", "separate": False, "space": space, "mlp": MLP}
    params = {
        "seed": seed,
        "torch_threads": 1,
        "algo": {"name": f"a2c_{kind}"},
        "model": {"name": "discrete_a2c" if kind == "discrete" else "continuous_a2c_logstd"},
        "network": network,
        "config": {**CONFIG, **config},
    }
    runner = Runner()
    runner.load({"params": copy.deepcopy(params)})
    return runner


def make_agent(runner: Any) -> Any:
    return runner.algo_factory.create(runner.algo_name, base_name="run", params=runner.params)


def test_transitions__are_cartpole_s() -> None:
    """As rl_games's PPO draws them, with the final observations of its infos."""
    config = {"env_id": CARTPOLE, "max_episode_steps": 25}
    agent = make_agent(make_runner(env_config=config, horizon_length=250, minibatch_size=1000))
    step, seen = agent.vec_env.step, []

    def watch(actions: Any) -> Any:
        obs = agent.obs["obs"].clone()
        found = step(actions)
        seen.append((obs, actions, *found[:3], found[3]["time_outs"], found[3]["final_obs"]))
        return found

    agent.vec_env.step = watch
    agent.init_tensors()
    agent.obs = agent.env_reset()
    with torch.no_grad():
        stored = agent.play_steps()
    columns = [torch.stack(column).numpy() for column in zip(*seen, strict=True)]
    obs, actions, after, rewards, dones, timeouts, final_obs = columns
    assert obs.shape == (250, 4, 4)
    assert (rewards == 1).all()
    flat = [part.reshape(1000, *part.shape[2:]) for part in (obs, actions, final_obs)]
    check_transitions(*flat, (dones & ~timeouts).ravel(), timeouts.ravel())
    np.testing.assert_array_equal(after[~dones], final_obs[~dones])
    assert (np.abs(after[dones]) <= 0.05).all()
    # rl_games stores one environment after the other.
    np.testing.assert_array_equal(stored["obses"], obs.swapaxes(0, 1).reshape(1000, 4))


def test_timeouts__are_bootstrapped_and_ends_by_the_task_are_not() -> None:
    env = make_rl_games(CARTPOLE, 16, seed=0, max_episode_steps=9)
    env.reset()
    counts = np.zeros(2, int)
    for _ in range(40):
        _, _, dones, infos = env.step(torch.ones(16, dtype=torch.int64))
        assert not (infos["time_outs"] & ~dones).any()
        counts += [infos["time_outs"].sum(), (dones & ~infos["time_outs"]).sum()]
    assert counts.min() > 0


@pytest.mark.parametrize(
    ("kind", "env_id"),
    [
        ("discrete", CARTPOLE),
        ("continuous", "EnvPool/HalfCheetah-v5"),
        ("continuous", "EnvPool/WalkerRun-v1"),  # a `Dict` with a scalar
    ],
)
def test_runner__trains_and_plays(kind: str, env_id: str) -> None:
    runner = make_runner(kind, env_config={"env_id": env_id, "max_episode_steps": 10})
    runner.run({"train": True})
    (file,) = Path("runs").glob("*/nn/last_*.pth")
    for player in ({}, {"use_vecenv": True}):
        config = {"env_id": env_id, "max_episode_steps": 10}
        of_player = {**CONFIG["player"], **player}
        runner = make_runner(kind, env_config=config, player=of_player)
        runner.run({"train": False, "play": True, "checkpoint": str(file)})


def test_seed__of_the_configuration_is_that_of_the_batch() -> None:
    agent = make_agent(make_runner(seed=9, env_config={"env_id": CARTPOLE}))
    wanted = EnvPoolVectorEnv("CartPole-v1", 4).reset(seed=9)[0]
    np.testing.assert_array_equal(agent.vec_env.reset(), wanted)
    assert (agent.vec_env.reset().numpy() != wanted).any()  # later resets continue


def test_dict__is_one_flat_box() -> None:
    env = RlGamesVecEnv(playground_batch(3, "SameStep"))
    obs = env.reset()
    parts = playground_batch(3, "SameStep").reset(seed=0)[0]
    assert env.observation_space.shape == (sum(part.shape[1] for part in parts.values()),)
    env.seed(0)
    obs = env.reset()
    assert torch.equal(obs, torch.cat([parts["privileged_state"], parts["state"]], 1).float())
    final_obs = env.step(torch.zeros(3, 1))[3]["final_obs"]
    assert final_obs.shape == obs.shape


def test_scalars__have_an_axis() -> None:
    batch = scripted_vector_env([2, 3, 4], arrays="torch", autoreset_mode="SameStep")
    env = RlGamesVecEnv(batch)
    assert env.reset().shape == (3, *env.observation_space.shape) == (3, 1)


def test_images__stay_bytes() -> None:
    env = make_rl_games("EnvPool/Pong-v5", 2)
    assert env.observation_space.dtype == np.uint8
    assert env.reset().dtype == torch.uint8
    assert set(env.step(torch.zeros(2, dtype=torch.int64))[3]) == {"time_outs", "final_obs"}


def test_actions__are_flat_and_numbered_from_zero() -> None:
    """The reward is the sum of the action."""
    env = RlGamesVecEnv(counting_batch(2, "SameStep", action_space=gym.spaces.Discrete(3, start=2)))
    env.reset()
    assert env.get_env_info()["action_space"] == gym.spaces.Discrete(3)
    assert env.step(torch.tensor([0, 2]))[1].tolist() == [2, 4]
    with pytest.raises(ActionError, match=r"must have shape \(2,\)"):
        env.step(torch.zeros(2, 1))
    box = gym.spaces.Box(-9, 9, (2, 2))
    env = RlGamesVecEnv(counting_batch(2, "SameStep", action_space=box))
    env.reset()
    assert env.action_space.shape == (4,)
    assert env.step(torch.tensor([[1.0, 2, 3, 4], [0, 1, 0, 1]]))[1].tolist() == [10, 2]
    with pytest.raises(ArgumentTypeError, match=r"Tensor of shape \(2, 4\), got ndarray"):
        env.step(np.zeros((2, 4)))  # type: ignore[arg-type]
    env.close()
    assert env.envs.closed


def test_copy__is_around_its_own_batch() -> None:
    first = make_rl_games(CARTPOLE, 2, seed=0)
    begun = first.reset()
    second = copy.copy(first)
    second.seed(0)
    assert torch.equal(second.reset(), begun)
    second.close()
    assert first.step(torch.tensor([0, 1]))[1].tolist() == [1, 1]


def test_bad_input__is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"must be an id of gymbridge.*got 'CartPole-v1'"):
        make_rl_games("CartPole-v1", 2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'limit'"):
        make_agent(make_runner(env_config={"env_id": CARTPOLE, "limit": 3}))
    with pytest.raises(ArgumentError, match="autoreset_mode='SameStep'"):
        make_agent(make_runner(env_config={"env_id": CARTPOLE, "autoreset_mode": "NextStep"}))
    env = make_rl_games(CARTPOLE, 2)
    with pytest.raises(ArgumentError, match="seed"):
        env.seed(-1)


@pytest.mark.slow
def test_ppo__learns_as_the_page_says() -> None:
    assert run_page_script("rl-games.md")["agent"].game_rewards.get_mean() > 350
