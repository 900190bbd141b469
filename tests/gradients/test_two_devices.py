"""A differentiable batch over two CPU devices does what it does on one."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import torch

from gymbridge import BraxVectorEnv
from tests.support.point_mass import make_batch
from tests.support.rollouts import SEED, loss_of, play_steps, run, small_actions

MASK = torch.tensor([False, True, True, False])


@cache
def disabled(device: str) -> BraxVectorEnv:
    return make_batch(autoreset_mode="Disabled", device=device)


def test_parts_of_a_window__have_the_same_gradients() -> None:
    """Steps, a partial reset, steps of some and a window from a state with a graph."""

    def play(envs: BraxVectorEnv) -> Any:
        envs.reset(seed=SEED)
        actions = small_actions(6)
        start = envs.physics_state.detach().requires_grad_()
        envs.physics_state = start
        results = play_steps(envs, actions[:2])
        results.append((envs.reset(options={"reset_mask": MASK})[0], *results[0][1:]))
        results.append(envs.step_some(actions[2], MASK))
        loss = loss_of(results) + envs.unroll(actions[3:])[0].sum() + envs.physics_state.sum()
        return [loss, *torch.autograd.grad(loss, [actions, start]), envs.detach()]

    one, two = (play(disabled(device)) for device in ("cpu", "cpu:all"))
    torch.testing.assert_close(two, one, rtol=1e-5, atol=1e-6)
    assert two[2].abs().sum() > 0


def test_what_the_user_holds__is_not_the_batch_s() -> None:
    """Tensors are assembled copies, so writing into them changes nothing, and each leads on."""

    def play(envs: BraxVectorEnv, spoils: bool) -> Any:
        obs, _ = envs.reset(seed=SEED)
        for given in (obs, envs.physics_state.detach()) if spoils else ():
            given.fill_(7)
        results = play_steps(envs, small_actions())
        if spoils:
            results[-1][0].detach().fill_(7)
        return envs.step(small_actions()[0])[0].detach()

    calm, spoilt = (play(disabled("cpu:all"), spoils) for spoils in (False, True))
    assert torch.equal(spoilt, calm)


def test_steps__are_compiled_once() -> None:
    envs = make_batch(device="cpu:all")
    envs.reset(seed=SEED)
    names: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: names.append(name))
    for _ in range(2):
        run(envs, small_actions()).backward()
        envs.detach()
    names.clear()
    run(envs, small_actions()).backward()
    assert not [name for name in names if "backend_compile" in name]
