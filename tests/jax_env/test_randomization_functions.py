"""What a randomisation function may return; everything else is an error at construction."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gymbridge import BraxVectorEnv
from gymbridge.errors import ArgumentTypeError, EnvContractError, SimulationError
from tests.support.falling_ball import FallingBall, Model, draw, draw_batch, make_ball


def _vary(**values: Any) -> Any:
    """Return a function that returns these leaves by path, with ``__`` for a dot."""
    named = {path.replace("__", "."): value for path, value in values.items()}
    return lambda model, key: named


def _replace(axes: Any = None, **leaves: Any) -> Any:
    """Return a function of Brax's form that returns these leaves, (1, …), with 0 as their axes."""

    def randomize(model: Any, rng: jax.Array) -> Any:
        blank = jax.tree.map(lambda leaf: None, model)
        chosen = blank._replace(**dict.fromkeys(leaves, 0)) if axes is None else axes(blank)
        return model._replace(**leaves), chosen

    return randomize


def _cut_structure(model: Any, rng: jax.Array) -> Any:
    return model._replace(texture=jnp.zeros((1, 2))), jax.tree.map(lambda leaf: None, model)


def _draw_with_numpy(model: Any, key: jax.Array) -> Any:
    return {"gravity": jnp.array([0.0, 0, np.random.uniform(-9, -1)])}


@jax.jit
def _draw_with_numpy_inside(key: jax.Array) -> jax.Array:
    return np.random.normal(size=3).astype(np.float32) + jax.random.normal(key, (3,))


def _draw_with_numpy_under_a_condition(model: Any, key: jax.Array) -> Any:
    def draw(gravity: jax.Array) -> jax.Array:
        return gravity * np.float32(np.random.uniform())

    return {"gravity": jax.lax.cond(key[0] > 5, draw, jnp.negative, jnp.asarray(model.gravity))}


def _raise(model: Any, key: jax.Array) -> Any:
    raise ValueError("no such friction")


ONE_DRAW = r"must draw with `jax\.random` and the key that it gets.*`np\.random`"

GRAVITY = jnp.array([[0.0, 0, -5]])

WRONG = [
    (_draw_with_numpy, ONE_DRAW),
    (lambda model, key: {"gravity": _draw_with_numpy_inside(key)}, ONE_DRAW),
    (_draw_with_numpy_under_a_condition, ONE_DRAW),
    (_vary(), "must vary a leaf of the model; it varies none"),
    (_vary(link__mas=1.0), "'link.mas'; did you mean 'link.mass'"),
    (_vary(link=1.0), "must return leaves of the model, got 'link'"),
    (_vary(gravity=jnp.zeros(2)), r"'gravity' is float32\[3\] and came back as float32\[2\]"),
    (_vary(gravity=jnp.zeros(3, int)), r"'gravity' is float32\[3\] and came back as int32\[3\]"),
    (_vary(gravity="down"), "must return arrays, but 'gravity' is 'down'"),
    (_vary(gravity=None), "must return arrays, but 'gravity' is None"),
    (_vary(link__parent=jnp.int32(0)), "must vary floats, got 'link.parent', which is int32"),
    (_vary(texture=jnp.zeros(2)), "'texture' is None"),
    (_vary(gravity=jnp.zeros(3), colour=jnp.zeros((2, 1))), "'colour', which `reset` and `step`"),
    (lambda model, key: None, "must return a dict by dotted path.*got NoneType"),
    (lambda model, keys: (model, 0, 0), "a tuple of model and axes, got one of 3 entries"),
    (lambda model, keys: (model._asdict(), None), "structure that it got"),
    (_cut_structure, "'texture'"),
    (_replace(gravity=jnp.zeros(3)), r"'gravity'.* must have shape \(1, 3\).*\(3,\)"),
    (_replace(gravity=jnp.zeros((1, 3), int)), "'gravity' is float32.* came back as int32"),
    (_replace(colour=jnp.zeros((1, 2, 1))), "'colour', which `reset` and `step`"),
    (_replace(lambda axes: axes._replace(gravity=2), gravity=GRAVITY), "'gravity' is 2"),
    (_replace(lambda axes: axes, gravity=GRAVITY), r"'gravity' is float32\[3\] and came back as"),
    (_replace(lambda axes: {"gravity": 0}, gravity=GRAVITY), "axes in the structure.*got dict"),
    (_replace(lambda axes: axes), "it varies none"),
]


@pytest.mark.parametrize(("function", "message"), WRONG)
def test_wrong_function__is_an_error_that_names_the_leaf(function: Any, message: str) -> None:
    with pytest.raises(EnvContractError, match=f"`randomization_fn`.*{message}"):
        BraxVectorEnv(FallingBall(), randomization_fn=function)


def test_raising_function__is_an_error_with_its_message() -> None:
    with pytest.raises(SimulationError, match="one key it raised ValueError: no such friction"):
        BraxVectorEnv(FallingBall(), randomization_fn=_raise)
    bound = partial(draw_batch, rng=jax.random.split(jax.random.PRNGKey(0), 2))
    with pytest.raises(SimulationError, match=r"with a batch of one key TypeError.*'rng'"):
        BraxVectorEnv(FallingBall(), randomization_fn=bound)


def test_no_function__is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="`randomization_fn` must be a function"):
        BraxVectorEnv(FallingBall(), randomization_fn={"gravity": 1})


def test_environment_without_model__is_refused() -> None:
    with pytest.raises(EnvContractError, match=r"needs a model, and Fast.* has none"):
        BraxVectorEnv("fast", randomization_fn=draw)


def _gravity_at(axis: int) -> Any:
    def randomize(model: Any, rng: jax.Array) -> Any:
        scaled = jax.vmap(lambda key: draw(model, key)["gravity"], out_axes=axis)(rng)
        axes = jax.tree.map(lambda leaf: None, model)
        return model._replace(gravity=scaled), axes._replace(gravity=axis)

    return randomize


def _prefix(model: Any, rng: jax.Array) -> Any:
    """Axes as `jax.vmap` takes them: one None for a whole branch."""
    model, _ = _gravity_at(0)(model, rng)
    return model, Model(gravity=0, link=None, colour=None)


@pytest.mark.parametrize("function", [_gravity_at(1), _gravity_at(-1), _prefix])
def test_axes__are_those_of_vmap(function: Any) -> None:
    options = {"autoreset_mode": "Disabled"}
    found = make_ball(3, randomization_fn=function, **options).reset(seed=0)[1]
    expected = make_ball(3, **options).reset(seed=0)[1]
    gravity = found["randomization"]["gravity"]
    np.testing.assert_allclose(gravity, expected["randomization"]["gravity"], rtol=1e-6)


def test_value__is_cast_as_jax_casts_it() -> None:
    envs = make_ball(2, randomization_fn=_vary(gravity=np.float64([0, 0, -5])))
    infos = envs.reset(seed=0)[1]
    assert infos["randomization"]["gravity"].dtype == np.float32
    assert infos["randomization"]["gravity"].tolist() == [[0, 0, -5]] * 2


def test_leaf_without_an_axis__is_that_of_every_environment() -> None:
    def randomize(model: Any, rng: jax.Array) -> Any:
        moved = model._replace(gravity=GRAVITY[0], link=model.link._replace(parent=np.int32(-1)))
        return moved, jax.tree.map(lambda leaf: None, model)

    infos = make_ball(2, randomization_fn=randomize).reset(seed=0)[1]
    assert infos["randomization"]["gravity"].tolist() == [[0, 0, -5]] * 2
    assert "link.parent" not in infos["randomization"]
