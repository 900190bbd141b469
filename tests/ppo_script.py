"""`examples/ppo.py` as a module, and the scripted episodes on which it is tested."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

PPO = Path(__file__).parents[1] / "examples" / "ppo.py"

# Three environments whose episodes end in both ways, on the rollout's last row too (the third at
# step 4 of the first rollout), so that the second rollout begins with a restart row.
LENGTHS = [[2, 3, 1], [4, 1, 2], [5, 2, 2]]
TRUNCATES = [[False, True, True], [True, False, True], [True, False, False]]
NUM_STEPS = 5


def load_ppo() -> ModuleType:
    """Return the script as a new module."""
    spec = importlib.util.spec_from_file_location("ppo", PPO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ppo"] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module
