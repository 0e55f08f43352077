"""Worked examples of the planners with their results, to be planned through the API and through the pages."""

from typing import Any, Final

SHAPE_8B: Final = {"sequence": 8192, "hidden": 4096, "layers": 32}
LLAMA_70B: Final = {"parameters": 70.55e9, "layers": 80}

VECTORS: Final[tuple[tuple[str, dict[str, Any], dict[str, Any]], ...]] = (
    ("training-memory", {"parameters": 7.5e9, "data_parallel": 64}, {"static_bytes": 120e9}),
    ("training-memory", {"parameters": 7.5e9, "data_parallel": 64, "scheme": "zero1"}, {"static_bytes": 31.41e9}),
    ("training-memory", {"parameters": 7.5e9, "data_parallel": 64, "scheme": "zero3"}, {"static_bytes": 1.875e9}),
    ("training-memory", {"parameters": 7e9, "card": "H100 SXM"}, {"static_bytes": 112e9, "fits": False}),
    ("training-memory", {"parameters": 7e9, "recipe": "mixed-adam-8bit"}, {"static_bytes": 70e9}),
    ("training-memory", {"parameters": 40e6, "frozen_parameters": 7e9, "recipe": "lora"}, {"static_bytes": 14.64e9}),
    ("training-memory", {"parameters": 8.03e9, **SHAPE_8B}, {"activation_bytes": 36.51e9}),
    ("training-memory", {"parameters": 8.03e9, **SHAPE_8B, "recompute": "full"}, {"activation_bytes": 2.147e9}),
    (
        "inference-memory",
        {**LLAMA_70B, "gpus": 4, "memory_bytes": 79.6 * 2**30},
        {"kv_pool_bytes": 157.43e9, "tokens": 480_435, "concurrency": 117, "fits": True},
    ),
    (
        "inference-memory",
        {**LLAMA_70B, "gpus": 2, "bits": 8, "memory_bytes": 79.6 * 2**30},
        {"kv_pool_bytes": 78.71e9, "tokens": 240_217, "concurrency": 58},
    ),
    (
        "inference-memory",
        {"parameters": 8.03e9, "layers": 32, "memory_bytes": 22.5 * 2**30, "overhead_bytes": 1.5e9},
        {"tokens": 35_602, "concurrency": 8},
    ),
    (
        "inference-memory",
        {"parameters": 671e9, "layers": 61, "latent_dim": 512, "memory_bytes": 2e12, "kv_bytes_per_value": 1},
        {"kv_bytes_per_token": 35_136},
    ),
    (
        "model-flops",
        {"parameters": 8.03e9, "layers": 32, "heads": 32, "sequence": 8192, "tokens_per_s": 7000, "card": "H100 SXM"},
        {"flop_per_token": 6.1065e10, "achieved_flop_per_s": 427.5e12, "mfu_ratio": 0.432},
    ),
    (
        "model-flops",
        {"parameters": 175e9, "layers": 96, "heads": 96, "sequence": 2048, "target_mfu": 0.552, "card": "A100 SXM 80GB"},
        {"flop_per_token": 1.07899e12, "tokens_per_s_at_target": 159.6},
    ),
    (
        "scaling",
        {"gpus": 8, "rate_of_one": 1000, "rate_of_all": 7200},
        {"efficiency_ratio": 0.9, "speedup": 7.2, "serial_ratio": 0.0159},
    ),
    (
        "checkpoint-interval",
        {"gpus": 16_384, "stall_s": 60},
        {"mtbf_hours": 3.093, "young_s": 1155.9, "daly_s": 1116.3, "overhead_ratio": 0.104},
    ),
    ("checkpoint-interval", {"gpus": 1024, "stall_s": 60}, {"mtbf_hours": 49.49, "young_s": 4623.8, "daly_s": 4583.9}),
    ("checkpoint-interval", {"gpus": 8, "stall_s": 120, "mtbf_hours": 24}, {"young_s": 4553.7, "daly_s": 4474.0}),
    ("energy", {"gpus": 8, "hours": 24, "gpu_power_w": 400}, {"gpu_kwh": 76.8}),
    (
        "energy",
        {
            "gpus": 8, "hours": 72, "gpu_power_w": 650, "host_power_w": 2000, "pue": 1.3, "co2_kg_per_kwh": 0.4,
            "tariff_per_kwh": 0.12, "price_per_gpu_hour": 2.5,
        },
        {"site_kwh": 673.9, "co2_kg": 269.6, "energy_cost": 80.87, "gpu_cost": 1440},
    ),
    (
        "dataloader-workers",
        {"sample_time_s": 0.012, "batch": 256, "step_s": 0.35, "cores": 96, "ranks": 8, "disk_size_bytes": 110e3},
        {"workers_needed": 11, "workers_cap": 11, "workers": 11, "cpu_bound": False, "read_bytes_per_s": 0.644e9},
    ),
    (
        "dataloader-workers",
        {"sample_time_s": 0.004, "batch": 64, "step_s": 0.25, "cores": 16},
        {"workers_needed": 2, "workers_cap": 15, "workers": 2},
    ),
    ("collectives", {"message_bytes": 14e9, "ranks": 8, "bus_bytes_per_s": 480e9}, {"least_s": 0.0510}),
    ("collectives", {"message_bytes": 14e9, "ranks": 8, "bus_bytes_per_s": 20e9}, {"least_s": 1.225}),
    ("collectives", {"message_bytes": 14e9, "ranks": 2, "bus_bytes_per_s": 0.125e9}, {"least_s": 112}),
    (
        "collectives",
        {"message_bytes": 16.06e9, "ranks": 8, "bus_bytes_per_s": 360e9, "operation": "all-gather", "times": 3},
        {"least_s": 0.1171},
    ),
    ("compatibility", {"torch": "2.14", "driver": "535.104.05"}, {"verdict": "fail", "cuda": "13.0"}),
    ("compatibility", {"torch": "2.1", "cuda": "cu118", "driver": "580.95.05"}, {"verdict": "pass"}),
    ("compatibility", {"cuda": "11.8", "driver": "470.82.01"}, {"verdict": "warn"}),
    ("compatibility", {"torch": "2.14", "card": "V100 SXM2 32GB"}, {"verdict": "fail", "offer": "torch 2.14+cu126"}),
    ("compatibility", {"torch": "2.6", "cuda": "cu126", "card": "B200 SXM"}, {"verdict": "fail", "offer": "torch 2.7+cu128"}),
    ("node-size", {"gpus": 8, "gpu_memory_bytes": 80e9, "workers_per_gpu": 2}, {"cores_needed": 28}),
    (
        "node-size",
        {"gpus": 8, "gpu_memory_bytes": 80e9, "cores_present": 32, "host_memory_present_bytes": 128e9},
        {
            "cores_needed": 44, "cores_suffice": False, "host_memory_needed_bytes": 960e9, "host_memory_suffices": False,
            "host_to_gpu_memory_ratio": 0.2,
        },
    ),
    (
        "node-size",
        {"gpus": 8, "gpu_memory_bytes": 80e9, "parameters": 70.55e9},
        {"checkpoint_bytes": 987.7e9, "checkpoint_write_bytes_per_s": 16.46e9},
    ),
    (
        "roofline",
        {"weights_bytes": 141.1e9, "gpus": 8, "card": "H100 SXM", "parameters": 70.55e9, "prompt_tokens": 4096},
        {"token_s": 0.005265, "tokens_per_s": 189.9, "balance_flop_per_byte": 295.2, "first_token_s": 0.146},
    ),
    ("roofline", {"weights_bytes": 16.06e9, "card": "L4"}, {"token_s": 0.0535, "balance_flop_per_byte": 403}),
    (
        "batch",
        {"micro_batch": 4, "accumulation": 8, "data_parallel": 16, "pipeline_parallel": 8},
        {"global_batch": 512, "bubble_ratio": 0.467},
    ),
    (
        "batch",
        {
            "micro_batch": 4, "first_batch": 4, "first_peak_bytes": 22 * 2**30, "second_batch": 8,
            "second_peak_bytes": 34 * 2**30, "memory_bytes": 80 * 2**30,
        },
        {"bytes_per_sample": 3 * 2**30, "largest_micro_batch": 20},
    ),
)  # fmt: skip
"""Planner, inputs, and some of the results that they give."""
