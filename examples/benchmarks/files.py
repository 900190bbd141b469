"""Snapshots beside numpy's files, and frames beside Brax's."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from types import SimpleNamespace
from typing import Any

from gymbridge.core.opengl import find_library

# Brax's function uses the library that mujoco chooses by this; here it is the one gymbridge uses.
os.environ.setdefault("MUJOCO_GL", "egl" if find_library("egl") else "osmesa")

import jax
import numpy as np
from brax.io.image import render_array
from steps import Contest, over

from gymbridge import BraxVectorEnv


def snapshots(num_envs: int, _: str, *, name: str = "ant") -> Contest:
    """Compare a snapshot to disk and back with `np.savez` and `np.load` of the same arrays."""
    envs = BraxVectorEnv(name, num_envs, arrays="jax", backend="spring")
    envs.reset(seed=0)
    leaves = envs.get_state().leaves
    size = sum(leaf.nbytes for leaf in leaves.values()) / 1e6

    def ours(_: int) -> None:
        with TemporaryDirectory() as folder:
            envs.save_state(Path(folder, "ours"))
            jax.block_until_ready(envs.load_state(Path(folder, "ours")))

    def numpys(_: int) -> None:
        arrays = {name.replace("/", "."): np.asarray(leaf) for name, leaf in leaves.items()}
        with TemporaryFile() as file:
            np.savez(file, **arrays)
            file.seek(0)
            with np.load(file) as entries:
                dict(entries)

    steps = {"save_state and load_state": ours, "np.savez and np.load": numpys}
    bars = over("np.savez and np.load", {"save_state and load_state": 2.0})
    return Contest(steps, bars, note=f"{size:.0f} MB")


def frame(num_envs: int, _: str, *, name: str = "inverted_pendulum") -> Contest:
    """Compare a frame of one environment, of 320 x 240, with Brax's own function."""
    envs = BraxVectorEnv(name, num_envs, backend="spring", render_mode="rgb_array", camera=-1)
    envs.reset(seed=0)
    leaves, system = envs.get_state().leaves, envs.call("sys")[0]
    positions = {
        part: np.asarray(leaves[f"state.pipeline_state.{part}"])[0] for part in ("q", "qd")
    }
    state: Any = SimpleNamespace(**positions)
    steps = {
        "render": lambda _: envs.render()[0],
        "brax.io.image.render_array": lambda _: render_array(system, state),
    }
    np.testing.assert_array_equal(*(draw(0) for draw in steps.values()))
    bars = over("brax.io.image.render_array", {"render": 1.0})
    return Contest(steps, bars, note=os.environ["MUJOCO_GL"])
