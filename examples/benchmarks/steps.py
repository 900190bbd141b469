"""Functions of the step number that cases time, and what a case returns: a `Contest`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

import gymbridge
from gymbridge.command_line.bench import draw_actions, make_bare_step, make_step

gym.register_envs(gymbridge)

Step = Callable[[int], Any]
Bars = Mapping[tuple[str, str], float | None]


class Contest(NamedTuple):
    """Functions that do the same work."""

    steps: Mapping[str, Any]  # by name
    over: Mapping[tuple[str, str], float | None] = {}  # (name, reference) -> bar of the ratio
    num_steps: int = 1  # of the batch, in one call
    note: str = ""  # in the table, beside the ratios
    apart: bool = False  # whether `steps` build them, each in a process of its own


def over(reference: str, bars: Mapping[str, float | None]) -> Bars:
    """Return the bars of a contest over one reference."""
    return {(name, reference): bar for name, bar in bars.items()}


def beside_engine(
    num_envs: int,
    device: str,
    *,
    env_id: str,
    ways: Mapping[str, Mapping[str, Any]],
    bars: Mapping[str, float | None],
    engines: Mapping[str, Mapping[str, Any]] = {"engine": {}},
    stagger: int = 0,
    **options: Any,
) -> Contest:
    """Compare batches with the engine's own step, as `gymbridge bench` does.

    Args:
        num_envs: Environments of each batch.
        device: Of tensors, "cpu" or "cuda"; what JAX simulates is on its default device.
        env_id: Id of the task.
        ways: Keywords of each batch, by name. The first one starts JAX.
        bars: By "name", over the first engine, or by "name over other".
        engines: Keywords of the batch whose engine is stepped alone, by name.
        stagger: Steps of an episode, over which the ends are spread.
        options: Keywords of all batches.
    """

    def make(given: Mapping[str, Any]) -> Any:
        kwargs = options | dict(given)
        if device != "cpu" and kwargs.get("arrays") == "torch":
            kwargs["device"] = device
        return gym.make_vec(env_id, num_envs=num_envs, **kwargs)

    batches = {name: make(given) for name, given in ways.items()}
    alone = {name: make(given) for name, given in engines.items()}
    steps = {name: play(envs, stagger) for name, envs in batches.items()}
    steps |= {name: make_bare_step(envs, draw_actions(envs)) for name, envs in alone.items()}
    pairs = {(*name.split(" over "), *engines)[:2]: bar for name, bar in bars.items()}
    return Contest(steps, pairs, note=share_of_ends(*batches.values()))


def play(envs: Any, stagger: int = 0) -> Step:
    """Return the step of a batch with random actions; ends may be spread over `stagger` steps."""
    step = make_step(envs, draw_actions(envs))
    spread_ends(step, partial(reset_rows, envs), envs.num_envs, stagger)
    return step


def reset_rows(envs: Any, mask: Any) -> None:
    envs.reset(options={"reset_mask": mask})


def step_of(
    envs: Any, actions: Any, stagger: int = 0, reset: Callable[[Any, Any], Any] = reset_rows
) -> Step:
    """Reset what has `reset` and `step`; return its step, which plays the actions in turn.

    Ends may be spread over `stagger` steps; `reset` takes `envs` and a mask.
    """
    envs.reset()

    def step(index: int) -> Any:
        return envs.step(actions[index % len(actions)])

    spread_ends(step, partial(reset, envs), len(actions[0]), stagger)
    return step


def spread_ends(step: Step, reset: Callable[[Any], Any], num_envs: int, limit: int) -> None:
    """Spread the ends of equal episodes over `limit` steps, by steps and resets of a mask."""
    groups = min(limit, num_envs)
    for index in range(groups):
        if index:
            reset(np.arange(num_envs) % groups == index)
        for _ in range(max(limit // num_envs, 1)):
            step(index)


def repeat(step: Step, times: int) -> Step:
    """Return a function that takes several steps."""
    return lambda index: [step(index * times + part) for part in range(times)][-1]


def torchrl_step(env: Any, act: Callable[[int, Any], Any]) -> Step:
    """Return the step of an environment of TorchRL, which resets what ended.

    `act` returns actions for the number of a step and what TorchRL has before it.
    """
    now = env.reset()

    def step(index: int) -> object:
        nonlocal now
        now["action"] = act(index, now)
        returned, now = env.step_and_maybe_reset(now)
        return returned

    return step


def share_of_ends(*batches: Any) -> str:
    """Return which part of the environments ends in a step, where numpy batches restart them."""
    shares = {}
    for envs in batches:
        if envs.unwrapped.arrays == "numpy" and envs.metadata["autoreset_mode"].value != "Disabled":
            flags = [np.logical_or(*envs.step(action)[2:4]) for action in draw_actions(envs)[:50]]
            shares[f"{np.mean(flags):.1%}"] = None
    return f"{' and '.join(shares)} end per step" if shares.keys() - {"0.0%"} else ""


def fetched(state: Any) -> Any:
    """Return what a user sees of a state of Brax or Playground."""
    return state.obs, state.reward, state.done, state.metrics


def engine_step(reset: Any, step: Any, num_envs: int, act: Callable[[int, Any], Any]) -> Step:
    """Return an engine's compiled step of a batch, whose `step` is (state, action) -> state.

    `act` returns actions for the number of a step and the state before it.
    """
    import jax

    state = jax.jit(reset)(jax.random.split(jax.random.PRNGKey(0), num_envs))
    compiled = jax.jit(step)

    def run(index: int) -> Any:
        nonlocal state
        state = compiled(state, act(index, state))
        return state

    return run


def own_step(
    reset: Any, step: Any, num_envs: int, actions: Any, seen: Callable[[Any], Any] = fetched
) -> Step:
    """Return the same, which plays `actions` in turn and fetches what is `seen` of a state."""
    import jax

    run = engine_step(reset, step, num_envs, lambda index, _: actions[index % len(actions)])
    return lambda index: jax.tree.map(np.asarray, seen(run(index)))


def scanned(step: Any, carry: Any, actions: Any) -> Step:
    """Return a compiled rollout that goes on where the one before it ended."""
    import jax

    compiled = jax.jit(lambda carry, actions: jax.lax.scan(step, carry, actions))

    def run(_: int) -> Any:
        nonlocal carry
        carry, returned = compiled(carry, actions)
        return returned

    return run


def scan_of(envs: Any, actions: Any) -> Step:
    """Return `scanned` of a batch's `functional()`."""
    envs.reset(seed=0)
    carry, _, step = envs.functional()
    return scanned(step, carry, actions)


def draw_batch(space: gym.Space[Any], size: int) -> list[Any]:
    """Return actions for so many environments with this space, the same ones each time."""
    batch = gym.vector.utils.batch_space(space, size)
    batch.seed(0)
    return [batch.sample() for _ in range(64)]


def uniform(*shape: int) -> np.ndarray:
    """Return random float32 actions from -1 to 1, the same ones each time."""
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
