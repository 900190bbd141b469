"""What `import gymbridge` costs, and what it says where an engine is missing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gymbridge.core import extras
from gymbridge.core.extras import needs, read_extras
from gymbridge.errors import NotInstalledError
from tests.support.python_runs import run_python

SB3 = "stable_baselines3"

HEAVY = ("jax", "jaxlib", "brax", "mujoco", "envpool", "torch", "flax", "stable_baselines3", "ray")


def run_code(code: str) -> Any:
    """Return the JSON that `code` prints in a fresh process, without these tests' own folders."""
    path = os.environ.get("PYTHONPATH", "")
    return json.loads(run_python("-c", code, PYTHONPATH=path).lines[-1])


def without(*modules: str) -> str:
    """Return code after which these modules are not installed, as far as imports can tell."""
    return f"""
import json, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if any(f"{{name}}.".startswith(f"{{module}}.") for module in {modules!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def without_opengl(wanted: str) -> str:
    """Return code after which `wanted` is asked for and no such library is installed."""
    return f"""
import ctypes, json, os

load = ctypes.CDLL.__init__

def load_others(self, name, *args, **kwargs):
    if "{wanted}" in str(name).lower():
        raise OSError(f"{{name}}: cannot open shared object file")
    load(self, name, *args, **kwargs)

ctypes.CDLL.__init__ = load_others
os.environ["MUJOCO_GL"] = "{wanted}"
os.environ.pop("PYOPENGL_PLATFORM", None)
"""


def messages_without(hiding: str, *codes: str) -> list[str]:
    """Return what each code raises, which says what is not installed: in one process, in order."""
    found = run_code(
        f"""{hiding}
import json, gymnasium, gymbridge
found = []
for code in {codes!r}:
    try:
        exec(code)
    except Exception as error:
        found.append([[base.__name__ for base in type(error).__mro__], str(error)])
    else:
        found.append([[], ""])
print(json.dumps(found))
"""
    )
    for types, _ in found:
        assert {"NotInstalledError", "GymbridgeError", "DependencyNotInstalled"} <= set(types)
    return [message for _, message in found]


LIGHT = """
import gymbridge, gymnasium
from gymbridge import BridgeVectorEnv, JaxEnv
import gymbridge.command_line
import gymbridge.testing
import gymbridge.single_env
import gymbridge.trainers.cleanrl
import gymbridge.trainers.cleanrl.envpool
import gymbridge.trainers
gymnasium.spec('Brax/ant-v0')
dir(gymbridge)"""


def test_import__loads_no_engine_and_no_array_library() -> None:
    loaded = run_code(f"{LIGHT}; import json, sys; print(json.dumps(sorted(sys.modules)))")
    assert "gymbridge.engines" in loaded
    assert not set(HEAVY) & set(loaded)


ENGINES = {
    "brax": ("BraxVectorEnv", "Brax/ant-v0", "brax_env='ant'"),
    "envpool": ("EnvPoolVectorEnv", "EnvPool/CartPole-v1", "task_id='CartPole-v1'"),
}
MISSING = [("brax", "brax"), ("brax", "jax"), ("envpool", "envpool")]


@pytest.mark.parametrize(("engine", "missing"), MISSING)
def test_missing_engine__is_an_error_with_the_command_to_run(engine: str, missing: str) -> None:
    class_name, env_id, argument = ENGINES[engine]
    ways = (
        f"from gymbridge import {class_name}",
        f"gymnasium.make_vec('{env_id}', num_envs=2)",
        f"gymnasium.make('{env_id}')",
        f"from gymbridge.single_env import make_{engine}; make_{engine}({argument})",
    )
    for message in messages_without(without(missing), *ways):
        assert f"{class_name} needs {engine}" in message
        assert re.search(rf"pip install '\.\[{engine}\]'", message), message
        assert missing in message


def test_to_brax__needs_brax() -> None:
    pytest.importorskip("jax")
    (message,) = messages_without(without("brax"), "from gymbridge.jax_env import to_brax")
    assert "to_brax needs brax" in message


def test_jax_vector_env__needs_jax_alone() -> None:
    pytest.importorskip("jax")
    (message,) = messages_without(without("jax"), "from gymbridge import JaxVectorEnv")
    assert "JaxVectorEnv needs jax" in message
    assert "pip install '.[jax]'" in message
    code = """
import numpy as np
from gymbridge import JaxEnv, JaxVectorEnv
from gymnasium.spaces import Box

class Still(JaxEnv):
    observation_space = action_space = Box(0, 1)

    def reset(self, key):
        return (), np.zeros(1, np.float32), {}

    def step(self, key, state, action):
        return (), action, 0, False, False, {}

envs = JaxVectorEnv(Still(), 2)
envs.reset(seed=0)
print(json.dumps(envs.step(np.ones((2, 1), np.float32))[0].tolist()))
"""
    hiding = without("brax", "envpool", "flax", "mujoco", "torch")
    assert run_code(f"{hiding}{code}") == [[1], [1]]


@pytest.mark.parametrize("first", ["Brax", pytest.param("Playground", marks=pytest.mark.slow)])
def test_brax__says_nothing_where_we_import_and_build_it(first: str) -> None:
    """MJX prints that Warp is missing, Brax warns of its maintenance, JAXopt of its own."""
    pytest.importorskip("brax" if first == "Brax" else "mujoco_playground")
    code = f"""
{without("warp")}
import gymnasium, gymbridge
gymbridge.{first}VectorEnv
if {first == "Playground"}:
    sys.exit()
envs = gymnasium.make_vec("Brax/inverted_pendulum-v0", num_envs=2)
"""
    strict = ["-W", "error:JAXopt is no longer maintained:DeprecationWarning"]
    command = [sys.executable, *strict, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_quiet__hides_what_brax_says_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("brax")
    from gymbridge.private.notices import quiet

    def load() -> None:
        print("something else")
        warnings.warn("JAXopt is no longer maintained.", DeprecationWarning, stacklevel=1)
        with pytest.warns(UserWarning, match="yours"):
            warnings.warn("yours", UserWarning, stacklevel=1)
        raise ImportError("broken")

    stream = sys.stdout
    with pytest.raises(ImportError, match="broken"), quiet():
        load()
    assert sys.stdout is stream
    assert capsys.readouterr().out == "something else\n"
    with pytest.raises(DeprecationWarning):  # as the tests' configuration has it
        warnings.warn("Other", DeprecationWarning, stacklevel=1)


def test_module_of_mjx__prints_all_but_its_notices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gymbridge.private.notices import QuietLoader

    code = "print('Failed to import warp:', 1)\nprint()\nprint('other', 2, sep='-')"
    (tmp_path / "loud.py").write_text(code)
    loader = QuietLoader("loud", str(tmp_path / "loud.py"))
    module = ModuleType("loud")
    loader.exec_module(module)
    assert capsys.readouterr().out == "\nother-2\n"
    assert not hasattr(module, "print")


def test_package__works_without_the_engines() -> None:
    code = f"""{without(*HEAVY)}
from gymbridge.testing import scripted_vector_env
envs = scripted_vector_env(lengths=[2, 3])
envs.reset(seed=0)
print(json.dumps(envs.step([1, 2])[1].tolist()))
"""
    assert run_code(code) == [1.25, 2.25]


TRAINERS = "gymbridge.trainers"
LIBRARIES = [
    ("gymbridge.envpool", "AsyncEnvPool", "envpool", "envpool", "envpool"),
    (
        "gymbridge.playground",
        "PlaygroundVectorEnv",
        "mujoco_playground",
        "playground, brax and jax",
        "playground brax jax",
    ),
    (f"{TRAINERS}.sb3", "", SB3, "stable-baselines3", "stable-baselines3"),
    (f"{TRAINERS}.rllib", "", "ray", "ray", "'ray[rllib]'"),
    (f"{TRAINERS}.rl_games", "", "rl_games", "rl-games", "rl-games"),
    (f"{TRAINERS}.tianshou", "", "tianshou", "tianshou", "tianshou"),
    (f"{TRAINERS}.rsl_rl", "", "rsl_rl", "rsl-rl-lib and torch", "rsl-rl-lib torch"),
    (f"{TRAINERS}.skrl", "", "skrl", "skrl and torch", "skrl torch"),
    (f"{TRAINERS}.torchrl", "", "torchrl", "torchrl and torch", "torchrl torch"),
]
WITHOUT_TORCH = [(f"{TRAINERS}.sb3", "", "torch", "stable-baselines3", "stable-baselines3")]


@pytest.mark.parametrize("cases", [LIBRARIES, WITHOUT_TORCH])
def test_missing_library__is_an_error_with_the_command_to_run(cases: list[Any]) -> None:
    if cases is WITHOUT_TORCH:
        pytest.importorskip(SB3)
    codes = [
        f"from {module} import {name}" if name else f"import {module}" for module, name, *_ in cases
    ]
    hiding = without(*(missing for _, _, missing, *_ in cases))
    for message, case in zip(messages_without(hiding, *codes), cases, strict=True):
        module, name, missing, libraries, packages = case
        extra = module.rpartition(".")[2]
        assert f"{name or module} needs {libraries}." in message
        # Where nothing is installed, another of its libraries may be missed first.
        assert missing in message or "No module named" in message
        assert f"`pip install {packages}`, or `pip install '.[{extra}]'` in a checkout" in message


@pytest.mark.parametrize("wanted", ["egl", "osmesa"])
def test_missing_opengl_library__is_named_with_the_variable_that_asks_for_it(wanted: str) -> None:
    """mujoco loads it as it is imported, so it is missing without `render_mode`, too."""
    pytest.importorskip("mujoco_playground")
    ways = (
        "from gymbridge import BraxVectorEnv",
        "gymnasium.make_vec('Playground/CartpoleBalance-v0', num_envs=2)",
    )
    for message in messages_without(without_opengl(wanted), *ways):
        assert f"`MUJOCO_GL={wanted}`" in message
        assert "apt-get install libegl1 libosmesa6" in message


def test_extras__are_read_from_the_installed_package() -> None:
    found = read_extras()
    assert found["brax"] == ("brax", "jax")
    assert found["rsl_rl"] == ("rsl-rl-lib", "torch")
    assert found["rllib"] == ("ray",)
    assert found["robots"][:3] == ("playground", "brax", "jax")
    assert not {"all", "docs", "examples", "test"} & found.keys()


def test_missing_library__is_named_by_its_extra_without_installed_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with a checkout on PYTHONPATH alone."""
    monkeypatch.setattr(extras, "read_extras", dict)
    with (
        pytest.raises(NotInstalledError, match=r"with `pip install '\.\[sb3\]'` in a checkout"),
        needs("sb3", "it"),
    ):
        import_module("no_such_library")


def test_own_mistake__is_not_reported_as_a_missing_library() -> None:
    with pytest.raises(ImportError, match=r"gymbridge\.missing") as caught, needs("sb3", "it"):
        import_module("gymbridge.missing")
    assert type(caught.value) is ModuleNotFoundError


def test_unknown_name__is_an_attribute_error() -> None:
    import gymbridge

    with pytest.raises(AttributeError, match="module 'gymbridge' has no attribute 'AntVectorEnv'"):
        gymbridge.AntVectorEnv  # noqa: B018
