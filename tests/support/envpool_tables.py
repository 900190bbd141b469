"""EnvPool's tasks with several players: its own pools, read by their own names, and whole games."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from tests.support.envpool_runs import leaves_of, make_own
from tests.support.episode_runs import row_of
from tests.support.oracle import Answer, Row


class OwnTables:
    """A pool of EnvPool's own, which answers in any order, by environment."""

    def __init__(self, task_id: str, seeds: list[int], **keywords: Any) -> None:
        self.pool = make_own(task_id, num_envs=len(seeds), seed=seeds, **keywords)
        self._movers: dict[int, int] = {}

    def reset(self) -> dict[int, Answer]:
        obs, info = self.pool.reset()
        nothing = np.zeros(len(info["env_id"]), np.bool_)
        return self._read(obs, np.zeros(len(obs), np.float32), nothing, nothing, info)

    def step(self, actions: np.ndarray) -> dict[int, Answer]:
        return self._read(*self.pool.step(actions.ravel()))

    def _read(
        self, obs: Any, rewards: Any, terminated: Any, truncated: Any, info: Any
    ) -> dict[int, Answer]:
        """Return a batch's answers: of the player to move, or of all; whose reward is whose."""
        answers, obs = {}, obs.view(np.int8) if obs.dtype == np.bool_ else obs
        players = info.pop("players")
        for row, table in enumerate(info.pop("env_id").tolist()):
            seats = np.flatnonzero(players["env_id"] == table)
            own = {key: value[row] for key, value in info.items()}
            own["rewards"] = rewards[seats]
            flags = bool(terminated[row]), bool(truncated[row])
            if "current_player" in info:
                np.testing.assert_array_equal(players["id"][seats], np.arange(len(seats)))
                reward = own["rewards"][self._movers.get(table, 0)]
                self._movers[table] = to_move = own["current_player"]
                answers[table] = Answer(obs[seats[to_move]], reward, *flags, own)
            else:
                own["players"] = {key: players[key][seats] for key in players if "id" not in key}
                answers[table] = Answer(obs[seats], own["rewards"].sum(), *flags, own)
        return answers


class OwnTable(OwnTables):
    """One environment in a pool of EnvPool's own, for an `Oracle`."""

    def __init__(self, task_id: str, seed: int, **keywords: Any) -> None:
        super().__init__(task_id, [seed], **keywords)
        self._last: Any = None

    def begin(self) -> Answer:
        if self._last is not None and self._now.terminated:
            return self.step(self._last)
        self._now = self.reset()[0]
        return self._now

    def step(self, actions: Any) -> Any:
        self._last = np.atleast_1d(actions)
        self._now = super().step(self._last)[0]
        return self._now


class TableRow(Row):
    """A row whose players have no reward while it stays."""

    def stay(self) -> None:
        super().stay()
        info: Any = self.now.info
        self.now = self.now._replace(info={**info, "rewards": np.zeros_like(info["rewards"])})


class Games:
    """The first game of each environment, and how the second begins.

    An action depends on the environment, the step and the legal actions alone, so that games are
    the same in every mode. One in 25 is illegal, in every fifth environment one in ten; one in
    six is the last legal one, with which players of Go pass. So no game takes hundreds of steps.

    Attributes:
        moments: By environment, checksums of what was returned in each step.
        slips: Illegal actions that were taken.
    """

    def __init__(self, num_envs: int, num_actions: int, num_players: int) -> None:
        rng = np.random.default_rng(0)
        self._draws = np.minimum(1.2 * rng.random((num_envs, 2000, num_players)), 0.999999)
        rates = np.where(np.arange(num_envs) % 5, 0.04, 0.1)
        self._slips = rng.random((num_envs, 2000)) < rates[:, None]
        self._steps, self._masks = np.zeros(num_envs, int), np.ones((num_envs, num_actions), bool)
        self._ends = [0] * num_envs
        self.moments: list[list[Any]] = [[] for _ in range(num_envs)]
        self.slips = 0

    @property
    def are_complete(self) -> bool:
        return all(
            end and len(own) > end for end, own in zip(self._ends, self.moments, strict=True)
        )

    def note(self, table: int, answer: Answer) -> None:
        """Note what an environment answered."""
        info: Any = answer.info
        self._steps[table] = info["elapsed_step"]
        self._masks[table] = info.get("legal_action_mask", True)
        own, end = self.moments[table], self._ends[table]
        if not end or len(own) == end:
            tree = {**info, "obs": answer.obs, "reward": np.float32(answer.reward)}
            sums = [zlib.crc32(np.ascontiguousarray(leaf)) for leaf in leaves_of(tree)]
            own.append((sums, answer.terminated, answer.truncated))
        if not end and (answer.terminated or answer.truncated):
            self._ends[table] = len(own)

    def act(self) -> np.ndarray:
        """Return the actions of all: (num_envs,), or (num_envs, players) without legal ones."""
        tables = np.arange(len(self._steps))
        draws = self._draws[tables, self._steps]
        slips = self._slips[tables, self._steps] & ~self._masks.all(1)
        self.slips += slips.sum()
        allowed = self._masks ^ slips[:, None]
        ranks = (draws * allowed.sum(1)[:, None]).astype(int)
        chosen = (allowed.cumsum(1)[:, None] > ranks[:, :, None]).argmax(2)
        return chosen.astype(np.int32)


def play_own(games: Games, task_id: str, **keywords: Any) -> Games:
    """Play whole games in a pool of EnvPool's own."""
    tables = OwnTables(task_id, [*range(len(games.moments))], **keywords)
    answers = tables.reset()
    while True:
        for table, answer in answers.items():
            games.note(table, answer)
        if games.are_complete:
            return games
        answers = tables.step(games.act())


def play(games: Games, envs: Any) -> Games:
    """Play the same games in a batch, in any mode."""
    mode, everyone = envs.autoreset_mode.value, range(envs.num_envs)
    obs, infos = envs.reset(seed=0)
    _note(games, everyone, obs, infos)
    while not games.are_complete:
        actions = games.act()
        obs, *results, infos = envs.step(actions[:, 0] if envs.takes_turns else actions)
        over = np.flatnonzero(results[1] | results[2])
        final_obs, final = (infos.pop(f"final_{key}", None) for key in ("obs", "info"))
        if final is None:
            _note(games, everyone, obs, infos, *results)
        else:
            del infos["_final_obs"], infos["_final_info"]
            _note(games, {*everyone} - {*over}, obs, infos, *results)
            _note(games, over, final_obs, final, *results)
            _note(games, over, obs, infos)
        if mode == "Disabled" and len(over):
            mask = results[1] | results[2]
            _note(games, over, *envs.reset(options={"reset_mask": mask}))
    return games


def _note(games: Games, tables: Any, obs: Any, infos: Any, *results: Any) -> None:
    for table in tables:
        reward, *flags = (part[table] for part in results or np.zeros((3, len(obs))))
        games.note(table, Answer(obs[table], reward, *map(bool, flags), row_of(infos, table)))
