"""The tasks of Playground's DM control suite, each built and traced, which compiles nothing."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("mujoco_playground")

from mujoco_playground import dm_control_suite

from gymbridge import PlaygroundVectorEnv
from gymbridge.engines import ENGINES
from gymbridge.errors import SimulationError
from gymbridge.jax_env.env import Drawn
from gymbridge.jax_env.viewer import make_page

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize("name", dm_control_suite.ALL_ENVS)
def test_task__is_traced_with_its_limit_and_shown_by_braxs_viewer_but_for_ellipsoids(
    name: str,
) -> None:
    """Construction traces `reset` and `step`. The viewer needs neither, so its state is made up."""
    envs = PlaygroundVectorEnv(name, 2, autoreset_mode="Disabled")
    assert envs.max_episode_steps == ENGINES["Playground"].load_tasks()[name].limit
    model = envs.get_attr("mj_model")[0]
    data = SimpleNamespace(xpos=np.zeros((1, model.nbody, 3)), xquat=np.ones((1, model.nbody, 4)))
    metadata = envs._simulator.env.metadata
    show = partial(make_page, metadata, model, [Drawn(None, 1, data)], 0, 0.02, 480)
    if name in ("FishSwim", "SwimmerSwimmer6"):
        with pytest.raises(SimulationError, match=f"ellipsoids, .* of {metadata.name} "):
            show()
    else:
        assert "brax-viewer" in show()
