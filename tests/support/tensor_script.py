"""The scripted simulator once more, over torch tensors: an engine that knows no numpy."""

from __future__ import annotations

from typing import Any

import torch

from gymbridge import BridgeVectorEnv
from gymbridge.core.episode import ResetRequest, TimeStep, split_done
from gymbridge.testing import ScriptedSimulator
from gymbridge.testing.scripted import ScriptedEpisodes


def draw_number(seed: torch.Tensor, episode: torch.Tensor) -> torch.Tensor:
    """Return the number of `gymbridge.testing.draw_number`; int64 wraps around as uint64 does."""
    mixed = seed * 0x9E3779B1 + episode * 0x85EBCA77
    mixed = ((mixed ^ ((mixed >> 15) & (2**49 - 1))) * 0x2C1B3C6D) & 0xFFFFFFFF
    return (mixed ^ (mixed >> 13)).to(torch.uint32)


class TensorScript(ScriptedSimulator):
    """A batch of scripted episodes whose state, masks and time steps are tensors."""

    def restart(self, state: Any, mask: torch.Tensor, seeds: ResetRequest | None) -> Any:
        if state is None:
            assert seeds is not None
            values, zeros = torch.from_numpy(seeds.values.astype("int64")), 0 * mask.long()
            state = ScriptedEpisodes(values, zeros, zeros, zeros, zeros.float())
        else:
            state = self._begin(state, mask, seeds)
        return state, self._time_step(state)

    def advance(self, state: Any, actions: torch.Tensor, restart: Any, freeze: Any) -> Any:
        moves = torch.ones(self.num_envs, dtype=torch.bool) if freeze is None else ~freeze
        step, total = state.step + moves, state.total + actions * moves
        stepped = state._replace(step=step, total=total, reward=(actions + step / 4) * moves)
        if restart is not None:
            stepped = self._begin(stepped, restart, None)
        return stepped, self._time_step(stepped)

    def _begin(self, state: Any, mask: Any, seeds: ResetRequest | None) -> Any:
        seed, episode = state.seed, state.episode + mask
        if seeds is not None:
            given = mask & torch.from_numpy(seeds.given)
            seed = torch.where(given, torch.from_numpy(seeds.values.astype("int64")), seed)
            episode = torch.where(given, 0, episode)
        return ScriptedEpisodes(seed, episode, *(value * ~mask for value in state[2:]))

    def _time_step(self, state: Any) -> TimeStep:
        rows, column = torch.arange(self.num_envs), state.episode % self.lengths.shape[1]
        over = state.step >= torch.from_numpy(self.lengths)[rows, column]
        cut = torch.tensor(self.truncates)[rows, column]
        script = {"episode": state.episode.int(), "total": state.total.clone()}
        info = {"draw": draw_number(state.seed, state.episode), "script": script}
        return TimeStep(state.step.float(), state.reward.clone(), *split_done(over, cut), info)


def tensor_vector_env(lengths: Any, truncates: Any, **keywords: Any) -> BridgeVectorEnv:
    """Return what `gymbridge.testing.scripted_vector_env` does, over tensors."""
    return BridgeVectorEnv(TensorScript(lengths, truncates), native="torch", **keywords)
