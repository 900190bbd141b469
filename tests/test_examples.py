"""`examples/ppo.py` runs on a tiny budget, solves two tasks, and its sums and its bar are right."""

from __future__ import annotations

import copy
import importlib.util
import math
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from reads import count_reads

from gymbridge.testing import scripted_vector_env

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")
tqdm = pytest.importorskip("tqdm").tqdm

PPO = Path(__file__).parents[1] / "examples" / "ppo.py"

# Three environments whose episodes end in both ways, on the rollout's last row too (the third at
# step 4 of the first rollout), so that the second rollout begins with a restart row.
LENGTHS = [[2, 3, 1], [4, 1, 2], [5, 2, 2]]
TRUNCATES = [[False, True, True], [True, False, True], [True, False, False]]
NUM_STEPS = 5

TINY = ("--total-steps=256", "--num-envs=4", "--num-steps=8", "--epochs=1", "--eval-steps=2")
LAST_LINE = re.compile(r"(\S+): mean return (\S+) after (\d+) episodes, (\d+) s")


@pytest.fixture(scope="module")
def ppo():
    spec = importlib.util.spec_from_file_location("ppo", PPO)
    module = importlib.util.module_from_spec(spec)
    sys.modules["ppo"] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def args(ppo):
    return ppo.Args(num_envs=len(LENGTHS), num_steps=NUM_STEPS, gamma=0.9, gae_lambda=0.8)


@pytest.fixture
def agent(ppo):
    """An agent for the scripted task whose critic tells observations apart."""
    torch.manual_seed(0)
    envs = scripted_vector_env(LENGTHS)
    return ppo.Agent(envs)


@pytest.fixture
def rollouts(ppo, args, agent):
    """Four rollouts on scripted episodes, each with the values of the observations after it."""
    steps = ppo.rollouts(scripted_vector_env(LENGTHS, TRUNCATES), agent, args)
    return [next(steps) for _ in range(4)]


def run_script(*arguments: str, cwd: Path) -> tuple[str, list[str]]:
    """Return what the script prints and the lines of its log."""
    command = [sys.executable, str(PPO), *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.splitlines()


def spaces_of(observation_space, action_space):
    """What an agent reads of a batch."""
    return SimpleNamespace(
        single_observation_space=observation_space,
        single_action_space=action_space,
        unwrapped=SimpleNamespace(arrays="numpy"),
    )


def check_results(folder: Path, env_steps: int) -> None:
    picture = (folder / "learning_curve.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert picture.rstrip().endswith(b"IEND\xaeB`\x82")
    table = np.genfromtxt(folder / "progress.csv", delimiter=",", names=True, ndmin=1)
    assert table.dtype.names == ("env_steps", "seconds", "episodes", "mean_return")
    assert table["env_steps"][-1] == env_steps
    assert (np.diff(table["seconds"]) > 0).all()


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


def joined(rollouts, name):
    """Return a field of all rollouts, one after the other."""
    return np.concatenate([getattr(rollout, name).numpy() for rollout, _ in rollouts])


def test_rollouts__mark_exactly_the_steps_after_an_end(rollouts):
    restarts, obs = joined(rollouts, "restarts"), joined(rollouts, "obs")
    assert not restarts[0].any()
    np.testing.assert_array_equal(restarts[1:], joined(rollouts, "ended")[:-1])
    assert restarts[NUM_STEPS].any(), "no rollout began with a restart row"
    assert (obs[restarts] > 0).all()
    assert (joined(rollouts, "rewards")[restarts] == 0).all()
    assert (obs[1:][restarts[:-1]] == 0).all()


def test_rollouts__follow_the_script(rollouts):
    ended, terminated = joined(rollouts, "ended"), joined(rollouts, "terminated")
    for env, (lengths, truncates) in enumerate(zip(LENGTHS, TRUNCATES, strict=True)):
        # An episode of n steps takes n + 1 rows, the last of which restarts.
        last_rows = np.cumsum(np.tile(lengths, 4) + 1) - 2
        inside = last_rows < len(ended)
        np.testing.assert_array_equal(np.flatnonzero(ended[:, env]), last_rows[inside])
        by_itself = ~np.tile(truncates, 4)[inside]
        np.testing.assert_array_equal(terminated[last_rows[inside], env], by_itself)


def test_rollouts__sum_and_scale_the_rewards_that_came(ppo, args, rollouts):
    replay = scripted_vector_env(LENGTHS, TRUNCATES)
    replay.reset(seed=args.seed)
    variances, totals = [], np.zeros((2, len(LENGTHS)))
    for rollout, _ in rollouts:
        came, sums = [], []
        for actions, ended in zip(rollout.actions, rollout.ended.numpy(), strict=True):
            came.append(replay.step(actions.numpy())[1])
            totals = totals * [[1.0], [args.gamma]] + came[-1]
            sums.append(totals)
            totals = np.where(ended, 0, totals)
        np.testing.assert_allclose(rollout.sums, np.stack(sums), rtol=1e-5)
        variances.append(np.stack(sums)[:, 1].var(ddof=1))
        scaled = np.clip(np.stack(came) / np.sqrt(np.mean(variances)), -10, 10)
        np.testing.assert_allclose(rollout.rewards, scaled, rtol=1e-4)
    assert joined(rollouts, "sums")[:, 0].max() > 1


@pytest.mark.parametrize("engine", ["host", "brax"])
def test_rollouts__on_tensors_read_nothing_in_a_step(ppo, args, engine, monkeypatch):
    if engine == "brax":
        pytest.importorskip("brax.envs")
        envs = gym.make_vec("Brax/fast-v0", len(LENGTHS), arrays="torch", max_episode_steps=3)
    else:
        envs = scripted_vector_env(LENGTHS, TRUNCATES, arrays="torch")
    steps = ppo.rollouts(envs, ppo.Agent(envs), args)
    next(steps)  # compiles
    with count_reads("torch", monkeypatch) as counter, count_reads("jax", monkeypatch) as other:
        rollout, _ = next(steps)
    assert rollout.ended.any()
    # A batch norm reads its count once in a rollout; a simulator on the host takes actions there.
    by_engine = {"cpu": NUM_STEPS} if engine == "host" else {}
    assert +counter == {"__float__": 1} | by_engine
    assert not +other


def test_train__is_alike_on_numpy_and_on_tensors(ppo):
    curves = []
    for arrays in ("numpy", "torch"):
        progress = np.array(train(ppo, arrays=arrays, total_steps=90))
        curves.append(np.delete(progress, 1, axis=1))  # the seconds
    np.testing.assert_array_equal(*curves)
    assert curves[0][-1, 1] > 10


def test_advantages__are_their_definition(ppo, args, agent, rollouts):
    truncations = terminations = 0
    replay = scripted_vector_env(LENGTHS, TRUNCATES)
    replay.reset(seed=args.seed)
    for rollout, last_values in rollouts:
        after = [replay.step(actions.numpy())[0] for actions in rollout.actions]
        with torch.no_grad():
            next_values = torch.stack([agent(agent.from_env((obs, {}))[0])[1] for obs in after])
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


@pytest.mark.parametrize("shape", [(4, 84, 84), (96, 96, 3)])
def test_agent__sees_images_of_either_layout(ppo, shape):
    agent = ppo.Agent(spaces_of(spaces.Box(0, 255, shape, np.uint8), spaces.Discrete(5)))
    policy, values = agent(torch.zeros(2, math.prod(shape), dtype=torch.uint8))
    assert agent.is_image
    assert policy.sample().shape == values.shape == (2,)
    small = ppo.Agent(spaces_of(spaces.Box(0, 255, (7, 7, 3), np.uint8), spaces.Discrete(5)))
    assert not small.is_image


def test_agent__normalises_by_what_it_trained_on(ppo, args, agent, rollouts):
    rollout, last_values = rollouts[1]
    learner = copy.deepcopy(agent)
    ppo.update(args, learner, torch.optim.Adam(learner.parameters()), rollout, last_values)
    seen = rollout.obs[~rollout.restarts].float()
    assert learner.obs_norm.running_mean.item() == pytest.approx(seen.mean().item())
    assert learner.obs_norm.running_var.item() == pytest.approx(seen.var().item())
    learner(torch.full((8, 1), 100.0))
    assert learner.obs_norm.running_mean.item() == pytest.approx(seen.mean().item())


@pytest.mark.parametrize(
    ("space", "drawn", "expected"),
    [
        (spaces.Discrete(3, start=5), [0, 2], [5, 7]),
        (spaces.Box(-2.0, 6.0, (1,)), [[-1.0], [0.0], [1.0], [9.0]], [[-2.0], [2.0], [6.0], [6.0]]),
        (spaces.Box(0.0, np.inf, (1,), np.float64), [[-1.0], [7.0]], [[0.0], [7.0]]),
    ],
)
def test_agent__maps_its_draws_onto_the_action_space(ppo, space, drawn, expected):
    agent = ppo.Agent(spaces_of(spaces.Box(-1.0, 1.0, (2,)), space))
    actions = agent.to_env(torch.tensor(drawn))
    assert actions.tolist() == expected
    assert all(action in space for action in actions.astype(space.dtype))


def test_agent__makes_observations_flat(ppo):
    parts = {"where": spaces.Discrete(3, start=1), "what": spaces.Box(0, 9, (2, 1), np.uint8)}
    space = spaces.Dict(parts)
    agent = ppo.Agent(spaces_of(space, spaces.Discrete(2)))
    obs = {"where": np.array([3, 1]), "what": np.array([[[4], [5]], [[6], [7]]], np.uint8)}
    [flat] = agent.from_env((obs, {}))
    assert flat.tolist() == [[4, 5, 0, 0, 1], [6, 7, 1, 0, 0]]
    by_gymnasium = [spaces.flatten(space, {key: obs[key][row] for key in parts}) for row in (0, 1)]
    np.testing.assert_array_equal(flat, by_gymnasium)
    assert agent(flat)[1].shape == (2,)


def test_agent__refuses_other_actions(ppo):
    with pytest.raises(SystemExit, match="Discrete or Box"):
        ppo.Agent(spaces_of(spaces.Box(-1.0, 1.0, (2,)), spaces.MultiBinary(3)))


def test_args__flags_go_before_the_defaults_of_a_script(ppo, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ppo.py", "--env-id=EnvPool/CartPole-v1", "--num-envs=3"])
    args = ppo.parse_args(ppo.Args(env_id="none", gamma=0.5))
    assert (args.env_id, args.num_envs, args.gamma) == ("EnvPool/CartPole-v1", 3, 0.5)
    assert ppo.parse_args(ppo.Args()).gamma == 0.99


@pytest.fixture
def bars(ppo, monkeypatch):
    """The progress bars that the script makes, which keep their last lines."""
    made = []

    class Bar(tqdm):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

        def close(self):
            self.last_line = str(self)
            super().close()

    monkeypatch.setattr(ppo, "tqdm", Bar)
    return made


def train(ppo, arrays="numpy", **limits):
    """Train on scripted episodes and return the progress."""
    args = ppo.Args(num_envs=3, num_steps=NUM_STEPS, minibatches=1, last_episodes=3, **limits)
    envs = scripted_vector_env(LENGTHS, TRUNCATES, arrays=arrays)
    torch.manual_seed(0)
    return ppo.train(args, envs, ppo.Agent(envs))


def test_bar__begins_after_the_first_rollout_which_compiles(ppo, bars, monkeypatch):
    counts, rollouts = [], ppo.rollouts

    def counted_rollouts(*args):
        for rollout in rollouts(*args):
            counts.append(len(bars))
            yield rollout

    monkeypatch.setattr(ppo, "rollouts", counted_rollouts)
    progress = train(ppo, total_steps=40)
    assert counts == [0, 1, 1]
    assert [row[0] for row in progress] == [15, 30, 45]
    assert (bars[0].n, bars[0].total) == (45, 40)
    assert "solved" not in bars[0].last_line


def test_bar__is_full_where_the_task_is_solved(ppo, bars):
    progress = train(ppo, total_steps=10_000, target_return=0.0)
    assert bars[0].n == bars[0].total == progress[-1][0] < 10_000
    assert bars[0].last_line.startswith("100%")
    assert bars[0].last_line.endswith(f"mean return {progress[-1][3]:.2f}, solved]")


def test_ppo__takes_engine_keywords_and_another_folder(tmp_path):
    pytest.importorskip("brax")
    keywords = '{"backend": "spring", "max_episode_steps": 3}'
    out = tmp_path / "mine"
    flags = ("--env-id=Brax/fast-v0", f"--env-kwargs={keywords}", f"--out={out}", *TINY)
    output, log = run_script(*flags, cwd=tmp_path)
    place = "Fast, 4 environments on cpu. This can take a minute."
    assert log[:2] == [f"Compiling reset of {place}", f"Compiling step of {place}"]
    assert LAST_LINE.fullmatch(output.splitlines()[-1])[3] == "64", "each episode takes 4 rows"
    check_results(out, env_steps=256)


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", ["MiniGrid-Empty-5x5-v0", "FrozenLake-v1", "Pendulum-v1", "Pong-v5", "CarRacing-v3"]
)
def test_ppo__takes_any_kind_of_space_and_writes_its_results(tmp_path, task):
    pytest.importorskip("envpool")
    output, _ = run_script(f"--env-id=EnvPool/{task}", *TINY, cwd=tmp_path)
    assert LAST_LINE.fullmatch(output.splitlines()[-1])[1] == f"EnvPool/{task}"
    check_results(tmp_path / "runs" / "EnvPool" / task, env_steps=256)


@pytest.mark.slow
@pytest.mark.parametrize("arrays", ["numpy", "torch"])
@pytest.mark.parametrize(
    ("engine", "env_id", "bar"),
    [
        ("brax.envs", "Brax/inverted_pendulum-v0", 900),
        ("envpool.registration", "EnvPool/CartPole-v1", 475),
    ],
)
def test_ppo__solves_the_task(tmp_path, engine, env_id, bar, arrays):
    pytest.importorskip(engine)
    flags = (f"--env-id={env_id}", f"--arrays={arrays}", f"--target-return={bar}")
    output, _ = run_script(*flags, cwd=tmp_path)
    name, mean_return, *_ = LAST_LINE.fullmatch(output.splitlines()[-1]).groups()
    assert name == env_id
    assert float(mean_return) >= bar
