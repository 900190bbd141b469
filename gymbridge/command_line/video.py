"""Videos, written frame by frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gymbridge.command_line.packages import install_command
from gymbridge.errors import ArgumentError, NotInstalledError

__all__ = ["Draw", "open_video"]

Draw = Callable[[np.ndarray], None]
"""Takes the next frame, (height, width, 3) uint8."""


@contextmanager
def open_video(path: Path | None, fps: int) -> Iterator[Draw]:
    """Give a function that adds a frame to a video; on None, one that does nothing.

    Args:
        path: Of the file, which ends in .mp4; its folder is made where there is none.
        fps: Frames per second.

    Raises:
        NotInstalledError: imageio-ffmpeg is not installed.
        ArgumentError: The file has another ending, or cannot be written.
    """
    if path is None:
        yield lambda frame: None
        return
    writer = _Writer(path, fps)
    try:
        yield writer.add
    finally:
        writer.close()


class _Writer:
    def __init__(self, path: Path, fps: int) -> None:
        if path.suffix != ".mp4":
            raise ArgumentError(f"`--video` must end in .mp4, got {str(path)!r}.")
        try:
            import imageio_ffmpeg
        except ImportError as error:
            raise NotInstalledError(
                f"`--video` needs imageio-ffmpeg. Install it with {install_command('video')} "
                f"({error})."
            ) from error
        self._write_frames, self._path, self._fps = imageio_ffmpeg.write_frames, path, fps
        self._frames: Any = None
        with self._names_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def add(self, frame: np.ndarray) -> None:
        with self._names_file():
            if self._frames is None:
                height, width, _ = frame.shape
                # H.264 takes even sizes only: ffmpeg scales others by a pixel.
                self._frames = self._write_frames(
                    str(self._path), (width, height), fps=self._fps, macro_block_size=2
                )
                self._frames.send(None)
            self._frames.send(np.ascontiguousarray(frame))

    def close(self) -> None:
        if self._frames is not None:
            self._frames.close()

    @contextmanager
    def _names_file(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = str(error).strip().splitlines()[0]
            raise ArgumentError(f"`--video`: {self._path} cannot be written: {reason}") from error
