"""The function that counts waits for a GPU, on events as a profiler of CUDA writes them."""

from __future__ import annotations

from typing import Any

from tests.support.host_syncs import count_host_syncs, cut_to_run


def event(name: str, category: str = "cuda_runtime", phase: str = "X") -> dict[str, Any]:
    return {"ph": phase, "cat": category, "name": name, "ts": 1.0, "dur": 2.0, "tid": 3}


WAIT_NAMES = {
    "cuda_runtime": "cudaStreamSynchronize cudaDeviceSynchronize cudaEventSynchronize cudaMemcpy",
    "cuda_driver": "cuStreamSynchronize cuCtxSynchronize cuMemcpyDtoH_v2",
}
OTHER_NAMES = {
    "cpu_op": "aten::add",
    "cuda_runtime": (
        "cudaLaunchKernel cudaMemcpyAsync cudaStreamWaitEvent cudaEventRecord cudaEventQuery"
    ),
    "cuda_driver": "cuLaunchKernelEx",
}


def events_of(names: dict[str, str]) -> list[dict[str, Any]]:
    return [event(name, category) for category in names for name in names[category].split()]


WAITS = [
    *events_of(WAIT_NAMES),
    *(event(f"{what} Sync", "cuda_sync") for what in ("Stream", "Event", "Context")),
    event("Memcpy DtoH (Device -> Pinned)", "gpu_memcpy"),
    event("Memcpy DtoH (Device -> Pageable)", "gpu_memcpy"),
]

OTHERS = [
    *events_of(OTHER_NAMES),
    event("Stream Wait Event", "cuda_sync"),
    event("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy"),
    event("Memcpy DtoD (Device -> Device)", "gpu_memcpy"),
    event("Stream Sync", phase="M"),
    {"ph": "s", "id": 4, "cat": "ac2g", "name": "ac2g"},
    {"ph": "M", "name": "process_name"},
]


def test_count__has_every_wait_and_nothing_else() -> None:
    names = [found["name"] for found in WAITS]
    assert count_host_syncs([*OTHERS, *WAITS]) == dict.fromkeys(names, 1)
    assert count_host_syncs(WAITS * 3).total() == 3 * len(WAITS)
    assert count_host_syncs(OTHERS).total() == 0


def test_run__is_cut_out_of_a_trace() -> None:
    """The profiler waits for the GPU when it ends; a copy may still run then."""
    span = {**event("gymbridge run", "user_annotation"), "ts": 10.0, "dur": 5.0}
    twin = {**span, "cat": "gpu_user_annotation", "ts": 11.0, "dur": 99.0}
    times = (9.0, 10.0, 14.0, 16.0)
    waits = [{**WAITS[0], "ts": ts} for ts in times]
    copies = [{**WAITS[-1], "ts": ts} for ts in times]
    found = cut_to_run([twin, *waits, OTHERS[-1], *copies, span])
    assert [one["ts"] for one in found if one["name"] == WAITS[0]["name"]] == [10, 14]
    assert [one["ts"] for one in found if one["name"] == WAITS[-1]["name"]] == [10, 14, 16]
