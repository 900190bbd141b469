"""What `run_all.py` runs: a list of cases, the most important first."""

from __future__ import annotations

from typing import NamedTuple

SIZES = (256, 4096, 16384, 65536)
BAR_SIZE = 4096
"""Environments for which the bars are meant."""


class Case(NamedTuple):
    """A script, run once or once for each size, in a process of its own."""

    name: str
    script: str
    arguments: tuple[str, ...]  # with {device}, {size}, {rounds} and {out}, a file for its result
    sizes: tuple[int, ...] = ()  # environments; none: the script has its own
    is_bar: bool = False
    seconds: int = 180  # limit of a process


def timed(name: str, contest: str, sizes: tuple[int, ...] = SIZES, *, is_bar: bool = False) -> Case:
    """Return a case of `on_device.py`; gradients and variants take longer to compile."""
    flags = ("--device={device}", "--size={size}", "--rounds={rounds}", "--out={out}")
    seconds = 300 if name.startswith("gradient") else 250 if name.startswith("variants") else 180
    return Case(name, "on_device.py", (contest, *flags), sizes, is_bar, seconds)


def varied(what: str, contest: str, device: str) -> Case:
    """Return a case with variants of a step, at the size of the bars; a CPU tries it out."""
    case = timed(f"variants of {what}", contest, (BAR_SIZE,), is_bar=True)
    flags = ("--seconds=0.03",) if device == "cpu" else ()
    return case._replace(arguments=(*case.arguments, *flags))


def trained(library: str, task: str, *, is_bar: bool = False) -> Case:
    """Return a case of `ppo_on_device.py`, whose own limit is shorter."""
    flags = (f"--task={task}", "--device={device}", "--out={out}")
    name = f"PPO on {task} ({library})"
    return Case(name, "ppo_on_device.py", (library, *flags), (), is_bar, 300)


def printed(script: str, *flags: str) -> Case:
    """Return a case that keeps the table which a script prints, on JAX's default device."""
    name = " ".join((script, *(flag for flag in flags if "{" not in flag)))
    return Case(name, script, ("--rounds={rounds}", *flags), (), False, 300)


def cases(device: str) -> list[Case]:
    """Return all cases for "cpu" or "cuda"; those with a bar come first."""
    task = "inverted_pendulum" if device == "cpu" else "ant"
    stepped = "fast" if device == "cpu" else "ant"
    pool_sizes = (8, 64, 512, 4096)
    return [
        varied(f"a step of {stepped}, NextStep", "variants_next_step", device),
        varied(f"a step of {stepped}, SameStep", "variants_same_step", device),
        varied("CUDA graphs of Warp (CartpoleBalance)", "warp_modes", device),
        timed("step of ant (Brax, spring, torch policy)", "step", is_bar=True),
        timed("gradient of a window (ant, spring, 16 steps)", "window", is_bar=True),
        timed("step of ant over TorchRL (spring)", "torchrl", (256, 4096), is_bar=True),
        trained("gymbridge", task, is_bar=True),
        trained("Brax", task, is_bar=True),
        timed(
            "gradient of a window over TorchRL (ant)", "torchrl_window", (256, 4096), is_bar=True
        ),
        timed("gradient of an unroll (ant, spring, 16 steps)", "unroll"),
        timed("other steps of ant (Brax, spring, torch policy)", "other_steps"),
        timed("step of CartpoleBalance (Playground, torch policy)", "playground"),
        timed("step of CartpoleBalance, warp (Playground)", "playground_warp"),
        timed("rollout of ant (Brax, spring, 32 steps)", "functional"),
        timed("CartPole-v1 (EnvPool)", "CartPole-v1", pool_sizes),
        timed("HalfCheetah-v4 (EnvPool)", "HalfCheetah-v4", pool_sizes),
        timed("Pong-v5 (EnvPool)", "Pong-v5", (8, 64, 512)),
        trained("SB3", task),
        printed("brax_step.py"),
        printed("randomization_step.py"),
        printed("snapshots.py"),
        printed("gradients.py", "--device={device}", "--rows", "arrays", "window", "unroll"),
        printed("gradients.py", "--device={device}", "--rows", "memory"),
        printed("trainers_step.py"),
        printed("envpool_step.py"),
        printed("sb3_step.py"),
        printed("cleanrl_step.py"),
        printed("async_step.py"),
    ]
