"""Small traces, reconstructed from the shape that Kineto's output_json.cpp and published traces have. None is real.

Times are microseconds, as `ts` and `dur` are. `SCENE` is one training step of which every number can be checked by hand:

    host    |op mm    |     |--- DataLoader 50..110 ---||op 115..130|launch|      |sync 195..225| |cudaMemcpyAsync 230..262|
    stream 7    |gemm 10..30||add 31..41|                                |relu 141..161|              |copy 240..260|
    stream 20                                                                 |all-reduce 151..201|
"""

import json
from pathlib import Path
from typing import Any

PROCESS = 4000
GEMM = "ampere_sgemm_128x64_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::relu<float>>(int)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"

Event = dict[str, Any]


def event(category: str, name: str, start: float, end: float, pid: Any, tid: Any, **arguments: Any) -> Event:
    """One complete event."""
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": 1000.0 + start,
        "dur": end - start,
        "args": arguments,
    }


def kernel(
    name: str, start: float, end: float, correlation: int | None = None, stream: int = 7, device: int = 0, **more: Any
) -> Event:
    """A kernel on a stream."""
    linked = {} if correlation is None else {"correlation": correlation}
    return event("kernel", name, start, end, device, stream, device=device, stream=stream, context=1, **linked, **more)


def copied(name: str, start: float, end: float, correlation: int, size: int | None = 4096) -> Event:
    """A copy on stream 7."""
    told = {} if size is None else {"bytes": size}
    return event("gpu_memcpy", name, start, end, 0, 7, device=0, stream=7, correlation=correlation, **told)


def called(name: str, start: float, end: float, correlation: int, thread: int = 1) -> Event:
    """A CUDA call."""
    return event("cuda_runtime", name, start, end, PROCESS, thread, correlation=correlation, cbid=211)


def operator(name: str, start: float, end: float, **arguments: Any) -> Event:
    """An operator."""
    return event("cpu_op", name, start, end, PROCESS, 1, **arguments)


def marked(name: str, start: float, end: float, thread: int = 1) -> Event:
    """A range that PyTorch or the program marked."""
    return event("user_annotation", name, start, end, PROCESS, thread)


SCENE = [
    {"ph": "M", "name": "process_name", "pid": PROCESS, "tid": 0, "ts": 1000.0, "args": {"name": "python"}},
    marked("ProfilerStep#1", 0, 100),
    marked("ProfilerStep#2", 100, 300),
    event("gpu_user_annotation", "ProfilerStep#2", 100, 300, 0, 7),
    operator("aten::addmm", 0, 10),
    operator("aten::mm", 1, 9),
    called("cudaLaunchKernel", 2, 8, 1),
    kernel(GEMM, 10, 30, 1),
    called("cudaLaunchKernel", 12, 16, 2),
    {"ph": "s", "id": 2, "pid": PROCESS, "tid": 1, "ts": 1012.0, "cat": "ac2g", "name": "ac2g"},
    kernel(ADD, 31, 41, 2),
    marked(LOADER, 50, 110),
    operator("aten::stack", 60, 90),
    operator("aten::relu", 115, 130),
    called("cudaLaunchKernelExC", 130, 136, 3),
    kernel(RELU, 141, 161, 3),
    called("cudaLaunchKernelExC", 137, 140, 4),
    kernel(ALL_REDUCE, 151, 201, 4, stream=20),
    called("cudaStreamSynchronize", 195, 225, 6),
    called("cudaMemcpyAsync", 230, 262, 5),
    copied("Memcpy HtoD (Pageable -> Device)", 240, 260, 5),
    {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1300.0},
]
SCENE_METADATA = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "computeMajor": 9}],
    "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 1711964646000000000,
}


CPU_ALONE: list[Any] = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]
"""What a profiler writes of a program that used no GPU."""


def write(path: Path, events: list[Any], **metadata: Any) -> Path:
    """A trace file of the events."""
    path.write_text(json.dumps({**metadata, "traceEvents": events}))
    return path
