"""Readings that stand still: withdrawn where a live card's would have moved, and only there."""

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from agents import kept_driver
from agents.frozen import FROZEN_S, FROZEN_SAMPLES, GROUPS, Group, Standstill
from agents.gpus import Gpus
from agents.nvml_device import NvmlDriver
from agents.source import GPU
from tests.agents.fake_nvml import ANSWERS, FakeNvml
from tests.agents.nvml_gpus import DEADLINE_S, cell, texts, tick
from wire.messages import Cell

RECORDINGS = sorted((Path(__file__).parent.parent.parent / "recordings").glob("*.jsonl.gz"))
CARD, PROFILE = GROUPS


def row(readings: dict[str, Any]) -> list[Cell]:
    """Readings by name, in the registry's order; what is not there is absent."""
    return [readings.get(name) for name in GPU]


def idle_h200() -> list[dict[str, Any]]:
    """An H200 that nobody used, once a second."""
    lines = gzip.decompress((ANSWERS / "h200-idle-200s.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def recorded(file: Path) -> list[list[dict[str, Any]]]:
    """What a recording says of each GPU, once a second."""
    samples = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()[1:]][::4]
    return [[sample["gpus"][gpu] for sample in samples] for gpu in range(len(samples[0]["gpus"]))]


def ever_frozen(standstill: Standstill, rows: list[dict[str, Any]]) -> bool:
    """Whether it is called frozen at any second."""
    frozen = False
    for second, readings in enumerate(rows):
        standstill.look(row(readings), float(second))
        frozen |= standstill.is_frozen
    return frozen


@pytest.mark.parametrize("group", GROUPS)
def test_an_idle_h200_is_never_frozen(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for a judge who waits two seconds instead of three minutes: power and PCIe traffic never repeat."""
    monkeypatch.setattr("agents.frozen.FROZEN_SAMPLES", 1)

    assert not ever_frozen(Standstill(group, after_s=2.0), idle_h200())


def test_an_idle_card_that_shows_neither_energy_nor_traffic_is_never_frozen() -> None:
    """An idle T4 may read 9 W, 30 C and 0 % for hours: nothing says that it should move."""
    still = {
        "power_w": 9.28,
        "temperature_c": 26,
        "gpu_util_pct": 0,
        "sm_clock_mhz": 300,
        "sm_active": 0.0,
        "gr_engine_active": 0.0,
    }
    for group in GROUPS:
        assert not ever_frozen(Standstill(group), [still] * 1000)


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.name.removesuffix(".jsonl.gz"))
def test_no_recording_is_frozen(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Busy, idle, waiting, held: of real cards nothing repeats for as much as eight seconds, energy left out of the judgement."""
    monkeypatch.setattr("agents.frozen.FROZEN_SAMPLES", 1)
    for rows in recorded(file):
        assert not ever_frozen(Standstill(CARD, after_s=2.0), rows)
        assert not ever_frozen(Standstill(PROFILE, after_s=2.0), rows)
        assert not ever_frozen(Standstill(CARD, after_s=8.0), [{**readings, "energy_j_total": None} for readings in rows])


def test_a_card_whose_energy_does_not_rise_while_it_draws_power_is_frozen() -> None:
    """Whatever it does: that cannot be."""
    still = idle_h200()[0]
    standstill = Standstill(CARD)

    assert not ever_frozen(standstill, [still] * int(FROZEN_S))
    assert standstill.look(row(still), FROZEN_S)
    assert standstill.is_frozen


def test_a_working_card_without_an_energy_counter_is_frozen_when_nothing_moves() -> None:
    """At rest it would not be."""
    still = {"power_w": 61.5, "temperature_c": 55, "gpu_util_pct": 87, "sm_clock_mhz": 1410}

    assert ever_frozen(Standstill(CARD), [still] * 200)


@pytest.mark.parametrize("name", ["power_w", "temperature_c", "mem_used_bytes", "energy_j_total"])
def test_one_reading_that_moves_shows_that_the_card_is_read(name: str) -> None:
    """However little."""
    still = idle_h200()[0]
    rows = [{**still, name: still[name] + second % 2} for second in range(600)]

    assert not ever_frozen(Standstill(CARD), rows)


def test_profiling_counters_freeze_by_themselves() -> None:
    """A share of work that is the same to the last bit; a card that is full, or empty, may stay so."""
    moving = itertools.cycle((100.0, 101.0))
    rows = [{"power_w": next(moving), "energy_j_total": second, "sm_active": 0.4321, "dram_active": 0.2} for second in range(200)]
    full = [{"sm_active": 1.0, "gr_engine_active": 1.0, "tensor_active": 0.0, "pcie_tx_bytes_per_s": 0}] * 200

    assert ever_frozen(Standstill(PROFILE), rows)
    assert not ever_frozen(Standstill(CARD), rows)
    assert not ever_frozen(Standstill(PROFILE), full)


def test_a_few_samples_far_apart_prove_nothing() -> None:
    """An agent that reads once a minute waits for ten."""
    standstill, still = Standstill(CARD), row(idle_h200()[0])
    for sample in range(FROZEN_SAMPLES - 1):
        standstill.look(still, sample * 60.0)

    assert not standstill.is_frozen
    assert standstill.look(still, FROZEN_SAMPLES * 60.0)


async def test_frozen_readings_are_absent_told_of_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the whole reading of a GPU; its health, its memory bank and the other GPU stay as they are."""
    monkeypatch.setattr(kept_driver, "_EVENT_WAIT_MS", 20)
    monkeypatch.setattr("agents.frozen.FROZEN_SAMPLES", 3)
    nvml = FakeNvml()
    one = Gpus(NvmlDriver(nvml), DEADLINE_S, slow_s=0.0)
    await tick(one)
    for slot in one._slots:
        slot.standstills = tuple(Standstill(group, after_s=0.0) for group in GROUPS)
    for step in range(6):  # GPU 1 lives
        nvml.gpus[1]["calls"]["nvmlDeviceGetPowerUsage()"] += 1
        nvml.gpus[1]["gpm"]["20"] = 10.0 + step
        rows = await tick(one)

    for name in (
        "power_w",
        "temperature_c",
        "energy_j_total",
        "gpu_util_pct",
        "mem_used_bytes",
        "sm_active",
        "pcie_rx_bytes_per_s",
    ):
        assert cell(rows, 0, name) == (None, "frozen")
        assert cell(rows, 1, name)[1] is None
    assert cell(rows, 0, "remap_failed")[1] is None
    assert cell(rows, 0, "temperature_slowdown_c")[1] is None
    assert texts(one) == [
        "The readings of GPU 0 stand still, which those of a live card cannot.",
        "The profiling counters of GPU 0 stand still, which those of a live card cannot.",
    ]
    nvml.gpus[0]["calls"]["nvmlDeviceGetPowerUsage()"] += 1
    nvml.gpus[0]["gpm"]["20"] = 11.5
    rows = await tick(one)
    assert cell(rows, 0, "power_w")[1] is None
    assert cell(rows, 0, "sm_active")[1] is None
    assert texts(one) == ["The readings of GPU 0 move again.", "The profiling counters of GPU 0 move again."]
    await one.close()


def test_the_two_groups_share_nothing_and_leave_health_alone() -> None:
    """An ECC count that stands still is a healthy card's."""
    assert not set(CARD.positions) & set(PROFILE.positions)
    assert not {"ecc_corrected_volatile_total", "remap_pending", "xid_errors_total"} & {
        GPU[at] for at in CARD.positions + PROFILE.positions
    }
