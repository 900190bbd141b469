"""Views of vector environments for the trainers people use, one module or folder per library.

- `gymbridge.trainers.sb3`: a Stable-Baselines3 ``VecEnv`` over any SameStep batch.
- `gymbridge.trainers.cleanrl`: a batch in place of the ``SyncVectorEnv`` of CleanRL's scripts.
  `gymbridge.trainers.cleanrl.envpool`: the same for its scripts on EnvPool.
- `gymbridge.trainers.torchrl`: a TorchRL ``EnvBase`` over tensors of a Disabled batch.
- `gymbridge.trainers.rsl_rl`: a ``VecEnv`` of rsl_rl over tensors of a SameStep batch.
- `gymbridge.trainers.skrl`: skrl's wrapper for tensors of a SameStep batch.
- `gymbridge.trainers.tianshou`: a ``BaseVectorEnv`` of Tianshou over a Disabled batch.
- `gymbridge.trainers.rl_games`: an ``IVecEnv`` of rl_games over tensors of a SameStep batch.
- `gymbridge.trainers.rllib`: an env runner of RLlib with its own seeds and share of the machine.

A trainer's library is imported only with its module.
"""

__all__: list[str] = []
