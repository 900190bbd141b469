"""Facts about Playground's registered environments that need no import of Playground.

`tasks.json` beside this module holds the names in Playground's registry by suite, and the steps of
a batch after which an episode is cut: ceil(`episode_length` / `action_repeat`) of the default
configuration in playground 0.2.0.
"""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["PLAYGROUND_SUITES"]

PLAYGROUND_SUITES: dict[str, dict[str, int]] = json.loads(
    Path(__file__).with_name("tasks.json").read_text(encoding="utf-8")
)
"""Steps of an episode by suite and name."""
