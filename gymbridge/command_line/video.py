"""Videos, written frame by frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gymbridge.command_line.output import note
from gymbridge.core.extras import needs
from gymbridge.errors import ArgumentError

__all__ = ["Draw", "open_video"]

Draw = Callable[[Any], None]
"""Takes the next frame, (height, width, 3) uint8."""


@contextmanager
def open_video(path: Path | None, fps: float) -> Iterator[Draw]:
    """Yield a function that adds a frame to a video; if `path` is None, it does nothing.

    The folder of the file is made if there is none. A note names the file that was written, also
    after Ctrl-C.

    Raises:
        NotInstalledError: moviepy is not installed.
        ArgumentError: The file does not end in .mp4 or cannot be written, or a frame is no picture.
    """
    if path is None:
        yield lambda frame: None
        return
    make_writer, writer, is_new = _load_writer(path), None, not path.exists()
    with _naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()  # a folder raises, and a file keeps what it has

    def draw(frame: Any) -> None:
        nonlocal writer
        if np.ndim(frame) != 3:
            raise ArgumentError(
                "`--video` needs pictures, (height, width, 3), and `render` returned "
                f"{type(frame).__name__}."
            )
        with _naming(path):
            if writer is None:  # not earlier: the first frame has the size
                height, width, _ = frame.shape
                writer = make_writer(str(path), (width, height), fps)
            writer.write_frame(frame)

    try:
        yield draw
    finally:
        with _naming(path):
            if writer is not None:
                writer.close()
                note(f"Wrote {path}")
            elif is_new:
                path.unlink()


def _load_writer(path: Path) -> Any:
    if path.suffix != ".mp4":
        raise ArgumentError(f"`--video` must end in .mp4, got {str(path)!r}.")
    with needs("video", "`--video`"):
        from moviepy.video.io.ffmpeg_writer import FFMPEG_VideoWriter
    return FFMPEG_VideoWriter


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in errors of the operating system and of ffmpeg."""
    try:
        yield
    except OSError as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ArgumentError(f"`--video`: {path} cannot be written: {reason}") from error
