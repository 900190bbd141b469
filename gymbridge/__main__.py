"""``python -m gymbridge``; see `gymbridge.command_line`."""

from __future__ import annotations

import sys

from gymbridge.command_line import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
