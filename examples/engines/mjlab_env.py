"""mjlab's tasks as a batch: an engine whose arrays are torch tensors, on a CPU or a GPU.

mjlab (1.6) needs an older MuJoCo than Brax and Playground, so give it an environment of its own. ::

    envs = gym.make_vec("mjlab_env:Mjlab-Cartpole-Balance-v0", 16, autoreset_mode="SameStep")

mjlab draws from one random stream for the whole batch. So a seed determines the run of a batch, and
not that of an environment: its episodes depend on `num_envs` and on when others end.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from mjlab.envs import ManagerBasedRlEnv, ManagerBasedRlEnvCfg
from mjlab.envs.mdp import time_out
from mjlab.tasks.registry import list_tasks, load_env_cfg

from gymbridge import BridgeVectorEnv
from gymbridge.core.arrays.adapter import map_arrays
from gymbridge.core.episode import ResetRequest, TimeStep
from gymbridge.errors import ArgumentError

__all__ = ["MjlabSimulator", "MjlabVectorEnv"]


class MjlabSimulator:
    """A batch of mjlab; its state is the time step that the user sees.

    Args:
        cfg: The task. Its own time limit is taken out, and becomes that of the batch.
        device: Where mjlab runs, "cpu" or "cuda:0".
    """

    seed_range, built_with = 2**32 - 1, None

    def __init__(self, cfg: ManagerBasedRlEnvCfg, device: str | torch.device) -> None:
        limits = [name for name, term in cfg.terminations.items() if term.func is time_out]
        for name in limits:
            del cfg.terminations[name]
        cfg.auto_reset = False
        self.metadata, self.reset_options = {"render_modes": []}, {}
        self.num_envs = cfg.scene.num_envs
        self._gpus = [] if torch.device(device).type == "cpu" else [torch.device(device)]
        with self._own_stream([cfg.seed or 0]):  # mjlab draws some physics when it is built
            self.engine = ManagerBasedRlEnv(cfg, str(device))
        self.task_limit = self.engine.max_episode_length if limits else None
        self.single_observation_space = _to_gymnasium(self.engine.single_observation_space)
        self.single_action_space = _to_gymnasium(self.engine.single_action_space)

    def restart(
        self, state: TimeStep | None, mask: torch.Tensor, seeds: ResetRequest | None
    ) -> tuple[TimeStep, TimeStep]:
        given = None if seeds is None or not seeds.given.any() else seeds.values.tolist()
        if given and not (seeds.given.all() and mask.all()):
            raise ArgumentError(
                "`seed` must be given to every environment or to none: mjlab draws from one "
                "random stream for the whole batch."
            )
        if (ids := mask.nonzero().flatten()).numel():
            with self._own_stream(given):
                obs, _ = self.engine.reset(env_ids=ids)
            no = torch.zeros_like(mask)
            begun = TimeStep(obs, no.float(), no, no, {})
            state = _choose(mask, begun, state or begun)
        return state, _copy(state)

    def advance(
        self, state: TimeStep, actions: torch.Tensor, restart: Any, freeze: Any
    ) -> tuple[TimeStep, TimeStep]:
        # mjlab steps all environments. Those that begin an episode are reset after it, and those
        # that stay as they are wait for their reset: nobody sees their physics.
        self.engine._manual_reset_pending.zero_()
        with self._own_stream():
            stepped = TimeStep(*self.engine.step(actions)[:4], {})
        if restart is not None:
            return self.restart(_copy(stepped), restart, None)
        if freeze is not None:
            still = state._replace(reward=torch.zeros_like(state.reward))
            stepped = _choose(freeze, still, stepped)
        return _copy(stepped), _copy(stepped)

    def close(self) -> None:
        self.engine.close()

    @contextmanager
    def _own_stream(self, seeds: list[int] | None = None) -> Iterator[None]:
        """Draw from a stream that nobody else draws from: mjlab uses torch's global one."""
        with torch.random.fork_rng(self._gpus):
            if seeds:
                torch.manual_seed(int(np.random.SeedSequence(seeds).generate_state(1)[0]))
            else:
                torch.set_rng_state(self._stream[0])
                for state, gpu in zip(self._stream[1:], self._gpus, strict=True):
                    torch.cuda.set_rng_state(state, gpu)
            yield
            self._stream = torch.get_rng_state(), *map(torch.cuda.get_rng_state, self._gpus)


class MjlabVectorEnv(BridgeVectorEnv):
    """A vector environment over mjlab.

    Args:
        task: A task of mjlab, by name or as a configuration, which is copied.
        num_envs: Size of the batch.
        device: Where mjlab runs, and the tensors are.
        arrays: Kind of arrays that `reset` and `step` return.
        **keywords: Others of `BridgeVectorEnv`.
    """

    def __init__(
        self, task: Any, num_envs: int = 1, *, device: Any = "cpu", arrays="torch", **keywords: Any
    ) -> None:
        cfg = load_env_cfg(task) if isinstance(task, str) else copy.deepcopy(task)
        cfg.scene.num_envs = num_envs
        simulator = MjlabSimulator(cfg, device)
        super().__init__(simulator, native="torch", arrays=arrays, device=device, **keywords)

    def step_some(self, actions: Any, mask: Any) -> Any:
        raise ArgumentError("`step_some` is not possible: mjlab steps all environments.")


def _to_gymnasium(space: Any) -> spaces.Space[Any]:
    if hasattr(space, "spaces"):
        return spaces.Dict({key: _to_gymnasium(part) for key, part in space.spaces.items()})
    return spaces.Box(space.low, space.high, space.shape, np.dtype(space.dtype).type)


_copy = partial(map_arrays, torch.clone)


def _choose(mask: torch.Tensor, first: Any, second: Any) -> Any:
    """Return copies of the rows of `first` under a mask, and of `second` elsewhere."""
    if isinstance(first, dict):
        return {key: _choose(mask, first[key], second[key]) for key in first}
    if isinstance(first, tuple):
        return type(first)(*(_choose(mask, *pair) for pair in zip(first, second, strict=True)))
    return torch.where(mask.reshape(mask.shape + (1,) * (first.ndim - 1)), first, second)


for name in list_tasks():
    gym.register(f"{name}-v0", vector_entry_point=MjlabVectorEnv, kwargs={"task": name})
