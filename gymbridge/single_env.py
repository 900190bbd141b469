"""One environment as a `gymnasium.Env`: a view of a batch of one, for evaluation and checks.

`gymnasium.make` calls `make_brax` and its like, one for each engine. They take the keywords of the
vector environments, except `arrays`, `autoreset_mode`, `differentiable`, `max_episode_steps` and
`num_envs`.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit

from gymbridge.core.actions import to_array
from gymbridge.core.rendering import DEFAULT_FPS
from gymbridge.core.requests import read_seed
from gymbridge.core.rows import split_infos, split_rows
from gymbridge.core.specs import fit_spec
from gymbridge.core.vector_env import BridgeVectorEnv
from gymbridge.engines import ENGINES, Engine
from gymbridge.errors import ArgumentError

__all__ = ["SingleEnv"]


class SingleEnv(gym.Env[Any, Any]):
    """A batch of one as a single environment; rewards, flags and discrete values are Python's.

    `gym.make` wraps it in `TimeLimit`, which sets `truncated` on the last allowed step even if the
    task terminates there. Most have no other time limit. Playground's keep that of their
    configuration, and EnvPool's their own where a limit changes the task itself (see
    `gymbridge.envpool.tasks`): there `max_episode_steps` can only shorten episodes.

    Args:
        envs: A batch of one with `AutoresetMode.DISABLED`. `close` closes it.
    """

    _spec: EnvSpec | None = None

    __copy__ = copy.deepcopy  # around a copied batch, not around the same one

    def __init__(self, envs: BridgeVectorEnv) -> None:
        self.envs = envs
        # Copies, since trainers write into those that they get.
        single_spaces = envs.single_observation_space, envs.single_action_space
        self.observation_space, self.action_space = copy.deepcopy(single_spaces)
        self.metadata = copy.deepcopy(envs.metadata)
        del self.metadata["autoreset_mode"]
        self.render_mode = envs.render_mode

    @property
    def spec(self) -> EnvSpec | None:
        """The spec from `gymnasium.make`, with the limit that the task keeps; or None."""
        return self._spec

    @spec.setter
    def spec(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, spec: EnvSpec | None
    ) -> None:
        """Take what Gymnasium hands over after construction."""
        self._spec = fit_spec(spec, self.envs.max_episode_steps, self.envs.autoreset_mode)

    @property
    def np_random_seed(self) -> int:
        """The seed last given, or one drawn from the operating system if none was given yet."""
        return self.envs.np_random_seed[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode, with a seed the first episode of that seed.

        Raises:
            ArgumentError: `seed` is negative, or the engine does not take one of the options.
            ArgumentTypeError: `seed` is neither int nor None.
            ClosedError: After `close`.
        """
        seed = read_seed(seed)
        observations, infos = self.envs.reset(seed=seed, options=options)
        super().reset(seed=seed)
        return _unbatch(observations, self.envs.single_observation_space), _unbatch_infos(infos)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one step; return observation, reward, terminated, truncated and infos.

        Raises:
            ActionError: The action has the wrong shape, or integers in it lie outside their space.
            ArgumentTypeError: The action's type or dtype cannot be cast to that of the space.
            EpisodeEndedError: The episode is over; call `reset`.
            ResetNeededError: Before the first `reset`.
            ClosedError: After `close`.
        """
        obs, rewards, terminations, truncations, infos = self.envs.step(_batch(action))
        flags = bool(terminations[0]), bool(truncations[0])
        obs = _unbatch(obs, self.envs.single_observation_space)
        return obs, float(rewards[0]), *flags, _unbatch_infos(infos)

    def render(self) -> Any:
        """Return a frame, (height, width, 3) uint8; see `BridgeVectorEnv.render`."""
        return self.envs.render()[0]

    def close(self) -> None:
        """Close the batch."""
        self.envs.close()


def __getattr__(name: str) -> Any:
    """Return the function of an engine that `gymnasium.make` calls, such as `make_brax`."""
    for engine in ENGINES.values():
        if engine.entry_point == f"{__name__}:{name}":
            return _Maker(engine)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Maker:
    """Makes one environment of an engine, from the keywords of its batches."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": DEFAULT_FPS}
    """`gymnasium.make` reads it, and puts wrappers around "rgb_array" for "human" and lists."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __call__(self, **kwargs: Any) -> gym.Env[Any, Any]:
        for name in ("arrays", "autoreset_mode", "differentiable", "max_episode_steps", "num_envs"):
            if name in kwargs:
                raise ArgumentError(
                    f"`{name}` cannot be given for a single environment, got {kwargs[name]!r}; "
                    "give it to `gymnasium.make_vec`."
                )
        task = str(kwargs.get(self._engine.task_keyword))
        limit = None if self._engine.keeps_limit(task) else -1
        make: Any = load_env_creator(self._engine.vector_entry_point)
        mode = AutoresetMode.DISABLED
        envs = make(**kwargs, num_envs=1, autoreset_mode=mode, max_episode_steps=limit)
        env = SingleEnv(envs)
        # Flags on the last step are those of `TimeLimit`, whether `gymnasium.make` adds one or not.
        return env if envs.max_episode_steps is None else TimeLimit(env, envs.max_episode_steps)


def _batch(action: Any) -> Any:
    if isinstance(action, dict):
        return {key: _batch(value) for key, value in action.items()}
    return to_array(action)[None]


def _unbatch(batch: Any, space: gym.Space[Any]) -> Any:
    if isinstance(space, gym.spaces.Dict):
        return {key: _unbatch(batch[key], sub) for key, sub in space.spaces.items()}
    (row,) = split_rows(batch, np.array([0]))
    return int(row) if isinstance(space, gym.spaces.Discrete) else np.asarray(row)


def _unbatch_infos(infos: dict[str, Any]) -> dict[str, Any]:
    return split_infos(infos, 1, keeps_dtypes=True)[0]
