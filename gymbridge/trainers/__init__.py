"""Views of vector environments for the trainers people use, one module per library.

- `gymbridge.trainers.sb3`: a Stable-Baselines3 ``VecEnv`` over any SAME_STEP batch.

Nothing here imports a trainer until its module is imported.
"""

__all__ = []
