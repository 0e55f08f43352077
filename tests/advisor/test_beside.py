"""The rarer features: hosts, cards, ranks, services, words, planners' numbers."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from advisor import described, memory_split, planned, services, slow_columns
from advisor.beside import More, of_window, with_more
from advisor.engine import wanted
from advisor.features import Frames, features
from advisor.frames import FACTS, Window
from advisor.partial import merge, partial
from advisor.rule import load

SECONDS = 60
CARD: dict[str, Any] = {
    "node": 0, "job": "training", "name": "NVIDIA H200", "compute_capability": "9.0", "mem_total_bytes": 150e9, "power_limit_w": 700.0,
    "power_limit_default_w": 700.0, "sm_clock_max_mhz": 1980.0, "nvlink_links": 18.0, "cores": 32.0, "host_mem_total_bytes": 2e12,
    "mig": False,
}  # fmt: skip


def of(key: str, keys: list[int], columns: dict[str, Any]) -> pl.DataFrame:
    """A row a key and second; a column is a number, or a function of the key and the second."""
    rows = [
        {key: one, "t": float(second)}
        | {name: value(one, second) if callable(value) else value for name, value in columns.items()}
        for one in keys
        for second in range(SECONDS)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def window(gpus: int = 2, host: dict[str, Any] | None = None, process: dict[str, Any] | None = None, **gpu: Any) -> Window:
    """A minute of one job on `gpus` GPUs of one node, a process a GPU."""
    keys = list(range(gpus))
    busy: dict[str, Any] = {"gr_engine_active": 0.9, "sm_active": 0.8, "tensor_active": 0.4, "dram_active": 0.3, "fp32_active": 0.01,
                            "power_w": 600.0, "mem_used_bytes": 80e9, "sm_clock_mhz": 1900.0, "temperature_c": 60.0}  # fmt: skip
    held = of("gpu", keys, {"pid": lambda key, _: 100 + key, "gpu_mem_bytes": 79e9, "cpu_pct": 100.0} | (process or {}))
    return Window(
        of("gpu", keys, busy | gpu),
        of("node", [0], {"cpu_busy_cores": 4.0, "cpu_iowait_pct": 0.0} | (host or {})),
        held,
        pl.DataFrame([{"gpu": key, "index": key, **CARD} for key in keys], schema=FACTS),
    )


def judged(one: Window, **more: Any) -> Frames:
    """The frames of `one` with all that is beside them."""
    frames = features(one)
    known = of_window(one, frames)
    return with_more(frames, More(partial=known.partial, **more))


def job(one: Window, **more: Any) -> dict[str, Any]:
    """The only job's row."""
    (row,) = judged(one, **more).job.to_dicts()
    return row


def test_every_feature_that_a_rule_reads_is_made_somewhere() -> None:
    """A misspelt feature would be null for ever and its rule never evaluated; only words, notes and slow features come from elsewhere."""
    one = window()
    asked = wanted(load())
    words = described.described([(0, 100, {"launcher": "torchrun"})], asked)
    serves = pl.DataFrame({"service": [3], "gpu": [0], "pid": [100]}, schema=services.SERVES)
    engines = pl.DataFrame({"service": [3], "node": [0], "kind": ["vllm"], "model": ["m"]}, schema=services.ENGINES)
    told = of("service", [3], {"requests_running": 1.0})
    frames = features(one)
    known = More(
        partial=merge([partial(one.gpu, one.host, one.process, told, serves)]), words=words, engines=engines, serves=serves,
        slow=slow_columns.nothing(),
    )  # fmt: skip
    frames = with_more(frames, known)

    for rule in load():
        lacking = wanted([rule]) - set(getattr(frames, rule.scope).columns)
        strange = {name for name in lacking if not name.endswith(("_gib", "_gb_per_s", "_minutes"))}
        assert not strange, f"{rule.id} reads {sorted(strange)}, which nothing makes in scope {rule.scope}"


def test_the_hosts_counters_become_rates_and_shares() -> None:
    """Rates by the clock, shares of what the links carry, means of the rest."""
    rows = judged(
        window(
            host={
                "swap_in_bytes_total": lambda _, second: second * 2e6,
                "net_rx_bytes_total": lambda _, second: second * 1e9,
                "net_tx_bytes_total": lambda _, second: second * 3e9,
                "disk_read_bytes_total": lambda _, second: second * 32e3 * 500,
                "disk_read_iops": 500.0,
                "psi_cpu_some_pct": lambda _, second: 10.0 if second % 2 else 30.0,
                "ib_link_downed_total": lambda _, second: 4 + (second > 30),
            }
        )
    )
    (node,) = rows.node.to_dicts()

    assert node["swap_in_bytes_per_s"] == pytest.approx(2e6)
    assert node["net_bytes_per_s"] == pytest.approx(3e9)
    assert node["disk_read_each_bytes"] == pytest.approx(32e3)
    assert node["psi_cpu_some_pct"] == pytest.approx(20.0)
    assert node["ib_link_downed_new"] == 1
    assert node["tcp_retransmits_per_s"] is None
    assert rows.job["psi_cpu_some_pct"].to_list() == node_value(rows, "psi_cpu_some_pct")


def node_value(rows: Frames, name: str) -> list[float | None]:
    """What the node's row says, as a list of one."""
    return rows.node[name].to_list()


def test_a_process_on_two_gpus_is_one_rank() -> None:
    """Its CPU counts once, and it is told that it drives two GPUs."""
    one = window(process={"pid": 100, "threads": 8.0, "main_thread_cpu_pct": 90.0})
    row = job(one)

    assert row["ranks"] == 1
    assert row["gpus_per_process_max"] == 2
    assert row["threads"] == 8.0
    assert row["main_thread_share"] == pytest.approx(0.9)


def test_the_slowest_rank_tells_of_steps_and_all_of_throughput() -> None:
    """Steps in lock step take as long as the slowest; samples add up."""
    row = job(
        window(
            process={
                "steps_total": lambda _, second: second * 2.0,
                "step_time_s": lambda key, _: 0.5 + 0.1 * key,
                "data_wait_s": lambda key, _: 0.05 + 0.1 * key,
                "samples_per_s": 64.0,
                "loss": 2.0,
                "alloc_peak_bytes": lambda key, _: 70e9 + key * 1e9,
            }
        )
    )

    assert row["steps"] == (SECONDS - 1) * 2
    assert row["step_time_s"] == pytest.approx(0.6)
    assert row["data_wait_share"] == pytest.approx(0.15 / 0.6)
    assert row["samples_per_s"] == pytest.approx(128.0)
    assert row["alloc_peak_bytes"] == 71e9
    assert row["alloc_peak_share"] == pytest.approx(71 / 150)
    assert row["h2d_share"] is None


def test_the_first_gpu_is_compared_with_the_others() -> None:
    """A process that gathers on GPU 0 shows there."""
    row = job(window(gpus=3, mem_used_bytes=lambda key, _: 90e9 if key == 0 else 60e9))

    assert row["gpu0_mem_ratio"] == pytest.approx(1.5)
    assert row["gpu0_sm_ratio"] == pytest.approx(1.0)


def test_a_card_beside_its_peers_and_its_links() -> None:
    """Clock and power under load over the median of the job's cards of its model; traffic that takes turns with the tensor cores."""
    rows = judged(
        window(
            gpus=4,
            sm_clock_mhz=lambda key, _: 1710.0 if key == 3 else 1900.0,
            tensor_active=lambda _, second: 0.8 if second % 2 else 0.1,
            nvlink_tx_bytes_per_s=lambda _, second: 1e9 if second % 2 else 90e9,
            nvlink_crc_errors_total=lambda key, second: float(second) if key == 1 else 0.0,
        )
    ).gpu

    assert rows["clock_to_peers"].to_list() == pytest.approx([1.0, 1.0, 1.0, 0.9])
    assert rows["tensor_nvlink_corr"].to_list() == pytest.approx([-1.0] * 4)
    assert rows["nvlink_errors_per_min"].to_list() == pytest.approx([0.0, 60.0, 0.0, 0.0])
    assert rows["sm"].to_list() == [90] * 4
    assert rows["has_nvlink"].to_list() == [True] * 4


def test_words_are_typed_and_coalesced() -> None:
    """Numbers, booleans and text as the registry of labels has them; what the script told stands before its flags."""
    labels = {
        "torch": "2.14.1+cu126", "launcher": "torchrun", "slurm_job": "17", "env.NCCL_ALGO": "Ring", "env.NCCL_P2P_LEVEL": "4",
        "env.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "flag.micro-batch-size": "4", "flag.bf16": "true",
        "flag.zero-stage": "3", "told.micro_batch": "2", "visible_gpus": "all", "flag.num-workers": "x",
    }  # fmt: skip
    words = described.described([(0, 100, labels), (0, 101, {})], {"flag_num_workers", "flag_bf16", *planned.READS})
    row = job(window(), words=words)

    assert row["scheduler"] == "slurm"
    assert (row["torch_release"], row["torch_cuda_major"], row["torch_is_cpu"]) == (214, 12, False)
    assert row["env_pinned"] == "NCCL_ALGO, NCCL_P2P_LEVEL"
    assert row["env_deprecated"] == "PYTORCH_CUDA_ALLOC_CONF"
    assert row["micro_batch"] == 2.0
    assert row["dtype"] == "bf16"
    assert row["sharding"] == "zero3"
    assert row["flag_num_workers"] is None
    assert row["visible_none"] is False


def test_a_partition_is_what_slurm_told_or_somebody_annotated() -> None:
    """Of a job Slurm's word goes first; of a node what was annotated of it, else those of its jobs; null where nobody told."""
    words = described.described([(0, 100, {"slurm_job": "7", "slurm_partition": "h200"}), (0, 101, {})], ())
    noted = {
        scope: pl.DataFrame({scope: [key], "note_partition": ["pool"]}, schema_overrides={scope: slow_columns.KEYS[scope]})
        for scope, key in (("gpu", 0), ("node", 0), ("job", "training"))
    }

    def told(**more: Any) -> list[str | None]:
        frames = judged(window(), **more)
        return [frame.get_column("partition").item(0) for frame in (frames.gpu, frames.job, frames.node)]

    assert told() == [None, None, None]
    assert told(words=words) == ["h200", "h200", "h200"]
    assert told(slow=noted) == ["pool", "pool", "pool"]
    assert told(words=words, slow=noted) == ["h200", "h200", "pool"]


def test_a_node_is_in_the_partitions_of_all_its_jobs() -> None:
    """Once each, in order; a job that told none takes nothing away."""
    jobs = ["a", "b", "c", "d"]
    one = window(gpus=4)
    facts = one.facts.with_columns(job=pl.Series(jobs))
    told = [(0, 100, {"slurm_partition": "long"}), (0, 101, {"slurm_partition": "debug"}), (0, 102, {"slurm_partition": "long"})]
    frames = judged(replace(one, facts=facts), words=described.described(told, ()))

    assert dict(frames.job.select("job", "partition").iter_rows()) == {"a": "long", "b": "debug", "c": "long", "d": None}
    assert frames.node.get_column("partition").to_list() == ["debug, long"]


def test_the_memory_is_split_by_what_the_script_says() -> None:
    """Whose words are read for it although no condition may name them: 1e9 parameters with Adam on two GPUs, sharded and not."""
    labels = {"told.params": "1e9", "told.dtype": "bf16", "told.sharding": "ddp"}
    words = described.described([(0, 100, labels), (0, 101, labels)], memory_split.READS | planned.READS)

    row = job(window(), words=words)

    assert (row["static_bytes"], row["zero3_bytes"]) == (16e9, 8e9)
    assert row["static_share"] == pytest.approx(16e9 / row["mem_total_bytes"])
    assert job(window())["static_bytes"] is None


def test_what_no_label_can_give_is_not_made_up() -> None:
    """A column for a flag that nobody may tell would be null for ever."""
    assert described.kind("flag_password") is None
    assert described.kind("told_secret") is None
    assert described.kind("sm_active") is None


def test_a_service_has_its_requests_beside_its_cards() -> None:
    """Rates of its counters, shares of its queries, the means of its GPUs, and the weights that its name tells."""
    one = window()
    told = of(
        "service", [3], {
        "requests_running": 8.0, "requests_waiting": lambda _, second: 0.0 if second < 45 else 2.0, "kv_cache_used": 0.5,
        "requests_finished_total": lambda _, second: second * 2.0, "prompt_tokens_total": lambda _, second: second * 2000.0,
        "generation_tokens_total": lambda _, second: second * 400.0, "preemptions_total": lambda _, second: float(second // 30),
        "tpot_mean_s": lambda _, second: 0.02 if second % 2 else 0.03,
        },
    )  # fmt: skip
    serves = pl.DataFrame({"service": [3, 3], "gpu": [0, 1], "pid": [100, 101]}, schema=services.SERVES)
    engines = pl.DataFrame(
        {"service": [3], "node": [0], "kind": ["vllm"], "model": ["meta-llama/Llama-3.1-8B"]}, schema=services.ENGINES
    )
    known = More(
        partial=merge([partial(one.gpu, one.host, one.process, told, serves)]), engines=engines, serves=serves,
        words=described.described([(0, 100, {"flag.tensor-parallel-size": "2"})], {"flag_tensor_parallel_size"}),
    )  # fmt: skip
    (row,) = with_more(features(one), known).service.to_dicts()

    assert row["finished_per_s"] == pytest.approx(2.0)
    assert row["prompt_tokens_mean"] == pytest.approx(1000.0)
    assert row["tokens_per_request"] == pytest.approx(1200.0)
    assert row["waiting_share"] == pytest.approx(0.25)
    assert row["preemptions_per_s"] == pytest.approx(1 / 59)
    assert row["prefix_hit_share"] is None
    assert (row["gpus"], row["members"], row["tp"]) == (2, [0, 1], 2.0)
    assert row["dram_active"] == pytest.approx(0.3)
    assert row["weights_bytes"] == 16e9


def test_the_planners_count_what_was_measured() -> None:
    """PL-5 for its checkpoints (T5.3: 1,024 GPUs save for 60 s), PL-7 for its workers, PL-3 for its share of the peak."""
    rows = pl.DataFrame(
        {
            "gpus": [1024, 2], "cores": [96.0, 32.0], "children": [8.0, 4.0], "children_cores": [16.0, 4.0], "main_cores": [1.0, 1.0],
            "share_data": [0.0, 0.75], "checkpoint_save_s": [60.0, None], "mtbf_gpu_hours": [50_677.0, 50_677.0],
            "ranks": [8, 2], "ranks_on_node": [8, 2], "told_dtype": ["bf16", None], "gpu_model": ["NVIDIA H200", "NVIDIA H200"],
            "told_params": [8.03e9, 8.03e9], "tokens_per_s": [1024 * 8000.0, 8000.0],
        }
    )  # fmt: skip

    one, two = planned.of_jobs(rows).to_dicts()

    assert one["checkpoint_optimum_s"] == pytest.approx(4583.9, rel=0.005)
    assert two["checkpoint_optimum_s"] is None
    assert (one["workers_cap"], one["workers_needed"], one["workers_planned"]) == (11, 3, 3)  # 1.25 x 16 / 8
    assert (two["workers_cap"], two["workers_needed"], two["workers_planned"]) == (15, 10, 10)  # 1.25 x 4 / 2 / 0.25
    assert one["mfu"] == pytest.approx(6 * 8.03e9 * 8000 / 989e12)
    assert two["mfu"] is None  # of which format, nobody told


def test_communication_is_what_the_steps_report_or_the_links_show_whichever_is_more() -> None:
    """Rules that open on either show one number."""
    rows = pl.DataFrame({"gpus": [2, 2], "cores": [8.0, 8.0], "children": [0.0, 0.0], "children_cores": [0.0, 0.0], "main_cores": [1.0, 1.0],
                         "share_data": [0.0, 0.0], "comm_share": [0.4, None], "share_communication": [0.1, 0.3]})  # fmt: skip

    assert planned.of_jobs(rows)["communication_share"].to_list() == [0.4, 0.3]


def test_without_anything_beside_the_frames_stay_what_they_are() -> None:
    """What nobody told is unknown: no column of it claims a value."""
    frames = features(window())
    same = with_more(frames, More())

    assert same.job["bottleneck"].to_list() == frames.job["bottleneck"].to_list()
    assert same.service.is_empty()
    assert same.job["workers_cap"].to_list() == [15]
