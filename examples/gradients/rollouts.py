"""Rollouts of plain Brax or Playground, differentiated by jax, and of gymbridge, by torch.

A policy acts by ``tanh(obs @ policy + noise)``. The loss of a row is the weighted sum of its
rewards and observations up to the end of its episode. Rows are independent, and their sum is what
is differentiated: by the policy's weights, the noise and every float in the first state.
"""

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
        paths, self._structure = jax.tree_util.tree_flatten_with_path(start)
        leaves = {jax.tree_util.keystr(p, simple=True, separator="."): leaf for p, leaf in paths}
        self._names = list(leaves)
        self._start = {k: v for k, v in leaves.items() if jnp.issubdtype(v.dtype, jnp.floating)}
        self._rest = {k: v for k, v in leaves.items() if k not in self._start}
        self.obs = np.asarray(pick_obs(start.obs))
        self.dtype = self.obs.dtype
        self.action_size = int(env.action_size)
        smooth = step_with_gradients(env, backend)
        rollout = self._total(jax.vmap(lambda state, action: (smooth(state, action), ())))
        self._differentiate = jax.jit(jax.value_and_grad(rollout, (0, 1, 2), True))
        plain = self._total(jax.vmap(lambda state, action: (env.step(state, action), ())))

        def push(inputs: Inputs, along: Any) -> Any:
            def losses(noise: Any) -> Any:
                return plain(inputs.policy, noise, self._start, inputs)[1][0]

            return jax.jvp(losses, (inputs.noise,), (along,))[1]

        self._push = jax.jit(push)
        # Another object, since watching changes it.
        watched = jax.vmap(watched_step(make_env(name, backend), backend))
        self._watch = jax.jit(self._total(watched))

    def differentiate(self, inputs: Inputs) -> Outcome:
        """Return losses and gradients of a rollout."""
        found = self._differentiate(inputs.policy, inputs.noise, self._start, inputs)
        (_, (losses, ended, _)), (policy, noise, state) = found
        packed = [np.asarray(state[name]).reshape(len(losses), -1) for name in self._start]
        gradients = {"policy": np.asarray(policy), "noise": np.asarray(noise)}
        gradients["state"] = np.concatenate(packed, 1)
        return Outcome(np.asarray(losses), np.asarray(ended), gradients)

    def push(self, inputs: Inputs, along: np.ndarray) -> np.ndarray:
        """Return each loss's slope along a direction of the noise, (num_envs,), by forward mode.

        Forward mode passes MJX's own loop, so nothing of gymbridge is used.
        """
        return np.asarray(self._push(inputs, along))

    def watch(self, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """Return the losses, and what is active in each row: (num_envs, anything) bool.

        Active are contacts and joint limits in every substep of the physics, and ends of episodes.
        """
        _, (losses, ended, active) = self._watch(inputs.policy, inputs.noise, self._start, inputs)
        parts = [ended, *jax.tree.leaves(active)]
        rows = [np.moveaxis(np.asarray(part), 1, 0).reshape(len(losses), -1) for part in parts]
        return np.asarray(losses), np.concatenate(rows, 1)

    def _total(self, step: Any) -> Any:
        def total(policy: Any, noise: Any, start: Any, inputs: Inputs) -> Any:
            leaves = {**self._rest, **start}
            state = jax.tree.unflatten(self._structure, [leaves[name] for name in self._names])
            given = (noise, inputs.reward_weights, inputs.obs_weights)

            def body(carry: Any, given: Any) -> Any:
                (state, ended), (noise, reward_weights, obs_weights) = carry, given
                after, active = step(state, jnp.tanh(pick_obs(state.obs) @ policy + noise))
                # Under x64 some of Brax's steps return `done` with another width than its resets.
                state = jax.tree.map(lambda new, old: new.astype(old.dtype), after, state)
                gains = reward_weights * state.reward + (obs_weights * pick_obs(state.obs)).sum(1)
                gains = jnp.where(ended, 0, gains)
                ended = ended | (state.done > 0)
                return (state, ended), (gains, ended, active)

            begin = (state, jnp.zeros(len(state.done), bool))
            _, (gains, ended, active) = jax.lax.scan(body, begin, given)
            losses = gains.sum(0)
            return losses.sum(), (losses, ended, active)

        return total


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
