"""Write every public docstring and every message of gymbridge on one page, to be read by eye.

Messages are the texts of errors, warnings and exits. Other strings of some words follow them: hints
that errors end with, help of the command line. `{name}` stands for a value. The page is not kept::

    python docs/scripts/words.py runs/words.md --part gymbridge/core
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def read_docstrings(node: Documented, name: str) -> Iterator[str]:
    """Yield the docstring of a module, a class or a function, and those of its public members."""
    docstring = ast.get_docstring(node)
    if docstring:
        yield f"### `{name}`, line {getattr(node, 'lineno', 1)}\n\n{docstring}\n"
    if isinstance(node, ast.Module | ast.ClassDef):
        for member in node.body:
            if isinstance(member, Documented) and not member.name.startswith("_"):
                yield from read_docstrings(member, f"{name}.{member.name}")


def read_messages(node: ast.AST) -> Iterator[str]:
    """Yield the messages and the other texts below a node, each with its line."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and child.args and takes_message(child.func):
            text = " | ".join(show(argument) for argument in child.args)
            yield f"- line {child.lineno}, `{ast.unparse(child.func)}`: {text}\n"
        elif isinstance(child, ast.Constant | ast.JoinedStr):
            if show(child).count(" ") > 1:
                yield f"- line {child.lineno}: {show(child)}\n"
        elif not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
            yield from read_messages(child)  # all but docstrings


def takes_message(function: ast.expr) -> bool:
    """Whether a call of this function has a message: an error, a warning or an exit."""
    name = ast.unparse(function).rpartition(".")[2]
    return name.endswith(("Error", "Exit")) or name in ("warn", "unexpected_keyword", "error")


def show(expression: ast.expr) -> str:
    """Return the text of an expression; what is known only in a run is shown as `{code}`."""
    if isinstance(expression, ast.Constant):
        return str(expression.value)
    if isinstance(expression, ast.JoinedStr):
        return "".join(map(show, expression.values))
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Add):
        return show(expression.left) + show(expression.right)
    shown = expression.value if isinstance(expression, ast.FormattedValue) else expression
    return "{" + ast.unparse(shown) + "}"


def make_page(part: Path) -> str:
    """Return the page of a file or of the files of a folder."""
    sections = ["# Words\n"]
    for path in sorted(part.rglob("*.py")) if part.is_dir() else [part]:
        module = ast.parse(path.read_text(encoding="utf-8"))
        sections.append(f"## {path.relative_to(ROOT).as_posix()}\n")
        sections += [*read_docstrings(module, path.stem), *read_messages(module)]
    return "\n".join(sections)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, and say how many texts it has."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("page", nargs="?", type=Path, default=ROOT / "runs" / "words.md")
    parser.add_argument("--part", default="gymbridge", help="a folder or file of the repository")
    given = parser.parse_args(arguments)
    page = make_page(ROOT / given.part)
    given.page.parent.mkdir(parents=True, exist_ok=True)
    given.page.write_text(page, encoding="utf-8")
    print(f"{page.count('### `')} docstrings, {page.count('- line ')} messages: {given.page}")


if __name__ == "__main__":
    main()
