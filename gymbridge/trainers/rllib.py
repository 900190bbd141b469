"""RLlib: `BridgeEnvRunner`, which gives each env runner seeds and a share of the machine.

RLlib's new API stack takes gymbridge's ids unchanged. To use this class, add one keyword::

    from gymbridge.trainers.rllib import BridgeEnvRunner

    config = (
        PPOConfig()
        .environment("gymbridge:EnvPool/CartPole-v1")
        .env_runners(
            env_runner_cls=BridgeEnvRunner,
            gym_env_vectorize_mode="vector_entry_point",
            num_env_runners=2,
            num_envs_per_env_runner=16,
        )
    )
"""

from __future__ import annotations

import copy
import os
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from gymbridge.core.extras import needs
from gymbridge.core.spaces import keep_apart
from gymbridge.engines import find_engine
from gymbridge.errors import ArgumentError
from gymbridge.private.jax import count_threads
from gymbridge.trainers.batches import check_batch

with needs("rllib", "gymbridge.trainers.rllib"):
    from ray.rllib.env.single_agent_env_runner import (  # pyright: ignore[reportMissingImports]
        SingleAgentEnvRunner,
    )

__all__ = ["BridgeEnvRunner"]


class BridgeEnvRunner(SingleAgentEnvRunner):
    """RLlib's env runner of single agents, for batches on many processes and machines.

    Pass the class to ``config.env_runners(env_runner_cls=BridgeEnvRunner)``; Ray builds it.

    Seeds: RLlib seeds runner w with ``seed + w``, and a batch adds i for its environment i, so
    neighbouring runners would share all but one of their seeds. This class seeds environment i of
    runner w with ``seed + w * num_envs + i``, and does so only once: RLlib seeds again before each
    sample of whole episodes, so every sample would have the same episodes. Evaluation runners are
    seeded each time, so that every evaluation plays the same episodes.

    Share of the machine: for a runner in another process, Ray reserves `num_cpus_per_env_runner`
    cores. An EnvPool id gets that number as ``num_threads``, unless `env_config` has one; a
    callable must set it itself. JAX on the CPU gets it by ``NPROC``, unless that is set; for 2
    cores it gets 3, without which steps of MJX can wait for ever. With `num_gpus_per_env_runner`,
    JAX takes GPU memory as it needs it instead of three quarters at once, unless
    ``XLA_PYTHON_CLIENT_PREALLOCATE`` is set.

    Raises:
        ArgumentError: The batch does not restart by NextStep, which RLlib expects, or does not
            give numpy arrays.
    """

    def make_env(self) -> None:
        """Build the batch; RLlib calls this at the start and to replace a batch that failed."""
        if self.worker_index:  # The local runner, 0, shares its process with the algorithm.
            _limit_process(self.config)
        super().make_env()
        try:
            hint = "`gymnasium.make_vec` builds one"
            check_batch("env_config", self.env, "RLlib", AutoresetMode.NEXT_STEP, hint)
        except ArgumentError:
            self.env.close()
            raise
        offset = (self.worker_index or 0) * (self.num_envs - 1)
        self.env = _OwnSeeds(self.env, offset, is_once=not self.config.in_evaluation)


class _OwnSeeds(VectorWrapper):
    """A batch whose seeds are moved by a constant, and count once or in every reset."""

    def __init__(self, envs: VectorEnv[Any, Any, Any], offset: int, *, is_once: bool) -> None:
        super().__init__(envs)
        keep_apart(self)
        self._offset, self._is_once, self._is_seeded = offset, is_once, False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, Any]:
        if seed is not None:
            seed = None if self._is_once and self._is_seeded else seed + self._offset
            self._is_seeded = True
        return self.env.reset(seed=seed, options=options)


def _limit_process(config: Any) -> None:
    """Hold JAX and EnvPool to the runner's share; JAX reads it when its first array is made."""
    cores = max(1, int(config.num_cpus_per_env_runner))
    os.environ.setdefault("NPROC", str(count_threads(cores, 1)))
    if config.num_gpus_per_env_runner:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    engine = find_engine(config.env) if isinstance(config.env, str) else None
    if engine is not None and engine.takes_threads:
        config.env_config = copy.copy(config.env_config)
        config.env_config.setdefault("num_threads", cores)
