"""`TorchRLEnv`: what TorchRL asks of an environment, over batches of tensors of every engine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("torchrl")
pytest.importorskip("envpool.registration")

import torch
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import (
    GymWrapper,
    ObservationNorm,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    VecNormV2,
)
from torchrl.envs.utils import check_env_specs
from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from gymbridge.errors import ArgumentError, ArgumentTypeError
from gymbridge.testing import scripted_vector_env
from gymbridge.trainers.torchrl import TorchRLEnv, make_torchrl

NUM_ENVS = 4
FLAGS = ("done", "terminated", "truncated")
TASKS = {
    "discrete": ("EnvPool/CartPole-v1", {}),
    "atari": ("EnvPool/Pong-v5", {}),
    "box": ("EnvPool/HalfCheetah-v5", {"max_episode_steps": 5}),
    "dict": ("EnvPool/CheetahRun-v1", {"max_episode_steps": 5}),
    "discrete observations": ("EnvPool/FrozenLake-v1", {}),
    "barkour": ("EnvPool/BarkourJoystick-v1", {"max_episode_steps": 5}),
    "brax": ("Brax/fast-v0", {"max_episode_steps": 5}),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """TorchRL logs each check."""
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)


def make(task: str, num_envs: int = NUM_ENVS, **kwargs: Any) -> TorchRLEnv:
    env_id, given = TASKS[task]
    if env_id.startswith("Brax"):
        pytest.importorskip("brax.envs")
    return make_torchrl(env_id, num_envs, **{**given, **kwargs})


@cache
def make_cart_pole() -> TorchRLEnv:
    return make("discrete", categorical_action_encoding=True)


def lean(td: Any) -> Any:
    """Push towards the side to which the pole leans away from, so that episodes end one by one."""
    return td.set("action", (td["observation"][..., 0] > 0).long())


def roll_out(env: Any, num_steps: int = 60, **options: Any) -> Any:
    env.set_seed(0)
    return env.rollout(num_steps, policy=lean, **{"break_when_any_done": False, **options})


@pytest.mark.parametrize("task", TASKS)
def test_specs__are_what_comes(task: str) -> None:
    env = make(task)
    check_env_specs(env)
    assert env.batch_size == (NUM_ENVS,)
    assert env.device == torch.device("cpu")
    rollout = env.rollout(7, break_when_any_done=False)
    assert rollout.batch_size == (NUM_ENVS, 7)


def test_custom_brax_environment__has_the_keys_of_its_dict() -> None:
    pytest.importorskip("brax.envs")
    from brax_samples import SampleEnv, count_on, start

    from gymbridge import BraxVectorEnv

    def split(state: Any) -> Any:
        return state.replace(obs={"count": state.obs[:1], "rest": {"draw": state.obs[1:]}})

    def step(state: Any, action: Any) -> Any:
        flat = jax.numpy.concatenate([state.obs["count"], state.obs["rest"]["draw"]])
        return split(count_on(state.replace(obs=flat), action))

    import jax

    brax_env = SampleEnv(lambda rng: split(start(rng)), step)
    env = TorchRLEnv(BraxVectorEnv(brax_env, 3, autoreset_mode="Disabled", arrays="torch"))
    check_env_specs(env)
    assert {"count", "rest"} < set(env.observation_spec.keys())
    env.set_seed(0)
    rollout = env.rollout(3)
    assert rollout["next", "count"][:, :, 0].tolist() == [[1, 2, 3]] * 3
    assert (rollout["next", "rest", "draw"] == rollout["rest", "draw"]).all()


def test_rollout__is_that_of_a_numpy_batch() -> None:
    envs = gym.make_vec("EnvPool/CartPole-v1", num_envs=NUM_ENVS, autoreset_mode="Disabled")
    wanted = roll_out(GymWrapper(envs, categorical_action_encoding=True))
    env = make_cart_pole()
    env.set_seed(0)
    env.reset()  # as TorchRL's own `set_seed` does
    found = env.rollout(60, policy=lean, break_when_any_done=False)
    assert found["next", "done"].sum() > 10
    for key in ("observation", *FLAGS, *(("next", key) for key in (*FLAGS, "observation"))):
        assert torch.equal(found[key], wanted[key]), key
    torch.testing.assert_close(found["next", "reward"].double(), wanted["next", "reward"].double())


def test_next_observation__is_the_final_one_of_an_ended_episode() -> None:
    rollout = roll_out(make_cart_pole())
    ends = rollout["next", "done"][..., :-1, 0]
    final, initial = rollout["next", "observation"][..., :-1, :], rollout["observation"][..., 1:, :]
    assert ((final[..., 2].abs() > 0.2) | (final[..., 0].abs() > 2.4))[ends].all()
    assert (initial[ends].abs() < 0.06).all()
    assert torch.equal(final[~ends], initial[~ends])


def test_limit__truncates_and_does_not_terminate() -> None:
    env = make("discrete", max_episode_steps=3, categorical_action_encoding=True)
    rollout = roll_out(env, 6)
    assert rollout["next", "truncated"][:, 2].all()
    assert not rollout["next", "terminated"].any()


@pytest.mark.parametrize("task", ["discrete", "brax"])
def test_partial_steps__hold_the_environments_that_are_done(task: str) -> None:
    """With `break_when_all_done` TorchRL steps those that are not done yet."""
    counted = {"discrete": [9, 8, 9, 10], "brax": [5] * NUM_ENVS}
    env = make(task, categorical_action_encoding=True) if task == "discrete" else make(task)
    policy = lean if task == "discrete" else None
    env.set_seed(0)
    torch.manual_seed(0)
    rollout = env.rollout(60, policy=policy, break_when_all_done=True, break_when_any_done=False)
    done = rollout["next", "done"][..., 0]
    assert done[:, -1].all(), "held environments stay done"
    lengths = (~done).sum(1) + 1
    assert rollout.shape[1] == lengths.max()
    if task == "brax":
        assert lengths.tolist() == counted[task]
        return
    assert len(set(lengths.tolist())) > 1
    free = roll_out(env)
    for row, length in enumerate(lengths.tolist()):
        key = ("next", "observation")
        assert torch.equal(rollout[key][row, :length], free[key][row, :length])
        assert (rollout[key][row, length:] == rollout[key][row, length - 1]).all()


def test_partial_reset__begins_the_episodes_under_the_mask_alone() -> None:
    env = make_cart_pole()
    env.set_seed(3)
    td = env.reset()
    for _ in range(3):
        td = env.step_mdp(env.step(lean(td)))
    rows = torch.tensor([True, False, False, True])
    later = env.reset(td.clone().set("_reset", rows.unsqueeze(-1)))
    assert torch.equal(later["observation"][~rows], td["observation"][~rows])
    assert (later["observation"][rows] != td["observation"][rows]).any(1).all()
    assert later["info", "elapsed_step"].tolist() == [0, 3, 3, 0]


@pytest.mark.parametrize("task", ["atari", "barkour"])
def test_infos__collide_with_no_name_of_torchrl(task: str) -> None:
    env = make(task)
    env_id, kwargs = TASKS[task]
    options = {"autoreset_mode": "Disabled", "arrays": "torch", **kwargs}
    envs: Any = gym.make_vec(env_id, num_envs=NUM_ENVS, **options)
    env.set_seed(5)
    td = env.reset()
    envs.reset(seed=5)
    for _ in range(3):
        td = env.rand_step(td)
        action = td["action"]
        actions = action.argmax(-1) if task == "atari" else action
        _, rewards, terminations, _, infos = envs.step(actions)
        assert torch.equal(td["next", "reward"][:, 0], rewards.float())
        assert torch.equal(td["next", "terminated"][:, 0], terminations)
        for name in ("reward", "terminated"):
            if name in infos:
                assert torch.equal(td["next", "info", name], infos[name]), name
        assert {name for name in infos if name[0] != "_"} == set(td["next", "info"].keys())
        td = env.step_mdp(td)


def test_seed__is_that_of_the_next_full_reset() -> None:
    env = make_cart_pole()
    first = roll_out(env, 20)
    assert env.envs.np_random_seed == (0, 1, 2, 3)
    assert torch.equal(roll_out(env, 20)["observation"], first["observation"])
    assert env.set_seed(7) == make_cart_pole().set_seed(7)
    assert not torch.equal(env.rollout(3)["observation"][:, 0], first["observation"][:, 0])


def test_actions__are_one_hot_or_integers() -> None:
    one_hot, integers = make("discrete"), make_cart_pole()
    assert one_hot.action_spec.shape == (NUM_ENVS, 2)
    assert integers.action_spec.shape == (NUM_ENVS,)

    def lean_one_hot(td: Any) -> Any:
        action = torch.nn.functional.one_hot(lean(td)["action"], 2)
        return td.set("action", action)

    one_hot.set_seed(0)
    found = one_hot.rollout(30, policy=lean_one_hot, break_when_any_done=False)
    assert torch.equal(found["observation"], roll_out(integers, 30)["observation"])


@cache
def make_graph_env() -> TorchRLEnv:
    from point_mass import make_batch

    return TorchRLEnv(make_batch(autoreset_mode="Disabled"))


def make_policy(env: Any) -> TensorDictModule:
    torch.manual_seed(0)
    size, out = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    net = torch.nn.Sequential(torch.nn.Linear(size, out), torch.nn.Tanh())
    return TensorDictModule(net, in_keys=["observation"], out_keys=["action"])


def test_gradients__are_those_of_step() -> None:
    pytest.importorskip("brax.envs")
    env = make_graph_env()
    policy = make_policy(env)
    parameters = list(policy.parameters())
    env.set_seed(1)
    rollout = env.rollout(4, policy=policy)
    assert rollout.requires_grad
    found = torch.autograd.grad(rollout["next", "reward"].mean(), parameters)
    obs, _ = env.envs.reset(seed=1)
    rewards = []
    for _ in range(4):
        obs, reward, *_ = env.envs.step(policy.module(obs))
        rewards.append(reward)
    wanted = torch.autograd.grad(torch.stack(rewards).mean(), parameters)
    assert any(gradient.abs().sum() > 0 for gradient in wanted)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_windows__are_cut_by_detach() -> None:
    pytest.importorskip("brax.envs")
    env = make_graph_env()
    policy = make_policy(env)
    td = env.reset()
    for _ in range(3):
        window = env.rollout(2, policy=policy, tensordict=td, auto_reset=False)
        window["next", "reward"].mean().backward()
        env.detach()
        td = env.step_mdp(window[..., -1]).detach()
    with torch.no_grad():
        assert not env.rollout(2, policy=policy).requires_grad


@pytest.mark.filterwarnings("ignore:Support of VecNormV2")
def test_transforms__work() -> None:
    env = TransformedEnv(make_cart_pole(), auto_unwrap=True)
    env.append_transform(RewardSum())
    env.append_transform(StepCounter(max_steps=15))
    env.append_transform(ObservationNorm(in_keys=["observation"], loc=1.0, scale=2.0))
    env.append_transform(VecNormV2(in_keys=["observation"]))
    check_env_specs(env)
    torch.manual_seed(0)
    env.set_seed(0)
    rollout = env.rollout(60, break_when_any_done=False)
    assert rollout["next", "step_count"].max() == 15
    for flag in ("terminated", "truncated"):
        assert rollout["next", flag].any(), f"no episode was {flag}"
    assert (rollout["next", "episode_reward"] == rollout["next", "step_count"]).all()
    ends = rollout["next", "done"][:, :-1, 0]
    assert (rollout["step_count"][:, 1:, 0][ends] == 0).all()


def test_serial_env__restarts_what_ended() -> None:
    env = SerialEnv(2, lambda: make("discrete", categorical_action_encoding=True))
    check_env_specs(env)
    env.set_seed(0)
    rollout = env.rollout(60, policy=lean, break_when_any_done=False)
    assert rollout.batch_size == (2, NUM_ENVS, 60)
    assert rollout["next", "done"].sum() > 20
    env.close()


@pytest.mark.filterwarnings("ignore:The env passed to Collector")
@pytest.mark.parametrize("task", ["box", "brax"])
def test_ppo__learns_from_a_collector_and_a_buffer(task: str) -> None:
    env = make(task)
    size, out = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    torch.manual_seed(0)
    dtype = env.observation_spec["observation"].dtype
    net = torch.nn.Sequential(torch.nn.Linear(size, 2 * out, dtype=dtype), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(net, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )
    critic = ValueOperator(torch.nn.Linear(size, 1, dtype=dtype))
    loss_module = ClipPPOLoss(actor, critic)
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    optimizer = torch.optim.Adam(loss_module.parameters(), 1e-3)
    before = [parameter.detach().clone() for parameter in net.parameters()]
    collector = Collector(env, actor, frames_per_batch=40, total_frames=80)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(40), batch_size=20)
    shapes = []
    for batch in collector:
        shapes.append(batch.shape)
        advantage(batch)
        buffer.extend(batch.reshape(-1))
        loss = sum(
            value for key, value in loss_module(buffer.sample()).items() if key[:5] == "loss_"
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    collector.shutdown()
    assert shapes == [(NUM_ENVS, 10)] * 2
    after = list(net.parameters())
    assert all(parameter.isfinite().all() for parameter in after)
    assert not all(torch.equal(*pair) for pair in zip(before, after, strict=True))


def test_rollout__is_that_of_plain_brax() -> None:
    pytest.importorskip("brax.envs")
    import jax
    from brax import envs as brax_envs

    env = make("brax", max_episode_steps=None)
    env.set_seed(1)
    rollout = env.rollout(10)
    plain = brax_envs.get_environment("fast")
    keys = [jax.random.fold_in(jax.random.PRNGKey(1 + row), 0) for row in range(NUM_ENVS)]
    state = jax.vmap(plain.reset)(jax.numpy.stack(keys))
    step = jax.jit(jax.vmap(plain.step))
    for index in range(10):
        state = step(state, jax.numpy.asarray(rollout["action"][:, index].numpy()))
        np.testing.assert_array_equal(rollout["next", "observation"][:, index], state.obs)


def test_action_repeat__and_options_reach_the_batch() -> None:
    pytest.importorskip("brax.envs")

    def draw(model: Any, key: Any) -> dict[str, Any]:
        return {"gravity": model.gravity}

    env = make_torchrl(
        "Brax/inverted_pendulum-v0", 2, backend="spring", action_repeat=2, randomization_fn=draw
    )
    moon = np.tile(np.float32([0, 0, -1.62]), (2, 1))
    td = env.reset(options={"randomization": {"gravity": moon}})
    np.testing.assert_array_equal(td["info", "randomization", "gravity"], moon)


def test_close__closes_the_batch() -> None:
    env = make("discrete")
    env.close()
    assert env.envs.closed


def test_available_envs__are_all_ids() -> None:
    ids = TorchRLEnv.available_envs
    assert {"EnvPool/CartPole-v1", "Brax/ant-v0", "Playground/CartpoleBalance-v0"} < set(ids)
    assert set(ids) <= set(gym.registry)


def _scripted(**options: Any) -> Any:
    return scripted_vector_env([2, 3], **options)


BAD = {
    "numpy": ({"autoreset_mode": "Disabled"}, ArgumentError, "build it with `arrays='torch'`"),
    "jax": (
        {"autoreset_mode": "Disabled", "arrays": "jax"},
        ArgumentError,
        "build it with `arrays='torch'`",
    ),
    "mode": ({"arrays": "torch"}, ArgumentError, "build it with `autoreset_mode='Disabled'`"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_batch__is_refused(case: str) -> None:
    options, error, message = BAD[case]
    if case == "jax":
        pytest.importorskip("jax")
    with pytest.raises(error, match=message):
        TorchRLEnv(_scripted(**options))


def test_bad_input__is_refused() -> None:
    env = make_cart_pole()
    with pytest.raises(ArgumentError, match=r"use torchrl's GymWrapper\(gymnasium.make_vec"):
        make_torchrl("CartPole-v1", 2)
    with pytest.raises(ArgumentTypeError, match=r"must be a gymnasium.vector.VectorEnv, got str"):
        TorchRLEnv("EnvPool/CartPole-v1")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="without wrappers, got VectorWrapper"):
        TorchRLEnv(gym.vector.VectorWrapper(env.envs))
    with pytest.raises(ArgumentError, match="`device` is fixed when a batch is built"):
        env.to("meta")
    assert env.to("cpu") is env
    with pytest.raises(ArgumentError, match="differentiable=True"):
        make("brax").detach()


def test_observations_under_names_of_torchrl__are_refused() -> None:
    pytest.importorskip("brax.envs")
    from gymbridge.trainers import torchrl as module

    space = gym.spaces.Dict({"reward": gym.spaces.Box(0, 1)})
    with pytest.raises(ArgumentError, match="under 'reward', which TorchRL uses itself"):
        module._to_observation_specs(space)
