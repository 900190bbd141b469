"""What tensors and gradients through the simulator cost, beside the same in plain JAX.

The reference of a window is one `jax.jit(jax.value_and_grad(scan))` of plain Brax with the same
policy and loss, which restarts nothing; both must find the same gradient.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from brax import envs as brax_envs
from steps import Contest, Step, over
from tasks import brax_wrapper

from gymbridge import BraxVectorEnv
from gymbridge.command_line.timing import wait
from gymbridge.core.cores import count_cores
from gymbridge.private.mjx import SolverGradient

KINDS = {"inverted_pendulum": "generalized", "reacher": "spring", "ant": "spring"}
NO_ENDS: dict[str, Any] = {"ant": {"terminate_when_unhealthy": False}}
"""Keywords without which episodes end within a window."""

BALANCE = np.array([[0.0], [2.0], [0.3], [0.5]], np.float32)
"""A linear policy that keeps the pendulum up, so that no episode ends within a window."""

LARGEST = 1e-4
"""By how much two gradients may differ, over the norm of one; for ants and on a GPU it is noted."""


class Window:
    """The same loss over a window of steps, in plain JAX and through a batch of tensors.

    `backend` is Brax's physics; None for that in `KINDS`.
    """

    def __init__(
        self, name: str, num_envs: int, num_steps: int, device: str, backend: str | None = None
    ) -> None:
        kind = {"backend": backend or KINDS[name], **NO_ENDS.get(name, {})}
        self.env = brax_envs.get_environment(name, **kind)
        # The rule by which reverse mode passes MJX's solver is the same in plain JAX.
        self.step = SolverGradient("auto").wrap(self.env.step)
        options = {"arrays": "torch", "device": device, "differentiable": True, **kind}
        self.envs = BraxVectorEnv(name, num_envs, max_episode_steps=-1, **options)
        self.envs.reset(seed=0)
        self.start = self.envs.get_state()
        self.num_steps, self.device = num_steps, str(self.envs.device)
        size = self.envs.single_observation_space.shape[0], self.env.action_size
        self.weights = np.random.default_rng(0).normal(0, 0.1, size).astype(np.float32)
        if name == "inverted_pendulum":
            self.weights = BALANCE
        self.actions = self._play()
        reset = jax.jit(jax.vmap(self.env.reset))
        keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.PRNGKey(seed), 0))
        self.state = reset(keys(jnp.arange(num_envs)))

    def _play(self) -> np.ndarray:
        """Return the actions of the policy, (num_steps, num_envs, size) float32."""
        weights, actions = torch.tensor(self.weights, device=self.device), []
        obs = self.envs.detach()
        for _ in range(self.num_steps):
            actions.append(obs @ weights)
            obs = self.envs.step(actions[-1])[0]
        return torch.stack(actions).cpu().numpy()

    def compile(self, method: str) -> Callable[[], Any]:
        """Return the gradient by a policy or by actions, or another value, as one function."""
        function, given = {
            "policy": (jax.grad(self._loss), self.weights),
            "forward": (partial(self._loss, env_step=self.env.step), self.weights),
            "actions": (jax.grad(self._loss), self.actions),
            "product": (self._product, self.actions),
        }[method]
        compiled, given = jax.jit(function), jnp.asarray(given)
        return lambda: compiled(given, self.state)

    def _product(self, actions: Any, first: Any) -> Any:
        """Return the Hessian by given actions times the same."""
        pull = partial(jax.grad(self._loss), first=first)
        return jax.jvp(pull, (actions,), (actions,))[1]

    def _loss(self, given: Any, first: Any, env_step: Any = None) -> Any:
        """Return the loss by the weights of a policy, a matrix, or by the actions of all steps."""

        def step(state: Any, action: Any) -> Any:
            if action is None:  # on a GPU the default precision is less than torch's
                action = jnp.matmul(state.obs, given, precision="highest")
            state = jax.vmap(env_step or self.step)(state, action)
            return state, (state.obs**2).sum() - state.reward.sum()

        actions = None if given.ndim == 2 else given
        return jax.lax.scan(step, first, actions, self.num_steps)[1].sum()

    def torch_policy(self) -> torch.Tensor:
        """Return the gradient with respect to a linear policy, step by step."""
        self.envs.set_state(self.start)
        weights = torch.tensor(self.weights, device=self.device, requires_grad=True)
        obs, loss = self.envs.detach(), 0
        for _ in range(self.num_steps):
            obs, rewards, terminations, _, _ = self.envs.step(obs @ weights)
            loss = loss + (obs**2).sum() - rewards.sum()
        loss.backward()
        assert not terminations.any(), "the reference knows no restarts"
        return weights.grad

    def torch_actions(self) -> torch.Tensor:
        """Return the gradient with respect to given actions, as one node."""
        actions, loss = self._unroll()
        loss.backward()
        return actions.grad

    def torch_product(self) -> torch.Tensor:
        """Return the Hessian by given actions times the same, through one node."""
        actions, loss = self._unroll()
        (gradient,) = torch.autograd.grad(loss, actions, create_graph=True)
        return torch.autograd.grad(gradient, actions, actions.detach())[0]

    def _unroll(self) -> tuple[torch.Tensor, torch.Tensor]:
        self.envs.set_state(self.start)
        actions = torch.tensor(self.actions, device=self.device, requires_grad=True)
        obs, rewards, _, _, _ = self.envs.unroll(actions)
        return actions, (obs**2).sum() - rewards.sum()


def waiting(step: Callable[[], Any]) -> Callable[[int], None]:
    """Return a function that waits for each gradient, as an optimiser does."""
    return lambda _: wait(step())


def window(
    num_envs: int,
    device: str,
    *,
    name: str = "inverted_pendulum",
    num_steps: int = 32,
    method: str = "policy",
    backend: str | None = None,
    bar: float = 1.3,
) -> Contest:
    """Compare equal gradients: by a policy, step by step, or by the actions of an unroll.

    The `method` "product" is a Hessian times a vector. Over MJX, the forward pass is a reference,
    too.
    """
    given = Window(name, num_envs, num_steps, device, backend)
    plain, ours = given.compile(method), getattr(given, f"torch_{method}")
    expected, found = np.asarray(plain()), ours().cpu().numpy()
    error = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    if device == "cpu" and name != "ant" and error > LARGEST:
        raise SystemExit(f"The gradients differ by {error:.1e}, and may by {LARGEST}.")
    way = "step by step" if method == "policy" else "unroll"
    steps, bars = {way: ours, "one JAX gradient": plain}, {(way, "one JAX gradient"): bar}
    if backend == "mjx" and method == "policy":
        steps["JAX's forward pass"] = given.compile("forward")
        bars[way, "JAX's forward pass"] = 4.0
    steps = {name: waiting(step) for name, step in steps.items()}
    return Contest(steps, bars, num_steps, f"gradients differ by {error:.0e}")


def torchrl_window(given: Window) -> Callable[[], Any]:
    """Return the same work on TorchRL's wrapper."""
    options = {"requires_grad": True, "categorical_action_encoding": False}
    theirs = brax_wrapper(given.env, given.envs.num_envs, given.device, **options)
    weights = torch.tensor(given.weights, device=given.device, requires_grad=True)

    def run() -> None:
        data, loss = theirs.reset(), 0
        for _ in range(given.num_steps):
            data["action"] = data["observation"] @ weights
            data = theirs.step(data)["next"]
            loss = loss + (data["observation"] ** 2).sum() - data["reward"].sum()
        loss.backward()

    return run


def routes(num_envs: int, device: str, *, only: str = "", num_steps: int = 16) -> Contest:
    """Return the ways to the gradient of a window, each for a process of its own."""

    def build(make: Callable[[Window], Callable[[], Any]]) -> Step:
        return waiting(make(Window("inverted_pendulum", num_envs, num_steps, device)))

    makers: dict[str, Any] = {
        "one jitted scan, policy": lambda given: given.compile("policy"),
        "gymbridge, step by step, policy": lambda given: given.torch_policy,
        "one jitted scan, actions": lambda given: given.compile("actions"),
        "gymbridge, unroll, actions": lambda given: given.torch_actions,
        "TorchRL BraxWrapper, policy": torchrl_window,
    }
    steps = {name: partial(build, make) for name, make in makers.items() if only in name}
    pair = "gymbridge, step by step, policy", "TorchRL BraxWrapper, policy"
    return Contest(steps, {pair: 0.01}, num_steps, apart=True)


def over_cores(num_envs: int, _: str, *, num_steps: int = 8) -> Contest:
    """Compare the gradient of a window of ants over all cores with plain JAX on one device."""
    jax.config.update("jax_num_cpu_devices", count_cores())  # before a bare environment starts JAX
    places = {"all cores": "cpu:all", "one device": "cpu"}
    windows = {name: Window("ant", num_envs, num_steps, place) for name, place in places.items()}
    steps = {name: waiting(given.torch_actions) for name, given in windows.items()}
    steps["one JAX gradient"] = waiting(windows["one device"].compile("actions"))
    bars = {"all cores": 0.85, "one device": None}
    return Contest(steps, over("one JAX gradient", bars), num_steps)
