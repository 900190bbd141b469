"""`SyncVectorEnv`s with one fault each, as adapters have them, and the rules that they break.

Each fault is put onto a vector environment that keeps all of Gymnasium's rules.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

NEXT, SAME, DISABLED = AutoresetMode

OFFENDERS: list[tuple[type[SyncVectorEnv], AutoresetMode, set[str]]] = []
"""Each offender with a mode and the ids of the rules that it breaks there."""


def after_steps(alter: Callable[[Any], Any]) -> type[SyncVectorEnv]:
    """Return an offender that alters the results of a step."""

    class Altered(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            return alter(super().step(actions))

    return named_like(alter, Altered)


def before_resets(alter: Callable[..., Any]) -> type[SyncVectorEnv]:
    """Return an offender that alters seed and options of a reset, given its batch and them."""

    class Altered(SyncVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            seed, options = alter(self, seed, options)
            return super().reset(seed=seed, options=options)

    return named_like(alter, Altered)


def named_like(fault: Callable[..., Any], kind: type[SyncVectorEnv]) -> type[SyncVectorEnv]:
    """Return a class under the name of a function, so that it can be pickled."""
    kind.__name__ = kind.__qualname__ = fault.__name__
    kind.__module__ = fault.__module__
    return kind


def breaks(*rules: str, modes: tuple[AutoresetMode, ...] = (), of: Any = after_steps) -> Any:
    """Enter an offender: a class, or a function of which `of` makes one.

    Without modes it is checked in one of them: for most rules the checker knows no mode.
    """

    def enter(fault: Any) -> type[SyncVectorEnv]:
        kind = fault if isinstance(fault, type) else of(fault)
        chosen = modes or (tuple(AutoresetMode)[len(OFFENDERS) % 3],)
        OFFENDERS.extend((kind, mode, set(rules)) for mode in chosen)
        return kind

    return enter


@breaks("ownership")
class SharedBuffers(SyncVectorEnv):
    """Returns its own buffer of observations."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, copy=False)


@breaks("flags")
def float_flags(returned: Any) -> Any:
    """Returns flags as floats, as Brax has them."""
    obs, rewards, terminated, truncated, infos = returned
    return obs, rewards, terminated.astype(np.float32), truncated.astype(np.float32), infos


@breaks("rewards")
def integer_rewards(returned: Any) -> Any:
    obs, rewards, *rest = returned
    return obs, rewards.astype(np.int64), *rest


@breaks("observations")
def wide_observations(returned: Any) -> Any:
    """Returns observations of twice the width of the space's dtype."""
    obs, *rest = returned
    return obs.astype(np.float64), *rest


@breaks("observations-in-space")
class NarrowSpace(SyncVectorEnv):
    """Declares narrower bounds than its observations keep."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        space = spaces.Box(-0.5, 0.5, (3,), np.float32)
        spaces_given = spaces.Box(-0.5, 0.5, (4, 3), np.float32), space
        super().__init__(*args, **kwargs, observation_mode=spaces_given)


@breaks("batch-observation-space")
class SingleObservationSpace(SyncVectorEnv):
    """Declares the space of one environment as that of the batch, as EnvPool does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.observation_space = self.single_observation_space


@breaks("autoreset-mode", modes=(NEXT,))
class ModeAsText(SyncVectorEnv):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.metadata["autoreset_mode"] = self.autoreset_mode.value


@breaks("seed-repeats", "seed-recorded", "seed-list", of=before_resets)
def deaf_to_seeds(_: Any, seed: Any, options: Any) -> Any:
    """Ignores seeds, as EnvPool's `reset` does."""
    return None, options


@breaks("seed-differs", "seed-recorded", "seed-list", "seed-list-none", of=before_resets)
def one_seed(_: Any, seed: Any, options: Any) -> Any:
    return None if seed is None else 7, options


@breaks("unseeded-reset", of=before_resets)
def remembers_seed(envs: Any, seed: Any, options: Any) -> Any:
    """Begins the run of the last seed again where `reset` has none."""
    is_full = not options or "reset_mask" not in options
    envs.last_seed = getattr(envs, "last_seed", None) if seed is None else seed
    return envs.last_seed if is_full else seed, options


@breaks("info-masks")
def no_masks(returned: Any) -> Any:
    *rest, infos = returned
    kept = ("_final_obs", "_final_info")
    return *rest, {k: v for k, v in infos.items() if not k.startswith("_") or k in kept}


@breaks("info-lengths")
def short_infos(returned: Any) -> Any:
    """Returns an info for the whole batch."""
    *rest, infos = returned
    return *rest, infos | {"batch": np.zeros(2), "_batch": np.ones(4, np.bool_)}


@breaks("render")
class ListOfFrames(SyncVectorEnv):
    def render(self) -> Any:
        return list(super().render())


@breaks("close")
class NeverClosed(SyncVectorEnv):
    """Overrides `close` and forgets `closed`."""

    def close(self, **kwargs: Any) -> None:
        self.close_extras(**kwargs)


@breaks("action-count")
class TakesAnyNumber(SyncVectorEnv):
    """Repeats or drops actions until there is one for each environment."""

    def step(self, actions: Any) -> Any:
        return super().step(np.resize(actions, self.num_envs))


@breaks("mode-attribute")
class ModeInMetadataAlone(SyncVectorEnv):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._mode, self.autoreset_mode = self.autoreset_mode, None

    def step(self, actions: Any) -> Any:
        self.autoreset_mode = self._mode
        returned = super().step(actions)
        self.autoreset_mode = None
        return returned


@breaks("own-metadata")
class SharedMetadata(SyncVectorEnv):
    """Has the dict of its class as `metadata`, for each mode one."""

    _shared: Any = {}  # noqa: RUF012

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.metadata = self._shared.setdefault(self.autoreset_mode, self.metadata)


@breaks("spec")
class OtherSpec(SyncVectorEnv):
    """Has a spec that builds something else."""

    @property
    def spec(self) -> Any:
        return self._spec

    @spec.setter
    def spec(self, spec: Any) -> None:
        self._spec = copy.deepcopy(spec)
        if spec is not None:
            self._spec.kwargs["kind"] = SyncVectorEnv
            self._spec.kwargs["render_mode"] = None


@breaks("step-returns")
def four_values(returned: Any) -> Any:
    """Returns one flag, as Gym did."""
    obs, rewards, terminated, truncated, infos = returned
    return obs, rewards, terminated | truncated, infos


@breaks("reset-returns")
class NoInfos(SyncVectorEnv):
    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return super().reset(seed=seed, options=options)[0]


@breaks("writable")
class UsesReturned(SyncVectorEnv):
    """Reads its own results again, after the user has written into them."""

    _reward: Any = None

    def step(self, actions: Any) -> Any:
        obs, rewards, *rest = super().step(actions)
        rewards += 0 if self._reward is None else (self._reward > 1e3) * 0
        if self._reward is not None and (self._reward == 1).all():
            rewards = rewards + 1
        self._reward = rewards
        return obs, rewards, *rest


@breaks("info-zeros")
def left_over_infos(returned: Any) -> Any:
    """Leaves values where their mask is False."""
    *rest, infos = returned
    for found in (infos, infos.get("final_info", {})):
        if "is_out" in found:
            found["is_out"][~found["_is_out"]] = True
    return *rest, infos


@breaks("render-pure")
class RenderDraws(SyncVectorEnv):
    def render(self) -> Any:
        self.envs[0].np_random.uniform()
        return super().render()


@breaks("actions-unchanged")
class WritesIntoActions(SyncVectorEnv):
    """Clips actions in place."""

    def step(self, actions: Any) -> Any:
        returned = super().step(actions)
        if isinstance(actions, np.ndarray):
            np.clip(actions, 0, 1, out=actions)
        return returned


@breaks("reset-mask-seed", of=before_resets)
def drops_seeds(_: Any, seed: Any, options: Any) -> Any:
    is_partial = options and "reset_mask" in options
    return None if is_partial else seed, options


@breaks("seed-list-none", of=before_resets)
def seeds_none(_: Any, seed: Any, options: Any) -> Any:
    seeds = [0 if one is None else one for one in seed] if isinstance(seed, list) else seed
    return seeds, options
