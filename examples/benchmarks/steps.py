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
    """Functions that do the same work; of a case with `apart`, functions that build them."""

    steps: Mapping[str, Any]  # by name
    over: Mapping[tuple[str, str], float | None] = {}  # (name, reference) -> bar of the ratio
    num_steps: int = 1  # of the batch, in one call
    note: str = ""  # in the table, beside the ratios


class Physics(NamedTuple):
    """A task of JAX as its library has it."""

    env: Any
    wrap: Callable[..., Any]  # the library's wrapper for training
    batch: Callable[..., Any]  # ours, of `num_envs` and keywords

    def functions(self, is_wrapped: bool = False) -> tuple[Any, Any]:
        """Return `reset`, of keys, and `step` of a batch, alone or in the library's wrapper."""
        import jax

        if is_wrapped:
            env = self.wrap(self.env)
            return env.reset, env.step
        return jax.vmap(self.env.reset), jax.vmap(self.env.step)


def brax_task(name: str, backend: str | None = None) -> Physics:
    from brax import envs as brax_envs
    from brax.envs.wrappers import training

    from gymbridge import BraxVectorEnv

    options: dict[str, Any] = {} if backend is None else {"backend": backend}
    env = brax_envs.get_environment(name, **options)
    wrap = partial(training.wrap, episode_length=1000)
    return Physics(env, wrap, partial(BraxVectorEnv, name, **options))


def balance(impl: str = "jax", *, graph_mode: Any = None) -> Physics:
    """Return CartpoleBalance, over Warp with one of its ways to keep CUDA graphs."""
    from mujoco_playground import registry, wrapper

    from gymbridge import PlaygroundVectorEnv

    env = registry.load("CartpoleBalance", config_overrides={"impl": impl})
    wrap = partial(wrapper.wrap_for_brax_training, episode_length=1000)
    if graph_mode is None:
        return Physics(env, wrap, partial(PlaygroundVectorEnv, "CartpoleBalance", impl=impl))
    # Playground has no argument for it.
    env._mjx_model = env._mjx_model.tree_replace({"opt._impl.graph_mode": graph_mode})
    return Physics(env, wrap, partial(PlaygroundVectorEnv, env))


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
    engines: Mapping[str, Mapping[str, Any]] | None = None,
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
        engines: Keywords of the batch whose engine is stepped alone, by name; None for the one of
            the first batch, "engine".
        stagger: Steps of an episode, over which the ends are spread.
        options: Keywords of all batches.
    """

    def make(given: Mapping[str, Any]) -> Any:
        kwargs = options | dict(given)
        if device != "cpu" and kwargs.get("arrays") == "torch":
            kwargs["device"] = device
        return gym.make_vec(env_id, num_envs=num_envs, **kwargs)

    batches = {name: make(given) for name, given in ways.items()}
    engines = {"engine": next(iter(ways.values()))} if engines is None else engines
    alone = {name: make(given) for name, given in engines.items()}
    steps = {name: play(envs, stagger) for name, envs in batches.items()}
    steps |= {name: make_bare_step(envs, draw_actions(envs)) for name, envs in alone.items()}
    pairs = {(*name.split(" over "), *engines)[:2]: bar for name, bar in bars.items()}
    return Contest(steps, pairs, note=share_of_ends(batches))


def play(envs: Any, stagger: int = 0) -> Step:
    """Return the step of a batch with random actions; ends may be spread over `stagger` steps."""
    step = make_step(envs, draw_actions(envs))
    spread_ends(step, envs.num_envs, stagger, partial(reset_rows, envs))
    return step


def step_of(envs: Any, actions: Any) -> Step:
    """Reset what has `reset` and `step`; return its step, which plays the actions in turn."""
    envs.reset()
    return lambda index: envs.step(actions[index % len(actions)])


def reset_rows(envs: Any, mask: Any) -> None:
    envs.reset(options={"reset_mask": mask})


def spread_ends(step: Step, num_envs: int, limit: int, reset: Callable[[Any], Any]) -> None:
    """Spread the ends of equal episodes over `limit` steps, by steps and resets of a mask."""
    groups = min(limit, num_envs)
    for index in range(groups):
        if index:
            reset(np.arange(num_envs) % groups == index)
        for _ in range(max(limit // num_envs, 1)):
            step(index)


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


def brax_wrapper(env: Any, num_envs: int, device: str = "cpu", **options: Any) -> Any:
    """Return TorchRL's wrapper of an environment of Brax.

    By default it clears all that JAX compiled every 20 steps, ours too. On a GPU this is off.
    """
    from torchrl.envs import BraxWrapper

    if device != "cpu":
        options["cache_clear_frequency"] = False
    return BraxWrapper(env, batch_size=[num_envs], device=device, **options)


def share_of_ends(batches: Mapping[str, Any], num_steps: int = 50) -> str:
    """Return which part of the environments ends in a step, where numpy batches restart them."""
    found = {}
    for name, envs in batches.items():
        if envs.unwrapped.arrays == "numpy" and envs.metadata["autoreset_mode"].value != "Disabled":
            actions = draw_actions(envs)[:num_steps]
            flags = [np.logical_or(*envs.step(action)[2:4]) for action in actions]
            found[f"{np.mean(flags):.1%}"] = name
    return " and ".join(share for share in found if share != "0.0%") and (
        f"{' and '.join(found)} end per step"
    )


def fetched(state: Any) -> Any:
    """Return what a user sees of a state of Brax or Playground."""
    return state.obs, state.reward, state.done, state.metrics


def own_step(
    reset: Any, step: Any, num_envs: int, actions: Any, seen: Callable[[Any], Any] = fetched
) -> Step:
    """Return an engine's compiled step of a batch, (state, action) -> state, which plays `actions`.

    What is `seen` of a state is copied to numpy arrays.
    """
    import jax

    state = jax.jit(reset)(jax.random.split(jax.random.PRNGKey(0), num_envs))
    compiled = jax.jit(step)

    def run(index: int) -> None:
        nonlocal state
        state = compiled(state, actions[index % len(actions)])
        jax.tree.map(np.asarray, seen(state))

    return run


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
