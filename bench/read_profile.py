"""What reading a profile costs: seconds of CPU and the largest memory, of a generated torch.profiler trace of any size.

Each event has the members that Kineto writes, with shapes: two operators, a launch, a kernel and the flow between them. Reads in a
process of its own; one that reads an empty trace shows what Python and numpy take. Prints human lines, then one JSON line.
"""

import argparse
import gzip
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, TextIO

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

NAMES: Final = (
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "ampere_sgemm_128x64_tn",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >"
    "(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
)


def write(file: TextIO, size_bytes: int) -> int:
    """Writes a trace of about that many bytes; the number of its kernels."""
    chance = random.Random(7)
    written = file.write('{"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 8}, "traceEvents": [\n')
    kernels, at = 0, 5_000_000_000.0
    while written < size_bytes:
        kernels += 1
        length = chance.choice((3.5, 12.0, 80.25))
        shapes = {
            "Input Dims": [[64, 1024, 1024], [1024, 1024], [], []],
            "Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar", ""],
        }
        host = {"ph": "X", "pid": 4000, "tid": 4000}
        gpu = {"device": 0, "context": 1, "stream": 7, "correlation": kernels, "External id": kernels}
        grid = {"queued": 0, "registers per thread": 32, "shared memory": 0, "blocks per SM": 4.7, "warps per SM": 75.8}
        shape = {"grid": [512, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 75}
        outer = {
            "External id": kernels,
            "Record function id": 0,
            "Concrete Inputs": ["", "", "1", ""],
            **shapes,
            "Ev Idx": kernels,
        }
        for event in (
            {**host, "cat": "cpu_op", "name": "aten::linear", "ts": at, "dur": 20.5, "args": outer},
            {**host, "cat": "cpu_op", "name": "aten::addmm", "ts": at + 1, "dur": 18.0, "args": outer},
            {"ph": "X", "cat": "kernel", "name": chance.choice(NAMES), "pid": 0, "tid": 7, "ts": at + 25, "dur": length, "args": {**grid, **gpu, **shape}},
            {"ph": "f", "id": kernels, "pid": 0, "tid": 7, "ts": at + 25, "cat": "ac2g", "name": "ac2g", "bp": "e"},
            {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 9, "dur": 6.5, "args": {"cbid": 211, "correlation": kernels}},
            {"ph": "s", "id": kernels, "pid": 4000, "tid": 4000, "ts": at + 9, "cat": "ac2g", "name": "ac2g"},
        ):  # fmt: skip
            written += file.write(json.dumps(event, indent=2) + ",\n")
        at += max(25 + length, 40.0) + chance.random()
    file.write('{"ph": "i", "name": "Record Window End", "ts": 0, "pid": "", "tid": ""}]}\n')
    return kernels


def child(path: str) -> None:
    """Reads and prints what it took."""
    from advisor.profiles.profile import read

    began, cpu = time.perf_counter(), time.process_time()
    profile = read(Path(path))
    used = {
        "wall_s": round(time.perf_counter() - began, 1),
        "cpu_s": round(time.process_time() - cpu, 1),
        "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000),
        "events": profile.source.events,
        "kernels": sum(device.kernels for device in profile.devices),
    }
    print(json.dumps(used))


def main() -> None:
    """Generate, read, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=500, help="size of the trace, unpacked")
    parser.add_argument("--gzip", action="store_true", help="pack it first")
    parser.add_argument("--read", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        child(options.read)
        return
    with tempfile.TemporaryDirectory() as folder:
        path, empty = Path(folder) / "trace.json", Path(folder) / "empty.json"
        empty.write_text(
            '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 0, "dur": 1}]}'
        )
        with gzip.open(path, "wt", compresslevel=1) if options.gzip else path.open("w") as file:
            kernels = write(file, options.mb * 1_000_000)
        results = {}
        for name, of in (("empty", empty), ("trace", path)):
            command = [sys.executable, __file__, "--read", str(of)]
            results[name] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ).stdout)
        print(f"A trace of {options.mb} MB ({path.stat().st_size / 1e6:.0f} MB on disk), {kernels:,} kernels:")
        print(f"  {results['trace']['events']:,} events in {results['trace']['cpu_s']} s of CPU")
        print(f"  at most {results['trace']['rss_mb']} MB of memory; {results['empty']['rss_mb']} MB for a trace of one event")
        print(json.dumps({"mb": options.mb, "gzip": options.gzip, **results}))


if __name__ == "__main__":
    main()
