"""What `import gymbridge` costs, and what it says where an engine is missing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from typing import Any

import pytest
from python_runs import run_python

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


def catch(code: str) -> str:
    """Return code that prints the types and the message of what `code` raises."""
    return f"""
try:
    {code}
except Exception as error:
    print(json.dumps([[base.__name__ for base in type(error).__mro__], str(error)]))
else:
    print(json.dumps([[], ""]))
"""


def run_without(hiding: str, code: str) -> str:
    """Return the message of the error that says what is not installed."""
    types, message = run_code(f"{hiding}{code}")
    assert {"NotInstalledError", "GymbridgeError", "DependencyNotInstalled"} <= set(types), types
    return message


@pytest.mark.parametrize(
    "code",
    [
        "import gymbridge",
        "from gymbridge import BridgeVectorEnv",
        "import gymbridge.command_line",
        "import gymbridge.testing",
        "import gymbridge.single_env",
        "import gymbridge.trainers.cleanrl",
        "import gymbridge.trainers.cleanrl.envpool",
        "import gymbridge.trainers",
        "import gymbridge, gymnasium; gymnasium.spec('Brax/ant-v0')",
        "import gymbridge; dir(gymbridge)",
    ],
)
def test_import__loads_no_engine_and_no_array_library(code: str) -> None:
    loaded = run_code(f"{code}; import json, sys; print(json.dumps(sorted(sys.modules)))")
    assert "gymbridge.registration" in loaded
    assert not set(HEAVY) & set(loaded)


ENGINES = {
    "brax": ("BraxVectorEnv", "Brax/ant-v0", "brax_env='ant'"),
    "envpool": ("EnvPoolVectorEnv", "EnvPool/CartPole-v1", "task_id='CartPole-v1'"),
}
MISSING = [("brax", "brax"), ("brax", "jax"), ("envpool", "envpool")]


@pytest.mark.parametrize(("engine", "missing"), MISSING)
@pytest.mark.parametrize("way", ["class", "make_vec", "make", "module"])
def test_missing_engine__is_an_error_with_the_command_to_run(
    engine: str, missing: str, way: str
) -> None:
    class_name, env_id, argument = ENGINES[engine]
    code = {
        "class": f"from gymbridge import {class_name}",
        "make_vec": f"gymnasium.make_vec('{env_id}', num_envs=2)",
        "make": f"gymnasium.make('{env_id}')",
        "module": f"from gymbridge.single_env import make_{engine}; make_{engine}({argument})",
    }[way]
    message = run_without(without(missing), f"import gymnasium, gymbridge\n{catch(code)}")
    assert f"{class_name} needs {engine}" in message
    assert re.search(rf"pip install '\.\[{engine}\]'", message), message
    assert missing in message


def test_brax__says_nothing_where_we_import_and_build_it() -> None:
    """MJX prints that Warp is missing, Brax warns of its maintenance, JAXopt of its own."""
    pytest.importorskip("brax")
    code = f"""
{without("warp")}
import gymnasium, gymbridge
envs = gymnasium.make_vec("Brax/inverted_pendulum-v0", num_envs=2)
import gymbridge.testing.scripted_brax
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_quiet__hides_what_brax_says_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("brax")
    from gymbridge.state_envs.notices import quiet

    def load() -> None:
        print("Failed to import warp: No module named 'warp'")
        print("Failed to import mujoco_warp: No module named 'warp'\nsomething else")
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


@pytest.mark.parametrize("missing", ["brax", "jax", "envpool", "torch", "stable_baselines3"])
def test_package__works_without_the_engines(missing: str) -> None:
    code = f"""{without(missing)}
from gymbridge.testing import scripted_vector_env
envs = scripted_vector_env(lengths=[2, 3])
envs.reset(seed=0)
print(json.dumps(envs.step([1, 2])[1].tolist()))
"""
    assert run_code(code) == [1.25, 2.25]


@pytest.mark.parametrize(
    ("user", "extra", "missing", "libraries", "packages"),
    [
        ("AsyncEnvPool", "envpool", "envpool", "envpool", "envpool"),
        (
            "PlaygroundVectorEnv",
            "playground",
            "mujoco_playground",
            "playground, brax and jax",
            "playground brax jax",
        ),
        ("gymbridge.trainers.sb3", "sb3", SB3, "stable-baselines3", "stable-baselines3"),
        ("gymbridge.trainers.sb3", "sb3", "torch", "stable-baselines3", "stable-baselines3"),
        ("gymbridge.trainers.rllib", "rllib", "ray", "ray", "'ray[rllib]'"),
        (
            "gymbridge.trainers.rsl_rl",
            "rsl_rl",
            "rsl_rl",
            "rsl-rl-lib and torch",
            "rsl-rl-lib torch",
        ),
        ("gymbridge.trainers.skrl", "skrl", "skrl", "skrl and torch", "skrl torch"),
        ("gymbridge.trainers.torchrl", "torchrl", "torchrl", "torchrl and torch", "torchrl torch"),
    ],
)
def test_missing_library__is_an_error_with_the_command_to_run(
    user: str, extra: str, missing: str, libraries: str, packages: str
) -> None:
    if missing == "torch":
        pytest.importorskip(SB3)
    is_trainer = user.startswith("gymbridge")
    code = catch(f"import {user}" if is_trainer else f"from gymbridge.{extra} import {user}")
    message = run_without(without(missing), code)
    assert f"{user} needs {libraries}." in message
    assert missing in message
    assert f"`pip install {packages}`, or `pip install '.[{extra}]'` in a checkout" in message


@pytest.mark.parametrize("wanted", ["egl", "osmesa"])
@pytest.mark.parametrize(
    "code",
    [
        "from gymbridge import BraxVectorEnv",
        "gymnasium.make_vec('Playground/CartpoleBalance-v0', num_envs=2)",
    ],
)
def test_missing_opengl_library__is_named_with_the_variable_that_asks_for_it(
    code: str, wanted: str
) -> None:
    """mujoco loads it as it is imported, so it is missing without `render_mode`, too."""
    pytest.importorskip("brax.envs" if "Brax" in code else "mujoco_playground")
    message = run_without(without_opengl(wanted), f"import gymnasium, gymbridge\n{catch(code)}")
    assert f"`MUJOCO_GL={wanted}`" in message
    assert "apt-get install libegl1 libosmesa6" in message


def test_own_mistake_in_a_trainer__is_not_reported_as_a_missing_library() -> None:
    pytest.importorskip("stable_baselines3")
    code = catch("from gymbridge.trainers.sb3 import make_vec_env")
    types, _ = run_code(f"{without('gymbridge.trainers.sb3.members')}{code}")
    assert types[0] == "ModuleNotFoundError"


def test_own_mistake__is_not_reported_as_a_missing_engine() -> None:
    pytest.importorskip("brax.envs")
    code = catch("from gymbridge import BraxVectorEnv")
    types, message = run_code(f"{without('gymbridge.brax.translation')}{code}")
    assert types[0] == "ModuleNotFoundError"
    assert "gymbridge.brax.translation" in message


def test_unknown_name__is_an_attribute_error() -> None:
    import gymbridge

    with pytest.raises(AttributeError, match="module 'gymbridge' has no attribute 'AntVectorEnv'"):
        gymbridge.AntVectorEnv  # noqa: B018
