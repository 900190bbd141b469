"""`SyncVectorEnv`s with one fault each at the ends of episodes, and in how they begin again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import SyncVectorEnv

from tests.support.offenders import DISABLED, NEXT, SAME, before_resets, breaks


def change_finals(returned: Any, change: Callable[[int, Any], Any]) -> Any:
    """Return results of a step with other entries in `final_obs`."""
    infos = returned[-1]
    for env in np.flatnonzero(infos.get("_final_obs", False)):
        infos["final_obs"][env] = change(env, infos["final_obs"][env])
    return returned


@breaks("final-observation", modes=(NEXT,))
class LosesFinalObservation(SyncVectorEnv):
    """Returns the next initial observation in place of the final one, a step too early."""

    def step(self, actions: Any) -> Any:
        obs, *rest = super().step(actions)
        for env in np.flatnonzero(rest[1] | rest[2]):
            generator = copy.deepcopy(self.envs[env].np_random)
            obs[env] = self._env_obs[env] = self.envs[env].reset()[0]
            self.envs[env].unwrapped.np_random = generator
        return obs, *rest


@breaks("final-observation", "same-step-final-value", modes=(SAME,))
def final_observation_is_view(returned: Any) -> Any:
    """Takes `final_obs` from the array into which the initial observations are written."""
    return change_finals(returned, lambda env, final: returned[0][env].copy())


@breaks("same-step-final-obs", modes=(SAME,))
def no_final_observation(returned: Any) -> Any:
    *rest, infos = returned
    kept = {key: value for key, value in infos.items() if "final_obs" not in key}
    return *rest, kept


@breaks("same-step-final-info", modes=(SAME,))
def no_final_info(returned: Any) -> Any:
    *rest, infos = returned
    kept = {key: value for key, value in infos.items() if "final_info" not in key}
    return *rest, kept


@breaks("same-step-infos", modes=(SAME,))
def stale_infos(returned: Any) -> Any:
    """Returns infos of the episode that ended as those of the one that begins."""
    *rest, infos = returned
    for env in np.flatnonzero(rest[2] | rest[3]):
        infos["steps"][env] = infos["final_info"]["steps"][env]
        infos["at"]["place"][env] = infos["final_info"]["at"]["place"][env]
    return *rest, infos


@breaks("autoreset-infos", modes=(NEXT,))
class StaleInfosLater(SyncVectorEnv):
    """Repeats the last infos of an episode in the step that begins the next one."""

    _steps: Any = None

    def step(self, actions: Any) -> Any:
        waiting = self._autoreset_envs.copy()
        *rest, infos = super().step(actions)
        if self._steps is not None:
            infos["steps"][waiting] = self._steps[waiting]
        self._steps = infos["steps"].copy()
        return *rest, infos


@breaks("no-final-keys", modes=(NEXT, DISABLED))
def final_keys_everywhere(returned: Any) -> Any:
    """Returns `final_obs` in a mode that has none."""
    obs, *rest, infos = returned
    final = np.full(4, None, object)
    return obs, *rest, infos | {"final_obs": final, "_final_obs": rest[1] | rest[2]}


@breaks("fresh-states", "autoreset-is-reset", modes=(NEXT,))
class CachedStates(SyncVectorEnv):
    """Begins each episode in the state of the last `reset`, as Brax's wrapper does."""

    _first: Any = None

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        obs, infos = super().reset(seed=seed, options=options)
        self._first = [env.unwrapped.place for env in self.envs]
        return obs, infos

    def step(self, actions: Any) -> Any:
        waiting = self._autoreset_envs.copy()
        obs, *rest = super().step(actions)
        for env in np.flatnonzero(waiting):
            self.envs[env].unwrapped.place = self._first[env]
            obs[env, :2] = self._env_obs[env][:2] = self._first[env]
        return obs, *rest


@breaks("reset-clears-ends", modes=(NEXT,))
class RestartsAfterReset(SyncVectorEnv):
    """Keeps what waits for its restart over a reset, as `FunctionalJaxVectorEnv` does."""

    is_partial = False

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        waiting = self._autoreset_envs.copy()
        is_partial = bool(options) and "reset_mask" in options
        returned = super().reset(seed=seed, options=options)
        if is_partial == self.is_partial:
            self._autoreset_envs = waiting
        return returned


@breaks("reset-mask-clears", modes=(NEXT,))
class RestartsAfterPartialReset(RestartsAfterReset):
    is_partial = True


@breaks("truncated-at-limit")
def merged_flags(returned: Any) -> Any:
    """Reports terminations as truncations."""
    obs, rewards, terminated, truncated, infos = returned
    return obs, rewards, np.zeros_like(terminated), terminated | truncated, infos


@breaks("exact-ties")
def both_flags(returned: Any) -> Any:
    """Reports truncations as terminations, too."""
    obs, rewards, terminated, truncated, infos = returned
    is_fourth = np.arange(4) == 3
    return obs, rewards, terminated | (truncated & is_fourth), truncated, infos


@breaks("independent-steps", "independent-episodes", modes=(NEXT,))
class NeighboursLoseSteps(SyncVectorEnv):
    """Leaves the others where they were when one restarts, as `FunctionalJaxVectorEnv` does."""

    def step(self, actions: Any) -> Any:
        waiting, before = self._autoreset_envs.copy(), [env.unwrapped.place for env in self.envs]
        obs, rewards, terminated, truncated, infos = super().step(actions)
        goes_on = ~(waiting | terminated | truncated)
        for env in np.flatnonzero(goes_on & waiting.any()):
            self.envs[env].unwrapped.place = before[env]
            obs[env, :2] = self._env_obs[env][:2] = before[env]
        return obs, rewards, terminated, truncated, infos


@breaks("independent-episodes", "reset-mask-seed", modes=(NEXT, SAME))
class SharedGenerator(SyncVectorEnv):
    """Draws what begins later of all environments from one generator."""

    _generator: Any = None

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        mask = None if options is None else options.get("reset_mask")
        obs, infos = super().reset(seed=seed, options=options)
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        if mask is not None:
            self._place(obs, mask, infos)
        return obs, infos

    def step(self, actions: Any) -> Any:
        waiting = self._autoreset_envs.copy()
        obs, *rest, infos = super().step(actions)
        self._place(obs, infos.get("_final_obs", waiting), infos)
        return obs, *rest, infos

    def _place(self, obs: Any, mask: Any, infos: Any) -> None:
        for env in np.flatnonzero(mask):
            place = self._generator.uniform(-0.9, 0.9, 2)
            self.envs[env].unwrapped.place = infos["at"]["place"][env] = place
            obs[env, :2] = self._env_obs[env][:2] = place


@breaks("next-step-reward", modes=(NEXT,))
class RewardsRestarts(SyncVectorEnv):
    def step(self, actions: Any) -> Any:
        waiting = self._autoreset_envs.copy()
        obs, rewards, *rest = super().step(actions)
        return obs, np.where(waiting, 1.0, rewards), *rest


@breaks("next-step-flags", "reset-mask-clears", modes=(NEXT,))
class RepeatsFlags(SyncVectorEnv):
    """Reports an end twice, and restarts twice."""

    _repeated: Any = False

    def step(self, actions: Any) -> Any:
        again = self._autoreset_envs & ~np.asarray(self._repeated)
        obs, rewards, terminated, truncated, infos = super().step(actions)
        self._autoreset_envs = self._autoreset_envs | again
        self._repeated = again
        return obs, rewards, terminated | again, truncated, infos

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self._repeated = False
        return super().reset(seed=seed, options=options)


@breaks("next-step-action", "autoreset-is-reset", modes=(NEXT,))
class ActsInRestart(SyncVectorEnv):
    def step(self, actions: Any) -> Any:
        waiting = self._autoreset_envs.copy()
        obs, *rest = super().step(actions)
        for env in np.flatnonzero(waiting):
            place = self.envs[env].unwrapped.place + np.array([(int(actions[env]) - 1) / 4, 0])
            self.envs[env].unwrapped.place = place
            obs[env, :2] = self._env_obs[env][:2] = place
        return obs, *rest


@breaks("reset-mask", "reset-mask-infos", "reset-mask-errors", of=before_resets)
def resets_all(_: Any, seed: Any, options: Any) -> Any:
    """Resets every environment whatever the mask, as `CartPoleVectorEnv` does."""
    return seed, None


@breaks("limit-kept", "truncated-at-limit")
class ForgetsLimit(SyncVectorEnv):
    """Lets episodes take two steps more than its spec says."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for env in self.envs:
            env.unwrapped.limit += 2


@breaks("observations-in-space", "same-step-final-value", modes=(SAME,))
def final_observation_outside(returned: Any) -> Any:
    """Returns final observations in another unit."""
    return change_finals(returned, lambda env, final: final + 100)


@breaks("inner-info-masks")
def no_inner_masks(returned: Any) -> Any:
    """Returns dicts of infos without masks, as `RecordEpisodeStatistics` does."""
    *rest, infos = returned
    return *rest, infos | {"at": {"place": infos["at"]["place"]}}


@breaks("reset-mask", "reset-mask-errors", modes=(SAME,))
class IgnoresMask(SyncVectorEnv):
    """Returns the last observations in place of a partial reset."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if options and "reset_mask" in options:
            return copy.deepcopy(self._observations), {}
        return super().reset(seed=seed, options=options)


@breaks("same-step-final-value", modes=(SAME,))
def zeros_as_final_observation(returned: Any) -> Any:
    """Leaves `final_obs` as it was created."""
    return change_finals(returned, lambda env, final: 0 * final)


@breaks("seed-repeats", modes=(SAME,))
def noise_in_final_observation(returned: Any) -> Any:
    """Adds noise that no seed repeats."""
    rng = np.random.default_rng()
    return change_finals(returned, lambda env, final: final + rng.uniform(-0.1, 0.1))


@breaks("same-step-final-value", modes=(SAME,))
class FinalObservationTooEarly(SyncVectorEnv):
    """Returns the observation before the final one."""

    def step(self, actions: Any) -> Any:
        before = copy.deepcopy(self._env_obs)
        return change_finals(super().step(actions), lambda env, final: before[env])


@breaks("same-step-final-value", modes=(SAME,))
def final_observation_of_another(returned: Any) -> Any:
    """Returns the last observation of the next environment."""
    return change_finals(returned, lambda env, final: returned[0][(env + 1) % 4].copy())


def change_finals_together(returned: Any, choose: Callable[[Any], Any]) -> Any:
    """Return results of a step with other entries in `final_obs` where several episodes end."""
    ended = np.flatnonzero(returned[-1].get("_final_obs", False))
    if len(ended) < 2:
        return returned
    finals = dict(zip(ended, returned[-1]["final_obs"][choose(ended)].copy(), strict=True))
    return change_finals(returned, lambda env, final: finals[env].copy())


@breaks("same-step-final-value", modes=(SAME,))
def swapped_final_observations(returned: Any) -> Any:
    """Exchanges the final observations of environments that end together."""
    return change_finals_together(returned, lambda ended: np.roll(ended, 1))


@breaks("same-step-final-value", modes=(SAME,))
def first_final_observation_for_all(returned: Any) -> Any:
    return change_finals_together(returned, lambda ended: np.full_like(ended, ended[0]))


@breaks("same-step-final-value", modes=(SAME,))
def last_final_observation_for_all(returned: Any) -> Any:
    return change_finals_together(returned, lambda ended: np.full_like(ended, ended[-1]))


@breaks("same-step-final-value", modes=(SAME,))
def initial_observation_for_the_second(returned: Any) -> Any:
    """Returns the next initial observation of the second of two environments that end together."""
    ended = np.flatnonzero(returned[-1].get("_final_obs", False))
    return change_finals(
        returned, lambda env, final: returned[0][env].copy() if env in ended[1:] else final
    )
