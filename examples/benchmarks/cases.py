"""The cases, by set: what is timed, over what, at which sizes, and the bar. Data alone.

A set has a file of results and a table of a page. `make` names the function that builds a case, and
is imported in the process that measures it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

NEXT, SAME, _ = MODES = ("NextStep", "SameStep", "Disabled")
IN_MODE = {mode: {"autoreset_mode": mode} for mode in MODES}
PLACES = {"all cores": {"device": "cpu:all"}, "one device": {"device": "cpu"}}
"""Keywords by name; the batch over all cores is the first, since it starts JAX for all."""

SHORT = {"max_steps": 1, "seconds": 0}
QUICK = {**SHORT, "num_steps": 2, "n_steps": 2}
"""Keywords with which a function is soon done, and with which what it compiles is small, too."""

SPRING = {"backend": "spring"}
BRAX = {"backend": "generalized"}
MJX = {"name": "reacher", "backend": "mjx", "num_steps": 16}
HESSIAN = {"name": "reacher", "method": "product", "num_steps": 8, "bar": 1.5}
PLAYGROUND = ("CartpoleBalance", "Go1JoystickFlatTerrain")


class Case(NamedTuple):
    """Functions that are timed in turn, at one value or at several.

    The function that `make` names returns a `steps.Contest`, or what it found by itself.
    """

    name: str  # in the table
    make: str  # "module:function", of a value, the device and `options`
    options: Mapping[str, Any] = {}  # keywords of the function
    values: tuple[int, ...] = (256,)  # how many environments there are, or what `axis` says
    axis: str = "environments"  # what the values are
    batch: int | None = None  # environment steps in a step of the batch; None for the value
    processes: int = 3  # that measure it, one after the other
    rounds: int = 9  # turns of each function
    limit: int = 1800  # seconds after which its process is ended


class Set(NamedTuple):
    """Cases whose results are in one file, `<page>/<name of the set>.json`, and in one table."""

    page: str  # its name
    cases: tuple[Case, ...]
    table: str  # kind of the table; see `tables.py`


def timed(title: str, make: str, /, *values: int, **options: Any) -> Case:
    """Return a case from the options of its function."""
    return Case(title, make, options, values or (256,))


def beside(
    title: str, env_id: str, num_envs: int, bars: Mapping[str, float | None], /, **options: Any
) -> Case:
    """Return a case of `steps.beside_engine`: `ways`, or the modes that have bars."""
    ways = {way: IN_MODE[way] for way in bars if way in IN_MODE}
    options = {"env_id": env_id, "ways": ways, "bars": bars, **options}
    return timed(title, "steps:beside_engine", num_envs, **options)


def on_pool(task: str, num_envs: int, next_step: float, same_step: float) -> Case:
    """Return a step of EnvPool beside its own, with its default threads and with ours."""
    threads = "EnvPool with as many threads"
    bars = {NEXT: next_step, SAME: same_step, f"{NEXT} over {threads}": None}
    engines = {"EnvPool": {"num_threads": 0}, threads: {}}
    title = f"{task}, {num_envs:,} envs"
    return beside(title, f"EnvPool/{task}", num_envs, bars, engines=engines)


def on_threads(task: str) -> Case:
    """Return EnvPool's own step by the number of threads."""
    engines = {"default threads": {"num_threads": 0}, "one thread": {"num_threads": 1}}
    bars = {"one thread over default threads": None}
    case = beside(task, f"EnvPool/{task}", 8, bars, engines=engines, ways={})
    return case._replace(values=(8, 64, 1024), processes=1)


def on_cores(task: str, num_envs: int, bar: float | None = None, *given: str) -> Case:
    """Return a step over all cores and on one device, in a mode and with arrays."""
    engine, more = ("Playground", {}) if task in PLAYGROUND else ("Brax", SPRING)
    mode, arrays = given or (NEXT, "numpy")
    options = {"autoreset_mode": mode, "arrays": arrays, **more}
    options["engines"] = {"engine": {"arrays": "numpy"}}
    bars = {"all cores": bar, "one device": None}
    title = f"{task}, {num_envs:,} envs, {mode}, {arrays}"
    return beside(title, f"{engine}/{task}-v0", num_envs, bars, ways=PLACES, **options)


def routed(task: str, *values: int, **changed: Any) -> Case:
    """Return the routes to a task, each in a process of its own."""
    case = timed(task, "routes:routes_to", *values, task=task)
    return case._replace(**{"processes": 1, "rounds": 5} | changed)


def on_gpu(title: str, make: str, *sizes: int, **options: Any) -> Case:
    """Return a case whose policy and batch are on a GPU."""
    case = timed(title, make, *(sizes or (256, 4096, 16384, 65536)), **options)
    return case._replace(processes=1, rounds=7, limit=300)


LIMITS = {"no limit": {"max_episode_steps": -1}, "limit of 100 steps": {"max_episode_steps": 100}}
WITH_LIMIT = {"limit of 100 steps over no limit": 1.10}
STAGGERED = {"engines": {}, "stagger": 100}
PENDULUM, REACHER = "Brax/inverted_pendulum-v0", "Brax/reacher-v0"
ENGINE = {
    "brax": (
        beside("inverted_pendulum, 256 envs", PENDULUM, 256, {NEXT: 1.2, SAME: 1.2}, **BRAX),
        beside("fast, 256 envs", "Brax/fast-v0", 256, dict.fromkeys(MODES), **BRAX),
        beside("reacher, 256 envs", REACHER, 256, dict.fromkeys(MODES, 1.10), **BRAX),
        beside("reacher, 1,024 envs", REACHER, 1024, WITH_LIMIT, ways=LIMITS, **STAGGERED, **BRAX),
    ),
    "physics": (
        timed("humanoid (spring), drawn physics", "physics:randomization"),
        timed("CartpoleBalance, 256 envs", "physics:playground", bar=1.12),
        timed("inverted_pendulum (spring)", "physics:functional", bar=1.25),
    ),
    "playground": tuple(
        timed(f"{name} ({impl}), 64 envs", "physics:playground", 64, name=name, impl=impl, bar=bar)
        for name, impl, bar in (
            ("Go1JoystickFlatTerrain", "jax", 1.15),
            ("CartpoleBalance", "jax", None),
            ("CartpoleBalance", "warp", 1.20),
            ("HopperHop", "warp", None),
        )
    ),
    "suites": (
        timed("jumanji's Game2048", "suites:jumanji", 1024),
        timed("gymnax's CartPole", "suites:gymnax", 1024),
    ),
    "envpool": (
        on_pool("CartPole-v1", 8, 0.90, 1.20),
        on_pool("CartPole-v1", 64, 1.10, 1.50),
        on_pool("CartPole-v1", 1024, 1.05, 1.40),
        on_pool("Pong-v5", 8, 1.03, 1.08),
        on_pool("HalfCheetah-v4", 8, 1.03, 1.08),
    ),
    "pool_in_jax": tuple(
        timed(f"64 CartPoles, {mode}", "pools:in_jax", 64, mode=mode) for mode in (NEXT, SAME)
    ),
    "async_pool": (
        timed("CartPole, 32 of 64 envs at a time", "pools:turns", 64)._replace(batch=32),
        *(
            timed(f"{task}, {part} at a time", "pools:as_ready", size, task=task, part=part)
            for task, size, part in (
                ("HumanoidStandup-v5", 4, 1),
                ("Ant-v5", 4, 1),
                ("LunarLander-v3", 8, 2),
            )
        ),
    ),
    "threads": (on_threads("CartPole-v1"), on_threads("HalfCheetah-v4")),
}
RATES = {
    "cartpole": (routed("CartPole-v1", 64, rounds=9),),
    "ant": (routed("ant (Brax, spring)", 1024, rounds=7),),
    "inverted_pendulum": (routed("inverted_pendulum (Brax, generalized)", 256, rounds=7),),
    "cartpole_balance": (routed("CartpoleBalance (Playground)", 256, rounds=7),),
}
LENGTHS = {"axis": "steps of an episode", "values": (1, 5, 20, 100, 1000)}
INFOS = {"axis": "infos in a step", "values": (0, 1, 4, 16, 64)}
CURVES = {
    "sizes_cartpole": (routed("CartPole-v1", 1, 16, 256, 4096),),
    "restarts": (
        routed("restarts of Pendulum (EnvPool, 64 environments)", batch=64, **LENGTHS),
        routed("restarts of reacher (Brax, spring, 256 environments)", batch=256, **LENGTHS),
    ),
    "infos": (routed("infos (no physics, 64 environments)", batch=64, **INFOS),),
}
TRAINERS = {
    "sb3": (
        timed("8 CartPoles", "views:sb3", 8),
        timed("64 CartPoles", "views:sb3", 64, over_step=2.0, bar=1 / 3),
    ),
    "pong": (timed("8 games", "views:pong", 8)._replace(processes=2, rounds=3),),
    "torch_views": (
        timed("inverted_pendulum, rollout of 100 steps", "views:torchrl_loop"),
        timed("inverted_pendulum, rollout, each in a process", "views:torchrl_brax")._replace(
            rounds=3
        ),
        timed("Pong-v5, rollout of 100 steps", "views:torchrl_pong", 8),
        timed("HalfCheetah-v4, a step", "views:rsl_rl", 64),
    ),
    "cleanrl": (
        timed("CartPole-v1, 8 envs", "views:cleanrl", 8),
        timed("CartPole-v1, 64 envs", "views:cleanrl", 64, bar=1.20),
        timed("HalfCheetah-v4, 8 envs", "views:cleanrl", 8, task="HalfCheetah-v4"),
    ),
}
DRAWN = {
    "ways": {"with render_mode": {"render_mode": "rgb_array"}, "without": {}},
    "bars": {"with render_mode over without": 1.05},
    "engines": {},
}
OTHER = {
    "snapshots": (timed("ant (spring), 4,096 envs", "files:snapshots", 4096),),
    "frames": (
        timed("a frame of ant (spring)", "files:frame", 1, name="ant"),
        timed("a frame of inverted_pendulum (spring)", "files:frame", 1),
        beside("64 CartPoles, nothing drawn", "EnvPool/CartPole-v1", 64, {}, **DRAWN),
        beside("64 inverted_pendulums, nothing drawn", PENDULUM, 64, {}, **SPRING, **DRAWN),
    ),
}
SCALING = {
    "cores": (
        *(
            on_cores(task, size, bar, mode, arrays)
            for task, size in (("ant", 1024), ("humanoid", 256))
            for arrays, bar in (("numpy", 0.65), ("torch", 0.70))
            for mode in (NEXT, SAME)
        ),
        on_cores("ant", 128, 0.85),
        on_cores("inverted_pendulum", 256),
        on_cores("CartpoleBalance", 1024, 1.10),
        on_cores("Go1JoystickFlatTerrain", 64),
        on_cores("Go1JoystickFlatTerrain", 256, 0.75),
        timed("gradient of a window of 8 steps of ant", "gradients:over_cores"),
    ),
    "core_views": tuple(
        timed(f"{trainer}'s view of 1,024 ants", "views:on_cores", 1024, trainer=trainer)
        for trainer in ("Stable-Baselines3", "CleanRL", "TorchRL", "rsl_rl")
    ),
    "core_limits": (
        timed("ant, 1,024 envs", "cores:limit", 1024, name="ant"),
        timed("humanoid, 256 envs", "cores:limit", name="humanoid"),
    ),
}
ANT_16 = {"name": "ant", "num_steps": 16}
UNROLL = {**ANT_16, "method": "actions"}
ROLLOUT = {"name": "ant", "num_steps": 32}
POOL = {
    "env_id": "EnvPool/CartPole-v1",
    "ways": {"gymbridge, numpy": {}, "gymbridge, torch": {"arrays": "torch"}},
    "bars": {"gymbridge, numpy": None, "gymbridge, torch": None},
    "engines": {"EnvPool's own class": {"num_threads": 0}},
}
GPU = {
    "variants": (
        on_gpu("variants of a step of ant, NextStep", "variants:step_variants", 4096, mode=NEXT),
        on_gpu("variants of a step of ant, SameStep", "variants:step_variants", 4096, mode=SAME),
        on_gpu("CUDA graphs of Warp (CartpoleBalance)", "gpu:warp_modes", 4096),
    ),
    "gpu": (
        on_gpu("step of ant (Brax, spring, torch policy)", "gpu:step"),
        on_gpu("gradient of a window (ant, spring, 16 steps)", "gradients:window", **ANT_16),
        on_gpu("step of ant over TorchRL (spring)", "gpu:torchrl", 256, 4096),
        on_gpu("gradient of an unroll (ant, spring, 16 steps)", "gradients:window", **UNROLL),
        on_gpu("step of CartpoleBalance (Playground, torch policy)", "gpu:playground"),
        on_gpu("step of CartpoleBalance, warp (Playground)", "gpu:playground", impl="warp"),
        on_gpu("rollout of ant (Brax, spring, 32 steps)", "physics:functional", **ROLLOUT),
        on_gpu("CartPole-v1 (EnvPool)", "steps:beside_engine", 64, 512, 4096, **POOL),
    ),
}
WINDOWS = timed("inverted_pendulum, window of 16 steps", "gradients:routes", 64)
GRADIENTS = {
    "gradients": (
        timed("inverted_pendulum, window of 32 steps", "gradients:window", 256, bar=1.20),
        timed("reacher, window of 32 steps", "gradients:window", 256, name="reacher", bar=2.0),
        timed("inverted_pendulum, 32 steps", "gradients:window", 256, method="actions", bar=1.15),
        timed("reacher (MJX), window of 16 steps", "gradients:window", 64, **MJX),
        timed("reacher (MJX), 16 steps", "gradients:window", 64, **MJX, method="actions"),
        timed("reacher, 8 steps, Hessian times a vector", "gradients:window", 64, **HESSIAN),
        WINDOWS._replace(options={"only": "policy"}, rounds=3),
    ),
}
TRAININGS = tuple(
    timed(f"{task} to {target}", "training:sb3_to_target", 64, task=task, target=target)._replace(
        processes=1, limit=3600
    )
    for task, target in (("CartPole-v1", 450), ("InvertedPendulum-v5", 900))
)
TRAININGS_ON_GPU = tuple(
    on_gpu(f"PPO on ant ({library})", "training:ppo_to_target", 4096, library=library)
    for library in ("gymbridge", "Brax")
)
SIZES = {"values": (16, 64, 256, 1024, 4096), "processes": 1, "rounds": 5}
BY_SIZE = tuple(
    on_cores(task, 1)._replace(name=task, **SIZES)
    for task in ("ant", "inverted_pendulum", "CartpoleBalance")
)

SETS = {
    name: Set(page, cases, table)
    for page, table, these in (
        ("engine", "ratios", ENGINE),
        ("ways", "rates", RATES),
        ("ways", "curves", CURVES),
        ("gradients", "ratios", GRADIENTS),
        ("gradients", "rates", {"gradient_ways": (WINDOWS._replace(processes=1),)}),
        ("trainers", "trainings", {"sb3_training": TRAININGS}),
        ("trainers", "ratios", TRAINERS),
        ("other", "ratios", OTHER),
        ("scaling", "ratios", SCALING),
        ("scaling", "sizes", {"cores_by_size": BY_SIZE}),
        ("gpu", "ratios", GPU),
        ("gpu", "progress", {"gpu_training": TRAININGS_ON_GPU}),
    )
    for name, cases in these.items()
}
"""By name."""


def find_case(name: str, case: str) -> Case:
    """Return a case of a set."""
    return next(one for one in SETS[name].cases if one.name == case)
