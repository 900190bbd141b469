"""Steps and gradients on a GPU: batches and torch policies on one device.

A CPU can run all of them, to try them out. Each function imports the libraries that it needs, so a
machine without one of them runs the others.
"""

from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import torch
from steps import Contest, Physics, Step, balance, brax_task, over
from torch import nn

BARE = "bare jitted step"


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
    """Compare all modes and Brax's own wrapper with the bare step."""
    modes = ("NextStep", "SameStep", "Disabled")
    steps = steps_of(brax_task("ant", "spring"), size, device, modes, wrapped="Brax training.wrap")
    bars = dict.fromkeys([name for name in steps if "Step" in name], 1.15)
    return Contest(steps, over(BARE, dict.fromkeys(list(steps)[1:]) | bars))


def playground(size: int, device: str, *, impl: str = "jax") -> Contest:
    """Compare with Playground's step; over Warp with its wrapper, its own default on a GPU."""
    wrapped, modes = "Playground wrap_for_brax_training", ("NextStep", "SameStep")
    if impl == "warp":
        wrapped, modes = f"{wrapped}, warp", ("SameStep",)
    steps = steps_of(balance(impl), size, device, modes, wrapped=wrapped)
    reference = wrapped if impl == "warp" else BARE
    others = [name for name in steps if name not in (BARE, reference)]
    return Contest(steps, over(reference, dict.fromkeys(others)))


def torchrl(size: int, device: str) -> Contest:
    """Compare with TorchRL's wrapper, both with restarts.

    TorchRL clears all that JAX compiled every 20 steps, ours too; here this is switched off.
    """
    from torchrl.envs import BraxWrapper

    physics = brax_task("ant", "spring")
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
    return Contest({name: ours(envs, policy), reference: run}, over(reference, {name: 1 / 20}))


def warp_modes(size: int, device: str) -> Contest:
    """Compare MuJoCo Warp's ways to keep CUDA graphs with Playground's wrapper and its default.

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
    pairs = over(f"{wrapped}, {default}", dict.fromkeys(mine, 1.1))
    peers = [label for label in mine if label.endswith(f", {other}")]
    pairs = {**pairs, **over(f"{wrapped}, {other}", dict.fromkeys(peers))}
    return Contest(steps, pairs, note="" if device != "cpu" else "a CPU has no CUDA graphs")
