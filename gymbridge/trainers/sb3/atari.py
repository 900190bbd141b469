"""EnvPool's Atari games as Stable-Baselines3 preprocesses them, and the scores of whole games."""

from __future__ import annotations

import copy
import time
from typing import Any

from stable_baselines3.common.vec_env import VecMonitor

from gymbridge.engines import ENGINES, find_engine
from gymbridge.errors import ArgumentError

__all__ = ["GameMonitor", "game_keywords"]

_KEYWORDS = {
    "noop_max": ("noop_max", 30),
    "frame_skip": ("frame_skip", 4),
    "img_height": ("screen_size", 84),
    "img_width": ("screen_size", 84),
    "episodic_life": ("terminal_on_life_loss", True),
    "reward_clip": ("clip_reward", True),
    "repeat_action_probability": ("action_repeat_probability", 0.0),
}
"""Keywords of EnvPool: their names in SB3's ``AtariWrapper``, and its defaults."""


def game_keywords(
    env_id: Any, wrapper_kwargs: dict[str, Any], env_kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Return the keywords of a batch of games that do what SB3's ``AtariWrapper`` does.

    The arguments are those of `make_atari_env`. EnvPool's own keywords, in `env_kwargs`, go before.
    """
    if not isinstance(env_id, str) or find_engine(env_id) is not ENGINES["EnvPool"]:
        raise ArgumentError(
            "`env_id` must be one of EnvPool's Atari games, such as 'EnvPool/Pong-v5', got "
            f"{env_id!r}; use Stable-Baselines3's own `make_atari_env` for others."
        )
    known = dict.fromkeys(given for given, _ in _KEYWORDS.values())
    if unknown := wrapper_kwargs.keys() - known.keys():
        raise ArgumentError(
            f"`wrapper_kwargs` must be keywords of AtariWrapper, {', '.join(known)}, got "
            f"{sorted(unknown)}; EnvPool's own go into `env_kwargs`."
        )
    ours = {own: wrapper_kwargs.get(given, default) for own, (given, default) in _KEYWORDS.items()}
    keywords = {**ours, "stack_num": 1, **env_kwargs}
    if isinstance(keys := keywords.get("info_keys"), list | tuple):
        keywords["info_keys"] = sorted({*keys, "reward", "terminated"})
    return keywords


class GameMonitor(VecMonitor):
    """A ``VecMonitor`` that records whole games by the game's own score.

    The agent may see each life as an episode and clipped rewards. Here ``infos[i]["episode"]`` is
    in the step that ends a game, by its rules or by the time limit. It holds ``r``, the sum of the
    rewards that the game gave since it began, ``l``, its length in frames without the no-ops, and
    ``t``, the seconds since the monitor was made.
    """

    def __init__(self, *args: Any, frame_skip: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._frame_skip = frame_skip

    def __deepcopy__(self, memo: dict[int, Any]) -> GameMonitor:
        """Return a monitor of a copied batch, which writes no file."""
        view, keywords = copy.deepcopy(self.venv, memo), self.info_keywords
        copied = type(self)(view, info_keywords=keywords, frame_skip=self._frame_skip)
        copied.reset_infos = view.reset_infos
        return copied

    __copy__ = copy.deepcopy

    def step_wait(self) -> Any:
        """Return the results of a step, with the records of the games that it ended."""
        obs, rewards, dones, infos = self.venv.step_wait()
        self.episode_returns += [info["reward"] for info in infos]
        self.episode_lengths += self._frame_skip
        for index in dones.nonzero()[0].tolist():
            if infos[index]["terminated"] or infos[index]["TimeLimit.truncated"]:
                self._record(index, infos[index])
        return obs, rewards, dones, infos

    def _record(self, index: int, info: dict[str, Any]) -> None:
        record = {
            "r": float(self.episode_returns[index]),
            "l": int(self.episode_lengths[index]),
            "t": round(time.time() - self.t_start, 6),
            **{key: info[key] for key in self.info_keywords},
        }
        info["episode"] = record
        self.episode_count += 1
        self.episode_returns[index] = self.episode_lengths[index] = 0
        if self.results_writer:
            self.results_writer.write_row(record)
