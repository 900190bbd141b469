"""Sphinx configuration; `sphinx-build -n -W -b html docs docs/_build/html`."""

from gymbridge import __version__

project = "gymbridge"
author = "The gymbridge authors"
copyright = "2026, the gymbridge authors"
release = __version__
extensions = ["myst_parser", "sphinx_design", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "gymbridge"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_mock_imports = ["ray"]  # it needs another Gymnasium than the rest of the documentation
default_role = "code"
nitpick_ignore_regex = [("py:.*", r".*")]  # names of other libraries; no inventories are fetched
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
