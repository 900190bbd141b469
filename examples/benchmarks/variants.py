"""Variants of the step for a GPU, which stay here until they are measured on one.

`vary` changes how a batch with torch or jax arrays runs its step, and nothing of what the step
returns:

- Compile options of this one function, such as CUDA graphs that span loops.
- Spare buffers: the step gets the state of two steps ago to write into, so that addresses repeat.
  Two executables take turns, each with addresses of its own. The current state is never given away,
  so a step that fails loses nothing.
- Initial states that are drawn ahead. An episode's key is known before it begins, so each
  environment has its next initial state ready for the step, and a launch of its own draws those
  that were used. An environment that ends twice between two such launches, or is reset by a call
  of `reset`, begins as without.

`run.py variants` measures them, each beside the bare step with the same compile options and
buffers.
"""

import copy
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import torch
from gpu import BARE, make_policy, ours
from steps import Contest, Step, over
from tasks import Physics, brax_task

from gymbridge.command_line.timing import wait
from gymbridge.core.episode import EpisodeRule, ResetRequest
from gymbridge.jax_env.rows import begin_rows, drawn_part, where_rows
from gymbridge.jax_env.runners import JaxRule, JaxRunner, JitRunner
from gymbridge.jax_env.simulator import Episodes, JaxSimulator
from gymbridge.jax_env.spreading import find_sharding, spread

GPU_OPTIONS = {
    # XLA's default, and loops.
    "xla_gpu_enable_command_buffer": (
        "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,CONDITIONAL,DYNAMIC_SLICE_FUSION,WHILE"
    ),
    "xla_gpu_graph_min_graph_size": 1,
}
"""Compile options on CUDA; a CPU gets none."""


class Variant(NamedTuple):
    """What is changed of a step."""

    options: Mapping[str, Any] = {}  # of XLA, for the step alone
    has_spares: bool = False  # whether it writes into the state of two steps ago
    refill_every: int = 0  # steps between two launches that draw initial states ahead; 0: none


class Ahead(JaxSimulator):
    """A simulator that begins episodes in states that were drawn before.

    Args:
        simulator: The simulator without them.
        ahead: For each environment the `drawn_part` of an initial row, and the seed and the episode
            that it was drawn for. Where these are not those of the episode that begins, it is not
            used.
    """

    def __init__(self, simulator: JaxSimulator, ahead: Episodes) -> None:
        vars(self).update(vars(simulator))
        self._ahead = ahead

    def _begin(
        self, state: Episodes, mask: jax.Array, request: ResetRequest | None, carried: Any
    ) -> Episodes:
        taken = mask & fits(self._ahead, state)
        drawn = where_rows(taken, self._ahead.rows, drawn_part(state.rows))
        rows = begin_rows(taken, drawn, state.rows)
        state = Episodes(rows, state.seed, state.episode + taken.astype("uint32"))
        return super()._begin(state, mask & ~taken, request, carried)


def fits(ahead: Episodes, state: Episodes) -> jax.Array:
    """Return where the next episode is the one that was drawn ahead, (num_envs,) bool."""
    return (ahead.seed == state.seed) & (ahead.episode == state.episode + 1)


def draw_ahead(simulator: JaxSimulator, ahead: Episodes | None, state: Episodes) -> Episodes:
    """Return the initial states of the next episodes; those in `ahead` that fit are kept."""
    ahead = ahead or state  # of which none fits
    now = simulator._with_rest(Episodes(ahead.rows, state.seed, state.episode))
    begun = simulator._begin(now, ~fits(ahead, state), None, {})
    return Episodes(drawn_part(begun.rows), state.seed, state.episode + 1)


class Compiled(NamedTuple):
    """The compiled functions of a variant."""

    steps: tuple[Any, ...]  # (carry, actions, ahead, spare), one, or two that take turns
    refill: Any  # (ahead or None, state) -> ahead


def compile_variant(rule: EpisodeRule[JaxSimulator], infos: Any, variant: Variant) -> Compiled:
    """Return functions that compile when they are called first."""
    place, part = rule.simulator.device, JaxRule(rule, of_one_device=True)
    sharding, refill = find_sharding(place), partial(draw_ahead, part.simulator)

    def step(carry: Any, actions: Any, ahead: Any, spare: Any) -> Any:
        rule = part
        if ahead is not None:
            rule = JaxRule(EpisodeRule(Ahead(part.simulator, ahead), part.mode, part.limit))
        return infos.collect_infos(rule.step(carry, actions))

    return Compiled(
        compile_steps(spread(step, place), variant, 3, out_shardings=sharding),
        jax.jit(spread(refill, place), donate_argnums=0, out_shardings=sharding),
    )


def compile_steps(step: Any, variant: Variant, spare: int, **options: Any) -> tuple[Any, ...]:
    """Return one function, or two that take turns, where the argument `spare` is written over."""
    options["compiler_options"] = dict(variant.options) or None
    if variant.has_spares:
        options |= {"donate_argnums": spare, "keep_unused": True}
    # A function of its own each, since JAX keeps what it compiled by function.
    return tuple(jax.jit(partial(step), **options) for _ in range(1 + variant.has_spares))


class VariantRunner(JaxRunner):
    """Runs a variant; what it keeps between two calls can be lost without harm."""

    def __init__(self, plain: JitRunner, compiled: Compiled, variant: Variant) -> None:
        self.rule, self.observe, self.reset = plain.rule, plain.observe, plain.reset
        self.compiled, self._variant = compiled, variant
        self._last: tuple[Any, Any] = (None, None)  # carries that the last step took and returned
        self._ahead: Episodes | None = None
        self._count = 0  # steps taken

    def step(self, carry: Any, actions: Any) -> Any:
        """Take one step; see `gymbridge.core.runner.Runner.step`."""
        spare = self._take_spare(carry) if self._variant.has_spares else None
        ahead = self._look_ahead(carry.state) if self._variant.refill_every else None
        step = self.compiled.steps[self._count % len(self.compiled.steps)]
        outcome = step(carry, actions, ahead, spare)
        self._count += 1
        self._last = carry, outcome.carry
        return outcome

    def _take_spare(self, carry: Any) -> Any:
        """Return a carry that nobody needs any more.

        That is what the last step took, if this step goes on from what it returned: then the batch
        has no other. After a failure, a reset or a step of another batch it is a copy.
        """
        (taken, returned), self._last = self._last, (None, None)
        return taken if carry is returned else jax.tree.map(jnp.copy, carry)

    def _look_ahead(self, state: Episodes) -> Episodes:
        """Return the initial states that were drawn ahead, drawn anew every few steps."""
        ahead, self._ahead = self._ahead, None  # lost if this fails, as the buffers are donated
        if ahead is None or self._count % self._variant.refill_every == 0:
            ahead = self.compiled.refill(ahead, state)
        self._ahead = ahead
        return ahead


def vary(envs: Any, variant: Variant, like: Any = None) -> Any:
    """Return a batch equal to `envs`, not yet reset, whose step is a variant.

    Args:
        envs: Batch of a JAX environment with torch or jax arrays, without gradients, whose graph
            keeps states that would be written over. With `refill_every` nothing is `carried` from
            one episode to the next, since initial states are drawn before an episode ends.
        variant: What is changed.
        like: A batch from here and an equal variant but for `refill_every`, whose compiled
            functions it shares; None compiles them.
    """
    plain, varied = envs._runner, copy.copy(envs)
    compiled = like._runner.compiled if like else compile_variant(plain.rule, envs._infos, variant)
    varied._runner = VariantRunner(plain, compiled, variant)
    return varied


def bare(physics: Physics, start: Any, policy: Any, variant: Variant) -> Step:
    """Return the bare step with the same compile options and buffers."""

    def step(state: Any, actions: Any, spare: Any) -> Any:
        state = jax.vmap(physics.env.step)(state, actions)
        return state, jnp.copy(state.obs)  # what torch gets is never written over

    steps = compile_steps(step, variant, 2)
    state, spare = (jax.tree.map(jnp.copy, start) for _ in range(2))
    obs, count = jnp.copy(start.obs), 0

    def run(_: int) -> object:
        nonlocal state, spare, obs, count
        actions = jnp.from_dlpack(policy(torch.from_dlpack(obs)))
        given = spare if variant.has_spares else None
        spare, (state, obs) = state, steps[count % len(steps)](state, actions, given)
        count += 1
        return obs

    return run


def warm_up(steps: Mapping[str, Step]) -> None:
    """Compile all functions by two calls of each, on as many threads as there are cores."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(lambda run: wait([run(0), run(1)]), steps.values()))


def step_variants(size: int, device: str, *, mode: str) -> Contest:
    """Return each variant in one mode; a CPU, which only tries it out, has a smaller task."""
    is_gpu = device != "cpu"
    physics = brax_task("ant", "spring") if is_gpu else brax_task("fast")
    policy, options = make_policy(physics.env, device), GPU_OPTIONS if is_gpu else {}
    common = {
        "": Variant(),
        ", compile options": Variant(options),
        ", spare buffers": Variant({}, has_spares=True),
        ", compile options and spare buffers": Variant(options, has_spares=True),
    }
    keys = jax.random.split(jax.random.PRNGKey(0), size)
    start = jax.jit(jax.vmap(physics.env.reset))(keys)
    steps = {BARE + name: bare(physics, start, policy, given) for name, given in common.items()}
    plain = physics.batch(size, arrays="torch", device=device, autoreset_mode=mode)
    batches = {name: vary(plain, given) for name, given in common.items()}
    ahead = None
    for every in (8, 16, 32):
        ahead = vary(plain, Variant(refill_every=every), like=ahead)
        batches[f", drawn ahead every {every}"] = ahead
    batches[", all three, every 16"] = vary(plain, Variant(options, True, 16))
    mine = {f"gymbridge, torch, {mode}{name}": ours(e, policy) for name, e in batches.items()}
    peers = {(f"gymbridge, torch, {mode}{name}", BARE + name): None for name in common if name}
    peers[list(mine)[-1], list(steps)[-1]] = None
    bars = over(BARE, dict.fromkeys(mine, 1.15 if mode == "SameStep" else 1.05))
    warm_up(steps | mine)
    note = "" if is_gpu else "a CPU has no compile options here"
    return Contest(steps | mine, {**bars, **peers}, note=note)
