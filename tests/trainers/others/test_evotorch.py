"""EvoTorch's `VecGymNE` takes what builds a batch."""

from __future__ import annotations

from functools import partial

import gymnasium as gym
import pytest
import torch
from evotorch.algorithms import PGPE
from evotorch.neuroevolution import VecGymNE

from tests.trainers.test_table import ENGINES, make_batch

LINEAR = "Linear(obs_length, act_length)"


@pytest.mark.parametrize("arrays", ["numpy", "torch"])
@pytest.mark.parametrize("engine", ENGINES)
def test_solutions__are_played_on_every_engine(engine: str, arrays: str) -> None:
    batch = make_batch(engine, arrays, "SameStep")
    problem = VecGymNE(lambda num_envs: batch, LINEAR, num_episodes=2)
    solutions = problem.generate_batch(4)
    problem.evaluate(solutions)
    if engine != "playground":
        assert problem.interaction_count == 2 * 5 * 4  # the limit of these batches is 5 steps
    assert solutions.evals.isfinite().all()


def test_scores__are_the_returns_of_the_episodes_that_were_asked_for() -> None:
    make = partial(gym.make_vec, "EnvPool/CartPole-v1", autoreset_mode="SameStep")
    problem = VecGymNE(partial(make, max_episode_steps=20), LINEAR, num_episodes=3)
    solutions = problem.generate_batch(8)
    problem.evaluate(solutions)
    assert solutions.evals.sum().item() * 3 == pytest.approx(problem.interaction_count)


@pytest.mark.slow
def test_pgpe__learns() -> None:
    torch.manual_seed(0)
    make = partial(gym.make_vec, "EnvPool/CartPole-v1", autoreset_mode="SameStep")
    rates = {"center_learning_rate": 0.5, "stdev_learning_rate": 0.1, "stdev_init": 0.5}
    searcher = PGPE(VecGymNE(make, LINEAR), popsize=64, **rates)
    searcher.run(10)
    assert searcher.status["mean_eval"] > 150
