"""What `examples/ppo.py` learns from is right, and a run that was resumed is the unbroken one."""

from __future__ import annotations

import copy
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from gymbridge import BraxVectorEnv
from gymbridge.testing import scripted_vector_env
from tests.support.example_runs import EXAMPLES, call_script, load_script, read_table
from tests.support.scripted_brax import ScriptedBraxEnv

# Three environments whose episodes end in both ways, on the rollout's last row too (the third at
# step 4 of the first rollout), so that the second rollout begins with a restart row.
LENGTHS = [[2, 3, 1], [4, 1, 2], [5, 2, 2]]
TRUNCATES = [[False, True, True], [True, False, True], [True, False, False]]
NUM_STEPS = 5


@pytest.fixture(scope="module")
def ppo() -> Any:
    """The script as a module."""
    return load_script(EXAMPLES / "ppo.py")


@pytest.fixture
def args(ppo):
    return ppo.Args(num_envs=len(LENGTHS), num_steps=NUM_STEPS, gamma=0.9, gae_lambda=0.8)


@pytest.fixture
def agent(ppo):
    """An agent for the scripted task whose critic tells observations apart."""
    torch.manual_seed(0)
    return ppo.Agent(scripted_vector_env(LENGTHS))


@pytest.fixture
def rollouts(ppo, args, agent):
    """Four rollouts on scripted episodes, each with the values of the observations after it."""
    steps = ppo.rollouts(scripted_vector_env(LENGTHS, TRUNCATES), agent, args)
    return [next(steps) for _ in range(4)]


def joined(rollouts, name):
    """Return a field of all rollouts, one after the other."""
    return np.concatenate([getattr(rollout, name).numpy() for rollout, _ in rollouts])


def advantages_by_hand(rollout, next_values, following_steps, gamma, gae_lambda):
    """Return the estimate of every experienced step by its definition, as {(step, env): value}."""
    found = {}
    for step, env in np.argwhere(~rollout.restarts.numpy()):
        total, weight = 0.0, 1.0
        for later in range(step, following_steps):
            value_after = 0.0 if rollout.terminated[later, env] else next_values[later, env].item()
            error = rollout.rewards[later, env] + gamma * value_after - rollout.values[later, env]
            total, weight = total + weight * error.item(), weight * gamma * gae_lambda
            if rollout.ended[later, env]:
                break
        found[step, env] = total
    return found


def test_rollouts__follow_the_script(rollouts):
    ended, terminated = joined(rollouts, "ended"), joined(rollouts, "terminated")
    restarts = joined(rollouts, "restarts")
    assert not restarts[0].any()
    np.testing.assert_array_equal(restarts[1:], ended[:-1])
    assert restarts[NUM_STEPS].any(), "no rollout began with a restart row"
    for env, (lengths, truncates) in enumerate(zip(LENGTHS, TRUNCATES, strict=True)):
        # An episode of n steps takes n + 1 rows, the last of which restarts.
        last_rows = np.cumsum(np.tile(lengths, 4) + 1) - 2
        inside = last_rows < len(ended)
        np.testing.assert_array_equal(np.flatnonzero(ended[:, env]), last_rows[inside])
        by_itself = ~np.tile(truncates, 4)[inside]
        np.testing.assert_array_equal(terminated[last_rows[inside], env], by_itself)


def test_flatten__joins_the_parts_of_a_dict(ppo):
    space = spaces.Dict({"where": spaces.Box(-1, 1, (2, 2)), "which": spaces.Discrete(3, start=1)})
    obs = {"where": np.arange(8.0).reshape(2, 2, 2), "which": np.array([1, 3])}
    flat = ppo.flatten(space, obs, torch.device("cpu"))
    assert flat.tolist() == [[0, 1, 2, 3, 1, 0, 0], [4, 5, 6, 7, 0, 0, 1]]


def test_advantages__are_their_definition(ppo, args, agent, rollouts):
    """A truncation counts the value of its final observation, a termination none."""
    truncations = terminations = 0
    replay = scripted_vector_env(LENGTHS, TRUNCATES)
    replay.reset(seed=args.seed)
    for rollout, last_values in rollouts:
        after = [replay.step(actions.numpy())[0] for actions in rollout.actions]
        with torch.no_grad():
            next_values = torch.stack([agent.predict(agent.from_env(obs)[0])[1] for obs in after])
        expected = advantages_by_hand(rollout, next_values, NUM_STEPS, args.gamma, args.gae_lambda)
        advantages = ppo.estimate_advantages(rollout, last_values, args)
        for (step, env), value in expected.items():
            assert advantages[step, env].item() == pytest.approx(value, abs=1e-5)
        terminations += int(rollout.terminated.sum())
        truncations += int((rollout.ended & ~rollout.terminated).sum())
    assert min(terminations, truncations) > 3, "too few ends of one kind were reached"


def test_update__learns_nothing_from_restart_rows(ppo, args, agent, rollouts):
    rollout, last_values = rollouts[1]
    assert rollout.restarts.any()
    other = rollout._replace(
        rewards=torch.where(rollout.restarts, 1e6, rollout.rewards),
        actions=torch.where(rollout.restarts, 2 - rollout.actions, rollout.actions),
        log_probs=torch.where(rollout.restarts, -9.0, rollout.log_probs),
    )
    learned = []
    for steps in (rollout, other):
        learner = copy.deepcopy(agent)
        torch.manual_seed(3)
        adam = torch.optim.Adam(learner.parameters())
        ppo.update(args, learner, adam, steps, last_values)
        learned.append(learner.state_dict())
    assert all(torch.equal(learned[0][name], learned[1][name]) for name in learned[0])
    assert not torch.equal(learned[0]["actor.0.weight"], agent.actor[0].weight)


def test_train__reports_the_true_returns(ppo):
    """Nothing is discounted, scaled or left out; "solved" waits for a full window."""
    recorded = RecordEpisodeStatistics(scripted_vector_env(LENGTHS, TRUNCATES), 50)
    sizes = {"num_envs": 3, "num_steps": NUM_STEPS, "minibatches": 1, "last_episodes": 12}
    args = ppo.Args(**sizes, total_steps=10_000, target_return=0.0)
    torch.manual_seed(0)
    envs = ppo.wrap(recorded, args.gamma)
    progress = ppo.train(args, envs, ppo.Agent(envs))
    returns = list(recorded.return_queue)
    assert len(returns) >= 12
    count, mean = progress[-1][2:]
    assert count == recorded.episode_count
    assert mean == pytest.approx(np.mean(returns[-12:]), rel=1e-5)
    assert progress[-2][2] < 12, "it was solved, and went on"


BATCH, UPDATES = 15, 7  # steps of one update, and updates of an unbroken run
SIZES = {"num_envs": 3, "num_steps": 5, "epochs": 1, "minibatches": 2, "last_episodes": 4}
DEFAULTS = {"total_steps": UPDATES * BATCH, "checkpoint_updates": 1, "learning_rate": 0.05}


@pytest.fixture(scope="module")
def envs() -> Iterator[Any]:
    """Environments whose episodes take 1 to 4 steps, and end in both ways."""
    batch = BraxVectorEnv(ScriptedBraxEnv([2, 3, 1, 4], [False, True, True, False]), 3)
    yield batch
    batch.close()


def start(ppo: Any, envs: Any, path: Path | None, **flags: Any) -> tuple[np.ndarray, Any]:
    """Train as a new process does; return the curve without its seconds, and the agent."""
    args = ppo.Args(**{**SIZES, **DEFAULTS, **flags})
    envs.reset(seed=77)  # what the last process did with them is not here
    torch.manual_seed(args.seed)
    agent = ppo.Agent(envs)
    progress = ppo.train(args, ppo.wrap(envs, args.gamma), agent, path)
    return np.delete(np.array(progress).reshape(-1, 4), 1, axis=1), agent


def test_resume__after_every_update_is_the_unbroken_run(ppo, envs, tmp_path):
    path, pending = tmp_path / "checkpoint.pt", 0
    wanted, unbroken = start(ppo, envs, None)
    found, broken = start(ppo, envs, path, max_seconds=0.0)
    for done in range(1, UPDATES):
        assert len(found) == done, "the run was not broken after one update"
        ended = torch.load(path, weights_only=True)["rest"][0]
        pending += bool(ended.any() and not ended.all())
        found, broken = start(ppo, envs, path, max_seconds=0.0, resume=True)
    assert pending > 2, "few checkpoints had restarts that were due beside running episodes"
    np.testing.assert_array_equal(found, wanted)
    state = broken.state_dict()
    assert all(torch.equal(state[name], value) for name, value in unbroken.state_dict().items())
    assert len(np.unique(found[:, 2])) > UPDATES / 2, "the curve is flat"


def test_resume__names_the_flags_that_differ(ppo, envs, tmp_path):
    path = tmp_path / "checkpoint.pt"
    start(ppo, envs, path, total_steps=2 * BATCH)
    with pytest.raises(SystemExit) as error:
        start(ppo, envs, path, resume=True, gamma=0.5)
    assert "flags: {'total_steps': 30, 'gamma': 0.99}." in str(error.value)


def run_killed(command: list[str], checkpoint: Path) -> None:
    """Start a run, and kill it a moment after its first checkpoint."""
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not checkpoint.exists():
        assert run.poll() is None, "the run ended without a checkpoint"
        time.sleep(0.01)
    time.sleep(0.1)
    run.send_signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL, "the run ended before it was killed"


@pytest.mark.slow
def test_ppo__killed_and_resumed_has_the_results_of_an_unbroken_run(tmp_path):
    sizes = ("--total-steps=1200", "--num-envs=3", "--num-steps=10", "--epochs=2")
    flags = ("--env-id=Brax/fast-v0", '--env-kwargs={"max_episode_steps": 7}', *sizes)
    flags = (*flags, "--arrays=torch", "--checkpoint-updates=1")
    script = str(EXAMPLES / "ppo.py")
    command = [sys.executable, script, *flags, f"--out={tmp_path}/broken"]
    run_killed(command, tmp_path / "broken" / "checkpoint.pt")
    assert not (tmp_path / "broken" / "progress.csv").exists()
    curves, outputs = [], []
    for name, more in (("broken", ["--resume"]), ("unbroken", [])):
        folder = tmp_path / name
        printed = call_script("ppo", *flags, f"--out={folder}", *more, cwd=tmp_path)
        outputs.append(printed.out.replace(str(folder), "").rpartition(",")[0])
        table = read_table(folder / "progress.csv")
        assert (np.diff(table["seconds"]) > 0).all()
        curves.append(table[["env_steps", "episodes", "mean_return"]])
    np.testing.assert_array_equal(*curves)
    assert outputs[0] == outputs[1]
