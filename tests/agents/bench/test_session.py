"""A run on two GPUs: real processes that measure, with NVML from a recording and a torch that computes nothing."""

from pathlib import Path

import pytest

from agents.bench import conditions, session
from agents.bench.cases import Kind
from agents.bench.choice import BenchRefusedError, chosen
from agents.bench.session import Run, Settings
from agents.nvml_device import NvmlDevice, NvmlDriver
from tests.agents.bench.carded import idle, machine
from tests.agents.fake_nvml import FakeNvml
from wire.bench import BenchReport, decode, encode


def measured(*, beside_others: bool = False, only: tuple[Kind, ...] = ("matmul",), settle_s: float = 0.0) -> BenchReport:
    """The report of a quick run."""
    run = Run(Settings(node="n1", quick=True, only=only, settle_s=settle_s, beside_others=beside_others), lambda sentence: None)
    run.go()
    return run.report()


def scores(report: BenchReport) -> dict[tuple[int, str], float]:
    """Medians by GPU index and name, rounded to what the sheet has."""
    index = {gpu.uuid: gpu.index for gpu in report.gpus}
    return {(index[one.gpu], one.name): float(f"{one.value:.4g}") for one in report.scores}


def test_every_test_gives_what_the_card_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The amounts are right: each rate of the sheet comes back, on both GPUs, with the state that it was measured in."""
    machine(monkeypatch, slow={"1": 0.9})
    report = measured(only=("matmul", "memory", "peer", "all_reduce"))
    found = scores(report)

    assert found[0, "matmul_bf16_8192"] == 700e12
    assert found[1, "matmul_bf16_8192"] == 630e12
    assert found[0, "matmul_tf32_8192"] == 400e12
    assert found[0, "matmul_fp32_8192"] == 50e12
    assert found[0, "matmul_fp64_8192"] == 60e12
    assert found[0, "matmul_fp8_8192"] == 1300e12
    assert found[0, "matmul_int8_8192"] == 1200e12
    assert found[0, "matmul_bf16_8192x14336x4096"] == found[0, "matmul_bf16_8192x8192x28672"] == 700e12
    assert found[0, "memory_copy"] == found[0, "memory_triad"] == 4e12
    assert found[0, "peer_copy_256mib"] == 300e9
    assert [found[0, f"all_reduce_{size}_2gpus"] for size in ("1mib", "64mib", "1gib")] == [300e9] * 3
    assert found[1, "all_reduce_64mib_2gpus"] == 270e9
    assert report.missing == ()
    bf16 = next(one for one in report.scores if one.name == "matmul_bf16_8192")
    assert (bf16.iterations, bf16.warm_up) == (100, 50)
    assert (bf16.sm_clock_mhz, bf16.power_w, bf16.temperature_c) == (1980.0, 142.7, 36.0)
    assert report.versions["torch"] == "2.99.0+fake"
    assert report.versions["nccl"] == "2.28.9"
    assert report.versions["driver"]
    assert (report.gpus[0].power_limit_w, report.gpus[0].settled) == (700.0, None)
    assert decode(encode(report)) == report


def test_copies_to_the_host_are_timed_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pinned by events, at the sheet's rate; pageable by the wall clock, which the fake does not move."""
    machine(monkeypatch)
    report = measured(only=("host",))
    found = scores(report)

    assert [found[0, f"{way}_pinned_{size}mib"] for way in ("h2d", "d2h") for size in (16, 256)] == [50e9] * 4
    assert found[0, "h2d_pageable_256mib"] > 0
    assert found[1, "d2h_pageable_16mib"] > 0


def test_a_test_that_fails_is_absent_with_its_reason_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, without the advice of CUDA's message to recompile being all of it."""
    machine(monkeypatch, broken=["float8_e4m3fn"])
    report = measured()
    (first, second) = report.missing

    assert (first.name, second.name) == ("matmul_fp8_8192", "matmul_fp8_8192")
    assert {first.gpu, second.gpu} == {gpu.uuid for gpu in report.gpus}
    assert first.reason.startswith("CUDA error: float8_e4m3fn is broken")
    assert "\n" not in first.reason
    assert scores(report)[0, "matmul_fp64_8192"] == 60e12


def test_a_process_that_ends_leaves_the_other_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before it stands; what would have come says which end it took and its last words."""
    machine(monkeypatch, dies="float8_e4m3fn")
    report = measured()
    why = {one.name: one.reason for one in report.missing}

    assert scores(report)[0, "matmul_tf32_8192"] == 400e12
    assert why["matmul_fp8_8192"] == "the process that measures ended with exit code 134: terminate called: Xid 79"
    assert why["matmul_fp64_8192"] == why["matmul_fp8_8192"]


def test_a_process_that_gives_no_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run has an end, whatever hangs."""
    machine(monkeypatch, hangs="float16")
    monkeypatch.setattr(session, "_PATIENCE_S", -8.0)  # nine seconds of it come from the test's own budget
    report = measured()
    why = {one.name: one.reason for one in report.missing}

    assert scores(report)[0, "matmul_bf16_8192"] == 700e12
    assert why["matmul_fp16_8192"] == "it gave no answer in time and was ended"


def test_a_gpu_with_little_memory_gets_smaller_products_under_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of one name compare: 4096 is not 8192."""
    machine(monkeypatch, free_bytes=1 << 30)
    report = measured(only=("matmul", "memory"))
    names = {name for index, name in scores(report) if index == 0}

    assert "matmul_bf16_8192" in names  # 403 MB
    assert "matmul_fp64_4096" in names
    assert "matmul_fp64_8192" not in names
    assert "memory_triad" in names
    assert [one.reason for one in report.missing][:1] == ["it does not fit into the GPU's free memory"]  # a shape of a model
    assert {one.name for one in report.missing} == {"matmul_bf16_8192x8192x28672"}


def test_without_nccl_all_reduce_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """On every GPU, with the reason."""
    machine(monkeypatch, broken=["nccl"])
    report = measured(only=("all_reduce",))

    assert report.scores == ()
    assert len(report.missing) == 6
    assert report.missing[0].reason == "the GPUs could not be joined: this torch was built without NCCL"


def test_a_torch_that_sees_no_gpu_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made up."""
    machine(monkeypatch, blind=True)

    with pytest.raises(BenchRefusedError, match="torch sees no GPU"):
        measured()


def test_gpus_in_use_are_refused_and_with_the_flag_the_result_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds them stands in the sentence."""
    nvml = idle()
    nvml.gpus[1]["processes"] = [{"pid": 4711, "usedGpuMemory": 1 << 30}]
    machine(monkeypatch, nvml)
    with pytest.raises(BenchRefusedError, match=r"GPU 1 by process 4711.*--beside-others"):
        measured()

    assert measured(only=("memory",), beside_others=True).shared is True


def test_memory_that_nobody_is_listed_for_counts_as_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the driver lists no process of another one."""
    nvml = idle()
    nvml.gpus[0]["calls"]["nvmlDeviceGetMemoryInfo(33554472)"]["used"] = 3 << 30
    machine(monkeypatch, nvml)

    with pytest.raises(BenchRefusedError, match=r"GPU 0 by something that the driver does not list, with 3\.0 GiB"):
        measured()


def test_an_even_temperature_settles_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The load ends as soon as the slope is small enough, long before the bound."""
    machine(monkeypatch)
    monkeypatch.setattr(session, "WINDOW_S", 1.0)
    report = measured(only=("memory",), settle_s=30.0)

    assert report.seconds < 20
    assert [(gpu.settled, gpu.temperature_slope_c_per_min) for gpu in report.gpus] == [(True, 0.0)] * 2


class Warming(FakeNvml):
    """Each look at a temperature finds a degree more."""

    def _call(self, name: str, handle: int, arguments: tuple[object, ...]) -> object:
        if name == "nvmlDeviceGetTemperature":
            self.asked[name] += 1
            return 30 + self.asked[name]
        return super()._call(name, handle, arguments)


def test_a_temperature_that_rises_is_waited_for_no_longer_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the report says that it had not settled."""
    nvml = Warming()
    for gpu, calm in zip(nvml.gpus, idle().gpus, strict=True):
        gpu.update(calm)
    machine(monkeypatch, nvml)
    monkeypatch.setattr(session, "WINDOW_S", 1.0)
    report = measured(only=("memory",), settle_s=2.0)

    assert [gpu.settled for gpu in report.gpus] == [False, False]
    assert all((gpu.temperature_slope_c_per_min or 0) > conditions.SLOPE_C_PER_MIN for gpu in report.gpus)


def devices(nvml: FakeNvml | None = None) -> list[NvmlDevice]:
    """The GPUs as NVML tells of them."""
    return [one for one in NvmlDriver(idle() if nvml is None else nvml).open() if isinstance(one, NvmlDevice)]


@pytest.mark.parametrize(
    ("asked", "environment", "expected"),
    [
        (None, {}, [0, 1]),
        ("1", {}, [1]),
        ("1,0", {}, [0, 1]),
        (None, {"CUDA_VISIBLE_DEVICES": "1"}, [1]),
        ("0", {"CUDA_VISIBLE_DEVICES": "1"}, [0]),
    ],
)
def test_gpus_are_chosen_as_cuda_would(asked: str | None, environment: dict[str, str], expected: list[int]) -> None:
    """By the flag, else by the variable, else all; in the order of their addresses."""
    assert [one.facts.index for one in chosen(devices(), asked, environment)] == expected


@pytest.mark.parametrize(("asked", "variable"), [("7", None), ("0,7", None), (None, "7"), (None, ""), ("GPU-nobody", None)])
def test_a_gpu_that_is_not_here_is_refused(asked: str | None, variable: str | None) -> None:
    """With those that are."""
    with pytest.raises(BenchRefusedError, match="there are 0 "):
        chosen(devices(), asked, {} if variable is None else {"CUDA_VISIBLE_DEVICES": variable})


def test_split_gpus_are_not_measured() -> None:
    """A slice compares with nothing."""
    with pytest.raises(BenchRefusedError, match="split by MIG"):
        chosen(devices(FakeNvml("h100-mig-driver-550.json")), None, {})


def test_the_cores_next_to_a_gpu_are_the_kernels(tmp_path: Path) -> None:
    """NVML writes eight digits of a domain, the kernel four."""
    place = tmp_path / "bus/pci/devices/0000:c4:00.0"
    place.mkdir(parents=True)
    (place / "local_cpulist").write_text("0-15,64-79\n")

    assert conditions.local_cpus("00000000:C4:00.0", tmp_path) == "0-15,64-79"
    assert conditions.local_cpus("00000000:C5:00.0", tmp_path) == ""
    assert conditions.local_cpus(None, tmp_path) == ""
