"""What `on_device.py` times: functions of a batch size and a device that do the same work.

Each imports the libraries that it needs, so a machine without one of them runs the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

Step = Callable[[int], object]
BARE = "bare jitted step"
WINDOW, SCAN = 16, 32


class Contest(NamedTuple):
    """Functions that do the same work."""

    steps: dict[str, Step]  # by name
    reference: str  # the name of what the others are compared with
    bars: Mapping[str, float] = MappingProxyType(
        {}
    )  # by name, the aim for the time over the reference's
    num_steps: int = 1  # steps of the batch in one call
    note: str = ""
    peers: Mapping[str, str] = MappingProxyType({})  # by name, what it is compared with besides


class Physics(NamedTuple):
    """A task as its library has it."""

    env: Any
    wrap: Callable[[Any], Any]  # the library's wrapper for training
    batch: Callable[..., Any]  # ours, of `num_envs` and keywords


def ant() -> Physics:
    return brax_task("ant", "spring")


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


def make_policy(env: Any, device: str) -> nn.Module:
    """Return a small policy, the same one in every call."""
    torch.manual_seed(0)
    sizes = env.observation_size, 64, 64, env.action_size
    layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.Tanh())]
    return nn.Sequential(*layers).to(device).requires_grad_(False)


def bare(reset: Any, step: Any, policy: nn.Module, size: int) -> Step:
    """Step a jitted function; arrays pass between JAX and torch by DLPack, without copies."""
    import jax

    state = jax.jit(reset)(jax.random.split(jax.random.PRNGKey(0), size))
    jitted = jax.jit(step)

    def run(_: int) -> object:
        nonlocal state
        state = jitted(state, jax.numpy.from_dlpack(policy(torch.from_dlpack(state.obs))))
        return state.obs

    return run


def ours(envs: Any, policy: nn.Module) -> Step:
    """Step a batch of tensors; with autoreset disabled, what ended is reset at once."""
    obs, _ = envs.reset(seed=0)
    is_disabled = envs.autoreset_mode.value == "Disabled"

    def run(_: int) -> object:
        nonlocal obs
        obs, _, terminations, truncations, _ = envs.step(policy(obs))
        if is_disabled and bool((ended := terminations | truncations).any()):
            obs, _ = envs.reset(options={"reset_mask": ended})
        return obs

    return run


def ours_on_host(envs: Any, policy: nn.Module, device: str) -> Step:
    """Step a batch of numpy arrays, whose policy is on the device."""
    obs, _ = envs.reset(seed=0)

    def run(_: int) -> None:
        nonlocal obs
        actions = policy(torch.from_numpy(obs).to(device))
        obs, *_ = envs.step(actions.cpu().numpy())

    return run


def steps_of(
    physics: Physics, size: int, device: str, modes: tuple[str, ...], *, wrapped: str = ""
) -> dict[str, Step]:
    """Return the bare step, that of the library's wrapper if it has a name, and ours by mode."""
    import jax

    env, policy = physics.env, make_policy(physics.env, device)
    steps = {BARE: bare(jax.vmap(env.reset), jax.vmap(env.step), policy, size)}
    if wrapped:
        env = physics.wrap(env)
        steps[wrapped] = bare(env.reset, env.step, policy, size)
    for mode in modes:
        envs = physics.batch(size, arrays="torch", device=device, autoreset_mode=mode)
        steps[f"gymbridge, torch, {mode}"] = ours(envs, policy)
    return steps


def step(size: int, device: str) -> Contest:
    steps = steps_of(ant(), size, device, ("NextStep", "SameStep"))
    return Contest(steps, BARE, dict.fromkeys(list(steps)[1:], 1.15))


def other_steps(size: int, device: str) -> Contest:
    physics = ant()
    steps = steps_of(physics, size, device, ("Disabled",), wrapped="Brax training.wrap")
    envs, policy = physics.batch(size, device=device), make_policy(physics.env, device)
    return Contest(steps | {"gymbridge, numpy, NextStep": ours_on_host(envs, policy, device)}, BARE)


def playground(size: int, device: str) -> Contest:
    wrapped = "Playground wrap_for_brax_training"
    modes = ("NextStep", "SameStep")
    return Contest(steps_of(balance(), size, device, modes, wrapped=wrapped), BARE)


def playground_warp(size: int, device: str) -> Contest:
    """Return the step of ours beside that of Playground's own default on a GPU."""
    physics = balance("warp")
    wrapped = "Playground wrap_for_brax_training, warp"
    steps = steps_of(physics, size, device, ("SameStep",), wrapped=wrapped)
    return Contest(steps, wrapped)


def torchrl(size: int, device: str) -> Contest:
    """Return the step of TorchRL's wrapper and ours, both with restarts.

    TorchRL clears all that JAX compiled every 20 steps, ours too; here this is switched off.
    """
    from torchrl.envs import BraxWrapper

    physics = ant()
    policy = make_policy(physics.env, device)
    options = {"batch_size": [size], "device": device, "cache_clear_frequency": False}
    theirs = BraxWrapper(physics.env, **options)
    now = theirs.reset()

    def run(_: int) -> None:
        nonlocal now
        now["action"] = policy(now["observation"])
        _, now = theirs.step_and_maybe_reset(now)

    envs = physics.batch(size, arrays="torch", device=device, autoreset_mode="SameStep")
    name, reference = "gymbridge, torch, SameStep", "TorchRL BraxWrapper"
    return Contest({name: ours(envs, policy), reference: run}, reference, {name: 1 / 20})


def windows(size: int, device: str, *, method: str) -> Contest:
    """Return gradients of a window with respect to a policy, or to its actions as one node.

    A difference is noted and does not end the case: in float32 the gradients of 16 ants differed by
    0.018 of their norm on a CPU. Tests compare gradients in float64.
    """
    from gradients import Window, difference, waiting

    window = Window("ant", size, WINDOW, device)
    plain, mine = getattr(window, f"jax_{method}")(), getattr(window, f"torch_{method}")
    error = difference(plain, mine)
    name = "gymbridge, step by step" if method == "policy" else "gymbridge, unroll"
    steps = {"one jitted scan": waiting(plain), name: waiting(mine)}
    bars, note = {name: 1.3}, f"gradients differ by {error:.0e}"
    return Contest(steps, "one jitted scan", bars, WINDOW, note)


def torchrl_windows(size: int, device: str) -> Contest:
    from gradients import Window, torchrl_window, waiting

    window = Window("ant", size, WINDOW, device)
    theirs = torchrl_window(window, cache_clear_frequency=False)
    name, reference = "gymbridge, step by step", "TorchRL BraxWrapper"
    steps = {name: waiting(window.torch_policy), reference: waiting(theirs)}
    return Contest(steps, reference, {name: 1 / 20}, WINDOW)


def functional(size: int, device: str) -> Contest:
    """Return rollouts of given actions: scans, and a loop over our step."""
    import jax

    physics = ant()
    shape = SCAN, size, physics.env.action_size
    actions = jax.random.uniform(jax.random.PRNGKey(0), shape, minval=-1, maxval=1)
    envs = physics.batch(size, arrays="jax", device=device)
    envs.reset(seed=0)
    carry, _, pure_step = envs.functional()

    def loop(_: int) -> object:
        return [envs.step(action) for action in actions][-1]

    def bare_step(state: Any, action: Any) -> tuple[Any, Any]:
        state = jax.vmap(physics.env.step)(state, action)
        return state, (state.obs, state.reward, state.done, state.metrics)

    start = jax.jit(jax.vmap(physics.env.reset))(jax.random.split(jax.random.PRNGKey(0), size))
    steps = {
        "bare step, one scan": scan(bare_step, start, actions),
        "gymbridge, functional(), one scan": scan(pure_step, carry, actions),
        "gymbridge, jax, NextStep": loop,
    }
    return Contest(steps, "bare step, one scan", num_steps=SCAN)


def scan(pure_step: Any, carry: Any, actions: Any) -> Step:
    """Return a compiled rollout that continues where the one before it ended."""
    import jax

    compiled = jax.jit(lambda carry, actions: jax.lax.scan(pure_step, carry, actions))

    def run(_: int) -> object:
        nonlocal carry
        carry, returned = compiled(carry, actions)
        return returned

    return run


def variants(size: int, device: str, *, mode: str) -> Contest:
    from variants import step_variants

    return step_variants(size, device, mode=mode)


def warp_modes(size: int, device: str) -> Contest:
    """Return MuJoCo Warp's ways to keep CUDA graphs, beside Playground's wrapper with its default.

    Raises:
        SystemExit: Warp is not installed.
    """
    if find_spec("warp") is None:
        raise SystemExit("Left out: Warp is not installed (`pip install warp-lang`).")
    import warp

    default, other = ("WARP", "WARP_STAGED_EX") if device != "cpu" else ("JAX", "NONE")
    wrapped, steps = "Playground wrap_for_brax_training", {}
    for name in (default, other):
        physics = balance("warp", graph_mode=warp.JaxCallableGraphMode[name])
        found = steps_of(physics, size, device, ("NextStep", "SameStep"), wrapped=wrapped)
        steps |= {f"{label}, {name}": step for label, step in found.items()}
    mine = [label for label in steps if label.startswith("gymbridge")]
    peers = {label: f"{wrapped}, {other}" for label in mine if label.endswith(f", {other}")}
    bars = dict.fromkeys(mine, 1.1)
    note = "" if device != "cpu" else "a CPU has no CUDA graphs"
    return Contest(steps, f"{wrapped}, {default}", bars, note=note, peers=peers)


def pool(size: int, device: str, *, task: str) -> Contest:
    """Return steps of EnvPool's own class by the number of threads, and ours with its default."""
    from envpool_step import make_own
    from routes import of_gymbridge

    env_id, steps, reference = f"EnvPool/{task}", {}, "EnvPool's own class"
    for arrays, options in (("numpy", {}), ("torch", {"device": device})):
        run = of_gymbridge(env_id, "NextStep", arrays, size, **options)
        steps[f"gymbridge, {arrays}, NextStep"] = lambda _, run=run: run()
    cores = len(os.sched_getaffinity(0))
    for threads in sorted({0, 1, max(cores // 4, 1), max(cores // 2, 1), cores}):
        own = make_own(task, size, threads)
        actions = [random_actions(own.action_space, size, seed) for seed in range(16)]
        name = f"{reference}, num_threads={threads}" if threads else reference
        steps[name] = lambda index, own=own, actions=actions: own.step(actions[index % 16])
    return Contest(steps, reference, note=f"{cores} cores")


def random_actions(space: Any, size: int, seed: int) -> np.ndarray:
    space.seed(seed)
    return np.array([space.sample() for _ in range(size)])


CONTESTS: dict[str, Callable[[int, str], Contest]] = {
    "step": step,
    "other_steps": other_steps,
    "playground": playground,
    "playground_warp": playground_warp,
    "torchrl": torchrl,
    "window": partial(windows, method="policy"),
    "unroll": partial(windows, method="actions"),
    "torchrl_window": torchrl_windows,
    "functional": functional,
    "variants_next_step": partial(variants, mode="NextStep"),
    "variants_same_step": partial(variants, mode="SameStep"),
    "warp_modes": warp_modes,
    **{task: partial(pool, task=task) for task in ("CartPole-v1", "HalfCheetah-v4", "Pong-v5")},
}
"""By name."""
