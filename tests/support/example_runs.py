"""Runs of scripts, a user's and those of pages, and what they have to leave behind."""

from __future__ import annotations

import importlib.util
import io
import logging
import re
import runpy
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.python_runs import Printed, run_python

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_script(name: str, *arguments: Any, **options: Any) -> Printed:
    """Return what an example prints in a process of its own."""
    return run_python(EXAMPLES / f"{name}.py", *arguments, **options)


def call_script(name: str, *arguments: Any, cwd: Any, code: int = 0) -> Printed:
    """Do the same in this process, which has imported the libraries before."""
    path, printed = EXAMPLES / f"{name}.py", Printed(io.StringIO(), io.StringIO())
    torch = pytest.importorskip("torch")
    threads, ended = torch.get_num_threads(), 0
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(printed.out),
        redirect_stderr(printed.log),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # other libraries have warnings of their own
        patch.setattr(sys, "argv", [str(path), *map(str, arguments)])
        patch.syspath_prepend(path.parent)
        patch.chdir(cwd)
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as stop:
            ended = stop.code if isinstance(stop.code, int) else 1
            printed.log.write(f"{stop}\n")
    torch.set_num_threads(threads)
    logging.getLogger("gymbridge").setLevel(logging.NOTSET)
    found = Printed(*(stream.getvalue() for stream in printed[:2]))
    assert ended == code, found.log
    return found


def run_page_script(page: str) -> dict[str, Any]:
    """Run the script of a trainer's page, which takes seconds, and return its variables."""
    text = (EXAMPLES.parent / "docs" / "how-to" / "trainers" / page).read_text(encoding="utf-8")
    (code,) = re.findall(r"<!-- slow -->\n```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, page, "exec"), names)
    return names


def load_script(path: Path) -> Any:
    """Return a script as a module, which finds those beside it, as when it runs."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # its dataclass looks itself up there
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(path.parent)
        spec.loader.exec_module(module)
    return module


def check_picture(path: Path) -> None:
    """Check that a file is a whole PNG."""
    picture = path.read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert picture.rstrip().endswith(b"IEND\xaeB`\x82")


def read_table(path: Path) -> np.ndarray:
    """Return the rows of a file with a header, by its names."""
    return np.genfromtxt(path, delimiter=",", names=True, ndmin=1)


def read_video(path: Path) -> np.ndarray:
    """Return the frames of a video, (count, height, width, 3) uint8 in blue, green and red."""
    cv2 = pytest.importorskip("cv2")
    video, frames = cv2.VideoCapture(str(path)), []
    while (read := video.read())[0]:
        frames.append(read[1])
    video.release()
    return np.stack(frames)
