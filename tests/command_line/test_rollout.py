"""`gymbridge rollout`: episodes, policies from files, and videos."""

from __future__ import annotations

import json
import pickle
import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gymbridge.command_line import main
from gymbridge.command_line.policies import load_policy
from gymbridge.command_line.video import open_video
from gymbridge.errors import ArgumentError
from tests.support.example_runs import read_video
from tests.support.terminals import run_in_terminal

CARTPOLE, VIDEO = "EnvPool/CartPole-v1", "--video=out.mp4"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"


def run(*arguments: str) -> int:
    """Return the exit code of `rollout`; skip the test where the engine is not installed."""
    if arguments[0].startswith("EnvPool"):
        pytest.importorskip("envpool.registration")
    return main(["rollout", *arguments])


def roll(capsys: Any, *arguments: str) -> Any:
    """Return what `rollout` prints as JSON."""
    assert run(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_rollout__is_repeated_by_its_seed(capsys: Any) -> None:
    runs = [roll(capsys, CARTPOLE, "--episodes=3", f"--seed={seed}") for seed in (4, 4, 5)]
    assert runs[0] == runs[1]
    assert runs[0]["episodes"] != runs[2]["episodes"]
    lengths = [episode["length"] for episode in runs[0]["episodes"]]
    assert runs[0]["mean_length"] == np.mean(lengths)
    assert len(set(lengths)) > 1  # only the first one begins from the seed


@pytest.mark.parametrize(
    ("env_id", "flag", "end", "length"),
    [
        (CARTPOLE, "--kwarg=max_episode_steps=5", "truncated", 5),
        (CARTPOLE, "--steps=3", "stopped", 3),
        (CARTPOLE, "--seed=0", "terminated", None),
        ("MountainCar-v0", "--kwarg=max_episode_steps=250", "truncated", 250),
    ],
)
def test_episode__says_how_it_ended(
    env_id: str, flag: str, end: str, length: int | None, capsys: Any
) -> None:
    [episode] = roll(capsys, env_id, flag)["episodes"]
    assert episode["end"] == end
    assert length in (None, episode["length"])
    assert abs(episode["episode_return"]) == episode["length"]


@pytest.fixture
def right(tmp_path: Path) -> Path:
    """A module in a file, which always goes to the right and asks for float32."""
    torch = pytest.importorskip("torch")

    class Right(torch.nn.Module):
        def forward(self, obs: Any) -> Any:
            assert obs.dtype == torch.float32
            return torch.ones_like(obs[:, 0])

    path = tmp_path / "policy.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(Right(), torch.zeros(3, 4)), path)
    return path


def test_module__acts_in_any_number_of_environments(right: Path, capsys: Any) -> None:
    found = roll(capsys, CARTPOLE, "--policy", str(right))
    assert 8 <= found["mean_length"] <= 11  # the pole falls to the left at once
    envs = gym.make_vec("CartPole-v1", num_envs=5, vectorization_mode="sync")
    actions = load_policy(right, envs, 0)(np.zeros((5, 4)))
    assert actions.tolist() == [1] * 5
    assert actions.dtype == envs.action_space.dtype


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_page__writes_policies_that_act(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for block in blocks:
        torch.manual_seed(0)  # so that both formats hold the same policy
        exec(block, {})
    runs = [
        roll(capsys, "EnvPool/Pendulum-v1", "--policy", f"policy{ending}", "--steps=20")
        for ending in (".pt", ".pt2")
    ]
    assert runs[0]["mean_return"] == pytest.approx(runs[1]["mean_return"])


def test_module__acts_on_dicts(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")

    class Sum(torch.nn.Module):
        def forward(self, obs: Any) -> Any:
            return obs["a"] + obs["b"]["c"]

    monkeypatch.setattr(torch.jit, "load", lambda *_: Sum())
    envs = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    obs = {"a": np.ones(2, np.int64), "b": {"c": np.ones(2, np.float64)}}
    assert load_policy(Path("sum.pt"), envs, 0)(obs).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("name", "task"),
    [
        *((name, "CartPole-v1") for name in ("PPO", "DQN")),
        *((name, "Pendulum-v1") for name in ("A2C", "SAC", "TD3")),
    ],
)
def test_sb3_model__acts_as_it_does_itself(
    name: str, task: str, tmp_path: Path, capsys: Any
) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    model = getattr(sb3, name)("MlpPolicy", task, seed=0, device="cpu")
    path = tmp_path / "model.zip"
    model.save(path)
    envs = gym.make_vec(task, num_envs=7, vectorization_mode="sync")
    obs = envs.observation_space.sample()
    expected, _ = model.predict(obs, deterministic=True)
    np.testing.assert_array_equal(load_policy(path, envs, 0)(obs), expected)
    arguments = f"EnvPool/{task}", "--steps=5", "--policy", str(path)
    assert roll(capsys, *arguments)["mean_length"] == 5


def test_sb3_model__has_actions_that_begin_at_zero(tmp_path: Path) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    from gymbridge.trainers.sb3 import Sb3VecEnv
    from gymbridge.trainers.sb3.saved import load_actor

    def make() -> gym.Env[Any, Any]:
        space = gym.spaces.Discrete(2, start=5)
        return gym.wrappers.TransformAction(gym.make("CartPole-v1"), lambda a: a - 5, space)

    envs = SyncVectorEnv([make], autoreset_mode=AutoresetMode.SAME_STEP)
    model = sb3.PPO("MlpPolicy", Sb3VecEnv(envs), device="cpu", n_steps=2, batch_size=2)
    model.save(tmp_path / "model.zip")
    obs = envs.reset(seed=0)[0]
    expected = model.predict(obs, deterministic=True)[0] + 5
    assert load_actor(tmp_path / "model.zip", envs)(obs).tolist() == expected.tolist()
    envs.close()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("policy.pkl", "must end in .pt, .pt2 or .zip"),
        ("absent.pt", "absent.pt cannot be loaded: "),
        ("broken.pt", "broken.pt cannot be loaded: "),
        ("broken.zip", "broken.zip cannot be loaded: "),
    ],
)
def test_policy__that_cannot_be_read_is_an_error(name: str, text: str, tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    for broken in ("broken.pt", "broken.zip"):
        (tmp_path / broken).write_bytes(b"no policy")
    with pytest.raises(ArgumentError, match=text):
        load_policy(tmp_path / name, gym.make_vec("CartPole-v1"), 0)


@pytest.mark.parametrize(
    ("missing", "name", "text"),
    [
        ("torch", "policy.pt", "pip install torch"),
        ("moviepy.video.io.ffmpeg_writer", None, "pip install moviepy"),
    ],
)
def test_missing_library__is_an_error_with_the_command_to_run(
    missing: str, name: str | None, text: str, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    arguments = ["--video", str(tmp_path / "out.mp4")]
    if name is not None:
        (tmp_path / name).touch()
        arguments = ["--policy", str(tmp_path / name)]
    assert run("CartPole-v1", *arguments) == 2
    assert text in capsys.readouterr().err


def test_video__has_a_frame_for_each_observation(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("moviepy")
    path = tmp_path / "new" / "out.mp4"
    size = "--kwarg=render_size=[601,401]"  # odd, which most encoders refuse
    found = roll(capsys, CARTPOLE, "--video", str(path), "--episodes=2", size)
    frames = read_video(path)
    assert len(frames) == sum(episode["length"] + 1 for episode in found["episodes"])
    assert frames[0].shape == (401, 601, 3)
    assert (frames[0] != frames[found["episodes"][0]["length"]]).any()


@pytest.mark.parametrize(("fps", "num_frames"), [(20, 20), (50, 20), (100, 10)])
def test_gif__keeps_its_time_and_has_at_most_fifty_frames_a_second(
    fps: int, num_frames: int, tmp_path: Path
) -> None:
    pytest.importorskip("moviepy")
    image, path = pytest.importorskip("PIL.Image"), tmp_path / "out.gif"
    with open_video(path, fps) as draw:
        for shade in range(0, 200, 10):
            frame = np.full((32, 48, 3), shade, np.uint8)
            draw(SimpleNamespace(render=lambda frame=frame: [frame]))  # type: ignore[arg-type]
    with image.open(path) as film:
        assert (film.size, film.n_frames) == ((48, 32), num_frames)
        assert film.info["duration"] * num_frames == 20_000 / fps


class Faulty(gym.Env[Any, Any]):
    """An environment that fails where it is asked to, and draws nothing."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}
    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, at: str | None = None, render_mode: str | None = None) -> None:
        self.at, self.render_mode = at, render_mode

    def call(self, name: str) -> None:
        if name == self.at:
            raise RuntimeError("no fuel")

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.call("reset")
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.call("step")
        return np.zeros(2, np.float32), 0.0, True, False, {}

    def render(self) -> None:
        self.call("render")

    def close(self) -> None:
        self.call("close")


@pytest.fixture
def _faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gym.registry, "Faulty-v0", EnvSpec("Faulty-v0", entry_point=Faulty))


@pytest.mark.usefixtures("_faulty")
@pytest.mark.parametrize("at", ["reset", "step", "close"])
def test_environment__that_fails_is_an_error_with_its_place(at: str, capsys: Any) -> None:
    assert run("Faulty-v0", f"--kwarg=at={at}") == 2
    error = capsys.readouterr().err
    assert error.startswith("gymbridge rollout: error: ")
    assert re.search(rf"Faulty-v0 failed: RuntimeError: no fuel \({__file__}, line \d+\)\n$", error)


@pytest.mark.usefixtures("_faulty")
@pytest.mark.filterwarnings("ignore")  # Gymnasium's own, of an environment without a picture
@pytest.mark.parametrize(
    ("env_id", "arguments", "text"),
    [
        ("CartPole-v1", ["--video=out.avi"], "`--video` must end in .mp4 or .gif, got 'out.avi'"),
        ("CartPole-v1", ["--video=/dev/null/out.mp4"], "/dev/null/out.mp4 cannot be written"),
        ("CartPole-v1", ["--video=folder.mp4"], "folder.mp4 cannot be written"),
        (
            "CartPole-v1",
            ["--vecnormalize=out.pkl"],
            "`--vecnormalize` needs a `--policy` that ends in .zip",
        ),
        ("Faulty-v0", [VIDEO], "pictures, (height, width, 3), and `render` returned NoneType"),
        (
            "EnvPool/FrozenLake-v1",
            [VIDEO],
            "EnvPool does not draw these tasks",
        ),
        (CARTPOLE, [VIDEO, "--kwarg=render_size=[0,0]"], "`render_size` must be at least 1"),
    ],
)
def test_rollout__exits_with_2_for_what_it_cannot_do(
    env_id: str,
    arguments: list[str],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    pytest.importorskip("moviepy")
    monkeypatch.chdir(tmp_path)
    Path("folder.mp4").mkdir()
    assert run(env_id, *arguments) == 2
    error = capsys.readouterr().err
    assert text in error
    assert not Path("out.mp4").exists()


@pytest.mark.usefixtures("_faulty")
@pytest.mark.parametrize("flags", [[], ["--json"]])
@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt, 130, "interrupted"),
        (RuntimeError, 2, "Faulty-v0 failed: RuntimeError: no fuel"),
    ],
)
def test_rollout__that_is_cut_short_reports_the_finished_episodes(
    error: Any, code: int, text: str, flags: list[str], capsys: Any, monkeypatch: Any
) -> None:
    calls: list[str] = []

    def call(env: Any, name: str) -> None:
        calls.append(name)
        if name == "step" and calls.count("step") == 3:
            raise error("no fuel")

    monkeypatch.setattr(Faulty, "call", call)
    assert run("Faulty-v0", "--episodes=9", *flags) == code
    printed, said = capsys.readouterr()
    assert text in said
    if flags:
        assert [one["length"] for one in json.loads(printed)["episodes"]] == [1, 1]
    else:
        assert printed.splitlines() == [
            "episode 1: return 0.00, 1 step, terminated",
            "episode 2: return 0.00, 1 step, terminated",
            "mean return 0.00 (standard deviation 0.00), mean length 1.0 over 2 episodes",
        ]


def test_ctrl_c__of_a_terminal_leaves_the_video_whole(
    tmp_path: Path,
) -> None:
    """Ctrl-C of a terminal goes to every process of it, the encoder included."""
    pytest.importorskip("moviepy")
    path = tmp_path / "out.mp4"
    command = ["rollout", "CartPole-v1", "--episodes=100000", f"--video={path}"]
    command = [sys.executable, "-m", "gymbridge", *command]
    written, code = run_in_terminal(command, 80, interrupt_after=b"episode 2: ")
    assert code == 130
    lines = written.splitlines()
    results = [line.split(":")[0] for line in lines if line.startswith("episode")]
    assert results[:2] == ["episode 1", "episode 2"]
    assert f"Wrote {path}" in written
    assert lines[-1] == "gymbridge rollout: interrupted"
    assert lines[-2].endswith(f" over {len(results)} episodes")
    assert len(read_video(path)) > len(results)


def make_normalized(env_id: str) -> Any:
    """Return two environments in a `VecNormalize`."""
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    return VecNormalize(make_vec_env(env_id, 2, seed=0))


@pytest.fixture
def normalized(tmp_path: Path) -> Any:
    """A model of PPO that was trained in a `VecNormalize`, whose statistics are elsewhere."""
    sb3 = pytest.importorskip("stable_baselines3")
    envs = make_normalized("Pendulum-v1")
    model = sb3.PPO("MlpPolicy", envs, n_steps=32, batch_size=32, seed=0, device="cpu").learn(64)
    model.save(tmp_path / "model.zip")
    (tmp_path / "elsewhere").mkdir()
    envs.save(str(tmp_path / "elsewhere" / "statistics.pkl"))
    return model


def test_vecnormalize__gives_the_policy_the_observations_of_training(
    normalized: Any, tmp_path: Path, capsys: Any
) -> None:
    model, statistics = tmp_path / "model.zip", tmp_path / "elsewhere" / "statistics.pkl"
    envs = gym.make_vec("Pendulum-v1", num_envs=50, vectorization_mode="sync")
    obs = envs.observation_space.sample()
    expected, _ = normalized.predict(normalized.env.normalize_obs(obs), deterministic=True)
    act = load_policy(model, envs, 0, statistics)
    np.testing.assert_allclose(act(obs), expected, rtol=1e-5)
    assert not np.allclose(load_policy(model, envs, 0)(obs), expected, rtol=1e-2)
    capsys.readouterr()
    files = [f"--policy={model}", f"--vecnormalize={statistics}"]
    assert run("Pendulum-v1", "--steps=3", "--json", *files) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("normalized")
def test_vecnormalize__that_is_missing_is_warned_of(tmp_path: Path, capsys: Any) -> None:
    assert run("Pendulum-v1", "--steps=3", f"--policy={tmp_path}/model.zip") == 0
    error = capsys.readouterr().err
    assert error.startswith(
        f"gymbridge rollout: warning: {tmp_path}/model.zip was trained in a VecNormalize."
    )
    assert "`--vecnormalize FILE`" in error


@pytest.mark.usefixtures("normalized")
def test_vecnormalize__that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    envs = gym.make_vec("Pendulum-v1", num_envs=1, vectorization_mode="sync")
    (tmp_path / "number.pkl").write_bytes(pickle.dumps(3))
    (tmp_path / "broken.pkl").write_bytes(b"no pickle")
    for name in ("number.pkl", "broken.pkl", "absent.pkl"):
        with pytest.raises(ArgumentError, match=r"model.zip cannot be loaded: \w+Error: "):
            load_policy(tmp_path / "model.zip", envs, 0, tmp_path / name)
    make_normalized("CartPole-v1").save(str(tmp_path / "other.pkl"))
    act = load_policy(tmp_path / "model.zip", envs, 0, tmp_path / "other.pkl")
    with pytest.raises(ArgumentError, match=r"model.zip cannot act on observations"):
        act(envs.reset()[0])
