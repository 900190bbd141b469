"""Videos, written frame by frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from gymbridge.command_line.batches import explain
from gymbridge.command_line.output import note
from gymbridge.core.extras import needs
from gymbridge.errors import ArgumentError

__all__ = ["Draw", "open_video"]

Draw = Callable[[VectorEnv[Any, Any, Any]], None]
"""Draws the next frame of a batch of one."""

_GIF = "fps='min(source_fps,50)',split[a][b];[a]palettegen[p];[b][p]paletteuse"
"""Filter of ffmpeg for a GIF: the video's colours, and no more frames than viewers can show."""


@contextmanager
def open_video(path: Path | None, fps: float) -> Iterator[Draw]:
    """Yield a function that draws a frame of a video; if `path` is None, it does nothing.

    The folder of the file is made if there is none. A note names the file that was written, also
    after Ctrl-C.

    Raises:
        NotInstalledError: moviepy is not installed.
        ArgumentError: The ending is unknown, the file cannot be written, or a frame is no picture.
    """
    if path is None:
        yield lambda envs: None
        return
    if path.suffix not in (".mp4", ".gif"):
        raise ArgumentError(f"`--video` must end in .mp4 or .gif, got {str(path)!r}.")
    with needs("video", "`--video`"):
        from moviepy.video.io.ffmpeg_writer import FFMPEG_VideoWriter
    codec = {} if path.suffix == ".mp4" else {"codec": "gif", "ffmpeg_params": ["-vf", _GIF]}
    writer: FFMPEG_VideoWriter | None = None

    def draw(envs: VectorEnv[Any, Any, Any]) -> None:
        nonlocal writer
        frame: Any = (envs.render() or [None])[0]
        if np.ndim(frame) != 3:
            raise ArgumentError(
                "`--video` needs pictures, (height, width, 3), and `render` returned "
                f"{type(frame).__name__}; run it without `--video`."
            )
        with explain(f"`--video`: {path} cannot be written"):
            if writer is None:  # not earlier: the first frame has the size
                path.parent.mkdir(parents=True, exist_ok=True)
                writer = FFMPEG_VideoWriter(str(path), frame.shape[1::-1], fps, **codec)
            writer.write_frame(frame)

    try:
        yield draw
    finally:
        if writer is not None:
            writer.close()
            note(f"Wrote {path}")
