"""Infos that outlive their episode, such as the level of a curriculum."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from gymbridge import BraxVectorEnv, JaxEnv, JaxVectorEnv
from gymbridge.errors import ArgumentError, ArgumentTypeError, EnvContractError
from tests.support.batches import KINDS, MODES, to_kind, to_numpy
from tests.support.falling_ball import FallingBall, draw
from tests.support.trees import assert_same

NUM_ENVS = 4


class Stairs(JaxEnv):
    """An episode takes `level` steps, and its end adds the action to the level, at least one."""

    observation_space = Box(-np.inf, np.inf, (2,), "float32")
    action_space = Box(-1, 1, (), "float32")
    carried: ClassVar = {"level": Box(0, 100, (), "float32")}

    def reset(self, key: Any, level: Any = 2.0) -> Any:
        level = jnp.asarray(level)
        return (jnp.zeros(()), level), jnp.stack([jnp.zeros(()), level]), {"level": level}

    def step(self, key: Any, state: Any, action: Any) -> Any:
        count, level = state[0] + 1, state[1]
        is_over = count >= level
        level = level + is_over * (1 + action)
        obs = jnp.stack([count, jnp.where(action < -0.9, jnp.nan, level)])
        return (count, level), obs, level, is_over, False, {"level": level}


@cache
def stairs(mode: str, arrays: str, **options: Any) -> JaxVectorEnv:
    return JaxVectorEnv(Stairs(), NUM_ENVS, autoreset_mode=mode, arrays=arrays, **options)


def climb(envs: Any, num_steps: int, level: float = 2.0) -> tuple[list[float], list[float]]:
    """Return the levels of the first environment after each step, and those by the rule."""
    found, wanted, count, is_over = [], [], 0, False
    mode = envs.metadata["autoreset_mode"].value
    for index in range(num_steps):
        action = index % 3 / 4
        infos = envs.step(to_kind(np.full(NUM_ENVS, action, np.float32), envs.arrays))[4]
        found.append(float(infos["level"][0]))
        if mode == "NextStep" and is_over:
            count, is_over = 0, False  # This step begins the episode.
        else:
            count += 1
            is_over = count >= level
            level += is_over * (1 + action)
            count = 0 if is_over else count
            if is_over and mode == "Disabled":
                envs.reset()
        wanted.append(level)
    return found, wanted


@pytest.mark.parametrize(("mode", "arrays"), [*zip(MODES, KINDS, strict=True)])
def test_level__outlives_its_episode(mode: str, arrays: str) -> None:
    envs = stairs(mode, arrays)
    infos = envs.reset(seed=0)[1]
    assert to_numpy(infos["level"]).tolist() == [2] * NUM_ENVS
    found, wanted = climb(envs, 40)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert max(found) > 8
    kept = to_numpy(envs.reset()[1]["level"])
    np.testing.assert_allclose(kept, found[-1])
    assert to_numpy(envs.reset(seed=0)[1]["level"]).tolist() == [2] * NUM_ENVS


def test_level__is_an_option_and_comes_back_with_a_seed() -> None:
    envs = stairs("SameStep", "torch")
    envs.reset(seed=0)

    def levels(**kwargs: Any) -> list[float]:
        return envs.reset(**kwargs)[1]["level"].tolist()

    given = {"level": np.array([7, 8, 9, 10.0])}
    assert levels(options=given) == [7, 8, 9, 10]
    seeds = [1, None, 3, None]
    assert levels(seed=seeds) == [2, 8, 2, 10]
    assert levels(seed=seeds, options=given) == [7, 8, 9, 10]
    some = {"reset_mask": np.array([True, True, False, False]), "level": np.full(4, 5.0)}
    assert levels(options=some) == [5, 5, 0, 0]  # shown where episodes began
    assert levels() == [5, 5, 9, 10]


@pytest.mark.parametrize(("mode", "arrays"), [("NextStep", "numpy"), ("SameStep", "torch")])
def test_level__of_a_diverged_step_is_that_of_before(mode: str, arrays: str) -> None:
    envs = stairs(mode, arrays)
    envs.reset(seed=0, options={"level": np.array([1, 5, 5, 5.0])})
    actions = to_kind(np.array([-0.95, -0.95, 0, 0], np.float32), arrays)
    infos = envs.step(actions)[4]
    assert to_numpy(infos["nonfinite"]).tolist() == [True, True, False, False]
    assert to_numpy(infos["level"]).tolist() == [1, 5, 5, 5]
    if mode == "NextStep":
        assert to_numpy(envs.step(actions)[4]["level"])[:2].tolist() == [1, 5]


def test_snapshots__have_the_level_and_fit_several_devices(tmp_path: Path) -> None:
    envs = stairs("SameStep", "torch")
    envs.reset(seed=0)
    climb(envs, 10)
    envs.save_state(tmp_path / "state")
    after = climb(envs, 10)[0]
    two = stairs("SameStep", "numpy", device=("cpu:0", "cpu:1"))
    two.load_state(tmp_path / "state")
    np.testing.assert_allclose(climb(two, 10)[0], after, rtol=1e-6)


def test_functional__carries_the_level() -> None:
    envs = stairs("SameStep", "jax")
    envs.reset(seed=0)
    carry, reset, step = envs.functional()
    for _ in range(2):
        carry, returned = step(carry, jnp.zeros(NUM_ENVS))
    assert returned[4]["level"].tolist() == [3] * NUM_ENVS
    everywhere = jnp.ones(NUM_ENVS, bool)
    assert reset(carry, everywhere)[1][1]["level"].tolist() == [3] * NUM_ENVS
    seeds = jnp.arange(NUM_ENVS, dtype=jnp.uint32)
    assert reset(carry, everywhere, seeds)[1][1]["level"].tolist() == [2] * NUM_ENVS


def test_gradients__do_not_pass_a_restart() -> None:
    torch = pytest.importorskip("torch")
    envs = stairs("SameStep", "torch", differentiable=True)
    envs.reset(seed=0)
    actions = torch.zeros(4, NUM_ENVS, requires_grad=True)
    rewards = [envs.step(action)[1] for action in actions]
    assert [reward[0].item() for reward in rewards] == [2, 3, 3, 3]
    rewards[1].sum().backward(retain_graph=True)
    assert actions.grad[1].tolist() == [1] * NUM_ENVS
    actions.grad = None
    rewards[3].sum().backward()
    assert not actions.grad.any()


class Counted(FallingBall):
    """A ball with an entry of `state.info` that counts all steps."""

    def reset(self, rng: Any) -> Any:
        state = super().reset(rng)
        count = {"steps": jnp.zeros((), jnp.int32)}
        return state.replace(info={**state.info, "count": count, "episode": jnp.zeros(())})

    def step(self, state: Any, action: Any) -> Any:
        after = super().step(state, action)
        count = {"steps": state.info["count"]["steps"] + 1}
        return after.replace(info={**after.info, "count": count})


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_brax__carries_entries_of_its_infos_beside_drawn_physics(mode: str) -> None:
    options: dict[str, Any] = {"autoreset_mode": mode, "max_episode_steps": 3, "info_keys": []}
    options["randomization_fn"] = draw
    envs = BraxVectorEnv(Counted(), 2, carried=["count"], **options)
    plain = BraxVectorEnv(FallingBall(), 2, **options)
    infos, _ = (batch.reset(seed=0)[1] for batch in (envs, plain))
    names = ["count", "nonfinite", "randomization"]
    assert sorted(infos) == [*(f"_{name}" for name in names), *names]
    for count in [1, 2, 3, 3, 4, 5] if mode == "NextStep" else [1, 2, 3, 4, 5, 6]:
        (obs, *_, infos), (own_obs, *_, own) = (one.step(np.zeros((2, 1))) for one in (envs, plain))
        assert infos["count"]["steps"].tolist() == [count] * 2
        assert_same((obs, infos["randomization"]), (own_obs, own["randomization"]))
    given = {"count": {"steps": np.array([5, 6])}}
    assert_same(envs.reset(options=given)[1]["count"]["steps"], np.array([5, 6], np.int32))
    for wrong, error, text in [
        ({"other": np.zeros(2)}, ArgumentError, r"have the keys \['steps'\]"),
        ({"steps": np.zeros(2), 3: 0}, ArgumentError, r"have the keys .*, got \['steps', 3\]"),
        ([1, 2], ArgumentTypeError, "be a dict, got list"),
    ]:
        with pytest.raises(error, match=rf"`options\['count'\]` must {text}"):
            envs.reset(options={"count": wrong})


def test_names_of_our_own_arguments__may_be_carried() -> None:
    class Named(Stairs):
        carried: ClassVar = {"env": Box(0, 100, (), "float32")}

        def reset(self, key: Any, env: Any = 2.0) -> Any:
            state, obs, infos = super().reset(key, env)
            return state, obs, {"env": infos["level"]}

        def step(self, key: Any, state: Any, action: Any) -> Any:
            *others, infos = super().step(key, state, action)
            return *others, {"env": infos["level"]}

    envs = JaxVectorEnv(Named(), 2, autoreset_mode="SameStep")
    envs.reset(seed=0)
    for _ in range(2):
        infos = envs.step(np.zeros(2, np.float32))[4]
    assert infos["env"].tolist() == [3, 3]


def declare(**attributes: Any) -> JaxEnv:
    return type("Declared", (Stairs,), attributes)()


@pytest.mark.parametrize(
    ("env", "error", "message"),
    [
        ({"carried": {"other": Discrete(3)}}, ArgumentError, "must be a keyword argument of"),
        ({"carried": {"level": Box(3, 4)}}, ArgumentError, "a default in `reset` that is a value"),
        ({"carried": {"level": "Box"}}, ArgumentTypeError, r"`carried\['level'\]` must be Box"),
        ({"carried": ["level"]}, ArgumentTypeError, "`Declared.carried` must be a dict"),
        ({"carried": {"level": Discrete(9)}}, EnvContractError, "must agree in shape and dtype"),
        ({"reset_options": Stairs.carried}, ArgumentError, "is an option already"),
        (
            {
                "carried": {"height": Box(0, 9, ())},
                "reset": lambda self, key, height=1.0: Stairs.reset(self, key),
            },
            ArgumentError,
            "must be an info that `reset` and `step` return",
        ),
    ],
    ids=["no keyword", "no default", "no space", "no dict", "other dtype", "twice", "no info"],
)
def test_wrong_declaration__is_refused(env: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        JaxVectorEnv(declare(**env), 2)


@pytest.mark.parametrize(
    ("carried", "error", "message"),
    [
        ("count", ArgumentTypeError, "`carried` must be a list of names, got 'count'"),
        ([1], ArgumentTypeError, "must be a list of names"),
        (3, ArgumentTypeError, "must be a list of names, got 3"),
        (
            ["reset_mask"],
            ArgumentError,
            "must not have 'reset_mask': `reset` has an argument of that name",
        ),
        (["cuont"], ArgumentError, r"got 'cuont'; did you mean 'count'\?"),
        (["episode"], ArgumentError, "infos of that name, got 'episode'; known: 'count'"),
    ],
)
def test_wrong_names__are_refused(carried: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        BraxVectorEnv(Counted(), 2, carried=carried)
