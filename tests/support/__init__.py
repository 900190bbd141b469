"""What tests share. A test imports it by its path, such as `tests.support.batches`.

Runs of a batch
    `batches` makes one of every engine, mode and kind of arrays. `player` makes the calls of a run,
    `episode_runs` has its episodes without the mode's way of returning them, `strategies` and
    `garbage` draw what goes in, and `trees` compares and spoils what comes out.
The rule of episodes
    `oracle` says it for one environment at a time. `scripted_rows`, `envpool_oracle`, `own_jax`,
    `playground_samples` and `brax_samples` give it the environments of each engine. `references`
    has Gymnasium's `SyncVectorEnv`. `scripted_brax` is the scripted task as a Brax environment.
Environments and batches
    The names end in `_samples`, or say what moves: `falling_ball`, `point_mass`, `puck`, `walks`.
Random calls, and calls that are cut short
    `call_machine` and `call_pair`; `interrupted_calls`, `interrupts`.
Faulty environments, for the checker
    `offenders`, `offenders_of_ends`, `offenders_of_ownership`, `offenders_of_requests`.
Processes and machines
    `python_runs`, `example_runs`, `process_samples`, `terminals`, `system_libraries`, `gpu_runs`.
"""
