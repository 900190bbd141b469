"""Every example can be copied, explains its flags at once, names missing libraries, is tested."""

from __future__ import annotations

import argparse
import ast
import re
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support.example_runs import EXAMPLES, call_script, check_picture, read_table

TESTS = Path(__file__).parent
PARTS = ("ppo_flags", "run_folder", "sb3_returns")
"""What examples import, and is no script."""

NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in PARTS)
PLAYED = (
    *("ppo", "playground_ppo", "custom_brax_env", "shac", "torchrl_ppo", "rsl_rl_ppo"),
    *("sb3_ppo", "sb3_sac", "sb3_atari", "rllib_ppo", "domain_randomization", "ddp"),
)
"""Scripts that play a saved policy with `--evaluate`."""

SLOW_IMPORTS = (
    *("brax", "envpool", "gymbridge", "gymnasium", "jax", "matplotlib", "moviepy", "numpy", "ray"),
    *("rsl_rl", "stable_baselines3", "torch", "torchrl", "tqdm"),
)


def siblings(name: str) -> set[str]:
    """Return the files of `examples` that a script imports, also by way of others."""
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    found = {node.module.replace(".", "/") for node in nodes if node.module}
    ours = {module for module in found if (EXAMPLES / f"{module}.py").exists()}
    return ours.union(*map(siblings, ours))


@pytest.fixture(params=NAMES)
def copied(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of an example with what it says to copy, where no library can be imported."""
    for name in (request.param, *siblings(request.param)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(EXAMPLES / f"{name}.py", tmp_path / f"{name}.py")
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in SLOW_IMPORTS:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("LOCAL_RANK", "0")  # of torchrun
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / f"{request.param}.py"


def test_help__has_a_text_for_every_flag_before_any_slow_import(copied, monkeypatch):
    found = []

    def stop(parser: argparse.ArgumentParser, *_: Any) -> None:
        found.append(parser)
        parser.format_help()
        raise SystemExit

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(copied), run_name="__main__")
    assert ended.value.code is None
    assert [action.dest for action in found[0]._actions if not action.help] == []


def test_missing_library__is_named_in_one_line_with_the_command(copied, monkeypatch):
    needed = ["--curve", "a", "b"] if copied.stem == "compare_curves" else []
    monkeypatch.setattr(sys, "argv", [str(copied), *needed])
    with pytest.raises(SystemExit, match=r"^.* in a checkout of gymbridge: pip install '\.\[.*\]'"):
        runpy.run_path(str(copied), run_name="__main__")


def test_policy_to_evaluate__that_is_not_there_is_named_at_once(copied, monkeypatch, capsys):
    if copied.stem not in PLAYED:
        assert '"--evaluate"' not in copied.read_text("utf-8")
        return
    monkeypatch.setattr(sys, "argv", [str(copied), "--evaluate=no.pt"])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(copied), run_name="__main__")
    assert capsys.readouterr().err.endswith("error: --evaluate: there is no file no.pt\n")


@pytest.mark.parametrize("name", NAMES)
def test_docstring__names_the_files_to_copy(name):
    text = ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8")))
    assert text is not None
    assert [file for file in siblings(name) if f"`{file}.py`" not in text] == []


def test_example__has_a_test_that_runs_it():
    tests = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py"))
    for name in NAMES:
        assert re.search(rf'(["/]{name}\.py"|(run|call)_script\(\s*"{name}")', tests), name


def test_partial_resets__plays_each_seed_once_whatever_the_batch(tmp_path):
    tables = []
    for num_envs in (2, 3):
        flags = (f"--num-envs={num_envs}", "--episodes=4", "--max-episode-steps=9")
        printed = call_script("partial_resets", *flags, "--env-id=Brax/fast-v0", cwd=tmp_path)
        assert printed.lines[-1].endswith(" over 4 episodes")
        folder = tmp_path / "runs" / "partial_resets"
        tables.append(read_table(folder / "episodes.csv"))
        check_picture(folder / "lengths.png")
    assert tables[0]["seed"].tolist() == [0, 1, 2, 3]
    assert (tables[0]["length"] == tables[1]["length"]).all()
    np.testing.assert_allclose(tables[0]["return_"], tables[1]["return_"], rtol=1e-4)


def test_planning__plays_planned_and_random_actions(tmp_path):
    sizes = ("--num-envs=4", "--horizon=2", "--best=2", "--steps=3")
    printed = call_script("planning", "--env-id=Brax/fast-v0", *sizes, cwd=tmp_path)
    found = [line.split(":")[0] for line in printed.lines[:2]]
    assert found == ["Brax/fast-v0, random", "Brax/fast-v0, planned"]
    check_picture(tmp_path / "runs" / "planning" / "returns.png")


@pytest.mark.slow
def test_planning__balances_the_pendulum(tmp_path):
    random, planned, _ = call_script("planning", "--steps=40", cwd=tmp_path).lines
    assert int(planned.split()[-2]) == 40
    assert int(random.split()[-2]) < 40


@pytest.fixture
def compare_curves() -> dict[str, Any]:
    """What the script defines."""
    return runpy.run_path(str(EXAMPLES / "compare_curves.py"))


HEADER = "env_steps,seconds,episodes,mean_return"


def test_compare_curves__draws_mean_and_band(compare_curves, tmp_path, monkeypatch):
    for name, shift in (("a", 0), ("b", 2)):
        (tmp_path / name).mkdir()
        rows = [[0, 0.5, 0, np.nan], [10, 1, 3, 1 + shift], [20, 2, 5, 5 + shift]]
        path = tmp_path / name / "progress.csv"
        np.savetxt(path, rows, delimiter=",", header=HEADER, comments="")
    runs = compare_curves["read_runs"]([tmp_path / "a", tmp_path / "b"])
    places, returns = compare_curves["band"](runs, "env_steps")
    assert (places[0], places[-1]) == (10, 20)
    np.testing.assert_allclose(returns[:, [0, -1]], [[1, 5], [3, 7]])
    out = tmp_path / "picture.png"
    folders = (str(tmp_path / "a"), str(tmp_path / "b"))
    monkeypatch.setattr(sys, "argv", ["x", "--curve", "both", *folders, "--out", str(out)])
    compare_curves["main"]()
    check_picture(out)


def test_compare_curves__reads_the_monitor_of_stable_baselines3(compare_curves, tmp_path):
    returns, lengths = np.arange(250.0), np.tile([3, 2], 125)
    rows = [f"{returns[i]},{lengths[i]},{0.5 * i}" for i in range(250)]
    lines = ["#{}", "r,l,t", *rows, ""]
    (tmp_path / "0.monitor.csv").write_text("\n".join(lines), encoding="utf-8")
    [run] = compare_curves["read_runs"]([str(tmp_path)])
    assert run["env_steps"].tolist() == np.cumsum(lengths).tolist()
    assert run["seconds"][-1] == 0.5 * 249
    expected = [returns[max(0, last - 99) : last + 1].mean() for last in range(250)]
    np.testing.assert_allclose(run["mean_return"], expected)


@pytest.mark.parametrize(
    ("folders", "text"),
    [
        ([], "error: --curve PPO needs the folder of a run"),
        (["no"], "no: there is no file pro"),
        (["."], "no episode ended in this run"),
    ],
)
def test_compare_curves__names_what_is_missing(
    compare_curves, folders, text, tmp_path, monkeypatch, capsys
):
    (tmp_path / "progress.csv").write_text(f"{HEADER}\n10,1,0,nan\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["x", "--curve", "PPO", *folders])
    with pytest.raises(SystemExit) as ended:
        compare_curves["main"]()
    assert text in f"{ended.value}{capsys.readouterr().err}"


READERS = ("ppo", "playground_ppo", "custom_brax_env", "shac", "torchrl_ppo")
"""Scripts that check their flags; all but the last do so by `ppo_flags`."""


@pytest.mark.parametrize(
    ("name", "flag", "text"),
    [
        *((name, "--total-steps=0", "--total-steps must be at least 1, got 0") for name in READERS),
        ("ppo", "--num-envs=-1", "--num-envs must be at least 1, got -1"),
        ("ppo", "--seed=-1", "--seed must be at least 0, got -1"),
        ("ppo", "--env-kwargs={backend", "--env-kwargs must be JSON, got '{backend': "),
        ("torchrl_ppo", "--epochs=0", "--epochs must be at least 1, got 0"),
    ],
)
def test_flags__out_of_their_range_are_named_at_once(name, flag, text, monkeypatch, capsys):
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "argv", [name, flag])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert f"error: {text}" in capsys.readouterr().err


ANY_ID = (
    *("custom_brax_env", "ddp", "domain_randomization", "functional_rollout", "open_loop"),
    *("partial_resets", "planning", "playground_ppo", "ppo", "record_video", "rsl_rl_ppo"),
    *("sb3_atari", "sb3_ppo", "sb3_sac", "shac", "torchrl_ppo"),
)
"""Scripts with `--env-id` that run in one process without Ray."""

CUDA = '--env-kwargs={"device": "cuda"}'


@pytest.mark.parametrize(
    ("name", "flags", "text"),
    [
        *((name, ["--env-id=EnvPool/Pog-v5"], "`Pog` doesn't exist") for name in ANY_ID),
        ("soak", ["--env-ids", "EnvPool/Pog-v5"], "`Pog` doesn't exist"),
        *(
            (name, ["--env-id=nowhere:Task-v0"], "No module named 'nowhere'")
            for name in ("ddp", "ppo", "record_video", "sb3_ppo", "shac")
        ),
        ("physics_leaves", ["--env-name=hoper"], "did you mean 'hopper'?"),
        ("ppo", ["--device=cuda"], "--device: "),
        ("rsl_rl_ppo", ["--device=cuda"], "`device` must be one that torch has"),
        ("sb3_atari", ["--device=cuda"], "--device: "),
        ("record_video", [CUDA, "--env-id=Brax/fast-v0"], "`device` must be one that JAX has"),
        ("shac", [CUDA], "`device` must be one that JAX has"),
        ("torchrl_ppo", ["--device=cuda"], "`device` must be one that JAX has"),
    ],
)
def test_wrong_id_or_device__is_named_in_one_line(name, flags, text, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    if name == "ddp":  # as torchrun sets them; the script changes the third
        environ = {"LOCAL_RANK": "0", "WORLD_SIZE": "1", "CUDA_VISIBLE_DEVICES": ""}
        for variable, value in environ.items():
            monkeypatch.setenv(variable, value)
    if "cuda" in flags[0] and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    printed = call_script(name, *flags, cwd=tmp_path, code=1)
    assert text in printed.log
    assert printed.log.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "env_id"),
    [
        *((name, "EnvPool/Pendulum-v1") for name in ("ppo", "torchrl_ppo", "rsl_rl_ppo")),
        ("record_video", "EnvPool/Pendulum-v1"),
        ("shac", "Brax/fast-v0"),
    ],
)
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_policy_of_another_task__is_named_in_one_line(name, env_id, tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "policy.pt"
    torch.jit.save(torch.jit.trace(torch.nn.Linear(7, 1), torch.zeros(2, 7)), path)
    flag = "policy" if name == "record_video" else "evaluate"
    printed = call_script(name, f"--env-id={env_id}", f"--{flag}={path}", cwd=tmp_path, code=1)
    assert re.search(f"{path} cannot act (in|on) .*: RuntimeError: ", printed.log, re.S)
    assert printed.log.count("\n") == 1


@pytest.mark.slow
def test_string_shape__trains_both_and_draws_their_curves(tmp_path):
    call_script("string_shape", "--seeds", 1, "--max-seconds=1", "--out=out", cwd=tmp_path)
    for name in ("shac", "ppo"):
        assert (tmp_path / "out" / name / "1" / "policy.pt").exists()
    check_picture(tmp_path / "out" / "curves.png")


GALLERY = TESTS.parent / "docs" / "gallery.md"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "soak"])
def test_gallery__has_each_example_with_a_small_picture(name):
    assert f"![{name}](img/gallery/{name}.png) | **{name}.py**<br>" in GALLERY.read_text("utf-8")
    picture = (GALLERY.parent / "img" / "gallery" / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 60_000


@pytest.mark.parametrize(
    ("index", "task"), [(0, "CartPole-v1"), (1, "Pendulum-v1"), (2, "Pendulum-v1")]
)
def test_gallery__diffs_of_cleanrl_build_a_batch(index, task):
    diff = re.findall(r"```diff\n(.*?)```", GALLERY.read_text("utf-8"), re.DOTALL)[index]
    lines = [line[1:] for line in diff.splitlines() if line.startswith("+")]
    names: dict[str, Any] = {
        "args": argparse.Namespace(env_id=f"EnvPool/{task}", num_envs=2, seed=1, gamma=0.99)
    }
    exec("\n".join(lines), names)
    observations, _ = names["envs"].reset(seed=1)
    assert len(observations) == 2
    names["envs"].close()


def test_thumbnails__show_a_whole_picture_or_the_top_of_a_tall_one(tmp_path, monkeypatch):
    Image.new("RGB", (900, 350), "red").save(tmp_path / "wide.png")
    tall = Image.new("RGB", (300, 900), "blue")
    tall.paste("red", (0, 0, 300, 300))
    tall.save(tmp_path / "tall.png")
    script = runpy.run_path(str(GALLERY.parent / "scripts" / "thumbnails.py"))
    monkeypatch.setitem(script["main"].__globals__, "FOLDER", tmp_path / "out")
    pairs = [f"{name}={tmp_path}/{name}.png" for name in ("wide", "tall")]
    monkeypatch.setattr(sys, "argv", ["thumbnails.py", *pairs])
    script["main"]()
    for name, width in (("wide", 360), ("tall", 240)):
        with Image.open(tmp_path / "out" / f"{name}.png") as picture:
            assert picture.size == (360, 240)
            colours = {colour: count for count, colour in picture.convert("RGBA").getcolors()}
        red = (255, 0, 0, 255)
        assert {alpha for *_, alpha in {*colours} - {red}} == {0}
        assert colours[red] >= 0.9 * width * min(240, width * 350 / 900)
