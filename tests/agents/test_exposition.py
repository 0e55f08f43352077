"""The node's own /metrics: what dashboards for dcgm-exporter ask for is there under its names, labels and units."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from agents import exposition
from agents.loop import NodeLoop
from agents.source import HOST
from agents.vitals import Delivery, NodeView, Vitals
from tests.agents.fake_nvml import FakeNvml
from tests.agents.outputs_of import node

# What the queries of https://grafana.com/grafana/dashboards/12239 ask for, as NVIDIA publishes it with every release of dcgm-exporter
# (https://github.com/NVIDIA/dcgm-exporter/blob/4.5.3-4.8.2/grafana/dcgm-exporter-dashboard.json): metrics, and labels to choose and list by.
DASHBOARD = {
    "DCGM_FI_DEV_GPU_TEMP": {"instance", "gpu"},  # its two variables list these
    "DCGM_FI_DEV_POWER_USAGE": {"instance", "gpu"},
    "DCGM_FI_DEV_SM_CLOCK": {"instance", "gpu"},
    "DCGM_FI_DEV_GPU_UTIL": {"instance", "gpu"},
    "DCGM_FI_DEV_FB_USED": {"instance", "gpu"},
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": {"instance", "gpu"},
}
# What a reworked one adds that was proposed there (https://github.com/NVIDIA/dcgm-exporter, commit a52c9c0).
REWORKED = {
    "DCGM_FI_DEV_FB_FREE": {"Hostname", "gpu"},
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": {"Hostname", "gpu"},
    "DCGM_FI_DEV_SM_CLOCK": {"Hostname", "UUID", "gpu"},
}
OF_PROMETHEUS = {"instance", "job"}  # which a scrape adds
EXPORTERS_LABELS = {"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname"}


def page(loop: NodeLoop, later: float = 0.0) -> str:
    """The page `later` seconds after the last tick."""
    last = loop.vitals.last
    assert last is not None
    return exposition.metrics([loop.view()], last.at + later, "1.0")


def samples(text: str) -> dict[str, list[Sample]]:
    """Samples by name, as Prometheus' own parser reads them."""
    found: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


@pytest.mark.parametrize(("metric", "asked"), [*DASHBOARD.items(), *REWORKED.items()])
async def test_every_query_of_the_stock_dashboard_finds_both_gpus(metric: str, asked: set[str]) -> None:
    """Its metric is there once a GPU, with every label that the query chooses by, groups by or lists, and the exporter's others."""
    async with node() as loop:
        series = samples(page(loop))[metric]

    assert sorted(sample.labels["gpu"] for sample in series) == ["0", "1"]
    for sample in series:
        assert asked - OF_PROMETHEUS <= set(sample.labels) == EXPORTERS_LABELS
        assert not OF_PROMETHEUS & set(sample.labels)  # they would be renamed exported_
        assert sample.labels["Hostname"] == "n"
        assert sample.labels["device"] == f"nvidia{sample.labels['gpu']}"
        assert sample.labels["UUID"].startswith("GPU-")


async def test_a_slice_bears_the_exporters_labels_of_its_card_and_its_own() -> None:
    """As dcgm-exporter names it, so that queries by GPU find it."""
    async with node(FakeNvml("h100-mig-driver-550.json")) as loop:
        series = samples(page(loop))["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]
    slices = [sample.labels for sample in series if "GPU_I_ID" in sample.labels]

    assert [labels["GPU_I_PROFILE"] for labels in slices] == ["3g.40gb", "1g.10gb"]
    assert len({labels["GPU_I_ID"] for labels in slices}) == 2
    assert all(set(labels) == EXPORTERS_LABELS | {"GPU_I_ID", "GPU_I_PROFILE"} for labels in slices)
    assert {labels["gpu"] for labels in slices} == {"0"}


async def test_units_are_dcgms() -> None:
    """Framebuffer in whole MiB, energy in whole mJ, power in W, profiling as a ratio, utilisation in percent."""
    async with node() as loop:
        text = page(loop)
        found = samples(text)
        last = loop.vitals.last
        assert last is not None
        once = dict(zip(last.inventory.hello("n", "b", "1", 1).gpu_metrics, (column[0] for column in last.tick.gpu), strict=True))

    def told(name: str) -> float:
        return found[name][0].value

    used, total, energy = once["mem_used_bytes"], once["mem_total_bytes"], once["energy_j_total"]
    assert used is not None
    assert total is not None
    assert energy is not None
    assert told("DCGM_FI_DEV_FB_USED") == used // (1 << 20)
    assert told("DCGM_FI_DEV_FB_TOTAL") == total // (1 << 20)
    assert 0 < told("DCGM_FI_DEV_FB_FREE") <= (total - used) // (1 << 20)
    # the parser gives a counter's name a _total that neither the exporter nor we write
    assert re.findall(r"^DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION\{.*\} (\d+)$", text, re.M)[0] == str(round(energy * 1000))
    assert told("DCGM_FI_DEV_POWER_USAGE") == once["power_w"]
    assert told("DCGM_FI_DEV_GPU_UTIL") == once["gpu_util_pct"]
    assert told("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE") == once["tensor_active"]
    assert 0 <= told("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE") <= 1


async def test_the_page_is_valid_and_each_family_stands_once() -> None:
    """Counters of our own end in _total, every sample is typed, no family is split."""
    async with node() as loop:
        text = page(loop)
    declared = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)

    assert len({name for name, _ in declared}) == len(declared)
    assert {name for name, _ in declared} == set(re.findall(r"^(\w+)[{ ]", text, re.M))
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in declared if name.startswith("fettle_"))
    assert {f"fettle_host_{name}" for name in HOST} & {name for name, _ in declared}


async def test_no_family_grows_with_the_processes() -> None:
    """A pid is no label; a GPU's processes are counted and summed."""
    async with node() as loop:
        found = samples(page(loop))

    assert [sample.value for sample in found["fettle_gpu_processes"]] == [1, 0]
    assert not any("pid" in sample.labels for several in found.values() for sample in several)


async def test_values_that_are_older_than_ten_seconds_are_left_out_and_their_age_is_told() -> None:
    """The agent's own families stay."""
    async with node() as loop:
        fresh, stale = samples(page(loop, 9)), samples(page(loop, 11))

    assert "DCGM_FI_DEV_GPU_TEMP" in fresh
    assert not [name for name in stale if name.startswith(("DCGM_", "fettle_host_", "fettle_engine_"))]
    assert stale["fettle_tick_age_seconds"][0].value == pytest.approx(11)
    assert stale["fettle_gpu_age_seconds"][1].value == pytest.approx(11)
    assert stale["fettle_agent_ticks_total"][0].value == 2


async def test_what_is_absent_is_left_out_and_counted_by_its_reason() -> None:
    """Never a zero; a GPU that is lost has its age alone."""
    nvml = FakeNvml()
    async with node(nvml) as loop:
        nvml.fail(1, 15)
        await loop.tick(1_800_000_002.0)
        found = samples(page(loop))

    assert [sample.labels["gpu"] for sample in found["DCGM_FI_DEV_GPU_TEMP"]] == ["0"]
    assert [sample.labels["gpu"] for sample in found["DCGM_FI_DEV_XID_ERRORS"]] == ["0"]
    lost = [s for s in found["fettle_gpu_absent_readings"] if s.labels["reason"] == "gpu_lost"]
    assert [sample.labels["gpu"] for sample in lost] == ["1"]
    assert {sample.labels["gpu"] for sample in found["fettle_gpu_age_seconds"]} == {"0", "1"}


async def test_the_driver_is_not_asked_for_a_page() -> None:
    """Ten pages, and not one call more."""
    nvml = FakeNvml()
    async with node(nvml) as loop:
        asked = nvml.asked.total()
        calls = {name: count for name, count in nvml.asked.items() if name != "nvmlEventSetWait"}
        for _ in range(10):
            page(loop)

        assert calls.items() <= nvml.asked.items()
        assert asked <= nvml.asked.total()


def test_a_node_that_was_never_read_has_the_agents_own_families_alone() -> None:
    """And labels are escaped, so that no name can break the page."""
    view = NodeView('a"b\\c\nd', Vitals(), lambda: Delivery(refused={"busy": 2}), lambda: "not_read")
    found = samples(exposition.metrics([view], 0.0, "1.0"))

    assert not [name for name in found if name.startswith(("DCGM_", "fettle_gpu", "fettle_host", "fettle_tick"))]
    assert found["fettle_agent_records_refused_total"][0].labels == {"Hostname": 'a"b\\c\nd', "code": "busy"}
    assert found["fettle_agent_driver_state"][0].labels["state"] == "not_read"
