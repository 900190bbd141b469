"""The flags of `ppo.py`, and `parse_args`, which reads the flags of any such class.

This module is not a script, and it imports nothing slow.
"""

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

Flags = TypeVar("Flags")

MAY_BE_ZERO = ("seed", "eval_steps")
"""Ints that may be 0; the others are at least 1."""


@dataclass
class Args:
    """Hyperparameters, each a flag: ``--num-envs 8``."""

    env_id: Annotated[str, "Gymnasium id of the task"] = "Brax/inverted_pendulum-v0"
    env_kwargs: Annotated[str, "further keywords of gym.make_vec, as JSON"] = "{}"
    seed: Annotated[int, "seed of networks, actions and environments"] = 1
    arrays: Annotated[Literal["numpy", "torch"], "arrays that environments return"] = "numpy"
    device: Annotated[
        str,
        "device of the networks, and of environments with torch arrays; cpu:all simulates on every "
        "core",
    ] = "cpu"
    out: Annotated[str, "folder for results, by default runs/<env id>"] = ""
    evaluate: Annotated[str, "policy.pt of a run to play, without training"] = ""
    resume: Annotated[bool, "continue from the checkpoint in the folder for results"] = False
    checkpoint_updates: Annotated[int, "updates between two checkpoints"] = 10
    total_steps: Annotated[int, "maximum steps, of all environments together"] = 5_000_000
    max_seconds: Annotated[float, "maximum wall time of this start, in seconds"] = math.inf
    target_return: Annotated[float, "stop at this mean return of the last episodes"] = math.inf
    last_episodes: Annotated[int, "episodes that the running mean covers"] = 100
    eval_steps: Annotated[int, "steps of the greedy evaluation at the end, or 0"] = 1000
    num_envs: Annotated[int, "environments stepped at once"] = 64
    num_steps: Annotated[int, "steps of each environment between two updates"] = 64
    epochs: Annotated[int, "passes over the steps in one update"] = 8
    minibatches: Annotated[int, "gradient steps in one pass"] = 4
    initial_std: Annotated[float, "standard deviation of continuous actions at the start"] = 1.0
    learning_rate: Annotated[float, "learning rate of Adam, falling to 0 over total_steps"] = 1e-3
    gamma: Annotated[float, "discount factor"] = 0.99
    gae_lambda: Annotated[float, "weight of long advantage estimates"] = 0.95
    clip: Annotated[float, "how far one update may move the policy"] = 0.2
    entropy_coef: Annotated[float, "weight of the entropy bonus"] = 0.0
    value_coef: Annotated[float, "weight of the value loss"] = 0.5
    max_grad_norm: Annotated[float, "norm to which gradients are clipped"] = 0.5


def parse_args(defaults: Flags) -> Flags:
    """Return an instance of a dataclass like `Args`, from the command line and these defaults."""
    kind, text = type(defaults), sys.modules["__main__"].__doc__
    parser = argparse.ArgumentParser(
        description=text and text.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for name, hint in get_type_hints(kind, include_extras=True).items():
        option = {"default": getattr(defaults, name), "help": hint.__metadata__[0]}
        option |= read_by(hint.__origin__)
        parser.add_argument("--" + name.replace("_", "-"), **option)
    given = parser.parse_args()
    for name, value in vars(given).items():
        least = 0 if name in MAY_BE_ZERO else 1
        if type(value) is int and value < least:
            flag = name.replace("_", "-")
            parser.error(f"--{flag} must be at least {least}, got {value}")
    if given.evaluate and not Path(given.evaluate).is_file():
        parser.error(f"--evaluate: there is no file {given.evaluate}")
    try:
        json.loads(given.env_kwargs)
    except json.JSONDecodeError as error:
        parser.error(f"--env-kwargs must be JSON, got {given.env_kwargs!r}: {error}")
    return kind(**vars(given))


def read_by(hint: Any) -> dict[str, Any]:
    """Return how argparse reads a flag with this type hint."""
    if hint is bool:
        return {"action": "store_true"}
    choices = get_args(hint)  # of a Literal
    return {"choices": choices} if choices else {"type": hint}
