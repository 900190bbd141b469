"""Sphinx configuration; `sphinx-build -n -W -b html docs docs/_build/html`."""

import inspect
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.inspect import stringify_signature
from sphinx.util.logging import getLogger

from gymbridge import __version__

sys.path.append(str(Path("scripts").resolve()))
from run_page import find_faults

REPOSITORY = "https://github.com/gymbridge/gymbridge"
SUMMARY = (
    "Brax, MuJoCo Playground, EnvPool and any JAX environment as Gymnasium vector environments, "
    "with torch tensors and gradients"
)

project = "gymbridge"
author = "The gymbridge authors"
copyright = "2026, the gymbridge authors"
release = __version__
extensions = ["myst_parser", "sphinx_copybutton"]
extensions += ["sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"gymbridge {release}"
html_theme_options = {
    "source_repository": REPOSITORY,
    "source_branch": "main",
    "source_directory": "docs/",
    "footer_icons": [
        {"name": "Repository", "url": REPOSITORY, "html": "Repository", "class": "repository"}
    ],
}
html_static_path = ["_static"]
html_css_files = ["pages.css"]
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
# They need other versions than the rest of the documentation.
autodoc_mock_imports = ["ray", "rl_games", "tianshou"]
default_role = "code"
maximum_signature_line_length = 80  # longer ones have a line for each parameter
nitpick_ignore_regex = [("py:.*", r".*")]  # names of other libraries; no inventories are fetched
myst_heading_anchors = 3


def show_init(app: Sphinx, what: str, name: str, obj: Any, *_: Any) -> tuple[str, str] | None:
    """Return the signature of `__init__` for classes, of which autodoc would take `__new__`'s."""
    if what != "class" or obj.__new__ is object.__new__:
        return None
    signature = inspect.signature(obj).replace(return_annotation=inspect.Signature.empty)
    return stringify_signature(signature, unqualified_typehints=True), ""


def run_tutorial(app: Sphinx, page: str, source: list[str]) -> None:
    """Run the tutorial that trains, whenever its page has changed."""
    if page == "tutorials/train-and-mend":
        for fault in find_faults(source[0]):
            getLogger(__name__).warning(fault, location=page)
            app.env.note_reread()  # the next build runs it again


def write_list_of_pages(app: Sphinx, error: Exception | None) -> None:
    """Write `llms.txt`: the pages by section, with their sources in Markdown."""
    if error or app.builder.name != "html":
        return
    below = app.env.toctree_includes

    def list_pages(page: str) -> list[str]:
        title, source = app.env.titles[page].astext(), f"_sources/{page}.md.txt"
        return sum(map(list_pages, below.get(page, ())), [f"- [{title}]({source})"])

    lines = [f"# {project}", "", f"> {SUMMARY}"]
    for section in below["index"]:
        lines += ["", f"## {app.env.titles[section].astext()}", "", *list_pages(section)]
    Path(app.outdir, "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.connect("build-finished", write_list_of_pages)
    app.connect("source-read", run_tutorial)
    app.connect("autodoc-process-signature", show_init)
