"""Steps and gradients on a GPU: batches and torch policies on one device.

A CPU can run all of them, to try them out. Each function imports the libraries that it needs, so a
machine without one of them runs the others.
"""

from itertools import pairwise
from typing import Any

import jax
import torch
from steps import Contest, Step, engine_step, over, torchrl_step
from tasks import Physics, balance, brax_task, brax_wrapper
from torch import nn

BARE, WRAPPED = "bare jitted step", "Playground wrap_for_brax_training"


def make_policy(env: Any, device: str) -> nn.Module:
    """Return a small policy, the same one in every call."""
    torch.manual_seed(0)
    sizes = env.observation_size, 64, 64, env.action_size
    layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.Tanh())]
    return nn.Sequential(*layers).to(device).requires_grad_(False)


def ours(envs: Any, policy: nn.Module) -> Step:
    """Step a batch of tensors."""
    obs, _ = envs.reset(seed=0)

    def run(_: int) -> object:
        nonlocal obs
        obs = envs.step(policy(obs))[0]
        return obs

    return run


def steps_of(physics: Physics, size: int, device: str, wrapped: str) -> dict[str, Step]:
    """Return the bare step, that of the library's wrapper, which is `wrapped`, and ours by mode."""
    policy = make_policy(physics.env, device)

    def act(_: int, state: Any) -> Any:  # by DLPack, without copies
        return jax.numpy.from_dlpack(policy(torch.from_dlpack(state.obs)))

    steps = {
        name: engine_step(*physics.functions(name == wrapped), size, act)
        for name in (BARE, wrapped)
    }
    for mode in ("NextStep", "SameStep"):
        envs = physics.batch(size, arrays="torch", device=device, autoreset_mode=mode)
        steps[f"gymbridge, torch, {mode}"] = ours(envs, policy)
    return steps


def step(size: int, device: str) -> Contest:
    """Compare our modes and Brax's own wrapper with the bare step."""
    steps = steps_of(brax_task("ant", "spring"), size, device, "Brax training.wrap")
    bars = {name: 1.15 if "Step" in name else None for name in steps if name != BARE}
    return Contest(steps, over(BARE, bars))


def playground(size: int, device: str, *, impl: str = "jax") -> Contest:
    """Compare with Playground's step; over Warp with its wrapper, its own default on a GPU."""
    wrapped = f"{WRAPPED}, warp" if impl == "warp" else WRAPPED
    steps = steps_of(balance(impl), size, device, wrapped)
    reference = wrapped if impl == "warp" else BARE
    others = [name for name in steps if name not in (BARE, reference)]
    return Contest(steps, over(reference, dict.fromkeys(others)))


def torchrl(size: int, device: str) -> Contest:
    """Compare with TorchRL's wrapper, both with restarts."""
    physics = brax_task("ant", "spring")
    policy = make_policy(physics.env, device)
    envs = physics.batch(size, arrays="torch", device=device, autoreset_mode="SameStep")
    name, reference = "gymbridge, torch, SameStep", "TorchRL BraxWrapper"
    theirs = torchrl_step(
        brax_wrapper(physics.env, size, device), lambda _, now: policy(now["observation"])
    )
    return Contest({name: ours(envs, policy), reference: theirs}, over(reference, {name: 1 / 20}))


def warp_modes(size: int, device: str) -> Contest:
    """Compare MuJoCo Warp's ways to keep CUDA graphs with Playground's wrapper and its default."""
    import warp

    default, other = ("WARP", "WARP_STAGED_EX") if device != "cpu" else ("JAX", "NONE")
    steps: dict[str, Step] = {}
    for name in (default, other):
        physics = balance("warp", graph_mode=warp.JaxCallableGraphMode[name])
        found = steps_of(physics, size, device, WRAPPED)
        steps |= {f"{label}, {name}": step for label, step in found.items()}
    mine = [label for label in steps if label.startswith("gymbridge")]
    pairs = over(f"{WRAPPED}, {default}", dict.fromkeys(mine, 1.1))
    peers = [label for label in mine if label.endswith(f", {other}")]
    pairs = {**pairs, **over(f"{WRAPPED}, {other}", dict.fromkeys(peers))}
    return Contest(steps, pairs, note="" if device != "cpu" else "a CPU has no CUDA graphs")
