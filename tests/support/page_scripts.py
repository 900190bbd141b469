"""Scripts of the pages of trainers, which take seconds and whose figures the pages have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parents[2] / "docs" / "how-to" / "trainers"


def run_page_script(page: str) -> dict[str, Any]:
    """Run the script of a page, and return its variables."""
    text = (PAGES / page).read_text(encoding="utf-8")
    (code,) = re.findall(r"<!-- slow -->\n```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, page, "exec"), names)
    return names
