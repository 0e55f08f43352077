"""What is read from one answer of dcgm-exporter: names, units, blanks, instances."""

from collections.abc import Mapping

import pytest

from agents.dcgm_readings import GPU_METRICS, STALE_S, Habits, gpus, readings
from agents.samples import Parser
from tests.agents.exporter import answer
from wire.messages import Cell

BUSY = "GPU-11111111-2222-3333-4444-555555555555"
NOW = 1_800_000_000.0
LABELS = f'gpu="0",UUID="{BUSY}",modelName="NVIDIA H200",Hostname="node-17"'


def read(text: str, uuid: str = BUSY, habits: Habits | None = None) -> Mapping[str, Cell | str]:
    """Each metric's value, or its reason."""
    found = gpus(Parser(("DCGM_FI_",)).read(text.encode()).samples, NOW)
    values, reasons = readings(found[uuid], habits or Habits())
    return {
        metric.name: reason if value is None else value
        for metric, value, reason in zip(GPU_METRICS, values, reasons, strict=True)
    }


def one(name: str, value: str, habits: Habits | None = None) -> Mapping[str, Cell | str]:
    """Readings of an answer with a single line."""
    return read(f"{name}{{{LABELS}}} {value}\n", habits=habits)


def test_the_default_counters_are_read_in_units_of_the_registry() -> None:
    """MiB become bytes and mJ joules; the exporter's TYPE is not looked at; what it does not tell is unsupported."""
    told = read(answer("dcgm-exporter-4.5.prom"))

    assert told["power_w"] == pytest.approx(612.345)
    assert told["energy_j_total"] == pytest.approx(184467.44)
    assert told["mem_used_bytes"] == 68124 << 20
    assert told["mem_reserved_bytes"] == 616 << 20
    assert told["mem_total_bytes"] == (75031 + 68124 + 616) << 20
    assert told["gpu_util_pct"] == 100
    assert told["tensor_active"] == pytest.approx(0.412)
    assert told["pcie_tx_bytes_per_s"] == 112603
    assert told["remap_correctable_total"] == 1
    assert told["sm_active"] == "unsupported"
    assert told["pstate"] == "unsupported"


def test_old_and_new_names_bring_the_same_readings() -> None:
    """DCGM 4.6 renamed most fields; a dashboard may not notice."""
    assert read(answer("dcgm-exporter-4.6-names.prom")) == read(answer("dcgm-exporter-4.5.prom"))


def test_labels_say_who_uses_the_gpu_and_which_node_it_is_in() -> None:
    """Pod, container and job as the exporter attaches them; both spellings of the host's label."""
    old = gpus(Parser(("DCGM_FI_",)).read(answer("dcgm-exporter-4.5.prom").encode()).samples, NOW)[BUSY]
    new = gpus(Parser(("DCGM_FI_",)).read(answer("dcgm-exporter-4.6-names.prom").encode()).samples, NOW)[BUSY]

    assert old.labels == {"pod": {"train-0"}, "namespace": {"ml"}, "container": {"trainer"}}
    assert old.hosts == new.hosts == {"node-17"}
    assert (old.index, old.name, old.pci_bus_id, old.driver) == (0, "NVIDIA H200", "00000000:18:00.0", "580.159.04")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("2147483632", "blank"),  # int32
        ("2147483633", "not_found"),
        ("2147483634", "unsupported"),
        ("2147483635", "not_permitted"),
        ("9223372036854775792", "blank"),  # int64
        ("9223372036854775794", "blank"),  # whose kinds a float cannot tell apart
        ("9223372036854776000", "blank"),  # rounded on its way (V05)
        ("140737488355328.000000", "blank"),  # double
        ("140737488355330.000000", "unsupported"),
        ("644245923", "out_of_range"),  # an impossible spike (V06)
        ("-300", "out_of_range"),
        ("NaN", "not_a_number"),
        ("+Inf", "not_a_number"),
    ],
)
def test_a_blank_is_no_number(value: str, reason: str) -> None:
    """Every type's sentinel is known before a unit is applied (V03, V04)."""
    assert one("DCGM_FI_DEV_GPU_TEMP", value)["temperature_c"] == reason
    assert one("DCGM_FI_DEV_FB_USED", value)["mem_used_bytes"] in (reason, "out_of_range")


def test_a_counter_may_pass_a_blank_of_32_bits() -> None:
    """2,147,483,632 mJ are an hour of a busy card; the blank of a double is still none."""
    assert one("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "2147483633")["energy_j_total"] == pytest.approx(2147483.633)
    assert one("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "140737488355328.0")["energy_j_total"] == "blank"


def test_a_memory_temperature_of_nought_is_no_temperature() -> None:
    """Cards without the sensor answer 0 (V01)."""
    assert one("DCGM_FI_DEV_MEMORY_TEMP", "0")["memory_temperature_c"] == "unsupported"


def test_utilisation_under_its_new_name_is_settled_by_what_the_exporter_writes() -> None:
    """4.6 writes 0 to 100 under it, 4.7 a ratio (V12); a 1 alone could be either and is not guessed."""
    percent, ratio = Habits(), Habits()

    assert one("DCGM_FI_DEV_GPU_UTIL_RATIO", "1", percent)["gpu_util_pct"] == "no_previous"
    assert one("DCGM_FI_DEV_GPU_UTIL_RATIO", "37", percent)["gpu_util_pct"] == 37
    assert one("DCGM_FI_DEV_GPU_UTIL_RATIO", "1", percent)["gpu_util_pct"] == 1
    assert one("DCGM_FI_DEV_GPU_UTIL_RATIO", "0.370000", ratio)["gpu_util_pct"] == pytest.approx(37)
    assert one("DCGM_FI_DEV_GPU_UTIL_RATIO", "1.000000", ratio)["gpu_util_pct"] == 100
    assert one("DCGM_FI_DEV_GPU_UTIL_RATIO", "0")["gpu_util_pct"] == 0


def test_a_ratio_may_be_a_little_above_one_and_not_more() -> None:
    """Two counters are not read at the same instant; 1.2 is no share of anything."""
    assert one("DCGM_FI_PROF_SM_ACTIVE", "1.003000")["sm_active"] == 1
    assert one("DCGM_FI_PROF_SM_ACTIVE", "1.2")["sm_active"] == "out_of_range"


def test_instances_are_joined_to_their_gpu() -> None:
    """Equal readings are the card's, memory and traffic add up, shares of time weigh as their slices of seven do."""
    uuid = "GPU-0ba88705-8527-ed9e-bc07-1b45788d4ef9"
    told = read(answer("dcgm-exporter-3.3-mig.prom"), uuid)
    gpu = gpus(Parser(("DCGM_FI_",)).read(answer("dcgm-exporter-3.3-mig.prom").encode()).samples, NOW)[uuid]

    assert told["power_w"] == pytest.approx(131.204)
    assert told["mem_used_bytes"] == (727 + 12 + 7955 + 25) << 20
    assert told["gr_engine_active"] == pytest.approx((0.784913 * 1 + 0.290336 * 2) / 7)
    assert told["pcie_tx_bytes_per_s"] == 1500
    assert told["mem_total_bytes"] == "unsupported"
    assert gpu.profiles == {"13": "1g.10gb", "14": "1g.10gb", "5": "2g.20gb", "1": "3g.40gb"}
    assert gpu.labels["hpc_job"] == {"2115078", "2115116", "2115107"}


def test_instances_that_differ_in_what_they_share_say_nothing_of_the_gpu() -> None:
    """Two temperatures are not one; a profile that is not known has no weight."""
    text = "".join(
        f'DCGM_FI_DEV_GPU_TEMP{{{LABELS},GPU_I_ID="{i}",GPU_I_PROFILE="odd"}} {40 + i}\n'
        f'DCGM_FI_PROF_SM_ACTIVE{{{LABELS},GPU_I_ID="{i}",GPU_I_PROFILE="odd"}} 0.5\n'
        for i in (1, 2)
    )

    assert read(text)["temperature_c"] == "unsupported"
    assert read(text)["sm_active"] == "unsupported"


def test_a_shared_gpu_is_counted_once() -> None:
    """Time slicing repeats the card's reading for every pod (I07)."""
    text = "".join(f'DCGM_FI_DEV_FB_USED{{{LABELS},pod="p{i}",vgpu="{i}"}} 1000\n' for i in range(3))

    assert read(text)["mem_used_bytes"] == 1000 << 20


def test_readings_of_another_time_are_not_live() -> None:
    """A proxy's own timestamps from minutes ago, or from 1970, are a timeout (T01, T03)."""
    for at in (NOW - STALE_S - 1, 3600, NOW + STALE_S + 1):
        text = f"DCGM_FI_DEV_GPU_TEMP{{{LABELS}}} 50 {int(at * 1000)}\nDCGM_FI_DEV_SM_CLOCK{{{LABELS}}} 345 {int(NOW * 1000)}\n"
        assert read(text)["temperature_c"] == "timeout"
        assert read(text)["sm_clock_mhz"] == 345


def test_what_is_no_gpu_is_left_out() -> None:
    """NVLink lanes, switches, processors, a nil UUID and an instance's own UUID are no cards."""
    text = (
        f'DCGM_FI_DEV_GPU_TEMP{{{LABELS},nvlink="3"}} 90\nDCGM_FI_DEV_GPU_TEMP{{nvswitch="1"}} 90\n'
        'DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-00000000-0000-0000-0000-000000000000"} 90\n'
        'DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-<script>"} 90\n'
        'DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="MIG-1b2c"} 90\nDCGM_FI_DEV_GPU_TEMP{gpu="1"} 90\n'
    )

    assert gpus(Parser(("DCGM_FI_",)).read(text.encode()).samples, NOW) == {}


def test_noughts_of_profiling_on_a_busy_gpu_are_no_readings() -> None:
    """DCGM's profiling may stop without a word (V15, V20): the noughts are blank, and a single live ratio clears them all."""
    busy = f"DCGM_FI_DEV_GPU_UTIL{{{LABELS}}} 99\nDCGM_FI_PROF_SM_ACTIVE{{{LABELS}}} 0.000000\n"
    idle = busy.replace("} 99", "} 3")
    live = busy + f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{LABELS}}} 0.99\n"

    assert (read(busy)["sm_active"], read(busy)["gr_engine_active"]) == ("blank", "unsupported")
    assert read(idle)["sm_active"] == 0
    assert read(live)["sm_active"] == 0


def test_an_instance_is_named_by_its_card_its_profile_and_its_number() -> None:
    """The exporter does not tell its UUID; the name has nothing that a server would refuse, and no other size ever gets it."""
    line = f'DCGM_FI_DEV_FB_USED{{{LABELS},GPU_I_ID="7",GPU_I_PROFILE="1g.10gb+me"}} 5\n'
    odd = f'DCGM_FI_DEV_FB_USED{{{LABELS},GPU_I_ID="8",GPU_I_PROFILE="<b>"}} 5\nDCGM_FI_DEV_FB_USED{{{LABELS},GPU_I_ID="x"}} 5\n'
    found = gpus(Parser(("DCGM_FI_",)).read((line + odd).encode()).samples, NOW)

    assert list(found) == [BUSY, f"{BUSY}:1g.10gb.me:7", f"{BUSY}:unknown:8"]
    assert read(line, f"{BUSY}:1g.10gb.me:7")["mem_used_bytes"] == 5 << 20
