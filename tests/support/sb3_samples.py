"""Environments for the SB3 view, and runs of a view beside `DummyVecEnv` on the same episodes."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from gymbridge.testing import scripted_vector_env
from gymbridge.trainers.sb3 import Sb3VecEnv
from tests.support.references import make_scripted_envs
from tests.support.strategies import Script
from tests.support.trees import assert_same

SEED = 11
LENGTHS = [[2, 3, 1], [4, 1, 2], [5, 2, 2], [1, 1, 6]]
TRUNCATES = [[False, True, True], [True, False, True], [True, False, False], [False, True, False]]


class KindsEnv(gym.Env[Any, Any]):
    """An environment with a `Dict` observation and infos of every kind, some only now and then.

    Args:
        length: Steps of an episode; even episodes terminate, odd ones are truncated.
        start: Where its integers begin.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}  # noqa: RUF012

    def __init__(self, length: int = 3, start: int = 0, render_mode: str | None = None) -> None:
        self.observation_space = spaces.Dict(
            {
                "image": spaces.Box(0, 255, (4, 5, 3), np.uint8),
                "kind": spaces.Discrete(9, start=start),
                "vector": spaces.Box(-9, 9, (2,), np.float64),
            }
        )
        self.action_space = spaces.Discrete(3, start=start)
        self.render_mode = render_mode
        self.length, self.start, self.episode, self.step_count = length, start, -1, 0
        self.actions: list[int] = []
        self.options: Any = None
        self.note = {"actions": self.actions}  # changes with every step

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.options = options
        self.episode, self.step_count = self.episode + 1, 0
        return self._observe(), {"begun": True, **self._info()}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        value = int(action) - self.start
        self.actions.append(value)
        self.step_count += 1
        over, cuts = self.step_count >= self.length, self.episode % 2 == 1
        reward = 0.1 * (action - self.start)
        return self._observe(), reward, over and not cuts, over and cuts, self._info()

    def render(self) -> np.ndarray:
        return np.full((16, 16, 3), 10 * self.step_count + self.episode, np.uint8)

    def add(self, first: int, second: int = 0) -> int:
        return first + second + self.length

    def _observe(self) -> dict[str, Any]:
        return {
            "image": self.np_random.integers(0, 256, (4, 5, 3), np.uint8),
            "kind": self.start + np.int64(self.step_count),
            "vector": self.np_random.normal(size=2),
        }

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {
            "count": self.step_count,
            "name": f"step {self.step_count}",
            "place": np.arange(3.0) + self.step_count,
            "_private": 0.5,
            "deep": {"deeper": {"flag": self.step_count == 1}, "odd": np.float32(0.1)},
            "note": [self.note],
        }
        if self.step_count % 2 == 0:
            info["even"] = {"half": self.step_count // 2}
        return info


def sync(make: Callable[[], gym.Env[Any, Any]], num_envs: int = 4, **kwargs: Any) -> Sb3VecEnv:
    """Return the view of a `SyncVectorEnv`."""
    envs = SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **kwargs)
    return Sb3VecEnv(envs)


def dummy(make: Callable[[], gym.Env[Any, Any]], num_envs: int = 4) -> DummyVecEnv:
    """Return the reference."""
    return DummyVecEnv([make] * num_envs)


def scripted(lengths: Any = LENGTHS, truncates: Any = TRUNCATES, **kwargs: Any) -> Sb3VecEnv:
    """Return the view of a scripted batch."""
    envs = scripted_vector_env(lengths, truncates, autoreset_mode="SameStep", **kwargs)
    return Sb3VecEnv(envs)


def scripted_dummy(
    lengths: Any = LENGTHS, truncates: Any = TRUNCATES, limit: int | None = None
) -> DummyVecEnv:
    """Return the reference of a scripted batch."""
    return DummyVecEnv(make_scripted_envs(Script(np.array(lengths), np.array(truncates)), limit))


def assert_like(actual: Any, expected: Any, path: str = "") -> None:
    """Raise unless both trees hold the same values; scalars may be Python's or numpy's."""
    assert_same(_plain(actual), _plain(expected), path)


def _plain(tree: Any) -> Any:
    """Return a tree whose scalars are Python's."""
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(map(_plain, tree))
    return tree if isinstance(tree, np.ndarray) and tree.ndim else np.asarray(tree).item()


def compare(view: VecEnv, reference: VecEnv, num_steps: int, seed: int = SEED) -> Counter[str]:
    """Run both with the same seed and actions; raise where they differ, and count the ends."""
    view.seed(seed)
    reference.seed(seed)
    assert_like(view.reset(), reference.reset(), "reset")
    begun = copy.deepcopy(reference.reset_infos)  # its environments go on writing into them
    assert_like(view.reset_infos, begun, "reset_infos")
    seen: Counter[str] = Counter()
    reference.action_space.seed(seed)
    for step in range(num_steps):
        actions = np.array([reference.action_space.sample() for _ in range(view.num_envs)])
        for name, left, right in zip(
            ("obs", "rewards", "dones", "infos"),
            view.step(actions),
            expected := reference.step(actions),
            strict=True,
        ):
            assert_like(left, right, f"step {step} {name}")
        for index in np.flatnonzero(expected[2]):
            begun[index] = copy.deepcopy(reference.reset_infos[index])
            is_cut = expected[3][index]["TimeLimit.truncated"]
            seen["truncated" if is_cut else "terminated"] += 1
        assert_like(view.reset_infos, begun, f"step {step} reset_infos")
    return seen
