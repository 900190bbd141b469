"""Randomised physics, Playground and `functional()`, beside steps that return the same.

The references are compiled by this module. They never restart an episode.
"""

from typing import Any

import jax
import jax.numpy as jnp
from brax.envs.wrappers.training import DomainRandomizationVmapWrapper
from steps import Contest, fetched, over, own_step, play, scan_of, scanned, uniform
from tasks import brax_task

from gymbridge import PlaygroundVectorEnv

VARIED = ("geom_friction", "link.inertia.mass", "gravity")


def randomize(model: Any, keys: jax.Array) -> tuple[Any, Any]:
    """Scale friction, masses and gravity, as Brax's randomisation functions are written."""

    @jax.vmap
    def draw(key: jax.Array) -> tuple[jax.Array, ...]:
        factors = jax.random.uniform(key, (3,), minval=0.8, maxval=1.2)
        own = (model.geom_friction, model.link.inertia.mass, model.gravity)
        return tuple(factor * leaf for factor, leaf in zip(factors, own, strict=True))

    axes = jax.tree.map(lambda _: None, model).tree_replace(dict.fromkeys(VARIED, 0))
    return model.tree_replace(dict(zip(VARIED, draw(keys), strict=True))), axes


def randomization(num_envs: int, _: str, *, name: str = "humanoid") -> Contest:
    """Compare a batch whose physics are drawn per episode with Brax's wrapper, and with none."""
    task = brax_task(name, "spring")
    keys = jax.random.split(jax.random.PRNGKey(0), num_envs)
    fixed = DomainRandomizationVmapWrapper(task.env, lambda model: randomize(model, keys))
    model, actions = fixed._sys_v, uniform(64, num_envs, task.env.action_size)
    drawn = (model.geom_friction, model.link.inertia.mass, model.gravity)
    own = own_step(fixed.reset, fixed.step, num_envs, actions, lambda s: (fetched(s), drawn))
    steps = {
        "drawn per episode": play(task.batch(num_envs, randomization_fn=randomize)),
        "without": play(task.batch(num_envs)),
        "Brax's wrapper": own,
    }
    ours = "drawn per episode"
    return Contest(steps, {(ours, "Brax's wrapper"): 1.10, (ours, "without"): None})


def playground(
    num_envs: int,
    _: str,
    *,
    name: str = "CartpoleBalance",
    impl: str = "jax",
    bar: float | None = None,
) -> Contest:
    """Compare modes and arrays with Playground's step, which fetches the same infos."""
    steps: dict[str, Any] = {}
    for mode, arrays in (("SameStep", "torch"), ("NextStep", "numpy"), ("SameStep", "numpy")):
        envs = PlaygroundVectorEnv(name, num_envs, impl=impl, arrays=arrays, autoreset_mode=mode)
        steps[mode if arrays == "numpy" else f"{mode}, {arrays}"] = play(envs)
    engine, actions = envs._simulator.engine.unwrapped, uniform(64, *envs.action_space.shape)
    infos = envs.step(actions[0])[4]
    names = {*infos, *infos.get("info", ())}

    def seen(state: Any) -> Any:
        return fetched(state), {key: state.info[key] for key in names & state.info.keys()}

    reset, step = jax.vmap(engine.reset), jax.vmap(engine.step)
    steps["Playground"] = own_step(reset, step, num_envs, actions, seen)
    return Contest(
        steps, over("Playground", dict.fromkeys(("NextStep", "SameStep", "SameStep, torch"), bar))
    )


def functional(
    num_envs: int,
    _: str,
    *,
    name: str = "inverted_pendulum",
    num_steps: int = 100,
    bar: float | None = None,
) -> Contest:
    """Compare scans of `functional()` and of Brax's step."""
    task = brax_task(name, "spring")
    actions = jnp.asarray(uniform(num_steps, num_envs, task.env.action_size))
    reset, step = task.functions()

    def bare(state: Any, action: jax.Array) -> tuple[Any, Any]:
        state = step(state, action)
        return state, fetched(state)

    start = jax.jit(reset)(jax.random.split(jax.random.PRNGKey(0), num_envs))
    steps = {
        "functional()": scan_of(task.batch(num_envs, arrays="jax"), actions),
        "a scan of Brax's step": scanned(bare, start, actions),
    }
    return Contest(steps, over("a scan of Brax's step", {"functional()": bar}), num_steps)
