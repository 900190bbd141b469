"""Print what the resets of EnvPool's Pong cost: the first, one with a new seed, one without.

python docs/scripts/pong_reset.py
"""

import time

import gymnasium as gym

import gymbridge  # noqa: F401 (registers the ids)

NUM_ENVS = 16


def main() -> None:
    for _ in range(3):
        envs = gym.make_vec("EnvPool/Pong-v5", num_envs=NUM_ENVS)
        costs = []
        for seed in (0, 1, None):
            begun = time.process_time()
            envs.reset(seed=seed)
            costs.append(1000 * (time.process_time() - begun) / NUM_ENVS)
        envs.close()
        first, seeded, unseeded = costs
        print(f"CPU ms per env: first {first:.0f}, new seed {seeded:.0f}, no seed {unseeded:.0f}")


if __name__ == "__main__":
    main()
