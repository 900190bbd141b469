"""`examples/engines/mjlab_env.py` beside mjlab's own step, in an environment that has mjlab."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("mjlab")

import gymnasium as gym
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.managers.termination_manager import TerminationTermCfg
from mjlab.tasks.registry import load_env_cfg, load_rl_cfg, register_mjlab_task

from examples.engines import mjlab_env
from gymbridge.errors import ArgumentError
from gymbridge.testing import check_vector_env
from tests.support.batches import MODES

NUM_ENVS, LIMIT = 8, 12
BALANCE = "Mjlab-Cartpole-Balance"


def is_off_centre(env: Any) -> torch.Tensor:
    return env.scene["cartpole"].data.joint_pos[:, 0].abs() > 0.11


def make_cfg(num_envs: int = NUM_ENVS) -> Any:
    """Return mjlab's task, in which some episodes terminate and others meet the limit."""
    cfg = load_env_cfg(BALANCE)
    cfg.terminations["off_centre"] = TerminationTermCfg(func=is_off_centre)
    cfg.scene.num_envs, cfg.episode_length_s = num_envs, (LIMIT - 0.5) * 0.05
    return cfg


register_mjlab_task("Cart", make_cfg(), make_cfg(), load_rl_cfg(BALANCE))
gym.register("Cart-v0", vector_entry_point=mjlab_env.MjlabVectorEnv, kwargs={"task": "Cart"})


def make_batch(mode: str, num_envs: int = NUM_ENVS, **options: Any) -> Any:
    return gym.make_vec("Cart-v0", num_envs, autoreset_mode=mode, **options)


def draw_actions(generator: torch.Generator) -> torch.Tensor:
    return 0.3 * torch.randn(NUM_ENVS, 1, generator=generator)


def assert_close(found: Any, wanted: Any, rows: Any = slice(None)) -> None:
    torch.testing.assert_close(found[rows], wanted[rows], rtol=1e-5, atol=2e-6)


class Oracle:
    """mjlab's own step, from the state that an observation shows."""

    def __init__(self) -> None:
        cfg = make_cfg()
        cfg.auto_reset = False
        self._env = ManagerBasedRlEnv(cfg, "cpu")

    def step(self, obs: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the next observations, the rewards, and which episodes terminate."""
        self._env.reset()
        place, cos, sin, speeds = obs[:, :1], obs[:, 1], obs[:, 2], obs[:, 3:]
        positions = torch.cat([place, torch.atan2(sin, cos)[:, None]], 1)
        self._env.scene["cartpole"].write_joint_state_to_sim(positions, speeds)
        found, rewards, terminated, *_ = self._env.step(actions)
        return found["actor"].clone(), rewards.clone(), terminated.clone()


def is_initial(obs: torch.Tensor) -> torch.Tensor:
    """Return which observations lie in the ranges from which mjlab draws the first ones."""
    return (obs[:, 0].abs() <= 0.1) & (obs[:, 2].abs() <= 0.035) & (obs[:, 3:].abs() <= 0.01).all(1)


@pytest.mark.parametrize("mode", MODES)
def test_batch__takes_mjlab_s_own_steps(mode: str) -> None:
    envs, oracle, generator = make_batch(mode), Oracle(), torch.Generator().manual_seed(0)
    assert envs.max_episode_steps == LIMIT
    obs = envs.reset(seed=0)[0]["actor"]
    ended, elapsed = torch.zeros(NUM_ENVS, dtype=torch.bool), torch.zeros(NUM_ENVS)
    ends = {"terminated": 0, "truncated": 0}
    for _ in range(40):
        if mode == "Disabled" and ended.sum() > 2:  # until then they stay as they are
            kept = obs
            obs = envs.reset(options={"reset_mask": ended})[0]["actor"]
            assert is_initial(obs)[ended].all()
            assert torch.equal(obs[~ended], kept[~ended])
            elapsed, ended = elapsed * ~ended, ended & ~ended
        actions = draw_actions(generator)
        reached, wanted_rewards, over = oracle.step(obs, actions)
        found, rewards, terminated, truncated, infos = envs.step(actions)
        moved = ~ended
        elapsed = (elapsed + 1) * moved if mode == "NextStep" else elapsed + moved
        final = infos["final_obs"]["actor"] if mode == "SameStep" else found["actor"]
        assert_close(final, reached, moved)
        assert_close(rewards, wanted_rewards * moved)
        assert torch.equal(terminated[moved], over[moved])
        assert torch.equal(truncated[moved], ((elapsed >= LIMIT) & ~over)[moved])
        now = terminated | truncated
        if mode == "NextStep":
            assert is_initial(found["actor"])[ended].all()
            assert not now[ended].any()
        elif mode == "Disabled":
            assert torch.equal(found["actor"][ended], obs[ended])
            assert now[ended].all()
        else:
            assert is_initial(found["actor"])[now].all()
            assert_close(found["actor"], reached, ~now)
            assert torch.equal(infos["_final_obs"], now)
            elapsed, now = elapsed * ~now, now & ~now
        ends["terminated"] += int((terminated & moved).sum())
        ends["truncated"] += int((truncated & moved).sum())
        obs, ended = found["actor"], now
    assert min(ends.values()) > 5, ends


def test_same_step__is_mjlab_s_own_autoreset_with_final_observations() -> None:
    envs, own = make_batch("SameStep"), ManagerBasedRlEnv(make_cfg(), "cpu")
    generator, num_ends = torch.Generator().manual_seed(1), 0
    torch.manual_seed(int(np.random.SeedSequence([*range(5, 5 + NUM_ENVS)]).generate_state(1)[0]))
    wanted = own.reset()[0]
    found = envs.reset(seed=5)[0]
    for _ in range(60):
        for group, values in wanted.items():
            assert_close(found[group], values)
        actions = draw_actions(generator)
        wanted, *rest, _ = own.step(actions)
        found, rewards, terminated, truncated, _ = envs.step(actions)
        assert_close(rewards, rest[0])
        assert torch.equal(terminated, rest[1])
        assert torch.equal(truncated, rest[2] & ~rest[1])  # mjlab sets both
        num_ends += int((terminated | truncated).sum())
    assert num_ends > 20


def test_limit__may_be_longer_than_the_task_s() -> None:
    envs = make_batch("NextStep", max_episode_steps=LIMIT + 3, device=torch.device("cpu"))
    envs.reset(seed=0)
    for step in range(1, LIMIT + 4):
        truncated = envs.step(torch.zeros(NUM_ENVS, 1))[3]
        assert truncated.any() == (step == LIMIT + 3)


def test_what_needs_a_stream_or_a_step_of_each_environment__is_refused() -> None:
    envs = make_batch("Disabled", 2)
    obs = envs.reset(seed=0)[0]["actor"]
    mask = np.array([True, False])
    for given in ({"seed": 1, "options": {"reset_mask": mask}}, {"seed": [1, None]}):
        with pytest.raises(ArgumentError, match="one random stream for the whole batch"):
            envs.reset(**given)
    with pytest.raises(ArgumentError, match="mjlab steps all environments"):
        envs.step_some(torch.zeros(2, 1), mask)
    before = torch.get_rng_state()
    assert torch.equal(envs.reset(seed=0)[0]["actor"], obs)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("mode", "arrays"), zip(MODES, ("torch", "numpy", "torch"), strict=True))
def test_checker__misses_a_seed_for_each_environment_alone(mode: str, arrays: str) -> None:
    make = lambda: make_batch(mode, 4, arrays=arrays)  # noqa: E731
    report = check_vector_env(make, steps=60)
    print(report)
    assert not report.broken
    broken = {result.id for result in report.extras if result.outcome == "broken"}
    of_one_stream = {"seed-list", "independent-episodes", "autoreset-is-reset"}
    assert {"seed-list", "independent-episodes"} <= broken <= of_one_stream
