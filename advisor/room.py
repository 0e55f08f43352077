"""Conditions of a rule's steps: is there room for what the step takes? One that needs memory is not said to a job that has none.

What is not known counts as room: a step is left out where something measured speaks against it. The numbers are those at which
memory-nearly-full, host-memory-pressure and serving-memory-margin-thin are over, and at which container-shm-small begins.
"""

from typing import Final

import polars as pl

c = pl.col

GPU_FULL_SHARE: Final = 0.88
HOST_FULL_SHARE: Final = 0.90
SHM_FULL_SHARE: Final = 0.85
SERVICE_FREE_BYTES: Final = 2 << 30
CPU_FREE_CORES: Final = 1.0

GPU_MEMORY: Final = c.mem_used_share_max.fill_null(0.0) < GPU_FULL_SHARE
"""Of a job, on the fullest of its GPUs: room for a larger batch, for CUDA graphs or for what torch.compile tries."""
SERVICE_MEMORY: Final = c.mem_free_min_bytes.fill_null(float(SERVICE_FREE_BYTES)) >= SERVICE_FREE_BYTES
"""Of a serving engine, which takes nearly all of the memory by design: room beside what it took."""
HOST_MEMORY: Final = c.host_mem_share.fill_null(0.0) < HOST_FULL_SHARE
"""Room for pinned buffers and for a copy of the state."""
LOADERS: Final = HOST_MEMORY & (c.shm_used_share.fill_null(0.0) < SHM_FULL_SHARE)
"""Room for batches that wait, in host memory and in /dev/shm."""
MORE_LOADERS: Final = LOADERS & (c.free_cores.fill_null(CPU_FREE_CORES) >= CPU_FREE_CORES)
"""A core, too, for each further loader process to begin with."""
