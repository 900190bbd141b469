"""What a `JaxEnv` must be, and the errors that name what is not."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Sequence, Tuple

from gymbridge import JaxEnv, JaxVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError, EnvContractError, SimulationError
from tests.support.jax_samples import Glide


class Sample(JaxEnv):
    """An environment whose parts are given."""

    observation_space = Box(-1, 1, (2,))
    action_space = Discrete(2)
    begun: Any = (np.float32(0), np.zeros(2, np.float32), {})
    stepped: Any = (np.float32(0), np.zeros(2, np.float32), 0.0, False, False, {})

    def __init__(self, **parts: Any) -> None:
        vars(self).update(parts)

    def reset(self, key: Any, wind: Any = 0.0) -> Any:
        return self.begun

    def step(self, key: Any, state: Any, action: Any) -> Any:
        return self.stepped


def begun(state: Any = Sample.begun[0], obs: Any = Sample.begun[1], info: Any = ()) -> Any:
    return {"begun": (state, obs, {} if info == () else info)}


def stepped(index: int, value: Any) -> Any:
    values = list(Sample.stepped)
    values[index] = value
    return {"stepped": tuple(values)}


OBS = np.zeros(2, np.float32)
NESTED = Dict(a=Dict(b=Box(0, 1, (3,), np.int8)))

BROKEN: list[tuple[dict[str, Any], str]] = [
    (stepped(0, jnp.int32(0)), r"`state` is float32\[\] after `reset` and int32\[\] after `step`"),
    (
        begun({"x": 0.0, "y": 0.0}) | stepped(0, {"x": 0.0}),
        r"`state\['y'\]` comes from `reset` alone",
    ),
    (begun([0.0]) | stepped(0, (0.0,)), "containers and None included, but `state`"),
    (begun(obs=np.zeros(3, np.float32)), r"`observation` of `reset` must fit.*float32\[3\]"),
    (stepped(1, np.zeros(2, np.int32)), r"`observation` of `step` .*float32\[2\], got int32\[2\]"),
    (
        begun(obs={"a": {"b": np.zeros(3, np.int32)}}) | {"observation_space": NESTED},
        r"`observation\['a'\]\['b'\]` of `reset` .* int8\[3\], got int32\[3\]",
    ),
    (begun(obs={"c": OBS}) | {"observation_space": NESTED}, r"with the keys \['a'\], got \['c'\]"),
    ({"observation_space": NESTED}, r"a dict of \['a'\], got float32\[2\]"),
    (stepped(2, OBS), r"`reward` of `step` must be a number .* got float32\[2\]"),
    (stepped(3, 0.0), r"`terminated` of `step` must be a bool .* got float32\[\]"),
    (stepped(4, np.zeros(2, bool)), r"`truncated` of `step` must be a bool .* got bool\[2\]"),
    (
        begun(info={"a": 0}),
        r"`info\['a'\]` comes from `reset` alone; return it from `step`",
    ),
    (stepped(5, {"b": 0}), r"`info\['b'\]` comes from `step` alone; return it from `reset` too"),
    (
        begun(info={"a": {"b": OBS}}) | stepped(5, {"a": {"b": 0.0}}),
        r"`info\['a'\]\['b'\]` is float32\[2\] after `reset` and float32\[\] after `step`",
    ),
    (begun(info={"final_obs": 0}), r"`info\['final_obs'\]` needs another name"),
    (begun(info={"_a": 0}) | stepped(5, {"_a": 0}), r"`info\['_a'\]` needs"),
    (
        begun(info={"a": {"b": 0, "_b": 0}}) | stepped(5, {"a": {"b": 0, "_b": 0}}),
        r"`info\['a'\]\['_b'\]` needs",
    ),
    (begun(info=None), "`info` of `reset` must be a dict, got NoneType"),
    ({"begun": (0.0, OBS)}, r"`reset` must return \(state, observation, info\), got 2 values"),
    ({"stepped": [0.0, OBS]}, "`step` must return .*, got list"),
    (
        begun(info={"a": {}}) | stepped(5, {"a": {"b": {"c": 0}}}),
        r"`info\['a'\]\['b'\]` .* declare `{'a': {'b': …}}` in `info_defaults`",
    ),
    ({"info_defaults": {"a": 0}}, r"`info_defaults\['a'\]` is the default of an info that neither"),
    (
        begun(info={"a": {}}) | stepped(5, {"a": {"b": OBS}}) | {"info_defaults": {"a": 0}},
        r"`info_defaults\['a'\]` must be a dict, got 0",
    ),
    *(
        (
            begun(info={"a": before}) | stepped(5, {"a": after}),
            r"`info\['a'\]` is .* after `reset` and .* after `step`; return a dict from both",
        )
        for before, after in (({}, 0.0), (0.0, {}), (0.0, {"b": 0.0}))
    ),
    *(
        (
            begun(info={"a": np.int8(0)}) | {"info_defaults": {"a": value}},
            rf"`info_defaults\['a'\]` must fit the info, int8\[\], got {value}",
        )
        for value in (300, 0.5, np.inf, np.nan, None, 10**30)
    ),
    (
        begun(info={"a": OBS}) | {"info_defaults": {"a": np.zeros(3)}},
        r"`info_defaults\['a'\]` must fit the info, float32\[2\], got",
    ),
    (begun({"a": "text"}), r"`state\['a'\]` of `reset` must be an array or .*, got str"),
    (stepped(0, Sample), r"`state` of `step` must be an array or a pytree of arrays, got "),
    ({"info_defaults": ["a"]}, r"`Sample.info_defaults` must be a dict, got \['a'\]"),
    ({"reset_options": ["wind"]}, r"`Sample.reset_options` must be a dict, got \['wind'\]"),
    ({"reset_options": {"reset_mask": Box(0, 1)}}, r"options\['reset_mask'\]` needs another name"),
    ({"observation_space": None}, "`observation_space` of Sample must be a gymnasium.Space, got"),
    *(
        ({name: space}, rf"{name}` of Sample must have integers from -2147483648 to .*, got {got}")
        for name in ("observation_space", "action_space")
        for space, got in (
            (Discrete(2**40), r"Discrete\(1099511627776\)"),
            (Discrete(5, start=-(2**31) - 1), r"Discrete\(5, start"),
            (Dict(a=MultiDiscrete([2, 2**31 + 1])), "MultiDiscrete"),
        )
    ),
    ({"reset_options": {"wind": Discrete(2**40)}}, r"'wind'\]` must have integers from"),
    ({"observation_space": Tuple([Box(0, 1)])}, "observation_space` of Sample must be Box"),
    ({"action_space": Dict(a=Sequence(Box(0, 1)))}, "action_space` of Sample must be Box"),
    ({"reset_options": {"wind": 5}}, r"`reset_options\['wind'\]` must be Box.*got 5"),
    ({"reset_options": {"rain": Box(0, 1)}}, r"must be a keyword argument of `reset`, which lacks"),
    *(
        ({"reset_options": {name: Box(0, 1)}}, rf"`reset_options\['{name}'\]` needs another name")
        for name in ("key", "self")
    ),
    ({"reset_options": {3: Box(0, 1)}}, r"`reset_options\[3\]` must have a name that is a str"),
]


@pytest.mark.parametrize(("parts", "text"), BROKEN)
def test_environment__that_breaks_a_rule_is_told_which(parts: Any, text: str) -> None:
    with pytest.raises((EnvContractError, ArgumentError, ArgumentTypeError), match=text):
        JaxVectorEnv(Sample(**parts), 2)


def test_option__that_changes_a_shape_is_named() -> None:
    class Grown(Sample):
        def reset(self, key: Any, wind: Any = 0.0) -> Any:
            return wind, np.zeros(2, np.float32), {}

    text = r"`state` is float32\[\] after `reset` and float32\[3\] after `reset with options`"
    with pytest.raises(EnvContractError, match=text):
        JaxVectorEnv(Grown(reset_options={"wind": Box(0, 1, (3,))}))


@pytest.mark.parametrize("name", ["self", "rng"])
def test_option__that_reset_gets_itself_is_named(name: str) -> None:
    class Open(Sample):
        def reset(self, rng: Any, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            return super().reset(rng)

    with pytest.raises(ArgumentError, match=rf"`reset_options\['{name}'\]` needs another name"):
        JaxVectorEnv(Open(reset_options={name: Box(0, 1)}))


@pytest.mark.parametrize("verb", ["reset", "step", "positions", "physics_leaves"])
def test_method__that_cannot_be_traced_is_told_with_its_line(verb: str) -> None:
    def branch(*args: Any) -> Any:
        return 1 / 0 if jnp.max(args[0]) > 0 else None

    env = Sample()
    setattr(env, verb, branch)
    text = f"`{verb}` of Sample cannot be traced.*test_contract.py, line .*TracerBool"
    with pytest.raises(SimulationError, match=text):
        JaxVectorEnv(env)


def test_method__that_cannot_be_called_is_told_without_a_line() -> None:
    env: Any = Sample()
    env.reset = lambda: Sample.begun
    with pytest.raises(SimulationError, match=r"cannot be traced with jax [\d.]+; it raised TypeE"):
        JaxVectorEnv(env)


def test_what_is_no_environment__is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"pass an instance of it, Glide\(\)"):
        JaxVectorEnv(Glide)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match=r"must be a gymbridge\.JaxEnv, got 'ant'"):
        JaxVectorEnv("ant")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="abstract"):
        JaxEnv()  # type: ignore[abstract]


def test_names__of_the_user_s_own_are_no_part_of_the_protocol() -> None:
    own: dict[str, Any] = {"coordinates": np.ones((3, 2)), "describe": None, "metadata": 3}
    envs = JaxVectorEnv(Sample(action_space=Box(-1, 1, (1,)), **own), 2)
    envs.reset(seed=0)
    with pytest.raises(ArgumentError, match="`fields` must name the leaves in which Sample"):
        envs.linearize(np.zeros((2, 1), np.float32))


def test_infos__may_be_numbers_of_any_dtype() -> None:
    info = {"half": jnp.bfloat16(1), "wave": jnp.complex64(1j)}
    env = Sample(**begun(info=info), **stepped(5, {"wave": info["wave"]}))
    env.info_defaults = {"half": 0.1}
    envs = JaxVectorEnv(env, 2, arrays="jax")
    envs.reset(seed=0)
    infos = envs.step(np.zeros(2, int))[4]
    assert (infos["half"] == jnp.bfloat16(0.1)).all()
    assert infos["wave"].tolist() == [1j, 1j]


def test_state__of_python_s_numbers_is_traced_once_as_an_array() -> None:
    """With int8, a number of Python's would become int8, and an array of int32 stays one."""
    traces = []

    class Counter(Sample):
        def reset(self, key: Any) -> Any:
            return 0, OBS, {}

        def step(self, key: Any, state: Any, action: Any) -> Any:
            traces.append(0)
            return state + jnp.int8(1), OBS, state, False, False, {}

    envs = JaxVectorEnv(Counter(), 2)
    envs.reset(seed=0)
    rewards = [envs.step(np.zeros(2, int))[1].tolist() for _ in range(2)]
    assert rewards == [[0, 0], [1, 1]]
    assert len(traces) == 1


@pytest.mark.parametrize("reward", [0.5, jnp.bfloat16(0.5)])
def test_reward__of_any_float_is_float32(reward: Any) -> None:
    """`Sample` is whole but for its reward, so that each broken one breaks one rule."""
    envs = JaxVectorEnv(Sample(**stepped(2, reward)), 2)
    assert envs.reset(seed=0)[0].shape == (2, 2)
    rewards = envs.step(np.zeros(2, int))[1]
    assert (rewards.dtype, rewards.tolist()) == (np.float32, [0.5, 0.5])
