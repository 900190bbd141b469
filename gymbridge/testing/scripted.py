"""A host simulator whose episodes follow a table.

The task: the observation is the number of steps since the episode began, an action is 0, 1 or 2 and
the reward is ``action + step / 4``. Infos are the number of the episode, a number that was drawn
when it began, and the sum of its actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymbridge.core.episode import ResetRequest, TimeStep, View, split_done
from gymbridge.core.vector_env import BridgeVectorEnv

__all__ = [
    "ScriptedEpisodes",
    "ScriptedRenderer",
    "ScriptedSimulator",
    "draw_number",
    "scripted_vector_env",
]

Table = Sequence[int] | Sequence[Sequence[int]] | np.ndarray


def draw_number(seed: Any, episode: Any) -> Any:
    """Return the number that an episode draws as it begins; uint32, elementwise.

    It is a multiply-xorshift hash of both arguments.
    """
    mixed = np.asarray(seed, np.uint64) * 0x9E3779B1 + np.asarray(episode, np.uint64) * 0x85EBCA77
    with np.errstate(over="ignore"):  # numpy warns where a scalar wraps around
        mixed = ((mixed ^ (mixed >> np.uint64(15))) * 0x2C1B3C6D) & np.uint64(0xFFFFFFFF)
    return (mixed ^ (mixed >> np.uint64(13))).astype(np.uint32)


class ScriptedEpisodes(NamedTuple):
    """A batch of scripted episodes; every field is (num_envs,)."""

    seed: np.ndarray  # uint32
    episode: np.ndarray  # int64, episodes begun since the seed was given
    step: np.ndarray  # int64, steps since the episode began
    total: np.ndarray  # int64, sum of the episode's actions
    reward: np.ndarray  # float32, of the last step


class ScriptedSimulator:
    """A batch whose episodes end when a table says so.

    Args:
        lengths: (num_envs,) or (num_envs, episodes) int, steps of each episode. After the last
            column comes the first again.
        truncates: bool, broadcast to the shape of `lengths`; True where the task truncates the
            episode instead of terminating it.
        task_limit: The task's own time limit in steps, or None.
    """

    seed_range = 2**32 - 1
    built_with = None
    reset_options: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self, lengths: Table, truncates: Any = False, *, task_limit: int | None = None
    ) -> None:
        self.lengths = np.asarray(lengths, np.int64).reshape(len(lengths), -1)
        cut = np.asarray(truncates, np.bool_)
        self.truncates = np.broadcast_to(cut[:, None] if cut.ndim == 1 else cut, self.lengths.shape)
        self.num_envs = len(self.lengths)
        self.task_limit = task_limit
        self.metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}
        self.single_observation_space: gym.Space[Any] = spaces.Box(0, np.inf, (), np.float32)
        self.single_action_space: gym.Space[Any] = spaces.Discrete(3)
        self.closed = False

    @property
    def engine(self) -> ScriptedSimulator:
        """This simulator, whose attributes every environment shares."""
        return self

    def restart(
        self, state: ScriptedEpisodes | None, mask: np.ndarray, seeds: ResetRequest | None
    ) -> tuple[ScriptedEpisodes, TimeStep]:
        """Begin new episodes under `mask`; see `gymbridge.core.episode.Simulator.restart`."""
        if state is None:
            zeros = np.zeros(self.num_envs, np.int64)
            state = ScriptedEpisodes(
                zeros.astype(np.uint32), zeros, zeros, zeros, zeros.astype(np.float32)
            )
        state = self._begin(state, mask, seeds)
        return state, self._time_step(state)

    def advance(
        self,
        state: ScriptedEpisodes,
        actions: np.ndarray,
        restart: np.ndarray | None,
        freeze: np.ndarray | None,
    ) -> tuple[ScriptedEpisodes, TimeStep]:
        """Take one step; see `gymbridge.core.episode.Simulator.advance`."""
        moves = np.ones(self.num_envs, np.bool_) if freeze is None else ~freeze
        step, total = state.step + moves, state.total + actions * moves
        reward = ((actions + step / 4) * moves).astype(np.float32)
        stepped = state._replace(step=step, total=total, reward=reward)
        if restart is not None:
            stepped = self._begin(stepped, restart, None)
        return stepped, self._time_step(stepped)

    def make_renderer(self, view: View) -> ScriptedRenderer:
        """Return a renderer of the batch; the camera of `view` is ignored."""
        return ScriptedRenderer(view)

    def close(self) -> None:
        """Set `closed`."""
        self.closed = True

    def _begin(
        self, state: ScriptedEpisodes, mask: np.ndarray, seeds: ResetRequest | None
    ) -> ScriptedEpisodes:
        seed, episode = state.seed, state.episode + mask
        if seeds is not None:
            given = mask & seeds.given
            seed, episode = np.where(given, seeds.values, seed), np.where(given, 0, episode)
        return ScriptedEpisodes(seed, episode, *(value * ~mask for value in state[2:]))

    def _time_step(self, state: ScriptedEpisodes) -> TimeStep:
        rows, column = np.arange(self.num_envs), state.episode % self.lengths.shape[1]
        over = state.step >= self.lengths[rows, column]
        cut = self.truncates[rows, column]
        info = {
            "draw": draw_number(state.seed, state.episode),
            "script": {"episode": state.episode.astype(np.int32), "total": state.total.copy()},
        }
        obs, reward = state.step.astype(np.float32), state.reward.copy()
        return TimeStep(obs, reward, *split_done(over, cut), info)


class ScriptedRenderer:
    """Draws the number of the step in red and that of the episode in green.

    Args:
        view: Its size is (width, height) of a frame; None for 8 x 4 pixels.
    """

    def __init__(self, view: View) -> None:
        self._size = view.size or (8, 4)
        self.is_closed = False

    def draw(self, state: ScriptedEpisodes) -> list[np.ndarray]:
        """Return a frame of each environment, (height, width, 3) uint8."""
        width, height = self._size
        colours = np.stack([state.step, state.episode, 0 * state.step], axis=-1).astype(np.uint8)
        return [np.full((height, width, 3), colour) for colour in colours]

    def close(self) -> None:
        """Set `is_closed`."""
        self.is_closed = True


def scripted_vector_env(lengths: Table, truncates: Any = False, **kwargs: Any) -> BridgeVectorEnv:
    """Return a vector environment over a `ScriptedSimulator`.

    Args:
        lengths: (num_envs,) or (num_envs, episodes) int, steps of each episode.
        truncates: bool, broadcast to the shape of `lengths`; True where the task truncates the
            episode instead of terminating it.
        **kwargs: Keywords of `BridgeVectorEnv`.

    Example:
        >>> envs = scripted_vector_env(lengths=[1, 2])
        >>> _ = envs.reset(seed=0)
        >>> envs.step([2, 0])[1:3]
        (array([2.25, 0.25], dtype=float32), array([ True, False]))
    """
    return BridgeVectorEnv(ScriptedSimulator(lengths, truncates), **kwargs)
