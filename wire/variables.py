"""Variables of the environment that an agent may tell of: an exact list of those whose value may leave the node, each with its kind.

Names are those that NCCL, PyTorch, CUDA, OpenMP and oneMKL document. Of any other variable with one of their prefixes only
that it is set is told: a prefix says nothing of what a site puts behind it.
"""

from typing import Final, Literal, TypeAlias

EnvKind: TypeAlias = Literal[
    "number", "numbers", "boolean", "size", "devices", "interfaces", "places", "allocator", "limits", "architectures", "domains"
]
ENV_KINDS: Final[dict[EnvKind, str]] = {
    "number": "A number",
    "numbers": "Numbers, with commas",
    "boolean": "A number of one digit, or true, false, yes, no, y, n, on, off",
    "size": "A number of bytes, with k, M or G",
    "devices": "GPUs: their indexes, or UUIDs that begin with `GPU-` or `MIG-`",
    "interfaces": "Network interfaces or adapters by the kernel's own names, such as `eth0`, `ibp24s0` or `mlx5_1:1`, with `^` and `=`",
    "places": "`threads`, `cores`, `sockets`, `ll_caches` or `numa_domains`, or places in braces",
    "allocator": "Options of the allocator by PyTorch's names, with numbers, booleans and its backends",
    "limits": "Sizes by the device's index: `0=1G`",
    "architectures": "Compute capabilities such as `9.0+PTX`",
    "domains": "oneMKL's domains and numbers of threads",
}
"""Kind of a value, and what a value of it is."""

_LEVELS: Final = ("LOC", "NVL", "C2C", "PIX", "PXB", "PXN", "P2C", "PHB", "NODE", "SYS")
_FAMILIES: Final = ("AF_INET", "AF_INET6")

ENV_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "CUDA_MODULE_LOADING": ("LAZY", "EAGER", "DEFAULT"),
    "NCCL_ALGO": (
        "Ring", "Tree", "CollnetChain", "CollnetDirect", "Collnet", "NVLS", "NVLSTree", "PAT",
        "allreduce", "allgather", "reducescatter", "broadcast", "reduce",
    ),
    "NCCL_PROTO": ("LL", "LL128", "Simple", "allreduce", "allgather", "reducescatter", "broadcast", "reduce"),
    "NCCL_DEBUG": ("NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"),
    "NCCL_DEBUG_SUBSYS": (
        "INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "CALL", "PROXY", "NVLS", "BOOTSTRAP", "REG",
        "PROFILE", "RAS", "ALL",
    ),
    "NCCL_P2P_LEVEL": _LEVELS,
    "NCCL_NET_GDR_LEVEL": _LEVELS,
    "NCCL_NET": ("IB", "Socket", "AWS", "OFI", "UCX", "FasTrak", "gIB"),
    "NCCL_NET_PLUGIN": ("none", "aws-ofi", "ofi", "ucx", "fastrak", "gib", "spcx"),
    "NCCL_TUNER_PLUGIN": ("none", "ofi", "aws-ofi", "gib"),
    "NCCL_LAUNCH_MODE": ("PARALLEL", "GROUP"),
    "NCCL_SOCKET_FAMILY": _FAMILIES,
    "NCCL_IB_ADDR_FAMILY": _FAMILIES,
    "TORCH_DISTRIBUTED_DEBUG": ("OFF", "INFO", "DETAIL"),
    "TORCH_CPP_LOG_LEVEL": ("INFO", "WARNING", "ERROR", "FATAL"),
    "TORCH_LOGS": (
        "all", "dynamo", "aot", "inductor", "dynamic", "distributed", "torch", "onnx", "graph", "graph_breaks", "graph_code",
        "graph_sizes", "recompiles", "guards", "bytecode", "output_code", "schedule", "perf_hints", "fusion", "overlap",
        "aot_graphs", "aot_joint_graph", "post_grad_graphs", "kernel_code", "cudagraphs", "ddp_graphs", "autotuning", "benchmarking",
    ),
    "OMP_PROC_BIND": ("true", "false", "master", "primary", "close", "spread"),
    "OMP_SCHEDULE": ("monotonic", "nonmonotonic", "static", "dynamic", "guided", "auto"),
    "OMP_WAIT_POLICY": ("active", "passive"),
    "OMP_DISPLAY_ENV": ("true", "false", "verbose"),
    "OMP_TARGET_OFFLOAD": ("mandatory", "disabled", "default"),
    "OMP_TOOL": ("enabled", "disabled"),
    "MKL_THREADING_LAYER": ("INTEL", "SEQUENTIAL", "GNU", "TBB", "PGI"),
    "MKL_INTERFACE_LAYER": ("LP64", "ILP64", "GNU"),
    "MKL_CBWR": (
        "OFF", "AUTO", "COMPATIBLE", "SSE2", "SSE4_1", "SSE4_2", "AVX", "AVX2", "AVX512", "AVX512_E1", "AVX512_MIC",
        "AVX512_MIC_E1", "STRICT",
    ),
    "MKL_ENABLE_INSTRUCTIONS": (
        "SSE4_2", "AVX", "AVX2", "AVX2_E1", "AVX512", "AVX512_E1", "AVX512_E2", "AVX512_E3", "AVX512_E4", "AVX512_MIC",
        "AVX512_MIC_E1", "SINGLE_PATH",
    ),
}  # fmt: skip
"""Variables whose value is told where it is made of these words, in any case, and at most one number below 10,000."""

ENV: Final[dict[str, EnvKind]] = {
    "CUDA_VISIBLE_DEVICES": "devices",
    "NCCL_SOCKET_IFNAME": "interfaces",
    "NCCL_IB_HCA": "interfaces",
    "OMP_PLACES": "places",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "limits",
    "TORCH_CUDA_ARCH_LIST": "architectures",
    "MKL_DOMAIN_NUM_THREADS": "domains",
    **dict.fromkeys(("OMP_NUM_THREADS", "OMP_TEAMS_THREAD_LIMIT"), "numbers"),
    **dict.fromkeys(("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"), "allocator"),
    **dict.fromkeys(
        ("NCCL_BUFFSIZE", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_P2P_NVL_CHUNKSIZE", "NCCL_P2P_PCI_CHUNKSIZE",
         "NCCL_LL128_BUFFSIZE", "NCCL_SHM_MEMCPY_SIZE", "NCCL_NVLS_CHUNKSIZE", "OMP_STACKSIZE", "MKL_FAST_MEMORY_LIMIT"),
        "size",
    ),
    **dict.fromkeys(
        ("CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_CLIENT_PRIORITY",
         "NCCL_NTHREADS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_MIN_CTAS", "NCCL_CGA_CLUSTER_SIZE",
         "NCCL_MAX_NRINGS", "NCCL_MIN_NRINGS", "NCCL_MAX_P2P_NCHANNELS", "NCCL_MIN_P2P_NCHANNELS", "NCCL_NCHANNELS_PER_NET_PEER",
         "NCCL_NSOCKS_PERTHREAD", "NCCL_SOCKET_NTHREADS", "NCCL_SOCKET_RETRY_CNT", "NCCL_SOCKET_RETRY_SLEEP_MSEC",
         "NCCL_CROSS_NIC", "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT", "NCCL_IB_GID_INDEX", "NCCL_IB_ROCE_VERSION_NUM",
         "NCCL_IB_SL", "NCCL_IB_TC", "NCCL_IB_FIFO_TC", "NCCL_IB_AR_THRESHOLD", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_CUDA_SUPPORT",
         "NCCL_IB_PCI_RELAXED_ORDERING", "NCCL_NET_GDR_READ", "NCCL_NET_SHARED_BUFFERS", "NCCL_NET_SHARED_COMMS",
         "NCCL_P2P_PXN_LEVEL", "NCCL_PXN_C2C", "NCCL_RINGS_PER_NET", "NCCL_SINGLE_RING_THRESHOLD", "NCCL_LL_THRESHOLD",
         "NCCL_TREE_THRESHOLD", "NCCL_COLLNET_ENABLE", "NCCL_COLLNET_NODE_THRESHOLD", "NCCL_NVLS_ENABLE", "NCCL_NVLS_NCHANNELS",
         "NCCL_MNNVL_ENABLE", "NCCL_WORK_FIFO_DEPTH", "NCCL_WORK_FIFO_BYTES", "NCCL_WORK_ARGS_BYTES", "NCCL_PROGRESS_APPENDOP_FREQ",
         "NCCL_CTA_POLICY", "NCCL_COMM_BLOCKING", "NCCL_SHM_USE_CUDA_MEMCPY", "NCCL_SHM_MEMCPY_MODE", "NCCL_RAS_TIMEOUT_FACTOR",
         "NCCL_UID_STAGGER_RATE", "NCCL_UID_STAGGER_THRESHOLD", "NCCL_MEM_SYNC_DOMAIN",
         "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
         "TORCH_NCCL_COORD_CHECK_MILSEC", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "TORCH_NCCL_RANKS_PER_ROOT", "TORCH_FR_BUFFER_SIZE",
         "TORCH_CUDNN_V8_API_LRU_CACHE_LIMIT", "PYTORCH_TUNABLEOP_MAX_TUNING_DURATION_MS", "PYTORCH_TUNABLEOP_MAX_TUNING_ITERATIONS",
         "PYTORCH_TUNABLEOP_MAX_WARMUP_DURATION_MS", "PYTORCH_TUNABLEOP_MAX_WARMUP_ITERATIONS", "PYTORCH_TUNABLEOP_VERBOSE",
         "PYTORCH_TUNABLEOP_ROTATING_BUFFER_SIZE",
         "OMP_THREAD_LIMIT", "OMP_MAX_ACTIVE_LEVELS", "OMP_DEFAULT_DEVICE", "OMP_MAX_TASK_PRIORITY", "OMP_NUM_TEAMS",
         "MKL_NUM_THREADS", "MKL_NUM_STRIPES", "MKL_VERBOSE", "MKL_DEBUG_CPU_TYPE"),
        "number",
    ),
    **dict.fromkeys(
        ("CUDA_LAUNCH_BLOCKING", "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING",
         "NCCL_P2P_DISABLE", "NCCL_P2P_DIRECT_DISABLE", "NCCL_P2P_USE_CUDA_MEMCPY", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE",
         "NCCL_IB_MERGE_VFS", "NCCL_IB_MERGE_NICS", "NCCL_IB_SPLIT_DATA_ON_QPS", "NCCL_IB_ADAPTIVE_ROUTING", "NCCL_IB_ECE_ENABLE",
         "NCCL_IB_DATA_DIRECT", "NCCL_IB_WARN_RAIL_LOCAL", "NCCL_IB_RETURN_ASYNC_EVENTS", "NCCL_NET_FORCE_FLUSH",
         "NCCL_NET_DISABLE_INTRA", "NCCL_NET_GDR_C2C", "NCCL_DMABUF_ENABLE", "NCCL_NVB_DISABLE", "NCCL_PXN_DISABLE",
         "NCCL_IGNORE_CPU_AFFINITY", "NCCL_CHECKS_DISABLE", "NCCL_CHECK_POINTERS", "NCCL_CUMEM_ENABLE", "NCCL_CUMEM_HOST_ENABLE",
         "NCCL_GRAPH_REGISTER", "NCCL_LOCAL_REGISTER", "NCCL_LEGACY_CUDA_REGISTER", "NCCL_GRAPH_MIXING_SUPPORT",
         "NCCL_LAUNCH_ORDER_IMPLICIT", "NCCL_LAUNCH_RACE_FATAL", "NCCL_RUNTIME_CONNECT", "NCCL_SET_STACK_SIZE", "NCCL_SET_THREAD_NAME",
         "NCCL_RAS_ENABLE", "NCCL_GDRCOPY_ENABLE", "NCCL_GDR_FLUSH_DISABLE", "NCCL_OOB_NET_ENABLE",
         "NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT", "NCCL_DESYNC_DEBUG",
         "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_HIGH_PRIORITY", "TORCH_NCCL_ENABLE_TIMING", "TORCH_NCCL_DESYNC_DEBUG",
         "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_AVOID_RECORD_STREAMS",
         "TORCH_NCCL_USE_COMM_NONBLOCKING", "TORCH_NCCL_NAN_CHECK", "TORCH_NCCL_CUDA_EVENT_CACHE", "TORCH_NCCL_TRACE_CPP_STACK",
         "TORCH_NCCL_PROPAGATE_ERROR", "TORCH_NCCL_RETHROW_CUDA_ERRORS", "TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN",
         "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "TORCH_NCCL_BCAST_UNIQUEID", "TORCH_FR_CPP_STACK", "TORCH_FR_DUMP_ON_TIMEOUT",
         "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_CUDNN_V8_API_DISABLED", "TORCH_CUDNN_V8_API_DEBUG", "TORCH_SHOW_CPP_STACKTRACES",
         "TORCH_DISABLE_ADDR2LINE", "TORCH_COMPILE_DISABLE", "TORCH_COMPILE_DEBUG", "TORCH_BLAS_PREFER_CUBLASLT",
         "TORCH_BLAS_PREFER_HIPBLASLT", "TORCH_LINALG_PREFER_CUSOLVER", "TORCH_LINALG_PREFER_MAGMA", "TORCH_USE_CUDA_DSA",
         "TORCH_USE_RTLD_GLOBAL", "TORCH_CUDA_SANITIZER", "TORCH_DEVICE_BACKEND_AUTOLOAD", "TORCH_FORCE_WEIGHTS_ONLY_LOAD",
         "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NVML_BASED_CUDA_CHECK", "PYTORCH_JIT",
         "PYTORCH_TUNABLEOP_ENABLED", "PYTORCH_TUNABLEOP_TUNING", "PYTORCH_TUNABLEOP_NUMERICAL_CHECK",
         "OMP_DYNAMIC", "OMP_NESTED", "OMP_CANCELLATION", "OMP_DISPLAY_AFFINITY",
         "MKL_DYNAMIC", "MKL_DISABLE_FAST_MM", "MKL_SERVICE_FORCE_INTEL"),
        "boolean",
    ),
}  # fmt: skip
"""Variables whose value is told where it is of this kind."""

ENV_PREFIXES: Final = ("NCCL_", "PYTORCH_", "TORCH_", "CUDA_MPS_", "OMP_", "MKL_")
"""What names begin with of which at least is told that they are set."""
SET: Final = "set"
"""The label's value then, and where a value is not of its variable's kind."""


def is_variable(name: str) -> bool:
    """True for a variable that may be told of."""
    return name in ENV or name in ENV_WORDS or name.startswith(ENV_PREFIXES)
