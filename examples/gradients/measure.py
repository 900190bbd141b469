"""Measure one pair in this process: ``python measure.py ant spring`` prints JSON.

Floats have 64 bits if ``JAX_ENABLE_X64=1`` is in the environment, 32 bits otherwise.
"""

import json
import warnings
from typing import Any

import numpy as np
import tyro
from engines import uses_mjx
from rollouts import Bridge, Inputs, Outcome, Reference
from table import LIMITS

NUM_ENVS = 16
STEPS = 16
DRAWS = 16  # of weights one ulp away
EPSILON = 1e-5  # of central differences
SMOOTH = 1e-3  # how well differences of two steps agree where the loss is smooth
MOVES, MOVED = 4, 1e-13  # of the noise, to see where the derivative jumps
SIZES = (1.0, 0.05, 0.0025)  # of actions, tried until the rollout is not chaotic
WITH_UNROLL = ("inverted_pendulum/generalized", "reacher/spring", "hopper/spring", "ant/spring")
CALM = {"float32": 1e-5, "float64": 1e-10}  # by what jax's gradient moves at most under one ulp


def relative(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the norm of the difference, divided by that of `wanted` unless that is 0."""
    norm = float(np.linalg.norm(wanted))
    return float(np.linalg.norm(found - wanted)) / (norm or 1.0)


def compare(found: Outcome, wanted: Outcome) -> dict[str, float]:
    """Return the relative difference of each gradient."""
    return {key: relative(found.gradients[key], wanted.gradients[key]) for key in found.gradients}


def draw_rollout(reference: Reference) -> tuple[Inputs, Outcome, dict[str, Any]]:
    """Return the first rollout whose gradient is well-conditioned, else the gentlest one.

    Where steps are chaotic, no two programs agree on a gradient. The choice depends on how far
    jax's own gradient moves under one ulp, and not on the difference to our gradient.

    Returns:
        Its inputs, jax's results for them, and what is known of both: the size of the actions, the
        norms of the gradients of both parts of the loss before they are balanced, and the moves.
    """
    for size in SIZES:
        rng = np.random.default_rng(0)
        inputs, norms = balance(reference, draw_inputs(reference, rng, size))
        wanted = reference.differentiate(inputs)
        moves = sensitivity(reference, inputs, wanted, rng)
        if max(moves.values()) <= CALM[str(reference.dtype)]:
            break
    return inputs, wanted, {"size": size, "norms": norms, "sensitivity": moves}


def draw_inputs(reference: Reference, rng: np.random.Generator, size: float) -> Inputs:
    """Return random inputs, with actions of that size.

    Weights are scaled such that the policy is far from saturated at the start; the noise grows from
    row to row, so that some of them move little and stay in their episode.
    """
    rows, width = reference.obs.shape
    norm = np.sqrt((reference.obs**2).sum(1).mean())
    noise = np.geomspace(0.01, 0.5, rows)[:, None] * size
    drawn = (
        rng.normal(size=(width, reference.action_size)) * 0.3 / max(norm, 1.0) * size,
        rng.normal(size=(STEPS, rows, reference.action_size)) * noise,
        rng.normal(size=(STEPS, rows)),
        rng.normal(size=(STEPS, rows, width)) / np.sqrt(width),
    )
    return Inputs(*(part.astype(reference.dtype) for part in drawn))


def balance(reference: Reference, inputs: Inputs) -> tuple[Inputs, dict[str, float]]:
    """Return inputs that balance both parts of the loss, and the norms of their gradients."""
    parts = {
        "rewards": inputs._replace(obs_weights=np.zeros_like(inputs.obs_weights)),
        "observations": inputs._replace(reward_weights=np.zeros_like(inputs.reward_weights)),
    }
    norms = {
        part: float(np.linalg.norm(reference.differentiate(given).gradients["noise"]))
        for part, given in parts.items()
    }
    if norms["rewards"] > 0 and norms["observations"] > 0:
        factor = inputs.obs_weights.dtype.type(norms["rewards"] / norms["observations"])
        inputs = inputs._replace(obs_weights=inputs.obs_weights * factor)
    return inputs, norms


def sensitivity(
    reference: Reference, inputs: Inputs, wanted: Outcome, rng: np.random.Generator
) -> dict[str, float]:
    """Return the largest move of jax's own gradients when each weight moves by one ulp."""
    worst = dict.fromkeys(wanted.gradients, 0.0)
    for _ in range(DRAWS):
        towards = rng.choice([-np.inf, np.inf], inputs.policy.shape).astype(inputs.policy.dtype)
        moved = inputs._replace(policy=np.nextafter(inputs.policy, towards))
        moves = compare(reference.differentiate(moved), wanted)
        worst = {key: max(worst[key], moves[key]) for key in worst}
    return worst


def finite_differences(
    reference: Reference, inputs: Inputs, gradient: np.ndarray, rng: np.random.Generator
) -> dict[str, Any]:
    """Compare the gradient by the noise, row by row, with central differences.

    It keeps only rows where nothing begins or ceases to be active within the stencil, and where the
    differences with two step sizes agree.
    """
    along = draw_direction(inputs, rng)
    _, active = reference.watch(inputs)
    steady, slopes = np.ones(len(active), bool), []
    for step in (EPSILON, EPSILON / 4):
        sides = []
        for side in (step, -step):
            losses, now = reference.watch(inputs._replace(noise=inputs.noise + side * along))
            steady &= (now == active).all(1)
            sides.append(losses)
        slopes.append((sides[0] - sides[1]) / (2 * step))
    errors, size = compare_rows(slopes[1], gradient, along)
    smooth = np.abs(slopes[0] - slopes[1]) <= SMOOTH * size
    kept = errors[steady & smooth]
    return {
        "active": float(active[:, STEPS:].any(1).mean()),  # rows with any contact or joint at limit
        "steady": float(steady.mean()),
        "smooth": float(smooth.mean()),
        "kept": float((steady & smooth).mean()),
        "median": float(np.median(kept)) if kept.size else None,
        "max": float(kept.max()) if kept.size else None,
    }


def forward_mode(
    reference: Reference, inputs: Inputs, gradient: np.ndarray, rng: np.random.Generator
) -> dict[str, Any]:
    """Compare the gradient by the noise, row by row, with forward mode through plain physics.

    It keeps only calm rows, where forward mode's own slope is finite and stays within its bar as
    the noise moves by some 1e-13. In others the derivative jumps, and rounding chooses its side in
    every program.
    """
    along = draw_direction(inputs, rng)
    slopes = reference.push(inputs, along)
    errors, size = compare_rows(slopes, gradient, along)
    calm = np.isfinite(slopes)
    for _ in range(MOVES):
        noise = inputs.noise + MOVED * rng.normal(size=inputs.noise.shape)
        moved = reference.push(inputs._replace(noise=noise), along)
        calm &= np.abs(moved - slopes) <= LIMITS["forward mode"] * size
    kept = errors[calm]
    return {
        "finite": bool(np.isfinite(slopes).all()),
        "calm": float(calm.mean()),
        "max": float(kept.max()) if kept.size else None,
    }


def draw_direction(inputs: Inputs, rng: np.random.Generator) -> np.ndarray:
    """Return a random direction of the noise, of norm 1 in each row."""
    along = rng.normal(size=inputs.noise.shape)
    return along / np.linalg.norm(along, axis=(0, 2), keepdims=True)


def compare_rows(
    slopes: np.ndarray, gradient: np.ndarray, along: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the error of each row, and what it is divided by: its slope, if not near 0."""
    size = np.maximum(np.abs(slopes), np.linalg.norm(gradient, axis=(0, 2)) * 1e-3)
    size = np.where(size > 0, size, 1)
    return np.abs(slopes - (gradient * along).sum((0, 2))) / size, size


def measure(name: str, backend: str) -> None:
    """Print all measurements of a pair, with the float type of this process.

    Args:
        name: Name of the environment.
        backend: Physics backend of Brax, or "playground".
    """
    warnings.filterwarnings("ignore", message="Brax System")
    bridge, reference = (kind(name, backend, NUM_ENVS) for kind in (Bridge, Reference))
    inputs, wanted, known = draw_rollout(reference)
    found = bridge.differentiate(inputs)
    figures = known | {
        "finite": all(bool(np.isfinite(part).all()) for part in wanted.gradients.values()),
        "ended": float(wanted.ended[-1].mean()),
        "used": 1 - float(wanted.ended[:-1].sum() / wanted.ended.size),
        "same_ends": bool((wanted.ended == found.ended).all()),
        "losses": relative(found.losses, wanted.losses),
        "equality": compare(found, wanted),
    }
    if reference.dtype == np.float64:  # without a policy
        rng = np.random.default_rng(0)
        inputs = inputs._replace(policy=np.zeros_like(inputs.policy))
        found = bridge.differentiate(inputs)
        gradient = found.gradients["noise"]
        figures["differences"] = finite_differences(reference, inputs, gradient, rng)
        if uses_mjx(backend):
            figures["forward"] = forward_mode(reference, inputs, gradient, rng)
        if f"{name}/{backend}" in WITH_UNROLL:
            figures["unroll"] = compare(bridge.unroll(inputs), found)
    print(json.dumps(figures))


if __name__ == "__main__":
    tyro.cli(measure, config=(tyro.conf.PositionalRequiredArgs,))
