"""The cases, by set: what is timed, over what, at which sizes, and the bar. Data alone.

A set has a file of results and a table of a page. `make` names the function that builds a case, and
is imported in the process that measures it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

NEXT, SAME, DISABLED = MODES = ("NextStep", "SameStep", "Disabled")
IN_MODE = {mode: {"autoreset_mode": mode} for mode in MODES}
PLACES = {"all cores": {"device": "cpu:all"}, "one device": {"device": "cpu"}}
"""Keywords by name; the batch over all cores is the first, since it starts JAX for all."""

SPRING = {"backend": "spring"}
PLAYGROUND = ("CartpoleBalance", "Go1JoystickFlatTerrain")


class Case(NamedTuple):
    """Functions that are timed in turn, at one value or at several.

    Attributes:
        name: In the table.
        make: "module:function", of a value, the device and `options`. It returns a
            `steps.Contest`, or what it found by itself.
        options: Keywords of the function.
        values: What varies: how many environments there are, or what `axis` says.
        axis: What the values are.
        apart: Whether each function has a process of its own.
        batch: Environment steps in a step of the batch; None for the value.
        processes: That measure it, one after the other.
        rounds: Turns of each function.
        seconds: Of a turn.
        limit: Seconds after which its process is ended.
        quick: Keywords besides, that make it tiny.
    """

    name: str
    make: str
    options: Mapping[str, Any] = {}
    values: tuple[int, ...] = (256,)
    axis: str = "environments"
    apart: bool = False
    batch: int | None = None
    processes: int = 5
    rounds: int = 9
    seconds: float = 0.2
    limit: int = 600
    quick: Mapping[str, Any] = {}


class Set(NamedTuple):
    """Cases whose results are in one file, `<page>/<name of the set>.json`, and in one table.

    Attributes:
        page: Name of the page.
        cases: What is measured.
        table: Kind of the table; see `tables.py`.
        device: Where it is measured if no set is named.
        needs: A module without which it is not measured.
    """

    page: str
    cases: tuple[Case, ...]
    table: str = "ratios"
    device: str = "cpu"
    needs: str = ""


def beside(name: str, env_id: str, bars: Mapping[str, float | None], **options: Any) -> Case:
    """Return a case of `steps.beside_engine`: `ways`, or the modes that have bars."""
    values = (options.pop("num_envs", 256),)
    ways = {way: IN_MODE[way] for way in bars if way in IN_MODE}
    options = {"env_id": env_id, "ways": ways, "bars": bars, **options}
    return Case(name, "steps:beside_engine", options, values)


def on_pool(task_id: str, num_envs: int, next_step: float, same_step: float) -> Case:
    """Return a step of EnvPool beside its own, with its default threads and with ours."""
    threads = "EnvPool with as many threads"
    bars = {NEXT: next_step, SAME: same_step, f"{NEXT} over {threads}": None}
    options = {"engines": {"EnvPool": {"num_threads": 0}, threads: {}}, "num_envs": num_envs}
    return beside(f"{task_id}, {num_envs:,} envs", f"EnvPool/{task_id}", bars, **options)


def on_threads(task_id: str) -> Case:
    """Return EnvPool's own step by the number of threads."""
    engines = {"default threads": {"num_threads": 0}, "one thread": {"num_threads": 1}}
    bars = {"one thread over default threads": None}
    case = beside(task_id, f"EnvPool/{task_id}", bars, engines=engines, ways={})
    return case._replace(values=(8, 64, 256, 1024), processes=1)


def on_cores(
    name: str, num_envs: int, bar: float | None, *, mode: str = NEXT, arrays: str = "numpy"
) -> Case:
    """Return a step over all cores and on one device, beside the engine's on one device."""
    engine, more = ("Playground", {}) if name in PLAYGROUND else ("Brax", SPRING)
    kwargs = {"autoreset_mode": mode, "arrays": arrays, **more, "engines": {"engine": {}}}
    bars = {"all cores": bar, "one device": None}
    title = ", ".join(filter(None, (f"{name}, {num_envs:,} envs", mode, arrays)))
    given = {"num_envs": num_envs, "ways": PLACES, **kwargs}
    return beside(title, f"{engine}/{name}-v0", bars, **given)._replace(processes=3, seconds=0.4)


def by_size(name: str) -> Case:
    """Return `on_cores` over the batch size."""
    case, sizes = on_cores(name, 2, None), (1, 4, 16, 64, 256, 1024, 4096)
    return case._replace(name=name, values=sizes, processes=1, rounds=5, seconds=0.2)


def routed(task: str, value: int | None = None, routes: str = "", **changed: Any) -> Case:
    """Return the routes to a task, each in a process of its own."""
    case = Case(task, "routes:routes_to", {"task": task, "only": routes}, apart=True, processes=1)
    values = {} if value is None else {"values": (value,)}
    return case._replace(**{"seconds": 0.5, "rounds": 7} | values | changed)


def varied(task: str, axis: str, values: tuple[int, ...], batch: int) -> Case:
    """Return the routes to a task over something else than the number of environments."""
    return routed(task, axis=axis, values=values, batch=batch, rounds=5)


def views(name: str, function: str, processes: int = 5, **options: Any) -> Case:
    """Return a case of a trainer's view."""
    values = (options.pop("num_envs", 64),)
    return Case(name, f"views:{function}", options, values, processes=processes)


def gradient(title: str, kind: str, num_envs: int, processes: int = 3, /, **options: Any) -> Case:
    """Return a gradient beside the same in plain JAX."""
    return Case(title, f"gradients:{kind}", options, (num_envs,), processes=processes)


GPU_SIZES = (256, 4096, 16384, 65536)


def on_gpu(name: str, function: str, sizes: tuple[int, ...] = GPU_SIZES, **options: Any) -> Case:
    """Return a case whose policy and batch are on a GPU; those with bars are the first."""
    limit = 300 if "gradient" in name else 180
    return Case(name, f"gpu:{function}", options, sizes, processes=1, rounds=7, limit=limit)


PENDULUM = "Brax/inverted_pendulum-v0"
BRAX, ROUTES = {"backend": "generalized"}, "^bare|^Brax|^gymbridge, numpy"
SETS: dict[str, Set] = {
    "brax": Set(
        "engine",
        (
            beside("inverted_pendulum, 256 envs", PENDULUM, {NEXT: 1.20, SAME: 1.20}, **BRAX),
            beside(
                "fast, 256 envs", "Brax/fast-v0", {NEXT: None, SAME: None, DISABLED: None}, **BRAX
            ),
            beside(
                "reacher, 256 envs",
                "Brax/reacher-v0",
                {NEXT: 1.1, SAME: 1.1, DISABLED: 1.1},
                **BRAX,
            ),
            beside(
                "reacher, 1,024 envs",
                "Brax/reacher-v0",
                {"limit of 100 steps over no limit": 1.10},
                ways={
                    "no limit": {"max_episode_steps": -1},
                    "limit of 100 steps": {"max_episode_steps": 100},
                },
                engines={},
                stagger=100,
                num_envs=1024,
                **BRAX,
            ),
        ),
    ),
    "physics": Set(
        "engine",
        (
            Case("humanoid (spring) with drawn physics", "physics:randomization", processes=3),
            Case("CartpoleBalance, 256 envs", "physics:playground", {"bar": 1.12}, processes=3),
            Case("inverted_pendulum (spring), functional()", "physics:functional", processes=3),
        ),
    ),
    "playground": Set(
        "engine",
        tuple(
            Case(f"{name} ({impl}), 64 envs", "physics:playground", given, (64,), processes=runs)
            for name, impl, bar, runs in (
                ("Go1JoystickFlatTerrain", "jax", 1.15, 5),
                ("CartpoleBalance", "jax", None, 5),
                ("CartpoleBalance", "warp", 1.20, 3),
                ("HopperHop", "warp", None, 3),
            )
            for given in [{"name": name, "impl": impl, "bar": bar}]
        ),
    ),
    "suites": Set(
        "engine",
        (
            Case("jumanji's Game2048", "suites:jumanji", {}, (1024,), processes=3),
            Case("gymnax's CartPole", "suites:gymnax", {}, (1024,), processes=3),
        ),
    ),
    "envpool": Set(
        "engine",
        (
            on_pool("CartPole-v1", 8, 0.90, 1.20),
            on_pool("CartPole-v1", 64, 1.10, 1.50),
            on_pool("CartPole-v1", 1024, 1.05, 1.40),
            on_pool("Pong-v5", 8, 1.03, 1.08),
            on_pool("HalfCheetah-v4", 8, 1.03, 1.08),
        ),
    ),
    "pool_in_jax": Set(
        "engine",
        tuple(
            Case(f"64 CartPoles, {mode}", "pools:in_jax", {"mode": mode}, (64,), processes=3)
            for mode in (NEXT, SAME)
        ),
    ),
    "async_pool": Set(
        "engine",
        (
            Case("CartPole, 32 of 64 envs at a time", "pools:turns", {}, (64,), batch=32),
            *(
                Case(f"{task}, {part} at a time", "pools:as_ready", given, (num_envs,))
                for task, num_envs, part in (
                    ("HumanoidStandup-v5", 4, 1),
                    ("Ant-v5", 4, 1),
                    ("LunarLander-v3", 8, 2),
                )
                for given in [{"task": task, "part": part}]
            ),
        ),
    ),
    "threads": Set(
        "engine",
        tuple(map(on_threads, ("CartPole-v1", "Acrobot-v1", "FrozenLake-v1", "HalfCheetah-v4"))),
    ),
    "cartpole": Set("routes", (routed("CartPole-v1", 64, rounds=9),), "rates"),
    "ant": Set("routes", (routed("ant (Brax, spring)", 1024),), "rates"),
    "inverted_pendulum": Set(
        "routes", (routed("inverted_pendulum (Brax, generalized)", 256),), "rates"
    ),
    "cartpole_balance": Set("routes", (routed("CartpoleBalance (Playground)", 256),), "rates"),
    "sizes_cartpole": Set(
        "routes",
        (routed("CartPole-v1", values=(1, 16, 256, 4096, 16384), rounds=5),),
        "curves",
    ),
    "sizes_inverted_pendulum": Set(
        "routes",
        (
            routed(
                "inverted_pendulum (Brax, generalized)",
                routes=ROUTES,
                values=(1, 16, 256, 4096),
                rounds=5,
            ),
        ),
        "curves",
    ),
    "restarts": Set(
        "routes",
        tuple(
            varied(task, "steps of an episode", (1, 2, 5, 20, 100, 1000), batch)
            for task, batch in (
                ("restarts of Pendulum (EnvPool, 64 environments)", 64),
                ("restarts of reacher (Brax, spring, 256 environments)", 256),
            )
        ),
        "curves",
    ),
    "infos": Set(
        "routes",
        (varied("infos (no physics, 64 environments)", "infos in a step", (0, 1, 4, 16, 64), 64),),
        "curves",
    ),
    "devices": Set(
        "routes",
        (varied("devices (Brax, ant, spring, 1024 environments)", "devices", (1, 2, 4), 1024),),
        "curves",
    ),
    "gradients": Set(
        "gradients",
        (
            beside(
                "reacher (generalized), 256 envs, a step",
                "Brax/reacher-v0",
                {"torch over numpy": 1.05},
                ways={"torch": {"arrays": "torch"}, "numpy": {}},
                engines={},
                **BRAX,
            ),
            gradient("inverted_pendulum, window of 32 steps", "window", 256, 5, bar=1.20),
            gradient("reacher, window of 32 steps", "window", 256, 5, name="reacher", bar=2.0),
            gradient("inverted_pendulum, 32 steps", "window", 256, method="actions", bar=1.15),
            gradient("reacher (MJX), window of 16 steps", "mjx_window", 64),
            gradient("reacher, 8 steps, Hessian times a vector", "hessian", 64),
            gradient("inverted_pendulum, 200 windows of 32 steps", "memory", 256, 1),
            gradient("inverted_pendulum, 16 steps", "routes", 64, only="policy")._replace(
                apart=True, rounds=3, limit=1200
            ),
        ),
    ),
    "gradient_routes": Set(
        "gradients",
        (gradient("inverted_pendulum, 16 steps", "routes", 64, 1)._replace(apart=True),),
        "rates",
    ),
    "sb3_training": Set(
        "trainers",
        tuple(
            Case(
                f"{task} to {target}",
                "training:sb3_to_target",
                given,
                (64,),
                processes=1,
                limit=3600,
                quick={"max_steps": 1},
            )
            for task, target in (("CartPole-v1", 450), ("InvertedPendulum-v5", 900))
            for given in [{"task": task, "target": target}]
        ),
        "trainings",
    ),
    "sb3": Set(
        "trainers",
        tuple(
            views(f"{num_envs} CartPoles", "sb3", num_envs=num_envs, bar=bar, over_step=step)
            for num_envs, step, bar in ((8, None, None), (64, 2.0, 1 / 3))
        ),
    ),
    "pong": Set(
        "trainers",
        tuple(
            views(f"{size} games", "pong", num_envs=size)._replace(rounds=5, limit=1800)
            for size in (8, 16)
        ),
    ),
    "torch_views": Set(
        "trainers",
        (
            views("inverted_pendulum, rollout of 100 steps", "torchrl_loop", num_envs=256),
            views(
                "inverted_pendulum, rollout, each in a process", "torchrl_brax", num_envs=256
            )._replace(apart=True, rounds=3),
            views("Pong-v5, rollout of 100 steps", "torchrl_pong", num_envs=8),
            views("HalfCheetah-v4, a step", "rsl_rl", num_envs=64),
        ),
    ),
    "cleanrl": Set(
        "trainers",
        (
            views("CartPole-v1, 8 envs", "cleanrl", num_envs=8),
            views("CartPole-v1, 64 envs", "cleanrl", num_envs=64, bar=1.20),
            views("HalfCheetah-v4, 8 envs", "cleanrl", num_envs=8, task="HalfCheetah-v4"),
        ),
    ),
    "snapshots": Set("other", (Case("ant (spring), 4,096 envs", "files:snapshots", {}, (4096,)),)),
    "frames": Set(
        "other",
        (
            Case("a frame of ant (spring)", "files:frame", {"name": "ant"}, (1,), processes=4),
            Case("a frame of inverted_pendulum (spring)", "files:frame", {}, (1,), processes=4),
            *(
                beside(
                    f"a step of {task}, 64 envs, nothing drawn",
                    env_id,
                    {"with render_mode over without": 1.05},
                    ways={"with render_mode": {"render_mode": "rgb_array"}, "without": {}},
                    engines={},
                    num_envs=64,
                    **options,
                )._replace(processes=4)
                for task, env_id, options in (
                    ("CartPole (EnvPool)", "EnvPool/CartPole-v1", {}),
                    ("inverted_pendulum (spring)", PENDULUM, SPRING),
                )
            ),
        ),
    ),
    "cores": Set(
        "scaling",
        (
            *(
                on_cores(name, size, bar, mode=mode, arrays=arrays)
                for name, size in (("ant", 1024), ("humanoid", 256))
                for arrays, bar in (("numpy", 0.65), ("torch", 0.70))
                for mode in (NEXT, SAME)
            ),
            on_cores("ant", 128, 0.85),
            on_cores("inverted_pendulum", 256, None),
            on_cores("CartpoleBalance", 1024, 1.10),
            on_cores("Go1JoystickFlatTerrain", 64, None),
            on_cores("Go1JoystickFlatTerrain", 256, 0.75),
            gradient("gradient of a window of 8 steps of ant", "over_cores", 256),
        ),
    ),
    "cores_by_size": Set(
        "scaling",
        tuple(
            map(by_size, ("ant", "humanoid", "inverted_pendulum", "fast", "CartpoleBalance")),
        ),
        "sizes",
    ),
    "core_views": Set(
        "scaling",
        tuple(
            views(f"{trainer}'s view of 1,024 ants", "on_cores", 3, num_envs=1024, trainer=trainer)
            for trainer in ("Stable-Baselines3", "CleanRL", "TorchRL", "rsl_rl")
        ),
    ),
    "core_limits": Set(
        "scaling",
        (
            Case("ant, 1,024 envs", "cores:limit", {"name": "ant"}, (1024,)),
            Case("humanoid, 256 envs", "cores:limit", {"name": "humanoid"}, (256,)),
            Case("fast, 256 envs", "cores:parts", processes=1),
        ),
    ),
    "gpu": Set(
        "gpu",
        (
            on_gpu("step of ant (Brax, spring, torch policy)", "step"),
            on_gpu("gradient of a window (ant, spring, 16 steps)", "window"),
            on_gpu("step of ant over TorchRL (spring)", "torchrl", (256, 4096)),
            on_gpu("gradient of a window over TorchRL (ant)", "torchrl_window", (256, 4096)),
            on_gpu("gradient of an unroll (ant, spring, 16 steps)", "window", method="actions"),
            on_gpu("other steps of ant (Brax, spring, torch policy)", "other_steps"),
            on_gpu("step of CartpoleBalance (Playground, torch policy)", "playground"),
            on_gpu("step of CartpoleBalance, warp (Playground)", "playground", impl="warp"),
            on_gpu("rollout of ant (Brax, spring, 32 steps)", "functional"),
            on_gpu("CartPole-v1 (EnvPool)", "pool", (8, 64, 512, 4096)),
        ),
        device="cuda",
    ),
    "gpu_training": Set(
        "gpu",
        tuple(
            Case(
                f"PPO on ant ({library})",
                "training:ppo_to_target",
                given,
                (4096,),
                processes=1,
                quick={"seconds": 0},
            )
            for library in ("gymbridge", "Brax")
            for given in [{"library": library}]
        ),
        "progress",
        device="cuda",
    ),
    "variants": Set(
        "gpu",
        (
            on_gpu("variants of a step of ant, NextStep", "variants", (4096,), mode=NEXT),
            on_gpu("variants of a step of ant, SameStep", "variants", (4096,), mode=SAME),
            on_gpu("CUDA graphs of Warp (CartpoleBalance)", "warp_modes", (4096,)),
        ),
        device="cuda",
    ),
}
"""By name."""


def find_case(name: str, case: str) -> Case:
    """Return a case of a set."""
    return next(one for one in SETS[name].cases if one.name == case)
