"""Train PPO on MuJoCo Playground by `ppo.py`, with torch tensors throughout.

    python examples/playground_ppo.py

The hyperparameters are for CartpoleBalance, whose return is at most 1000. Every flag of `ppo.py`
works:

    python examples/playground_ppo.py --env-id Playground/CartpoleSwingup-v0 --target-return 800

To copy this script, copy `ppo.py`, `ppo_flags.py` and `run_folder.py` as well.
"""

from ppo_flags import Args, parse_args

DEFAULTS = Args(
    env_id="Playground/CartpoleBalance-v0",
    arrays="torch",
    total_steps=1_500_000,
    target_return=950.0,
    last_episodes=128,
    num_envs=128,
    gamma=0.995,
)

if __name__ == "__main__":
    args = parse_args(DEFAULTS)
    from ppo import main  # it takes seconds, so --help comes before it

    main(args)
