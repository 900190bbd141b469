"""What torch tensors and gradients through the simulator cost, on the CPU or a GPU.

    python examples/benchmarks/gradients.py [--device cuda] [--rounds 7] [--rows arrays window …]

The reference of a window is one ``jax.jit(jax.value_and_grad(scan))`` of plain Brax with the same
policy and loss, which restarts nothing; both must find the same gradient. TorchRL's row needs
``pip install torchrl`` and is left out without it.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from brax import envs as brax_envs
from timing import Row, compare, interleave, print_table, wait

from gymbridge import BraxVectorEnv
from gymbridge.command_line.options import at_least
from gymbridge.private.mjx import SolverGradient

warnings.filterwarnings("ignore", message="Brax System")
KINDS = {"inverted_pendulum": "generalized", "reacher": "spring", "ant": "spring"}
NO_ENDS: dict[str, Any] = {"ant": {"terminate_when_unhealthy": False}}
"""Keywords without which episodes end within a window."""

BALANCE = np.array([[0.0], [2.0], [0.3], [0.5]], np.float32)
"""A linear policy that keeps the pendulum up, so that no episode ends within a window."""


def arrays_rows(device: str, rounds: int) -> list[Row]:
    """Compare the step with torch tensors with the step with numpy arrays."""
    rng = np.random.default_rng(0)
    numpy_actions = [rng.uniform(-1, 1, (256, 2)).astype(np.float32) for _ in range(64)]
    torch_actions = [torch.as_tensor(actions, device=device) for actions in numpy_actions]
    steps: dict[str, Callable[[int], object]] = {}
    for arrays, actions in (("numpy", numpy_actions), ("torch", torch_actions)):
        envs = BraxVectorEnv("reacher", 256, backend="generalized", arrays=arrays, device=device)
        envs.reset(seed=0)
        steps[arrays] = lambda index, envs=envs, actions=actions: envs.step(actions[index % 64])
    times = interleave(steps, count=40, rounds=rounds)
    taken = compare(times, "torch", "numpy")
    return [Row("reacher generalized, 256 envs, torch over numpy", *taken, 1.05)]


class Window:
    """The same loss over a window of steps, in plain JAX and through a batch of tensors.

    Args:
        name: Of the Brax environment.
        num_envs: Size of the batch.
        num_steps: Length of the window.
        device: Where everything is.
        backend: Brax's physics; None for those in `KINDS`.
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
        rng = np.random.default_rng(0)
        size = self.env.action_size
        observed = self.envs.single_observation_space.shape[0]
        self.weights = rng.normal(0, 0.1, (observed, size)).astype(np.float32)
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

    def jax_policy(self) -> Callable[[], Any]:
        """Return value and gradient with respect to a linear policy, as one compiled function."""
        return self._jitted(partial(self._loss, self.step), self.weights)

    def jax_forward(self) -> Callable[[], Any]:
        """Return the value alone, through the environment's step as it is."""
        function, weights = jax.jit(partial(self._loss, self.env.step)), jnp.asarray(self.weights)
        return lambda: function(weights, self.state)

    def _loss(self, env_step: Callable[..., Any], weights: Any, first: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            # On a GPU the default precision is less than torch's.
            actions = jnp.matmul(state.obs, weights, precision="highest")
            state = jax.vmap(env_step)(state, actions)
            return state, (state.obs**2).sum() - state.reward.sum()

        return jax.lax.scan(step, first, None, self.num_steps)[1].sum()

    def jax_actions(self) -> Callable[[], Any]:
        """Return value and gradient with respect to given actions, as one compiled function."""
        return self._jitted(self._loss_of_actions, self.actions)

    def jax_product(self) -> Callable[[], Any]:
        """Return the Hessian by given actions times the same, as one compiled function."""
        pull, given = jax.grad(self._loss_of_actions), jnp.asarray(self.actions)
        function = jax.jit(
            lambda actions, along, first: jax.jvp(
                lambda actions: pull(actions, first), (actions,), (along,)
            )[1]
        )
        return lambda: function(given, given, self.state)

    def _loss_of_actions(self, actions: Any, first: Any) -> Any:
        def step(state: Any, action: Any) -> Any:
            state = jax.vmap(self.step)(state, action)
            return state, (state.obs**2).sum() - state.reward.sum()

        return jax.lax.scan(step, first, actions)[1].sum()

    def _jitted(self, loss: Callable[..., Any], given: np.ndarray) -> Callable[[], Any]:
        function = jax.jit(jax.value_and_grad(loss))
        given = jnp.asarray(given)
        return lambda: function(given, self.state)[1]

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


def difference(reference: Callable[[], Any], ours: Callable[[], torch.Tensor]) -> float:
    """Return how much two gradients differ, over the norm of the reference."""
    jax_gradient, gradient = np.asarray(reference()), ours().cpu().numpy()
    return float(np.linalg.norm(gradient - jax_gradient) / np.linalg.norm(jax_gradient))


def waiting(step: Callable[[], Any]) -> Callable[[int], None]:
    """Return a function that waits for each gradient, as an optimiser does."""
    return lambda _: wait(step())


def window_row(case: str, steps: dict[str, Callable[[], Any]], bar: float, rounds: int) -> Row:
    """Compare gradients, then times."""
    error = difference(*steps.values())
    assert error < 1e-4, f"{case}: gradients differ by {error:.1e}"
    timed = {name: waiting(step) for name, step in steps.items()}
    times = interleave(timed, count=2, rounds=rounds)
    reference, ours = timed
    return Row(case, *compare(times, ours, reference), bar, f"gradients differ by {error:.0e}")


def window_rows(device: str, rounds: int) -> list[Row]:
    rows = []
    for name, bar in (("inverted_pendulum", 1.2), ("reacher", 2.0)):
        window = Window(name, 256, 32, device)
        steps = {"jax": window.jax_policy(), "torch": window.torch_policy}
        case = f"{name} {KINDS[name]}, 256 envs, window of 32 steps"
        rows.append(window_row(case, steps, bar, rounds))
    return rows


def solver_rows(device: str, rounds: int) -> list[Row]:
    """Compare gradients through MJX's solver with the same in JAX, and with the forward pass."""
    window = Window("reacher", 64, 16, device, "mjx")
    case = "reacher mjx (implicit), 64 envs, window of 16 steps"
    steps = {"jax": window.jax_policy(), "torch": window.torch_policy}
    row = window_row(case, steps, 1.3, rounds)
    timed = {"forward": waiting(window.jax_forward()), "torch": waiting(window.torch_policy)}
    times = interleave(timed, count=2, rounds=rounds)
    over = Row(f"{case}, over JAX's forward pass", *compare(times, "torch", "forward"), 4.0)
    steps = {"jax": window.jax_actions(), "torch": window.torch_actions}
    return [row, over, window_row(f"{case}, as one unroll", steps, 1.3, rounds)]


def hessian_rows(device: str, rounds: int) -> list[Row]:
    """Compare products with the Hessian with `jax.jvp` of `jax.grad` in one piece."""
    window = Window("reacher", 64, 8, device)
    steps = {"jax": window.jax_product(), "torch": window.torch_product}
    case = "reacher spring, 64 envs, Hessian times a vector, unroll of 8 steps"
    return [window_row(case, steps, 1.5, rounds)]


def unroll_rows(device: str, rounds: int) -> list[Row]:
    window = Window("inverted_pendulum", 256, 32, device)
    steps = {"jax": window.jax_actions(), "torch": window.torch_actions}
    case = "inverted_pendulum generalized, 256 envs, unroll of 32 steps"
    return [window_row(case, steps, 1.15, rounds)]


def resident() -> int:
    """Return the bytes of memory that this process holds (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def memory_rows(device: str, rounds: int) -> list[Row]:
    """Compare the memory after the 20th and after the 200th window."""
    window = Window("inverted_pendulum", 256, 32, device)
    sizes, times = [], []
    for _ in range(200):
        start = time.perf_counter()
        window.torch_policy()
        times.append((time.perf_counter() - start) * 1e6)
        on_gpu = torch.cuda.memory_allocated() if device != "cpu" else 0
        sizes.append(resident() + on_gpu)
    ratio = max(sizes[190:]) / sizes[19]
    case = "200 windows in a row, memory after the last over that after the 20th"
    return [Row(case, median(times), ratio, 1.02, f"{sizes[-1] / 2**20:.0f} MiB")]


def torchrl_window(window: Window, **options: Any) -> Callable[[], Any]:
    """Return the same work on TorchRL's wrapper."""
    from torchrl.envs.libs.brax import BraxWrapper

    options = {"requires_grad": True, "categorical_action_encoding": False, **options}
    num_envs = window.envs.num_envs
    theirs = BraxWrapper(window.env, batch_size=[num_envs], device=window.device, **options)
    weights = torch.tensor(window.weights, device=window.device, requires_grad=True)

    def run() -> None:
        data, loss = theirs.reset(), 0
        for _ in range(window.num_steps):
            data["action"] = data["observation"] @ weights
            data = theirs.step(data)["next"]
            loss = loss + (data["observation"] ** 2).sum() - data["reward"].sum()
        loss.backward()

    return run


def torchrl_rows(device: str, rounds: int) -> list[Row]:
    """Compare with TorchRL's wrapper on the same work."""
    window = Window("inverted_pendulum", 64, 16, device)
    try:
        run = torchrl_window(window)
    except ImportError:
        return []
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    run()
    for _ in range(max(2, rounds // 3)):
        window.torch_policy()  # TorchRL traces so much anew that JAX forgets our compiled step
        for name, step in (("ours", window.torch_policy), ("theirs", run)):
            start = time.perf_counter()
            wait(step())
            times[name].append((time.perf_counter() - start) * 1e6)
    ours = compare(times, "ours", "theirs")
    note = (
        f"TorchRL {median(times['theirs']) / 1e3:.0f} ms, {1 / ours.ratio.value:.0f} times as long"
    )
    case = "inverted_pendulum, 64 envs, window of 16 steps, over TorchRL"
    return [Row(case, *ours, 0.01, note)]


ROWS = {
    "arrays": arrays_rows,
    "window": window_rows,
    "solver": solver_rows,
    "unroll": unroll_rows,
    "hessian": hessian_rows,
    "memory": memory_rows,
    "torchrl": torchrl_rows,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="where everything is, such as cuda")
    text = "rounds of a comparison; TorchRL has a third of them (default: %(default)s)"
    parser.add_argument("--rounds", type=at_least(1), default=9, help=text)
    text = "parts of the table (default: all)"
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), help=text)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[Row] = []
    for name in options.rows:
        rows += ROWS[name](options.device, options.rounds)
    print_table(rows)


if __name__ == "__main__":
    main()
