"""Every cell of the table of trainers in the docs is run, and what no cell has is refused.

RLlib, which needs another Gymnasium, has the same in `test_rllib.py`, and trainers that need no
view of ours in `others/`. The cells of a view whose library is not here run in the leg `trainers`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
import torch
from skrl.envs.wrappers.torch import wrap_env
from torchrl.envs import GymWrapper

import gymbridge.trainers
from gymbridge import BraxVectorEnv, EnvPoolVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError, EnvContractError
from gymbridge.trainers.cleanrl import CleanRLVectorEnv
from gymbridge.trainers.cleanrl.envpool import OldGymVectorEnv
from gymbridge.trainers.rsl_rl import RslRlVecEnv
from gymbridge.trainers.sb3 import Sb3VecEnv
from gymbridge.trainers.skrl import SkrlWrapper
from gymbridge.trainers.torchrl import TorchRLEnv
from tests.support.batches import KINDS, MODES
from tests.support.small_batches import Silent, playground_batch

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "trainers" / "index.md"
NUM_ENVS, NUM_STEPS = 4, 9
ENGINES = ("envpool", "brax", "playground")
ACTIONS = np.random.default_rng(0).uniform(-1, 1, (NUM_STEPS, NUM_ENVS, 1)).astype(np.float32)


class Way(NamedTuple):
    """A row of the table: what takes a batch, and some steps of it."""

    arrays: str
    modes: tuple[str, ...]
    run: Callable[[Any], Any]  # of a batch; returns rewards of NUM_STEPS steps
    limits: str = ""  # what the column of engines has behind "all"
    refused: tuple[str, ...] = ()  # tasks of EnvPool beyond these limits
    is_ours: bool = True
    library: str = ""  # whose view this is, where another leg has it

    @property
    def is_here(self) -> bool:
        return self.run is not pytest.fail and not (self.library and not find_spec(self.library))


def run_numpy(envs: Any, wrap: Any) -> Any:
    view = wrap(envs)
    view.reset()
    return np.stack([view.step(actions)[1] for actions in ACTIONS])


def run_torchrl(envs: Any, wrap: Any = TorchRLEnv) -> Any:
    rollout = wrap(envs).rollout(NUM_STEPS, break_when_any_done=False)
    return rollout["next", "reward"][..., 0].T


def run_tianshou(envs: Any) -> Any:
    view = import_module("gymbridge.trainers.tianshou").TianshouVectorEnv(envs)
    view.reset()
    found = []
    for actions in ACTIONS:
        _, rewards, *flags, _ = view.step(actions)
        found.append(rewards)
        if (ids := np.logical_or(*flags).nonzero()[0]).size:
            view.reset(ids)
    return np.stack(found)


def run_rl_games(envs: Any) -> Any:
    view = import_module("gymbridge.trainers.rl_games").RlGamesVecEnv(envs)
    view.reset()
    return torch.stack([view.step(actions)[1] for actions in torch.as_tensor(ACTIONS)])


def run_rsl_rl(envs: Any) -> Any:
    view = RslRlVecEnv(envs)
    return torch.stack([view.step(actions)[1] for actions in torch.as_tensor(ACTIONS)])


def run_skrl(envs: Any, wrap: Any = SkrlWrapper) -> Any:
    view = wrap(envs)
    view.reset()
    return torch.stack([view.step(actions)[1][:, 0] for actions in torch.as_tensor(ACTIONS)])


WAYS = {
    "`Sb3VecEnv`, `make_vec_env`, `make_atari_env`": Way(
        "numpy",
        ("SameStep",),
        partial(run_numpy, wrap=Sb3VecEnv),
        "; `Dict` observations one level deep",
        ("Maze-v0",),
    ),
    "`CleanRLVectorEnv`, `make_cleanrl`": Way(
        "numpy",
        ("SameStep",),
        partial(run_numpy, wrap=CleanRLVectorEnv),
        "; `Dict` observations of `Box`es only, one level deep",
        ("MiniGrid-Empty-5x5-v0",),
    ),
    "`OldGymVectorEnv`, `make_cleanrl_envpool`": Way(
        "numpy", ("NextStep",), partial(run_numpy, wrap=OldGymVectorEnv)
    ),
    "`TorchRLEnv`, `make_torchrl`": Way("torch", ("Disabled",), run_torchrl),
    "its `GymWrapper`": Way(
        "numpy",
        ("Disabled", "SameStep"),
        partial(run_torchrl, wrap=GymWrapper),
        "; SameStep has [limits](torchrl.md#gymwrapper)",
        is_ours=False,
    ),
    "`RslRlVecEnv`, `make_rsl_rl`": Way(
        "torch",
        ("SameStep",),
        run_rsl_rl,
        ", with actions in a `Box` of floats and observations in a `Box` or a `Dict` of such",
        ("CartPole-v1", "RubiksCube-v0"),
    ),
    "`SkrlWrapper`, `with_final_observations`": Way(
        "torch",
        ("SameStep",),
        run_skrl,
        ", with spaces that skrl supports: no `MultiBinary`, no `Dict` actions",
        ("Maze-v0",),
    ),
    "its `wrap_env`": Way(
        "numpy",
        ("NextStep", "SameStep"),
        partial(run_skrl, wrap=wrap_env),
        ", with spaces that skrl supports: no `MultiBinary`, no scalars in a `Dict` of "
        "observations; records [wrong transitions](skrl.md)",
        ("Maze-v0", "WalkerRun-v1"),
        is_ours=False,
    ),
    "`TianshouVectorEnv`, `make_tianshou`": Way(
        "numpy",
        ("Disabled",),
        run_tianshou,
        ", with actions that are no `Dict`; nested `Dict` observations too",
        ("Maze-v0",),
        library="tianshou",
    ),
    "`RlGamesVecEnv`, `make_rl_games`": Way(
        "torch",
        ("SameStep",),
        run_rl_games,
        ", with actions in a `Box` or a `Discrete` and observations in a `Box` or a `Dict` of such",
        ("RubiksCube-v0",),
        library="rl_games",
    ),
    "its algorithms, over `make_vec_env`": Way("numpy", ("SameStep",), pytest.fail),
    "its `VecGymNE`, over `gymnasium.make_vec`": Way(
        "numpy, torch", ("SameStep",), pytest.fail, ", with spaces that are a `Box` or a `Discrete`"
    ),
    "its `train_on_policy`": Way("numpy", ("SameStep",), pytest.fail),
    "`BridgeEnvRunner`": Way("numpy", ("NextStep",), pytest.fail),
}


@cache
def make_batch(engine: str, arrays: str, mode: str, **kwargs: Any) -> Any:
    """Return a batch with one float action and flat observations, which stays open.

    Brax's is over two devices, as ``device="cpu:all"`` has it on two cores.
    It is shared, since to compile it takes most of a test's time; some ways close theirs.
    """
    options: Any = {"arrays": arrays, **kwargs}
    sizes: Any = {"num_envs": NUM_ENVS, "max_episode_steps": 5, "autoreset_mode": mode}
    if engine == "envpool":
        batch: Any = EnvPoolVectorEnv("Pendulum-v1", **sizes, **options)
    elif engine == "brax":
        batch = BraxVectorEnv("fast", device=("cpu:0", "cpu:1"), **sizes, **options)
    else:
        batch = playground_batch(NUM_ENVS, mode, is_flat=True, **options)
    batch.close = lambda **_: None
    return batch


def test_table__has_every_view() -> None:
    """Some factories make no view: three make a batch for one, one makes what a step returns."""
    no_views = {"make_own", "make_same_step", "make_tensors", "make_tensordict"}
    names = {name for way in WAYS for name in re.findall(r"`(\w+)`", way)}
    for path in Path(gymbridge.trainers.__path__[0]).rglob("*.py"):
        found = re.findall(
            r"^(?:class|def) ([A-Za-z]\w*(?:VecEnv|VectorEnv|Wrapper|Env))\b",
            path.read_text(),
            re.M,
        )
        found += re.findall(r"^def (make_\w+)\(", path.read_text(), re.M)
        assert {*found} - no_views <= names, path


def test_table__says_what_the_tests_run() -> None:
    table = PAGE.read_text(encoding="utf-8").split("| trainer |")[1].split("\n\n")[0]
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in table.splitlines()[2:]]
    found = {way: cells for _, way, *cells in rows}
    assert found == {
        name: [way.arrays, ", ".join(way.modes), f"all{way.limits}"] for name, way in WAYS.items()
    }


def cells(*, taken: bool) -> list[Any]:
    """Return name, arrays and mode of what ways take; or of what ours do not."""
    found = []
    for name, way in WAYS.items():
        for arrays, mode in itertools.product(KINDS, MODES):
            is_taken = arrays == way.arrays and mode in way.modes
            if way.is_here and is_taken == taken and (taken or way.is_ours):
                found.append((name, arrays, mode))
    return found


@pytest.mark.filterwarnings("ignore")  # the trainers' own
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("name", "arrays", "mode"), cells(taken=True))
def test_cell__runs(name: str, arrays: str, mode: str, engine: str) -> None:
    # TorchRL fails on dicts in the infos of SAME_STEP, as the docs say.
    has_limits = (name, mode, engine) == ("its `GymWrapper`", "SameStep", "playground")
    keys = ("length",) if has_limits else None
    rewards = WAYS[name].run(make_batch(engine, arrays, mode, info_keys=keys))
    assert tuple(rewards.shape) == (NUM_STEPS, NUM_ENVS)
    assert len(set(np.asarray(rewards).ravel().tolist())) > 3


@pytest.mark.parametrize(("name", "arrays", "mode"), cells(taken=False))
def test_other_batch__is_refused(name: str, arrays: str, mode: str) -> None:
    way = WAYS[name]
    is_mode = arrays == way.arrays
    keyword = f"autoreset_mode='{way.modes[0]}'" if is_mode else f"arrays='{way.arrays}'"
    with pytest.raises(ArgumentError, match=keyword):
        way.run(make_batch("envpool", arrays, mode))


HERE = {name: way for name, way in WAYS.items() if way.is_here}
OURS = [name for name, way in HERE.items() if way.is_ours]


@pytest.mark.parametrize("name", OURS)
def test_what_is_no_batch__is_refused_with_a_hint(name: str) -> None:
    hints = [*re.findall(r"make_\w+", name), "gymnasium.make_vec", "environment as it is"]
    for other in ("CartPole-v1", gym.make("Pendulum-v1")):
        words = rf"VectorEnv, got {type(other).__name__}; .*({'|'.join(hints)})"
        with pytest.raises(ArgumentTypeError, match=words):
            WAYS[name].run(other)


@pytest.mark.parametrize("name", OURS)
def test_batch_of_gymnasium__needs_the_arrays_and_the_mode(name: str) -> None:
    way, make = WAYS[name], partial(gym.make, "Pendulum-v1")
    wrong = next(mode for mode in MODES if mode not in way.modes)
    batches = [
        gym.vector.SyncVectorEnv([make] * NUM_ENVS, autoreset_mode=gym.vector.AutoresetMode(mode))
        for mode in (wrong, wrong, way.modes[0])
    ]
    batches[1].metadata = {}
    for envs, found in ((gym.vector.VectorWrapper(batches[0]), wrong), (batches[1], "None")):
        words = f"got {found}; build it with `autoreset_mode='{way.modes[0]}'`"
        is_numpy = way.arrays == "numpy"
        words = words if is_numpy else "got SyncVectorEnv; build one with"
        with pytest.raises(ArgumentError, match=words):
            way.run(envs)
    if way.arrays == "numpy" and not way.library:
        assert way.run(batches[2]).shape == (NUM_STEPS, NUM_ENVS)


SAME_STEP = [name for name in OURS if HERE[name].modes == ("SameStep",) and not HERE[name].library]


# The agent of skrl refuses it.
@pytest.mark.parametrize("name", [name for name in SAME_STEP if "Skrl" not in name])
def test_batch_without_final_observations__is_named(name: str) -> None:
    batch = Silent(make_batch("envpool", WAYS[name].arrays, "SameStep"))
    words = r"ended .* environments \[0, 1, 2, 3\] without `infos\['final_obs'\]`"
    with pytest.raises(EnvContractError, match=words):
        WAYS[name].run(batch)


@pytest.mark.filterwarnings("ignore")  # the trainers' own
@pytest.mark.parametrize(("name", "task"), [(n, t) for n, way in HERE.items() for t in way.refused])
def test_task__beyond_the_limits_is_refused(name: str, task: str) -> None:
    way = WAYS[name]
    envs = EnvPoolVectorEnv(task, NUM_ENVS, arrays=way.arrays, autoreset_mode=way.modes[0])
    with pytest.raises((ValueError, RuntimeError), match=r"(?i)must have|unsupported|must match"):
        way.run(envs)
