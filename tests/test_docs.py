"""Examples in docstrings, in the documentation and in the README run as they stand.

Those of `RUN_BY_SPHINX` run when the documentation is built.
"""

from __future__ import annotations

import ast
import configparser
import doctest
import importlib
import inspect
import json
import logging
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import gymbridge
from gymbridge.core.snapshots import SavesState
from gymbridge.errors import GymbridgeError, NotInstalledError
from tests.support.example_runs import load_script

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
PACKAGE = Path(gymbridge.__file__).parent
ENGINES = ("brax", "envpool")
TRAINERS = {"sb3": "stable_baselines3", "torchrl": "torchrl"}

MODULES = sorted(
    ".".join(("gymbridge", *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in PACKAGE.rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)

PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    )
}

RUN_BY_SPHINX = "docs/tutorials/train-and-mend.md"

BLOCK = re.compile(
    r"^(?P<slow><!-- slow -->\n)?```python\n(?P<code>.*?)^```$"
    r"(\n\n```text\n(?P<output>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
"""Code of a page: behind a comment where it takes more than some seconds, before what it prints.

The error that ends a block is the last line of its output.
"""


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples__print_what_they_say(name: str) -> None:
    for engine in ENGINES:
        if name.split(".")[-1].startswith(engine) and "tasks" not in name:
            pytest.importorskip(engine)
    for prefix, library in TRAINERS.items():
        if name.startswith(f"gymbridge.trainers.{prefix}"):
            pytest.importorskip(library)
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def code_blocks() -> list[Any]:
    """Return each block of each page as a test case, which is named by its page and line."""
    blocks = []
    for page, text in PAGES.items():
        for found in BLOCK.finditer(text if page != RUN_BY_SPHINX else ""):
            line = text.count("\n", 0, found.start("code"))
            code = compile("\n" * line + found["code"], page, "exec", ast.PyCF_ONLY_AST)
            marks = [pytest.mark.slow] if found["slow"] else []
            name = f"{page}:{line}"
            blocks.append(pytest.param(code, found["output"], marks=marks, id=name))
    return blocks


def skip_without_imports(code: ast.AST) -> None:
    for node in ast.walk(code):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        for name in names:
            pytest.importorskip(name, exc_type=ImportError)


@pytest.fixture
def _empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run in an empty folder, and take back the level of the log that a page sets."""
    monkeypatch.chdir(tmp_path)
    yield
    logging.getLogger("gymbridge").setLevel(logging.NOTSET)


@pytest.mark.usefixtures("_empty_place")
@pytest.mark.filterwarnings("ignore")  # other libraries have warnings of their own
@pytest.mark.parametrize(("code", "output"), code_blocks())
def test_code_block__runs(
    code: Any, output: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    error = ""
    try:
        skip_without_imports(code)
        exec(compile(code, "page", "exec"), {"__name__": "page"})
    except NotInstalledError as missing:
        pytest.skip(str(missing))
    except GymbridgeError as raised:
        if output is None:
            raise
        error = f"{type(raised).__name__}: {raised}"
    if output is not None:
        assert (capsys.readouterr().out + error).split() == output.split()


def test_code_blocks__are_found() -> None:
    pages = [text for page, text in PAGES.items() if page != RUN_BY_SPHINX]
    found = sum(text.count("\n```python\n") for text in pages)
    assert len(code_blocks()) == found > 30
    outputs = sum(text.count("\n```text\n") for text in pages)
    assert len([block for block in code_blocks() if block.values[1]]) == outputs > 10


def test_tutorial__is_run_whole_by_the_script_of_its_page() -> None:
    parts = load_script(SCRIPTS / "run_page.py").PART.finditer(PAGES[RUN_BY_SPHINX])
    found = [(part["code"], part["output"], part["command"]) for part in parts]
    counts = [sum(map(bool, column)) for column in zip(*found, strict=True)]
    fences = [PAGES[RUN_BY_SPHINX].count(f"\n```{name}\n") for name in ("python", "text")]
    assert counts == [*fences, 1] == [4, 2, 1]


def test_run_page__names_what_fails_and_what_prints_something_else() -> None:
    page = """A page.

```python
open("number.txt", "w").write("7")
print(1)
```

```text
1
```

```python
print(open("number.txt").read())
```

```text
8
```

```python
1 / 0
```

    gymbridge info EnvPool/Pog-v5
"""
    faults = load_script(SCRIPTS / "run_page.py").find_faults(page)
    printed, failed, command = faults
    assert printed == "line 12 printed '7\\n'"
    assert failed == "line 20 failed: ZeroDivisionError: division by zero"
    assert re.fullmatch(r"line 24 failed: .*Pog.*", command)


def test_commands__name_scripts_and_extras_that_exist() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    for page, text in PAGES.items():
        for script in re.findall(r"\bpython (examples/\S+\.py|docs/\S+\.py)", text):
            assert (ROOT / script).exists(), (page, script)
        for extras in re.findall(r"'\.\[([\w,]+)\]'", text):
            assert {*extras.split(",")} <= {*settings["options.extras_require"]}, (page, extras)


@pytest.mark.usefixtures("_empty_place")
@pytest.mark.filterwarnings("ignore")  # other libraries have warnings of their own
def test_notebook__has_the_blocks_of_its_page_and_runs_from_top_to_bottom(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for engine in ENGINES:
        pytest.importorskip(engine)
    page = ROOT / "docs/tutorials/quickstart.ipynb"
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    install, *cells = [cell for cell in cells if cell["cell_type"] == "code"]
    assert install["source"][0].startswith("%pip install ")
    codes = ["".join(cell["source"]) for cell in cells]
    blocks = BLOCK.finditer(PAGES["docs/tutorials/quickstart.md"])
    assert [code.split() for code in codes] == [block["code"].split() for block in blocks]
    names: dict[str, Any] = {"__name__": "notebook"}
    for code, cell in zip(codes, cells, strict=True):
        skip_without_imports(ast.parse(code))
        exec(code, names)
        printed = "".join(line for output in cell["outputs"] for line in output["text"])
        assert capsys.readouterr().out.split() == printed.split()


def read_matrix() -> list[list[str]]:
    """Return the rows of the matrix of engines, each with its name and a cell for each engine."""
    _, _, page = PAGES["docs/reference/limits.md"].partition("| | Brax")
    table, _, _ = page.partition("\n\n")
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def test_matrix__has_the_pythons_and_versions_that_are_tested() -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    pythons = re.findall(r"Python :: (3\.\d+)", settings["metadata"]["classifiers"])
    assert settings["options"]["python_requires"] == f">={pythons[0]}"
    rows = {row[0].split()[1]: row for row in read_matrix() if row[0].startswith("Python ")}
    assert sorted(rows) == pythons
    for python, file in {"3.11": "constraints.txt", "3.13": "constraints-newest.txt"}.items():
        pins = dict(re.findall(r"^(\S+)==(\S+)$", (ROOT / file).read_text("utf-8"), re.MULTILINE))
        first, brax, playground, _, envpool = rows[python]
        named = re.findall(r", (\w+) ([\d.]+)", first)
        named += [("brax", brax), ("playground", playground), ("envpool", envpool)]
        assert [(name, pins[name.lower()]) for name, _ in named] == named


@pytest.mark.filterwarnings("ignore")  # other libraries have warnings of their own
def test_matrix__has_the_features_of_the_classes() -> None:
    for engine in (*ENGINES, "mujoco_playground"):
        pytest.importorskip(engine)
    names = ["BraxVectorEnv", "PlaygroundVectorEnv", "JaxVectorEnv", "EnvPoolVectorEnv"]
    features = set()
    for first, *cells in read_matrix():
        for feature, kind in re.findall(r"`(\w+)(=|\(\))`", first):
            features.add(feature)
            for name, cell in zip(names, cells, strict=True):
                batch = getattr(gymbridge, name)
                found = feature in inspect.signature(batch).parameters
                if kind == "()":
                    found = hasattr(batch, feature)
                if feature == "save_state":  # EnvPool's method always raises an error
                    found = issubclass(batch, SavesState)
                assert found == (cell != "no"), (name, feature)
    assert len(features) == 8


@pytest.mark.filterwarnings("ignore")  # other libraries have warnings of their own
@pytest.mark.parametrize("arrays", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("env_id", ["Brax/fast-v0", "EnvPool/CartPole-v1"])
@pytest.mark.parametrize("page", ["README.md", "docs/tutorials/quickstart.md"])
def test_loop_of_page__takes_every_kind_of_arrays(page: str, env_id: str, arrays: str) -> None:
    for library in (env_id.partition("/")[0].lower(), arrays):
        pytest.importorskip(library)
    (loop,) = re.findall(r"( *ended = term.*?infos\[\"final_obs\"\]\[ended\]\n)", PAGES[page], re.S)
    batch = {"arrays": arrays, "autoreset_mode": "SameStep", "max_episode_steps": 2}
    envs = gym.make_vec(env_id, num_envs=4, **batch)
    envs.reset(seed=0)
    for count in (0, 4):
        names = ["observations", "rewards", "terminations", "truncations", "infos"]
        values = dict(zip(names, envs.step(envs.action_space.sample()), strict=True))
        exec(textwrap.dedent(loop), values)
        assert len(values.get("last_observations", ())) == count
    envs.close()


@pytest.mark.parametrize("page", ["README.md", "docs/tutorials/quickstart.md"])
def test_batches_of_page__have_the_mode_of_its_loop(page: str) -> None:
    codes = [found["code"] for found in BLOCK.finditer(PAGES[page])]
    assert all("SameStep" in code for code in codes if "gym.make_vec(" in code)


def test_readme__has_exactly_two_commands() -> None:
    blocks = re.findall(r"```bash\n(.*?)```", PAGES["README.md"], flags=re.DOTALL)
    assert len(blocks) == 2
    assert all(block.count("\n") == 1 and "-c constraints.txt" in block for block in blocks)


DOTTED = re.compile(
    r"`((?:brax|envpool|gymbridge|gymnasium|mujoco_playground|stable_baselines3|torchrl)"
    r"(?:\.\w+)+)[`(]"
)
"""A name of a library in backticks, called or not."""


@pytest.mark.slow  # it imports every library
@pytest.mark.filterwarnings("ignore")  # other libraries have warnings of their own
def test_names_of_libraries__exist() -> None:
    names = set(DOTTED.findall(PAGES["docs/how-to/coming-from.md"]))
    assert len(names) > 20
    for name in names:
        pytest.importorskip(name.partition(".")[0])
        assert pkgutil.resolve_name(name) is not None


SCRIPTS = ROOT / "docs" / "scripts"


@pytest.mark.parametrize("name", ["autoreset", "how_it_works", "summary"])
def test_picture__is_what_its_script_draws(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    script = load_script(SCRIPTS / f"{name}.py")
    committed = script.PICTURE.read_text(encoding="utf-8")
    script.PICTURE = tmp_path / "picture.svg"
    script.main()
    drawn = script.PICTURE.read_text(encoding="utf-8")
    texts = re.compile(r"<text[^>]*>([^<]*)</text>")
    assert texts.findall(drawn) == texts.findall(committed) != []


def test_ids_pages__are_what_their_script_writes() -> None:
    pages = load_script(SCRIPTS / "ids.py").make_pages()
    written = {str(path.relative_to(ROOT)): text for path, text in pages.items()}
    assert len(written) > 20
    assert written == {
        page: text
        for page, text in PAGES.items()
        if page == "docs/reference/ids.md" or page.startswith("docs/reference/ids/")
    }
