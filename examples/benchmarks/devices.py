"""What a step costs when its batch is spread over several devices of one host.

    python examples/benchmarks/devices.py --force-cpu-devices 4
    python examples/benchmarks/devices.py  # over the GPUs that JAX finds

Forced CPU devices share the host's cores: their rows say nothing of what GPUs gain.
"""

from __future__ import annotations

import argparse
import os
import warnings

from timing import Row, compare, interleave, print_table

warnings.filterwarnings("ignore", message="Brax System")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--env", default="ant", help="of Brax")
    parser.add_argument("--num-envs", type=int, default=1024, help="environments in all")
    parser.add_argument("--force-cpu-devices", type=int, default=0, help="CPU devices for XLA")
    parser.add_argument("--rounds", type=int, default=9, help="of each")
    parser.add_argument("--count", type=int, default=10, help="steps in a round")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    if args.force_cpu_devices:  # before jax is imported
        os.environ["XLA_FLAGS"] = (
            f"--xla_force_host_platform_device_count={args.force_cpu_devices} "
            + os.environ.get("XLA_FLAGS", "")
        )
    import jax

    from gymbridge import BraxVectorEnv

    devices = jax.devices()
    counts = [count for count in (1, 2, 4, 8) if count <= len(devices)]
    steps = {}
    for count in counts:
        envs = BraxVectorEnv(
            args.env, args.num_envs, backend="spring", arrays="jax", device=devices[:count]
        )
        envs.reset(seed=0)
        actions = jax.device_put(envs.action_space.sample(), envs.device)

        def step(_: int, envs: BraxVectorEnv = envs, actions: jax.Array = actions) -> None:
            jax.block_until_ready(envs.step(actions)[0])

        steps[str(count)] = step
    times = interleave(steps, count=args.count, rounds=args.rounds)
    rows = []
    for count in map(str, counts):
        taken = compare(times, count, "1")
        case = f"{args.env} spring, {args.num_envs} envs, {count} of {len(devices)} devices"
        rows.append(Row(case, taken.microseconds, taken.ratio, None, devices[0].platform))
    print_table(rows)


if __name__ == "__main__":
    main()
