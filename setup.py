"""What `setup.cfg` cannot say: where setuptools builds, and how the package index shows README.

setuptools builds in `build/` and `gymbridge.egg-info/` beside the sources. There the next wheel
would find modules that were deleted in between. So it builds in a folder of its own.
"""

import re
import tempfile
from pathlib import Path

import setuptools

SOURCE = "https://github.com/gymbridge/gymbridge"


def make_description() -> str:
    """Return README with whole addresses, since the package index has none of its other files."""
    readme = Path("README.md").read_text(encoding="utf-8")
    readme = re.sub(r"\]\((?=docs/img/)", f"]({SOURCE}/raw/main/", readme)
    return re.sub(r"\]\((?=docs/|[A-Z]+\.\w+\))", f"]({SOURCE}/blob/main/", readme)


with tempfile.TemporaryDirectory() as folder:
    setuptools.setup(
        long_description=make_description(),
        options={"build": {"build_base": folder}, "egg_info": {"egg_base": folder}},
    )
