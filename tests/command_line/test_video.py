"""Videos that cannot be made."""

from __future__ import annotations

from pathlib import Path

import pytest

from gymbridge.command_line.video import open_video

pytest.importorskip("moviepy")


@pytest.mark.parametrize("error", [FileNotFoundError("of the engine"), BrokenPipeError()])
def test_error_of_something_else__is_kept_and_no_empty_file_stays(
    error: OSError, tmp_path: Path
) -> None:
    path = tmp_path / "new" / "out.mp4"
    with pytest.raises(type(error)) as caught, open_video(path, 30):
        raise error
    assert caught.value is error
    assert path.parent.exists()
    assert not path.exists()


def test_file_of_before__stays_where_nothing_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "out.mp4"
    path.write_bytes(b"an older video")
    with open_video(path, 30):
        pass
    assert path.read_bytes() == b"an older video"
