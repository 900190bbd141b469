"""The function that counts waits for a GPU, on events as a profiler of CUDA writes them."""

from __future__ import annotations

from typing import Any

from tests.support.host_syncs import count_host_syncs, cut_to_run

WAITS = [
    *("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy"),
    *("cuStreamSynchronize", "cuCtxSynchronize", "cuMemcpyDtoH_v2"),
    *("Stream Sync", "Event Sync", "Context Sync"),
    *("Memcpy DtoH (Device -> Pinned)", "Memcpy DtoH (Device -> Pageable)"),
]
OTHERS = [
    *("aten::add", "cudaLaunchKernel", "cuLaunchKernelEx", "cudaEventRecord", "cudaEventQuery"),
    *("cudaMemcpyAsync", "cudaStreamWaitEvent", "Stream Wait Event"),
    *("Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD (Device -> Device)"),
]


def event(name: str, category: str = "cuda_runtime", **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": 1.0, "dur": 2.0, **more}


def test_count__has_every_wait_and_nothing_else() -> None:
    events = [event(name) for name in (*WAITS, *OTHERS)]
    events += [event("Stream Sync", ph="M"), {"ph": "s", "id": 4, "name": "ac2g"}]
    assert count_host_syncs(events) == dict.fromkeys(WAITS, 1)
    assert count_host_syncs(events * 3).total() == 3 * len(WAITS)


def test_run__is_cut_out_of_a_trace() -> None:
    """The profiler waits for the GPU when it ends; a copy may still run then."""
    span = event("gymbridge run", "user_annotation", ts=10.0, dur=5.0)
    twin = event("gymbridge run", "gpu_user_annotation", ts=11.0, dur=99.0)
    times = (9.0, 10.0, 14.0, 16.0)
    waits = [event("wait", ts=ts) for ts in times]
    copies = [event("copy", "gpu_memcpy", ts=ts) for ts in times]
    found = cut_to_run([twin, *waits, {"ph": "M", "name": "process_name"}, *copies, span])
    assert [one["ts"] for one in found if one["name"] == "wait"] == [10, 14]
    assert [one["ts"] for one in found if one["name"] == "copy"] == [10, 14, 16]
