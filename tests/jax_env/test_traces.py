"""A batch runs the traces that it checked, and calls the methods of a `JaxEnv` no more."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, Signature
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from gymbridge import JaxEnv, JaxVectorEnv
from gymbridge.errors import ArgumentError, EnvContractError

UNIT = Box(-9, 9, (), np.float32)


class Sum(JaxEnv):
    """Its state is the sum of its options and of an attribute."""

    observation_space = Box(-np.inf, np.inf, (), np.float32)
    action_space = UNIT
    reset_options: Mapping[str, Any] = {"wind": UNIT, "slope": UNIT, "level": Discrete(9)}
    bonus = 100.0

    def reset(self, key: Any, wind: Any = 0.25, slope: Any = None, level: Any = 1) -> Any:
        place = self.bonus + wind + 10 * level + (0.5 if slope is None else slope)
        return self._return(place)

    def step(self, key: Any, state: Any, action: Any) -> Any:
        place, *others = self._return(state + self.bonus * action)
        return place, others[0], 0.0, False, False, {}

    def positions(self, state: Any) -> Any:
        return state * self.bonus

    def physics_leaves(self, state: Any) -> Any:
        return state * self.bonus

    def _return(self, place: Any) -> Any:
        place = jnp.asarray(place, jnp.float32)
        return place, place, {}


GIVEN = {"wind": [1, 2], "slope": [3, 4], "level": [5, 6]}
DEFAULTS = {"wind": 0.25, "slope": 0.5, "level": 1}


@pytest.mark.parametrize("precision", ["default", "float32"])
def test_changed_environment__has_no_effect(precision: str) -> None:
    """Whichever options are given first, and whatever JAX's settings are by then."""
    env = Sum()
    envs = JaxVectorEnv(env, 2)
    env.bonus = 5
    other = JaxVectorEnv(env, 2)
    env.bonus = np.nan
    for verb in ("reset", "step", "positions", "physics_leaves"):
        setattr(env, verb, lambda *args, **kwargs: 1 / 0)
    names = [some for size in range(4) for some in combinations(GIVEN, size)]
    for some in names:
        options = {name: np.array(GIVEN[name]) for name in some}
        with jax.default_matmul_precision(precision):
            obs, _ = envs.reset(seed=0, options=options or None)
            after = envs.step(np.ones(2, np.float32))[0]
        wind, slope, level = (np.array(options.get(name, DEFAULTS[name])) for name in GIVEN)
        wanted = np.broadcast_to(100 + wind + slope + 10 * level, (2,))
        assert np.array_equal(obs, wanted.astype(np.float32)), some
        assert np.array_equal(after, obs + 100), some
    assert other.reset(seed=0)[0].tolist() == [5 + 0.25 + 0.5 + 10] * 2


def test_gradients__run_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    env = Sum()
    envs = JaxVectorEnv(env, 2, arrays="torch", differentiable=True)
    env.bonus = 7.0
    envs.reset(seed=0)
    actions = torch.ones(2, requires_grad=True)
    envs.step(actions)[0].sum().backward()
    assert actions.grad.tolist() == [100.0, 100.0]


def test_written_arrays__have_no_effect() -> None:
    """Constants of the methods and of functions inside them, and scalars, before the first use."""
    table, bonus = np.ones(3, np.float32), np.array(10, np.float32)

    class Table(Sum):
        def step(self, key: Any, state: Any, action: Any) -> Any:
            place = jax.jit(lambda x: x + jnp.asarray(table).sum())(state) + bonus
            place = jax.lax.cond(place > 0, lambda: place + table[0], lambda: place)
            place = jax.lax.scan(lambda x, _: ((x * table).max(), None), place, None, 2)[0]
            return place, place, 0.0, False, False, {}

    envs = JaxVectorEnv(Table(), 2)
    table[:], bonus[...] = 7, 100
    start = envs.reset(seed=0)[0]
    assert np.array_equal(envs.step(np.ones(2, np.float32))[0], start + 14)


def make(names: str, default: Any) -> JaxEnv:
    """Return an environment whose options have this default."""

    def reset(self: Sum, key: Any, **options: Any) -> Any:
        return self._return(0.0)

    given = [Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name in names]
    leading = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", "key")]
    reset.__signature__ = Signature(leading + given)  # pyright: ignore[reportFunctionMemberAccess]
    kind = type("Many", (Sum,), {"reset": reset, "reset_options": dict.fromkeys(names, UNIT)})
    return kind()


def test_options_without_values__are_at_most_four() -> None:
    JaxVectorEnv(make("abcd", None), 2)
    JaxVectorEnv(make("abcdefgh", 0), 2)
    with pytest.raises(ArgumentError, match=r"at most 4 options whose default .*'a', 'b', 'c'"):
        JaxVectorEnv(make("abcde", None), 2)
    # A default of another shape, or that the option's dtype does not hold, is a value no more.
    for default in (np.zeros(3), "text"):
        with pytest.raises(ArgumentError, match="at most 4"):
            JaxVectorEnv(make("abcde", default), 2)


def test_every_choice__is_checked_when_the_batch_is_built() -> None:
    class Odd(Sum):
        def reset(self, key: Any, wind: Any = None, slope: Any = None, level: Any = None) -> Any:
            is_odd = wind is not None and slope is None and level is not None
            return self._return(np.zeros(2) if is_odd else 0.0)

    class Told(Sum):
        reset_options: Mapping[str, Any] = {"wind": UNIT}

        def reset(self, key: Any, wind: Any = None) -> Any:
            return *self._return(0.0)[:2], {} if wind is None else {"wind": wind}

    with pytest.raises(EnvContractError, match=r"float32\[2\] after `reset with options`"):
        JaxVectorEnv(Odd(), 2)
    with pytest.raises(EnvContractError, match=r"`info\['wind'\]` comes from `reset with"):
        JaxVectorEnv(Told(), 2)
