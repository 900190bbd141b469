"""Every rule: its sentence, where Gymnasium says so, and what it takes to be reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from gymnasium.vector import AutoresetMode

__all__ = ["RULES", "Rule", "Rules"]

_NEXT, _SAME, _DISABLED = AutoresetMode


@dataclass(frozen=True)
class Rule:
    """A rule for vector environments.

    Attributes:
        sentence: The rule in words.
        source: Where Gymnasium 1.4 says or does so. Paths are relative to its package, those with
            ``tests/`` to its repository.
        level: "gymnasium" for what Gymnasium documents, or what all of its own vector environments
            keep; "extra" for what only `SyncVectorEnv` keeps, or what users expect and Gymnasium
            does not.
        of_ends: True if the rule is about ended episodes: its outcome is "held" only if both a
            termination and a truncation kept it.
        modes: Autoreset modes to which the rule applies.
        documented_in: The only mode for which Gymnasium documents the rule, or None; in other modes
            it is an extra.
        needs: What there must be for the rule to be reached; "" if every run reaches it.
        id: Its name in reports, which is that of the attribute of `Rules`.
    """

    sentence: str
    source: str
    level: str = "gymnasium"
    of_ends: bool = False
    modes: tuple[AutoresetMode, ...] = tuple(AutoresetMode)
    documented_in: AutoresetMode | None = None
    needs: str = ""
    id: str = field(default="", init=False)

    def __set_name__(self, owner: type, name: str) -> None:
        object.__setattr__(self, "id", name.lower().replace("_", "-"))  # It is frozen.


_CLASS = "vector/vector_env.py, `VectorEnv`"
_RESET = "vector/vector_env.py, `VectorEnv.reset`"
_INFOS = "vector/vector_env.py, `VectorEnv._add_info`"
_MODES = "vector/vector_env.py, `AutoresetMode`; tests/vector/test_autoreset_mode.py"
_FINALS = f"{_MODES}, `test_same_step_final_obs`"
_SYNC = "vector/sync_vector_env.py, `SyncVectorEnv`"
_SYNC_INIT = "vector/sync_vector_env.py, `SyncVectorEnv.__init__`"
_BATCHES = f"tests/vector/testing_utils.py; {_SYNC_INIT}"
_SYNC_RESET = "vector/sync_vector_env.py, `SyncVectorEnv.reset`"
_SYNC_STEP = "vector/sync_vector_env.py, `SyncVectorEnv.step`"
_SYNC_RESTART = f"{_SYNC_STEP}, which calls `Env.reset`"
_COPIES = "vector/sync_vector_env.py, `copy=True`"
_STEP_TEST = "tests/vector/test_sync_vector_env.py, `test_step_sync_vector_env`"
_MASK_TEST = "tests/vector/test_vector_env.py, `test_partial_reset`"

_extra = partial(Rule, level="extra")
_of_batches = partial(Rule, source=_BATCHES, needs="a space that is equal to a copy of itself")
_of_masks = partial(Rule, documented_in=_DISABLED)
_of_ends = partial(Rule, of_ends=True, needs="a known autoreset mode and an episode that ends")
_of_next_step = partial(_of_ends, source=_MODES, modes=(_NEXT,))
_of_same_step = partial(_of_ends, modes=(_SAME,))
_of_autoreset = partial(_extra, source=_SYNC_RESTART, of_ends=True, modes=(_NEXT,))
_of_seeds = partial(_extra, source=_SYNC_RESET)
_of_attributes = partial(_extra, source=_SYNC, needs="`set_attr`")


class Rules:
    """The rules by name, in the order of a report."""

    # What an environment declares before its first call
    VECTOR_ENV = Rule("The factory returns a `gymnasium.vector.VectorEnv`.", _CLASS)
    NUM_ENVS = Rule("`num_envs` is a positive int.", _CLASS)
    SPACES = Rule("The four spaces are `gymnasium.Space`s.", _CLASS)
    BATCH_OBSERVATION_SPACE = _of_batches(
        "`observation_space` is `batch_space(single_observation_space, num_envs)`."
    )
    BATCH_ACTION_SPACE = _of_batches(
        "`action_space` is `batch_space(single_action_space, num_envs)`."
    )
    AUTORESET_MODE = Rule(
        '`metadata["autoreset_mode"]` is an `AutoresetMode`.',
        f"{_CLASS}; envs/registration.py, `make_vec`",
    )
    RENDER_MODE = Rule(
        '`render_mode` is None or one of `metadata["render_modes"]`.',
        "core.py, `Env.render`; wrappers/vector/rendering.py",
    )
    MODE_ATTRIBUTE = _extra(
        "`autoreset_mode` is also an attribute, equal to that in `metadata`.",
        _SYNC_INIT,
        needs="`autoreset-mode` to hold",
    )
    OWN_METADATA = _extra(
        "Each instance has its own `metadata`: a change in one is not seen in another.",
        "tests/vector/test_sync_vector_env.py, `test_metadata_sync_vector_env`",
        needs="`metadata` that is a dict",
    )

    # What each call returns
    RESET_RETURNS = Rule(
        "`reset` returns observations and a dict of infos, without an error.", _RESET
    )
    STEP_RETURNS = Rule(
        "`step` takes an action for each environment and returns observations, rewards, "
        "terminations, truncations and a dict of infos, without an error.",
        "vector/vector_env.py, `VectorEnv.step`",
    )
    OBSERVATIONS = Rule(
        "Observations have the structure, shapes and dtypes of the batched space.", _STEP_TEST
    )
    OBSERVATIONS_IN_SPACE = Rule(
        "Each observation, including those in `final_obs`, lies in `single_observation_space`.",
        "utils/passive_env_checker.py, `check_obs`",
    )
    REWARDS = Rule("Rewards are a floating-point array of shape (num_envs,).", _STEP_TEST)
    FLAGS = Rule(
        "Terminations and truncations are boolean arrays of shape (num_envs,).", _STEP_TEST
    )
    RESET_MASK = _of_masks(
        "`reset(options={'reset_mask': mask})` begins episodes where the mask is True, and only "
        "there.",
        _MASK_TEST,
        needs="two environments",
    )
    OPTIONS_UNCHANGED = _extra(
        "`reset` does not change the caller's `options`.",
        "not kept: `SyncVectorEnv.reset` removes `reset_mask`",
        needs="two environments",
    )
    ACTIONS_UNCHANGED = _extra(
        "`step` does not change the caller's actions.",
        "not stated; kept by all of Gymnasium's vector environments",
    )
    OWNERSHIP = Rule("A later call does not change what an earlier one returned.", _COPIES)
    INFO_MASKS = Rule(
        "Each key of infos has a boolean mask of shape (num_envs,) under `_key`.",
        _INFOS,
        needs="infos",
    )
    INNER_INFO_MASKS = _extra(
        "Each key of a dict in infos has such a mask in that dict.",
        f"{_INFOS}; not kept: `RecordEpisodeStatistics`",
        needs="a dict in infos",
    )
    INFO_LENGTHS = Rule(
        "Each value of infos is an array with an entry for each environment.",
        f"{_INFOS}; wrappers/vector/dict_info_to_list.py",
        needs="infos",
    )
    INFO_ZEROS = _extra(
        "NumPy infos are zero, False or None where their mask is False.",
        _INFOS,
        needs="NumPy infos with a mask that is False somewhere",
    )
    EXACT_TIES = _extra(
        "An episode is never terminated and truncated in the same step.",
        "allowed: wrappers/common.py, `TimeLimit`",
        needs="an episode that ends",
    )
    RESET_MASK_INFOS = _of_masks(
        "A partial `reset` returns infos only where its mask is True.",
        _MASK_TEST,
        needs="two environments and infos of a partial reset",
    )

    # Seeds
    SEED_REPEATS = Rule(
        "The same seed and actions give the same run, in the same instance and in another.", _RESET
    )
    SEED_DIFFERS = Rule(
        "If the environment is random, another seed gives another run.",
        _RESET,
        needs="initial observations that are random",
    )
    SEED_RECORDED = Rule(
        "`np_random_seed` is the given seed or a tuple with one seed per environment, and "
        "`reset()` does not change it.",
        "vector/vector_env.py, `VectorEnv.np_random_seed`; tests/vector/test_vector_env.py, "
        "`test_random_seeding_basics`",
    )
    UNSEEDED_RESET = Rule(
        "`reset()` continues the random streams; it does not repeat the first episodes of the "
        "seed.",
        "core.py, `Env.reset`",
        needs="initial observations that are random, also in later episodes",
    )
    RESET_CLEARS_ENDS = _of_ends(
        "`reset` clears pending restarts: after ends, a seed gives the same run as before.",
        f"{_SYNC_RESET}; pull request 1112",
        modes=(_NEXT, _DISABLED),
        needs="`seed-repeats` to hold and an episode that ends",
    )
    SEED_SEQUENCE = _of_seeds(
        "`reset(seed=s)` seeds environment i with s + i.",
        needs="`seed-repeats` to hold, two environments and random initial observations",
    )
    SEED_LIST = _of_seeds(
        "`reset` takes a list with a seed for each environment; another length is a `ValueError`."
    )
    SEED_LIST_NONE = _of_seeds(
        "None in a list of seeds continues that environment's random stream, or is an error.",
        needs="`seed-repeats`, `unseeded-reset` and `seed-list` to hold",
    )

    # Many episodes
    FINAL_OBSERVATION = _of_ends(
        "The final observation of an episode is returned, and not the next initial one in its "
        "place.",
        _MODES,
        needs="a final observation unlike the next initial one, or four different ones",
    )
    SAME_STEP_INFOS = _of_same_step(
        "Outside `final_info`, infos of an environment whose episode ended are those of its new "
        "episode.",
        _SYNC_STEP,
        needs="infos unlike those in `final_info`, or four different ones",
    )
    FRESH_STATES = _extra(
        "If initial observations are random, each new episode draws another one.",
        _SYNC_RESTART,
        needs="a later initial observation unlike the first, or four different ones",
    )

    # Ends of episodes
    NEXT_STEP_FLAGS = _of_next_step("The step after an end has both flags False.")
    NEXT_STEP_REWARD = _of_next_step("The step after an end has reward 0.")
    SAME_STEP_FINAL_OBS = _of_same_step(
        "`final_obs` holds an observation for each environment that ended, and `_final_obs` is "
        "True exactly there.",
        _FINALS,
    )
    SAME_STEP_FINAL_INFO = _of_same_step(
        "`final_info` is a dict of the final infos, and `_final_info` is True exactly for "
        "environments that ended.",
        _SYNC_STEP,
    )
    NO_FINAL_KEYS = Rule(
        "Infos have no `final_obs` and no `final_info`.",
        _SYNC_STEP,
        modes=(_NEXT, _DISABLED),
        needs="a known autoreset mode",
    )
    LIMIT_KEPT = Rule(
        "No episode takes more steps than `spec.max_episode_steps`.",
        "envs/registration.py, `EnvSpec`; wrappers/common.py, `TimeLimit`",
        needs="`spec.max_episode_steps` and an episode that ends",
    )
    TRUNCATED_AT_LIMIT = _extra(
        "If `spec.max_episode_steps` is set, only episodes of that length are truncated.",
        "other truncations are allowed: core.py, `Env.step`",
        needs="`spec.max_episode_steps` and a truncation",
    )

    # What a run does not depend on
    NEXT_STEP_ACTION = _of_next_step(
        "The step after an end ignores the action.",
        needs="`seed-repeats` to hold and an episode that ends",
    )
    INDEPENDENT_STEPS = Rule(
        "The first episode of an environment does not depend on when other environments restart.",
        f'"multiple independent copies": {_CLASS}',
        needs="`seed-repeats` to hold and neighbours whose ends another action moves in the "
        "meantime",
    )
    INDEPENDENT_EPISODES = _extra(
        "No episode of an environment depends on the other environments.",
        f"{_SYNC}, where each has a random generator of its own",
        needs="`seed-repeats` to hold and neighbours whose ends another action moves",
    )
    AUTORESET_IS_RESET = _of_autoreset(
        "An autoreset begins the same episode that a partial `reset` would begin.",
        needs="`seed-repeats` to hold and two calls after an end",
    )
    AUTORESET_INFOS = _of_autoreset(
        "The step after an end returns the infos that a partial `reset` would return.",
        needs="`autoreset-is-reset` to hold and infos of a partial reset",
    )
    RESET_MASK_CLEARS = _of_autoreset(
        "A partial `reset` clears a pending restart: the next step takes its action.",
        source=_SYNC_RESET,
        needs="`autoreset-is-reset` to hold and two calls after an end",
    )
    WRITABLE = _extra(
        "The caller can write into NumPy results, and this does not change the run.",
        _COPIES,
        needs="`seed-repeats` to hold",
    )
    SAME_STEP_FINAL_VALUE = _of_same_step(
        "`final_obs` holds the observation with which NextStep ends the same episode.", _FINALS
    )

    # Arguments that are accepted or refused
    RESET_MASK_ERRORS = _of_masks(
        "A `reset_mask` that is not a bool array is a `TypeError`; one of another shape or without "
        "True is a `ValueError`.",
        "tests/vector/test_vector_env.py, `test_partial_reset_failure`",
    )
    RESET_MASK_SEED = _of_seeds(
        "`reset(seed=s, options={'reset_mask': mask})` begins the episodes of seed s where the "
        "mask is True, or is an error; the same with a list of seeds.",
        needs="`seed-repeats` and `reset-mask` to hold, and two environments",
    )
    ACTION_COUNT = Rule(
        "Fewer or more actions than environments are an error.",
        "tests/vector/test_vector_env.py, `test_action_count_compatibility`",
    )
    ACTION_LIST = _extra(
        "If observations are NumPy arrays, `step` accepts a list of single actions.",
        _STEP_TEST,
        needs="`seed-repeats` to hold and observations in NumPy",
    )
    REFUSED_STEP = _extra(
        "A `step` that raises an error because of its actions does not change the run.",
        "not kept by `SyncVectorEnv`",
        needs="`seed-repeats` and `action-count` to hold, and two environments",
    )
    STEP_BEFORE_RESET = _extra(
        "`step` before the first `reset` is an error.", "wrappers/common.py, `OrderEnforcing`"
    )
    ENDED_REFUSED = _extra(
        "`step` does not advance an ended environment: it raises an error, or returns the same "
        "observation with reward 0.",
        f"{_SYNC_STEP}, which asserts",
        of_ends=True,
        modes=(_DISABLED,),
        needs="`seed-repeats` to hold and an episode that ends",
    )

    # Attributes, frames, specs, pickled copies and closing
    CALL = _of_attributes("`call(name)` returns a tuple with a value of each environment.")
    GET_ATTR = _of_attributes("`get_attr(name)` returns a tuple with a value of each environment.")
    SET_ATTR = _extra(
        "`set_attr(name, values)` gives each environment its value; a list of another length is a "
        "`ValueError`.",
        _SYNC,
    )
    RENDER = Rule(
        '`render` with "rgb_array" returns a tuple of num_envs frames, (height, width, 3) uint8.',
        "vector/vector_env.py, `VectorEnv.render`; wrappers/vector/rendering.py",
        needs='`render_mode="rgb_array"`',
    )
    RENDER_PURE = _extra(
        "`render` does not change the run.",
        "not stated by Gymnasium",
        needs='`render_mode="rgb_array"` and `seed-repeats` to hold',
    )
    SPEC = Rule(
        "`gymnasium.make_vec(spec)` builds an environment with the same size, spaces, mode and "
        "spec.",
        "tests/envs/registration/test_make_vec.py, `test_make_vec_with_spec`",
        needs="a `spec`",
    )
    PICKLE = _extra(
        "A pickled copy runs as the original does.", "not stated", needs="`seed-repeats` to hold"
    )
    CLOSE = Rule(
        "`close` sets `closed`, and a second `close` is not an error.",
        "vector/vector_env.py, `VectorEnv.close`",
    )
    CLOSED_REFUSED = _extra(
        "`reset` and `step` after `close` are errors.",
        "vector/async_vector_env.py, `AsyncVectorEnv`",
    )


RULES: tuple[Rule, ...] = tuple(rule for rule in vars(Rules).values() if isinstance(rule, Rule))
"""Every rule, in the order of a report."""
