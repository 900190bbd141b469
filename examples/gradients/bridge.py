"""The same rollouts through gymbridge, differentiated by torch."""

from __future__ import annotations

import jax
import numpy as np
import torch
from engines import make_env, pick_obs
from gymnasium.spaces import Box
from reference import Inputs, Outcome

from gymbridge import BraxVectorEnv, PlaygroundVectorEnv

__all__ = ["Bridge"]


class Bridge:
    """A differentiable batch in Disabled mode, in which ended environments stay as they are.

    Args:
        name: Name of the environment in its registry.
        backend: Brax's name of the physics, or "playground".
        num_envs: Size of the batch; row i starts its first episode with seed i.
    """

    def __init__(self, name: str, backend: str, num_envs: int) -> None:
        env = make_env(name, backend)
        floats = np.float64 if jax.config.read("jax_enable_x64") else np.float32
        make = PlaygroundVectorEnv if backend == "playground" else BraxVectorEnv
        self.envs = make(
            env,
            num_envs,
            action_space=Box(-1.0, 1.0, (env.action_size,), floats),
            action_repeat=1,
            arrays="torch",
            differentiable=True,
            autoreset_mode="Disabled",
            max_episode_steps=-1,
        )

    def differentiate(self, inputs: Inputs) -> Outcome:
        """Return losses and gradients of a rollout, step by step."""
        envs, (policy, noise, reward_weights, obs_weights) = self.envs, map(torch.tensor, inputs)
        policy.requires_grad_()
        noise.requires_grad_()
        obs, _ = envs.reset(seed=0)
        state = envs.physics_state.requires_grad_()
        envs.physics_state = state
        obs = pick_obs(obs)
        fields = envs.physics_state_fields
        obs = state[:, fields.get("obs", fields.get("obs.state"))].reshape(obs.shape)
        losses, ended, ends = 0.0, torch.zeros(len(obs), dtype=torch.bool), []
        for t in range(len(noise)):
            actions = torch.tanh(obs @ policy + noise[t])
            obs, rewards, terminations, truncations, _ = envs.step(actions)
            obs = pick_obs(obs)
            gains = reward_weights[t] * rewards + (obs_weights[t] * obs).sum(1)
            losses = losses + torch.where(ended, 0, gains)
            ended = ended | terminations | truncations
            ends.append(ended)
        losses.sum().backward()
        # The engine's own state comes first, and then what was seen of it.
        own = max(place.stop for name, place in fields.items() if not name.startswith("seen."))
        found = {"policy": policy.grad, "noise": noise.grad, "state": state.grad[:, :own]}
        gradients = {key: gradient.numpy() for key, gradient in found.items()}
        return Outcome(losses.detach().numpy(), torch.stack(ends).numpy(), gradients)

    def unroll(self, inputs: Inputs) -> Outcome:
        """Return losses and the gradient by the noise of a rollout without policy, as one node."""
        _, noise, reward_weights, obs_weights = map(torch.tensor, inputs)
        noise.requires_grad_()
        self.envs.reset(seed=0)
        obs, rewards, terminations, truncations, _ = self.envs.unroll(torch.tanh(noise))
        ended = (terminations | truncations).cumsum(0) > 0
        before = torch.cat([torch.zeros_like(ended[:1]), ended[:-1]])
        gains = reward_weights * rewards + (obs_weights * pick_obs(obs)).sum(2)
        losses = torch.where(before, 0, gains).sum(0)
        losses.sum().backward()
        return Outcome(losses.detach().numpy(), ended.numpy(), {"noise": noise.grad.numpy()})
