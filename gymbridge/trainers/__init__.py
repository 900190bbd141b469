"""Views of vector environments for the trainers people use, one module or folder per library.

- `gymbridge.trainers.sb3`: a Stable-Baselines3 ``VecEnv`` over any SAME_STEP batch.
- `gymbridge.trainers.cleanrl`: what CleanRL's scripts put in place of their ``SyncVectorEnv``;
  `gymbridge.trainers.cleanrl.envpool`: the same for its scripts on EnvPool.
- `gymbridge.trainers.torchrl`: a TorchRL ``EnvBase`` over tensors of a DISABLED batch.
- `gymbridge.trainers.rsl_rl`: a ``VecEnv`` of rsl_rl over tensors of a SAME_STEP batch.
- `gymbridge.trainers.skrl`: skrl's wrapper for batches of tensors.
- `gymbridge.trainers.rllib`: an env runner with seeds and a share of the machine of its own.

Nothing here imports a trainer until its module is imported.
"""

__all__: list[str] = []
