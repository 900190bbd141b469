"""What `PlaygroundVectorEnv` refuses, and what it says then."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("mujoco_playground")

import gymnasium as gym
import jax
import jax.numpy as jnp
from brax.envs.wrappers import training
from mujoco import mjx
from mujoco_playground import registry, wrapper

from gymbridge import PlaygroundVectorEnv
from gymbridge.errors import (
    ArgumentError,
    ArgumentTypeError,
    EnvContractError,
    KeywordError,
    SimulationError,
    UnknownTaskError,
)
from gymbridge.playground.building import build_env, find_impl
from tests.support.playground_samples import SampleMjxEnv, make_config

NAME = "CartpoleBalance"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("action_repeats", "Did you mean 'action_repeat' or 'action_space'?"),
        ("config_override", "Did you mean 'config_overrides'?"),
        ("zzz", "Known: 'action_repeat', 'action_space', 'arrays', 'autoreset_mode', "),
    ],
)
@pytest.mark.parametrize("env", [NAME, SampleMjxEnv()], ids=["name", "object"])
def test_unknown_keyword__gets_the_nearest(env: Any, name: str, hint: str) -> None:
    with pytest.raises(KeywordError) as caught:
        PlaygroundVectorEnv(env, **{name: 1})
    message = str(caught.value)
    assert f"unexpected keyword argument {name!r} for {env!r}. {hint}" in message
    for hidden in ("'env'", "'kwargs'", "'self'"):
        assert hidden not in message


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("CartpoleBalence", "did you mean 'CartpoleBalance'"),
        ("Playground/CartpoleBalance-v0", "did you mean 'CartpoleBalance'"),
        ("zzz", "known: 'AcrobotSwingup', "),
    ],
)
def test_unknown_name__gets_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UnknownTaskError, match=hint) as caught:
        PlaygroundVectorEnv(name)
    assert f"got {name!r}" in str(caught.value)


@pytest.mark.parametrize(
    "env", [None, 3, SampleMjxEnv, SimpleNamespace(), gym.Env()], ids=lambda env: type(env).__name__
)
def test_env__of_another_type_is_refused(env: Any) -> None:
    message = "`env` must be the name of a registered Playground environment or an MjxEnv, got "
    with pytest.raises(ArgumentTypeError, match=re.escape(message + type(env).__name__)):
        PlaygroundVectorEnv(env)


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"config": {"episode_length": 5}}, ArgumentTypeError, "`config` must be a ConfigDict"),
        ({"config_overrides": 5}, ArgumentTypeError, "`config_overrides` must be a dict"),
        ({"config_overrides": {"ctrl_td": 0.1}}, SimulationError, "'ctrl_td': 0.1"),
        ({"config_overrides": {"ctrl_dt": "slow"}}, SimulationError, "'ctrl_dt': 'slow'"),
        ({"action_repeat": 0}, ArgumentError, "`action_repeat` must be at least 1"),
        ({"action_repeat": 1.5}, ArgumentTypeError, "`action_repeat` must be an int"),
        ({"impl": "cpp"}, ArgumentError, "`impl` must be one of ('jax', 'warp'), got 'cpp'"),
        ({"config_overrides": {"impl": "cpp"}}, ArgumentError, "`impl` must be one of ('jax', "),
        (
            {"impl": "jax", "config_overrides": {"impl": "warp"}},
            ArgumentError,
            "`impl` must be what `config_overrides` has, 'warp', got 'jax'; leave one out",
        ),
        (
            {"action_repeat": 2, "config_overrides": {"action_repeat": 4}},
            ArgumentError,
            "`action_repeat` must be what `config_overrides` has, 4, got 2; leave one out",
        ),
    ],
)
def test_argument__of_another_type_or_value_is_named(
    kwargs: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        PlaygroundVectorEnv(NAME, **kwargs)


@pytest.mark.parametrize(
    ("name", "value"),
    [("config", make_config()), ("config_overrides", {"ctrl_dt": 0.1}), ("impl", "jax")],
)
def test_options_of_named_envs__are_refused_with_an_env_object(name: str, value: Any) -> None:
    message = f"(?s)`{name}` cannot be given with a built SampleMjxEnv.*the environment's own cons"
    with pytest.raises(ArgumentError, match=message):
        PlaygroundVectorEnv(SampleMjxEnv(), **{name: value})


def _with_model(impl: str) -> SampleMjxEnv:
    return SampleMjxEnv(model=SimpleNamespace(impl=mjx.Impl(impl)))


def test_impl__of_a_configuration_is_used_unless_it_is_playground_s_own_default() -> None:
    config = registry.get_default_config(NAME)
    assert config.impl == "warp"
    with pytest.raises(ArgumentError, match=r"`config.impl` is 'warp', .* pass `impl='jax'` or"):
        PlaygroundVectorEnv(NAME, config=config)
    for overrides, impl in ((None, "jax"), ({"impl": "jax"}, None)):
        assert find_impl(NAME, config, overrides, impl) == "jax"
    assert build_env(NAME, config, None, "jax", 1)._config.impl == "jax"
    for overrides, impl in ((None, "warp"), ({"impl": "warp"}, None), ({"impl": "warp"}, "warp")):
        assert find_impl(NAME, config, overrides, impl) == "warp"
    config.impl = "jax"
    assert find_impl(NAME, config, None, None) == "jax"
    assert find_impl(NAME, None, None, None) == "jax"


def test_impl__of_a_built_env_is_found_in_its_model() -> None:
    for impl in ("jax", "warp"):
        for env in (_with_model(impl), wrapper.Wrapper(_with_model(impl))):
            assert find_impl(env, None, None, None) == impl
    with pytest.raises(EnvContractError, match=r"`env` must have one of the `impl` .*, got 'cpp'"):
        PlaygroundVectorEnv(_with_model("cpp"))


TRAINING = {
    "the usual ones": wrapper.wrap_for_brax_training,
    "Brax's episodes": lambda env: training.EpisodeWrapper(env, 10, 1),
    "under a user's own": lambda env: wrapper.Wrapper(training.VmapWrapper(env)),
}


@pytest.mark.parametrize("wrap", TRAINING.values(), ids=TRAINING)
def test_training_wrapper__is_refused_with_the_parameters_to_use(wrap: Any) -> None:
    with pytest.raises(EnvContractError, match=r"`env` must not be wrapped in .*Wrapper") as caught:
        PlaygroundVectorEnv(wrap(SampleMjxEnv()), 4)
    message = str(caught.value)
    for parameter in ("max_episode_steps", "action_repeat", "randomization_fn", "autoreset_mode"):
        assert f"`{parameter}`" in message


@pytest.mark.parametrize(
    ("entries", "error", "message"),
    [
        ({"action_repeat": 0}, ArgumentError, "`config.action_repeat` must be at least 1, got 0"),
        ({"action_repeat": 1.5}, ArgumentTypeError, "`config.action_repeat` must be an int"),
        ({"episode_length": 0}, ArgumentError, "`config.episode_length` must be at least 1, got 0"),
        ({"episode_length": "9"}, ArgumentTypeError, "`config.episode_length` must be an int"),
    ],
)
def test_bad_entry_of_the_configuration__is_an_error(
    entries: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        PlaygroundVectorEnv(SampleMjxEnv(make_config(**entries)), 2)


@pytest.mark.parametrize(
    ("entry", "is_carried"),
    [
        (lambda: jnp.ones(()), True),
        (lambda: {"a": {"b": jnp.ones(())}}, True),
        (dict, False),
        (lambda: [jnp.ones(())], False),
        (lambda: {"a": jnp.ones(()), "b": None}, False),
        (lambda: {"a": jnp.ones(()), "key": jax.random.key(1)}, False),
        (lambda: jax.random.PRNGKey(1), False),
    ],
)
def test_preserved_info__is_carried_if_it_can_be_an_info(entry: Any, is_carried: bool) -> None:
    """Any other begins anew with its episode, as it does in Playground's default wrapper."""
    key = "AutoResetWrapper_preserve_info"

    class Preserving(SampleMjxEnv):
        def reset(self, rng: Any) -> Any:
            state = super().reset(rng)
            return state.replace(info={**state.info, key: entry()})

    envs = PlaygroundVectorEnv(Preserving(make_config()), 2)
    assert envs.reset(seed=0)[0] in envs.observation_space
    assert (key in envs._simulator.reset_options) == is_carried
