"""Swing a pole up by iLQR: `linearize` gives the derivatives of each step, nothing is learnt.

    python examples/ilqr.py

Each iteration linearises the trajectory step by step. A backward pass computes better actions, and
a feedback on the state. 16 step sizes of that change are tried at once, one in each environment.
Actions stay within their limits. In the end the plan is played, and the feedback of a late step
holds the pole. The method is control-limited differential dynamic programming with the second
derivatives of the dynamics left out (Tassa, Mansard and Todorov, 2014, for one action).

Needs: pip install '.[playground,examples]'.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import matplotlib.pyplot as plt
import numpy as np
import tyro
from PIL import Image
from tqdm import trange

from gymbridge import PlaygroundVectorEnv


@dataclass
class Args:
    """Swing up the pole of Playground's CartpoleSwingup."""

    steps: int = 250
    """Steps of the plan, 0.01 s each."""
    hold: int = 250
    """Steps to hold the pole afterwards."""
    iterations: int = 100
    """Most iterations."""
    seed: int = 0
    """Seed of the episode."""
    video: bool = False
    """Write a GIF, which needs OpenGL."""
    out: Path = Path("runs/ilqr")
    """Folder for pictures."""


TASK = "CartpoleSwingup"
STEP_SIZES = np.float32(1.2 ** -(np.arange(16.0) ** 2 / 2))
POSITION, ANGLE, SPEED, ROTATION, ACTION = 0.2, 1.0, 0.02, 0.02, 0.02
"""Weights of the cost."""

FRAME_STEPS = 5
"""Steps of 0.01 s between two frames of the video."""

LAST = 50.0
"""Weight of the last state's cost over that of another."""


class Plan(NamedTuple):
    """A trajectory, and the feedback that holds it: ``u = actions + gains @ (x - states)``."""

    states: np.ndarray  # (steps + 1, 4): position of the cart, angle from upright, their speeds
    actions: np.ndarray  # (steps,)
    change: np.ndarray  # (steps,) added to the actions, times the step size
    gains: np.ndarray  # (steps, 4)


def read(obs: np.ndarray) -> np.ndarray:
    """Return the states, (num_envs, 4), that belong to observations of the task."""
    position, cosine, sine, speed, rotation = obs.T
    return np.stack([position, np.arctan2(sine, cosine), speed, rotation], 1)


def subtract(states: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the difference of states; that of angles is within half a turn."""
    found = states - others
    found[..., 1] = (found[..., 1] + np.pi) % (2 * np.pi) - np.pi
    return found


def cost_of(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Return the costs of trajectories: states (steps + 1, num_envs, 4), actions one step less."""
    position, angle, speed, rotation = np.moveaxis(states, -1, 0)
    costs = POSITION * position**2 + ANGLE * 4 * np.sin(angle / 2) ** 2
    costs += SPEED * speed**2 + ROTATION * rotation**2
    return (costs.sum(0) + (LAST - 1) * costs[-1] + ACTION * (actions**2).sum(0)) / 2


def slopes_of(state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradient of the cost by one state, (4,), and its Gauss-Newton matrix, (4, 4)."""
    weights = np.array([POSITION, ANGLE, SPEED, ROTATION])
    gradient, curvature = weights * state, weights.copy()
    gradient[1], curvature[1] = ANGLE * np.sin(state[1]), ANGLE * np.cos(state[1] / 2) ** 2
    return gradient, np.diag(curvature)


def roll_out(envs: Any, start: Any, plan: Plan, sizes: np.ndarray) -> tuple[Any, Any]:
    """Return states and actions of the plan in each environment, changed by its step size."""
    x, all_states, all_actions = read(envs.set_state(start)), [], []
    for state, action, change, gain in zip(plan.states, *plan[1:], strict=False):
        all_states.append(x)
        feedback = subtract(x, state) @ gain
        u = np.clip(action + sizes * change + feedback, -1, 1).astype(np.float32)
        all_actions.append(u)
        x = read(envs.step(u[:, None])[0])
    return np.stack([*all_states, x]), np.stack(all_actions)


def linearize_along(envs: Any, start: Any, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return A (steps, 4, 4) and B (steps, 4) of the trajectory that the actions play."""
    envs.set_state(start)
    found = []
    for action in actions:
        given = np.full(envs.action_space.shape, action, np.float32)
        step = envs.linearize(given)
        found.append((step.A[0], step.B[0, :, 0]))
        envs.step(given)
    return tuple(map(np.stack, zip(*found, strict=True)))


def improve(plan: Plan, derivatives: Any, damping: float) -> Plan:
    """Return the plan with the change and the gains that its linear model recommends."""
    changes, gains = np.zeros_like(plan.change), np.zeros_like(plan.gains)
    slope, curve = (LAST * part for part in slopes_of(plan.states[-1]))
    for step in reversed(range(len(changes))):
        a, b = (part[step] for part in derivatives)
        gradient, matrix = slopes_of(plan.states[step])
        action = plan.actions[step]
        q_x, q_xx = gradient + a.T @ slope, matrix + a.T @ curve @ a
        q_u, q_uu, q_ux = ACTION * action + b @ slope, ACTION + b @ curve @ b, b @ curve @ a
        damped = q_uu + damping * b @ b
        wanted = action - q_u / damped
        changes[step] = np.clip(wanted, -1, 1) - action
        if abs(wanted) <= 1:  # else the limit holds the action, whatever the state is
            gains[step] = -(q_ux + damping * b @ a) / damped
        k, gain = changes[step], gains[step]
        slope = q_x + gain * (q_uu * k + q_u) + q_ux * k
        cross = np.outer(gain, q_ux)
        curve = q_xx + q_uu * np.outer(gain, gain) + cross + cross.T
    return plan._replace(change=changes, gains=gains)


def optimize(envs: Any, start: Any, plan: Plan, iterations: int) -> tuple[Plan, list[float]]:
    """Return the best plan, and the cost after each iteration."""
    costs, damping = [float(cost_of(plan.states[:, None], plan.actions[:, None])[0])], 1.0
    derivatives = linearize_along(envs, start, plan.actions)
    for _ in (bar := trange(iterations)):
        plan = improve(plan, derivatives, damping)
        states, actions = roll_out(envs, start, plan, STEP_SIZES)
        found = cost_of(states, actions)
        best = int(found.argmin())
        if found[best] >= costs[-1]:
            damping *= 8
            if damping > 1e8:
                break
            continue
        costs.append(float(found[best]))
        plan = plan._replace(states=states[:, best], actions=actions[:, best])
        derivatives = linearize_along(envs, start, plan.actions)
        damping = max(damping / 4, 1e-6)
        bar.set_postfix(cost=f"{costs[-1]:.2f}")
        if costs[-2] - costs[-1] < 1e-4 * costs[-1]:
            break
    bar.close()
    return plan, costs


def play(envs: Any, start: Any, plan: Plan, hold: int) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """Return states, rewards and frames of the plan, and of its feedback on upright afterwards."""
    settled = plan.gains[-len(plan.gains) // 5]  # where the pole stands, and the end is far
    states, rewards, frames = [], [], []
    obs = envs.set_state(start)
    for step in range(len(plan.actions) + hold):
        x = read(obs)
        if step < len(plan.actions):
            action = plan.actions[step] + subtract(x, plan.states[step]) @ plan.gains[step]
        else:
            action = x @ settled
        obs, reward, *_ = envs.step(np.clip(action, -1, 1).astype(np.float32)[:, None])
        states.append(x[0])
        rewards.append(reward[0])
        if envs.render_mode is not None and step % FRAME_STEPS == 0:
            frames.append(envs.render()[0])
    return np.stack(states), np.array(rewards), frames


def draw(path: Path, states: np.ndarray, costs: list[float], planned: int) -> None:
    """Draw the trajectory, and the cost of each iteration."""
    figure, (axes, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    axes.set(title=TASK, xlabel="seconds")
    seconds = np.arange(len(states)) * 0.01
    axes.plot(seconds, np.degrees(np.unwrap(states[:, 1])), label="angle from upright, degrees")
    axes.plot(seconds, 100 * states[:, 0], label="position of the cart, cm")
    axes.axvline(planned * 0.01, color="gray", ls=":", label="end of the plan")
    axes.legend(fontsize=8)
    right.plot(costs, ".-")
    right.set(title="iLQR", xlabel="iteration", ylabel="cost")
    figure.savefig(path, dpi=100)


def main(args: Args) -> None:
    # In float32 MJX's derivative was NaN in some steps in which its solver has nothing to do.
    jax.config.update("jax_enable_x64", True)
    options = {"autoreset_mode": "Disabled", "max_episode_steps": -1}
    if args.video:
        options |= {"render_mode": "rgb_array", "render_size": (240, 180)}
    envs = PlaygroundVectorEnv(TASK, len(STEP_SIZES), **options)
    envs.reset(seed=[args.seed] * envs.num_envs)
    start = envs.get_state()
    noise = np.random.default_rng(args.seed).uniform(-0.1, 0.1, args.steps)
    begun = Plan(
        np.zeros((args.steps + 1, 4)), noise, np.zeros(args.steps), np.zeros((args.steps, 4))
    )
    states, actions = roll_out(envs, start, begun, STEP_SIZES)
    begun = begun._replace(states=states[:, 0], actions=actions[:, 0])
    plan, costs = optimize(envs, start, begun, args.iterations)
    print(f"Cost {costs[0]:.1f} -> {costs[-1]:.1f} in {len(costs) - 1} iterations")
    states, rewards, frames = play(envs, start, plan, args.hold)
    envs.close()
    upright = np.abs(subtract(states, np.zeros(4))[:, 1]) < 0.1
    print(f"Return {rewards.sum():.1f} of at most {len(rewards)}; upright in {upright.mean():.0%}")
    args.out.mkdir(parents=True, exist_ok=True)
    draw(args.out / "trajectory.png", states, costs, args.steps)
    print(f"Wrote trajectory.png to {args.out}")
    if frames:
        first, *others = (Image.fromarray(frame).quantize(48) for frame in frames)
        options = {"append_images": others, "duration": 10 * FRAME_STEPS, "loop": 0}
        first.save(args.out / "swing_up.gif", save_all=True, **options)


if __name__ == "__main__":
    main(tyro.cli(Args))
