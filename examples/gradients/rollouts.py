"""Rollouts of plain Brax or Playground, differentiated by jax, and of gymbridge, by torch.

A policy acts by ``tanh(obs @ policy + noise)``. The loss of a row is the weighted sum of its
rewards and observations up to the end of its episode. Rows are independent, and their sum is what
is differentiated: by the policy's weights, the noise and every float in the first state.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch
from engines import make_env, pick_obs, step_with_gradients, watched_step
from gymnasium.spaces import Box

from gymbridge import BraxVectorEnv, PlaygroundVectorEnv


class Inputs(NamedTuple):
    """The inputs of a rollout, as numpy arrays."""

    policy: np.ndarray  # (O, A)
    noise: np.ndarray  # (T, num_envs, A)
    reward_weights: np.ndarray  # (T, num_envs)
    obs_weights: np.ndarray  # (T, num_envs, O)


class Outcome(NamedTuple):
    """The results of a rollout, as numpy arrays."""

    losses: np.ndarray  # (num_envs,)
    ended: np.ndarray  # (T, num_envs) bool, the episode ended in this step or before
    gradients: dict[str, np.ndarray]  # "policy", "noise" and "state", (num_envs, S)


def make_rollout(step: Callable[[Any, Any], tuple[Any, Any]]) -> Callable[[Inputs, Any], Any]:
    """Return a function of inputs and a first state, whose result is the loss and what it is of.

    `step` takes the state and the action of one environment, and returns the next state and what
    was active. Beside the sum of the losses there are the losses, (num_envs,), and for each step
    which episodes ended and what was active, (T, num_envs, ...).
    """

    def rollout(inputs: Inputs, start: Any) -> Any:
        def body(carry: Any, given: Any) -> Any:
            (state, ended), (noise, reward_weights, obs_weights) = carry, given
            actions = jnp.tanh(pick_obs(state.obs) @ inputs.policy + noise)
            after, active = jax.vmap(step)(state, actions)
            # Under x64 some of Brax's steps return `done` with another width than its resets.
            state = jax.tree.map(lambda new, old: new.astype(old.dtype), after, state)
            gains = reward_weights * state.reward + (obs_weights * pick_obs(state.obs)).sum(1)
            gains = jnp.where(ended, 0, gains)
            ended = ended | (state.done > 0)
            return (state, ended), (gains, ended, active)

        begin = (start, jnp.zeros(len(start.done), bool))
        _, (gains, ended, active) = jax.lax.scan(body, begin, inputs[1:])
        losses = gains.sum(0)
        return losses.sum(), (losses, ended, active)

    return rollout


class Reference:
    """A batch of plain Brax or Playground, whose rollout is one piece.

    Of gymbridge there is nothing in it but the rules by which reverse mode passes MJX's solver and
    Playground's `reward.tolerance`.

    Args:
        name: Name of the environment in its registry.
        backend: Brax's name of the physics, or "playground".
        num_envs: Size of the batch; row i starts its first episode with seed i.
    """

    def __init__(self, name: str, backend: str, num_envs: int) -> None:
        env = make_env(name, backend)
        keys = jax.vmap(lambda s: jax.random.fold_in(jax.random.PRNGKey(s), 0))
        start = jax.jit(lambda seeds: jax.vmap(env.reset)(keys(seeds)))(jnp.arange(num_envs))
        self._start, self.obs = start, np.asarray(pick_obs(start.obs))
        self.dtype = self.obs.dtype
        self.action_size = int(env.action_size)
        smooth = step_with_gradients(env, backend)
        rollout = make_rollout(lambda *given: (smooth(*given), ()))
        # Integers of the state have gradients without a value.
        self._differentiate = jax.jit(jax.value_and_grad(rollout, (0, 1), True, allow_int=True))
        plain = make_rollout(lambda *given: (env.step(*given), ()))

        def push(inputs: Inputs, along: Any, start: Any) -> Any:
            def losses(noise: Any) -> Any:
                return plain(inputs._replace(noise=noise), start)[1][0]

            return jax.jvp(losses, (inputs.noise,), (along,))[1]

        self._push = jax.jit(push)
        # Another object, since watching changes it.
        self._watch = jax.jit(make_rollout(watched_step(make_env(name, backend), backend)))

    def differentiate(self, inputs: Inputs) -> Outcome:
        """Return losses and gradients of a rollout."""
        (_, (losses, ended, _)), (by, state) = self._differentiate(inputs, self._start)
        floats = [part for part in jax.tree.leaves(state) if part.dtype != jax.dtypes.float0]
        packed = [np.asarray(part).reshape(len(losses), -1) for part in floats]
        gradients = {"policy": np.asarray(by.policy), "noise": np.asarray(by.noise)}
        gradients["state"] = np.concatenate(packed, 1)
        return Outcome(np.asarray(losses), np.asarray(ended), gradients)

    def push(self, inputs: Inputs, along: np.ndarray) -> np.ndarray:
        """Return each loss's slope along a direction of the noise, (num_envs,), by forward mode.

        Forward mode passes MJX's own loop, so nothing of gymbridge is used.
        """
        return np.asarray(self._push(inputs, along, self._start))

    def watch(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """Return the losses, and what is active in each row: (num_envs, anything) bool.

        Active are contacts and joint limits in every substep of the physics, and ends of episodes.
        """
        _, (losses, *parts) = self._watch(inputs, self._start)
        rows = [np.moveaxis(np.asarray(part), 1, 0) for part in jax.tree.leaves(parts)]
        return np.asarray(losses), np.concatenate([row.reshape(len(losses), -1) for row in rows], 1)


class Bridge:
    """A differentiable batch in Disabled mode, in which ended environments stay as they are.

    Args as those of `Reference`.
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
        envs, (policy, noise, *weights) = self.envs, map(torch.tensor, inputs)
        policy.requires_grad_()
        noise.requires_grad_()
        obs, _ = envs.reset(seed=0)
        state = envs.physics_state.requires_grad_()
        envs.physics_state = state
        fields = envs.physics_state_fields
        begun = state[:, fields.get("obs", fields.get("obs.state"))]
        obs, steps = begun.reshape(pick_obs(obs).shape), []
        for moved in noise:
            obs, *others, _ = envs.step(torch.tanh(obs @ policy + moved))
            obs = pick_obs(obs)
            steps.append((obs, *others))
        losses, ended = _add_up(weights, *map(torch.stack, zip(*steps, strict=True)))
        # The engine's own state comes first, and then what was seen of it.
        own = max(place.stop for name, place in fields.items() if not name.startswith("seen."))
        found = {"policy": policy.grad, "noise": noise.grad, "state": state.grad[:, :own]}
        return Outcome(losses, ended, {key: gradient.numpy() for key, gradient in found.items()})

    def unroll(self, inputs: Inputs) -> Outcome:
        """Return losses and the gradient by the noise of a rollout without policy, as one node."""
        _, noise, *weights = map(torch.tensor, inputs)
        noise.requires_grad_()
        self.envs.reset(seed=0)
        obs, *others, _ = self.envs.unroll(torch.tanh(noise))
        losses, ended = _add_up(weights, pick_obs(obs), *others)
        return Outcome(losses, ended, {"noise": noise.grad.numpy()})


def _add_up(weights: Any, obs: Any, rewards: Any, *ends: Any) -> tuple[Any, Any]:
    """Return the losses of a rollout and its ends, and run its backward pass."""
    reward_weights, obs_weights = weights
    ended = torch.stack(ends).any(0).cumsum(0) > 0
    before = torch.cat([torch.zeros_like(ended[:1]), ended[:-1]])
    gains = reward_weights * rewards + (obs_weights * obs).sum(2)
    losses = torch.where(before, 0, gains).sum(0)
    losses.sum().backward()
    return losses.detach().numpy(), ended.numpy()
