"""What physics drawn per episode, Playground and `envs.functional()` cost over bare jitted steps.

    python examples/benchmarks/randomization_step.py [--rounds 15]

The references return the same results, metrics and randomised leaves included, but never restart an
episode. Both sides get the same new random actions.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from brax import envs as brax_envs
from brax.envs.wrappers.training import DomainRandomizationVmapWrapper
from mujoco_playground import registry
from timing import Row, compare, interleave, print_table

from gymbridge import BraxVectorEnv, PlaygroundVectorEnv

warnings.filterwarnings("ignore", message="Brax System")
TASK, NUM_ENVS, SCAN_STEPS = "humanoid", 256, 100
VARIED = ("geom_friction", "link.inertia.mass", "gravity")

Step = Callable[[int], object]


def randomize(model: Any, keys: jax.Array) -> tuple[Any, Any]:
    """Scale friction, masses and gravity, as Brax's randomisation functions are written."""

    @jax.vmap
    def draw(key: jax.Array) -> tuple[jax.Array, ...]:
        factors = jax.random.uniform(key, (3,), minval=0.8, maxval=1.2)
        own = (model.geom_friction, model.link.inertia.mass, model.gravity)
        return tuple(factor * leaf for factor, leaf in zip(factors, own, strict=True))

    axes = jax.tree.map(lambda _: None, model).tree_replace(dict.fromkeys(VARIED, 0))
    return model.tree_replace(dict(zip(VARIED, draw(keys), strict=True))), axes


def random_actions(size: int, count: int = 64) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, (NUM_ENVS, size)).astype(np.float32) for _ in range(count)]


def keys() -> jax.Array:
    return jax.random.split(jax.random.PRNGKey(0), NUM_ENVS)


def seen(state: Any) -> Any:
    """Return what a user sees of a state."""
    return state.obs, state.reward, state.done, state.metrics


def bare_step(reset: Any, step: Any, actions: list[np.ndarray], more: Any = ()) -> Step:
    """Return a jitted step whose results are fetched as numpy arrays, with `more` arrays."""
    state, jitted = jax.jit(reset)(keys()), jax.jit(step)

    def run(index: int) -> None:
        nonlocal state
        state = jitted(state, actions[index % len(actions)])
        jax.tree.map(np.asarray, (seen(state), more))

    return run


def bridged_step(envs: Any, actions: list[np.ndarray]) -> Step:
    envs.reset(seed=0)
    return lambda index: envs.step(actions[index % len(actions)])


def randomization_rows(budget: dict[str, int]) -> list[Row]:
    """Measure the task with three varied leaves."""
    env = brax_envs.get_environment(TASK, backend="spring")
    fixed = DomainRandomizationVmapWrapper(env, lambda model: randomize(model, keys()))
    model, actions = fixed._sys_v, random_actions(env.action_size)
    drawn = (model.geom_friction, model.link.inertia.mass, model.gravity)
    ours = BraxVectorEnv(TASK, NUM_ENVS, backend="spring", randomization_fn=randomize)
    plain = BraxVectorEnv(TASK, NUM_ENVS, backend="spring")
    steps = {
        "Brax": bare_step(fixed.reset, fixed.step, actions, drawn),
        "ours": bridged_step(ours, actions),
        "plain": bridged_step(plain, actions),
    }
    times = interleave(steps, **budget)
    case = f"{TASK} spring, {NUM_ENVS} envs, friction, masses and gravity drawn"
    return [
        Row(f"{case}, over Brax's wrapper", *compare(times, "ours", "Brax"), 1.10),
        Row(f"{case}, over ours without", *compare(times, "ours", "plain"), None),
    ]


def playground_rows(budget: dict[str, int]) -> list[Row]:
    """Measure CartpoleBalance in two modes."""
    env = registry.load("CartpoleBalance", config_overrides={"impl": "jax"})
    actions = random_actions(env.action_size)
    steps = {"bare": bare_step(jax.vmap(env.reset), jax.vmap(env.step), actions)}
    for mode in ("NextStep", "SameStep"):
        envs = PlaygroundVectorEnv("CartpoleBalance", NUM_ENVS, autoreset_mode=mode)
        steps[mode] = bridged_step(envs, actions)
    times = interleave(steps, **budget)
    case = f"Playground CartpoleBalance, {NUM_ENVS} envs"
    return [
        Row(f"{case}, {mode}", *compare(times, mode, "bare"), 1.12)
        for mode in ("NextStep", "SameStep")
    ]


def scanned(step: Callable[[Any, Any], Any], carry: Any, actions: jax.Array) -> Step:
    """Return a compiled rollout that continues where the previous one ended."""
    rollout = jax.jit(lambda carry, actions: jax.lax.scan(step, carry, actions))

    def run(_: int) -> None:
        nonlocal carry
        carry, _ = jax.block_until_ready(rollout(carry, actions))

    return run


def functional_row(budget: dict[str, int]) -> Row:
    """Measure a scan of `functional()`; its time is that of one of its steps."""
    env = brax_envs.get_environment("inverted_pendulum", backend="spring")
    actions = jnp.asarray(random_actions(env.action_size, SCAN_STEPS))
    step_rows = jax.vmap(env.step)

    def bare(state: Any, action: jax.Array) -> tuple[Any, Any]:
        state = step_rows(state, action)
        return state, seen(state)

    envs = BraxVectorEnv("inverted_pendulum", NUM_ENVS, backend="spring", arrays="jax")
    envs.reset(seed=0)
    carry, _, step = envs.functional()
    start = jax.jit(jax.vmap(env.reset))(keys())
    steps = {"bare": scanned(bare, start, actions), "ours": scanned(step, carry, actions)}
    times = interleave(steps, **budget)
    per_step = {
        name: [taken / SCAN_STEPS for taken in times_of_one] for name, times_of_one in times.items()
    }
    case = f"inverted_pendulum spring, {NUM_ENVS} envs, functional(), scan of {SCAN_STEPS} steps"
    return Row(case, *compare(per_step, "ours", "bare"), 1.25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=30)
    options = parser.parse_args()
    budget = {"count": options.count, "rounds": options.rounds}
    rows = randomization_rows(budget)
    rows += playground_rows(budget)
    rows.append(functional_row(budget | {"count": max(options.count // 10, 1)}))
    print_table(rows)


if __name__ == "__main__":
    main()
