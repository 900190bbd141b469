"""The last observations of each environment, stacked."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers.utils import create_zero_array

from gymbridge.core.requests import read_count
from gymbridge.errors import ArgumentError
from gymbridge.wrappers.libraries import ArrayLibrary, map_leaves, spread
from gymbridge.wrappers.observations import ObservationWrapper

__all__ = ["FrameStackObservation"]


class FrameStackObservation(ObservationWrapper):
    """The last observations of each environment, (num_envs, stack_size, ...), the newest one last.

    Args:
        env: A batch.
        stack_size: Number of frames.
        padding_type: Frames before the first one of an episode: "reset" for copies of it, "zero"
            for zeros or what the space has next to them, or an observation of one environment.

    Raises:
        ArgumentTypeError: `env` is not a vector environment, or `stack_size` is not an integer.
        ArgumentError: `stack_size` is below 1, `padding_type` is neither a name nor an observation,
            or `env` is stacked already.

    A final observation has the frames that it ends. Rows that a call leaves as they are keep their
    frames. With ``differentiable=True`` older frames are in the graph until `detach`.

    Example:
        >>> from gymbridge.testing import scripted_vector_env
        >>> envs = FrameStackObservation(scripted_vector_env(lengths=[2, 5]), 3)
        >>> _ = envs.reset(seed=0)
        >>> envs.step([0, 0])[0]
        array([[0., 0., 1.],
               [0., 0., 1.]], dtype=float32)
    """

    belongs_inside = ("FrameStackObservation",)

    def __init__(
        self, env: VectorEnv[Any, Any, Any], stack_size: int, *, padding_type: Any = "reset"
    ) -> None:
        size = read_count("stack_size", stack_size)
        super().__init__(env, _show, stack_size=size, padding_type=padding_type)
        padding = _find_padding(self.single_observation_space, padding_type)
        self.single_observation_space = batch_space(self.single_observation_space, size)
        self._remember(padding)


def _find_padding(space: Space[Any], padding: Any) -> Any:
    """Return one frame, a tree of numpy arrays; None for copies of the first one."""
    if isinstance(padding, str) and padding == "reset":
        return None
    if isinstance(padding, str) and padding == "zero":
        padding = create_zero_array(space)
    elif isinstance(padding, str) or padding not in space:
        raise ArgumentError(
            f"`padding_type` must be 'reset', 'zero' or an observation in {space}, got {padding!r}."
        )
    return map_leaves(np.asarray, padding)


def _show(
    library: ArrayLibrary, options: None, padding: Any, last: Any, obs: Any, moved: Any, began: Any
) -> tuple[Any, Any]:
    """Put the new frame behind the others, or behind the padding where an episode begins."""

    def push(new: Any, frames: Any, pad: Any) -> Any:
        older = frames[:, 1:]
        older = library.xp.where(spread(began, older), library.cast(pad, older.dtype), older)
        return library.xp.concatenate((older, new[:, None]), 1)

    pads = map_leaves(lambda new: new[:, None], obs) if padding is None else padding
    return padding, map_leaves(push, obs, last, pads)
