"""Waits of the host for a GPU, counted in a trace of torch's profiler.

The profiler sees the whole process through CUPTI, so also what XLA does, in each of its threads.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_RUN = "gymbridge run"
"""Name of the span of a trace to which it is cut."""

_API = re.compile(r"cu(da)?(Stream|Event|Device|Ctx)Synchronize|cu(da)?Memcpy(DtoH)?(_v2)?")
"""Calls of CUDA that wait; an asynchronous copy has `Async` in its name."""

_RECORD = re.compile(r"(Stream|Event|Context) Sync(hronize)?")
"""CUPTI's records of waits, by whatever call; `Stream Wait Event` is one of streams alone."""

_COPY = re.compile(r"Memcpy (\w+) \((\w+) -> (\w+)\)")


def count_host_syncs(events: Iterable[dict[str, Any]]) -> Counter[str]:
    """Return how often the host waited for the GPU or fetched values, by the event's name.

    Args:
        events: The events of a trace in Chrome's format.
    """
    return Counter(event["name"] for event in _complete(events) if _is_wait(event["name"]))


def count_copies(events: Iterable[dict[str, Any]]) -> Counter[str]:
    """Return the copies on the GPU by their kind, such as "HtoD from Pinned"."""
    found = (_COPY.fullmatch(event["name"]) for event in _complete(events))
    return Counter(f"{match[1]} from {match[2]}" for match in found if match)


def _is_wait(name: str) -> bool:
    copy = _COPY.fullmatch(name)
    is_fetch = copy is not None and copy[1] == "DtoH"
    return bool(_API.fullmatch(name) or _RECORD.fullmatch(name)) or is_fetch


def _complete(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the events with a duration: others are names of threads and arrows between events."""
    return (event for event in events if event.get("ph") == "X")


def cut_to_run(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of the run, without those of the profiler, which itself waits at its end.

    A copy runs on the GPU when its turn comes, so also after the run.
    """
    timed = [event for event in events if "ts" in event]
    span = next(
        event for event in timed if event["name"] == _RUN and event.get("cat") == "user_annotation"
    )
    start, end = span["ts"], span["ts"] + span["dur"]
    return [
        event
        for event in timed
        if start <= event["ts"] and (event["ts"] <= end or event.get("cat") == "gpu_memcpy")
    ]


def trace(run: Callable[[], Any], device: str) -> list[dict[str, Any]]:
    """Return the events of a run, those of the GPU included if the device is one."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    activities, options = [ProfilerActivity.CPU], {}
    if device.startswith("cuda"):
        activities.append(ProfilerActivity.CUDA)
        # Without this, waits by the driver's own calls, which XLA makes, are not in the trace.
        config: Any = torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
        options["experimental_config"] = config
        torch.cuda.synchronize(device)
    with profile(activities=activities, **options) as profiler, record_function(_RUN):
        run()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(file))
        return cut_to_run(json.loads(file.read_text(encoding="utf-8"))["traceEvents"])


@contextmanager
def forbid_host_syncs(device: str) -> Iterator[None]:
    """Let torch and JAX raise where they wait for the device or fetch from it."""
    import jax
    import torch

    # Not by JAX's context manager, which holds for this thread alone.
    jax.config.update("jax_transfer_guard_device_to_host", "disallow_explicit")
    is_cuda = device.startswith("cuda")
    if is_cuda:
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        jax.config.update("jax_transfer_guard_device_to_host", "allow")
        if is_cuda:
            torch.cuda.set_sync_debug_mode("default")
