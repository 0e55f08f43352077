"""dcgm-exporter as the source of a node's GPUs: the real agent's machine over stub exporters on loopback."""

import logging
import re
import time
from collections.abc import Iterator

import pytest

from agents import dcgm, dcgm_endpoint, dcgm_readings, kept_driver
from agents.dcgm import DcgmDriver, DcgmReader
from agents.dcgm_readings import GpuAnswer
from agents.device import DRIVER_STATES, DeviceEvent, DriverError, GpuReader
from agents.machine import Machine
from agents.samples import Sample
from agents.scrape import target
from tests.agents.exporter import Exporter, answer, exporter, free_port
from tests.agents.ticking import named, until
from wire.codec import MAX_FRAME_BYTES, encode_text
from wire.labels import GPU_LABELS

BUSY = "GPU-11111111-2222-3333-4444-555555555555"
IDLE = "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait for real periods."""
    monkeypatch.setattr(kept_driver, "RETRY_FIRST_S", 0.01)
    monkeypatch.setattr(kept_driver, "RETRY_LAST_S", 0.02)
    monkeypatch.setattr(kept_driver, "_EVENT_WAIT_MS", 20)
    monkeypatch.setattr(dcgm_endpoint, "PERIOD_S", 0.02)
    monkeypatch.setattr(dcgm_endpoint, "PERIOD_MAX_S", 0.02)


@pytest.fixture
def stub() -> Iterator[Exporter]:
    """A running exporter of two GPUs."""
    with exporter() as running:
        running.serve("dcgm-exporter-4.5.prom")
        yield running


def is_lost(reader: GpuReader) -> bool:
    """Whether the GPU is lost now."""
    return reader.is_lost


def heard(machine: Machine, told: list[DeviceEvent]) -> list[DeviceEvent]:
    """All events up to now, added to `told`."""
    told += machine.events()
    return told


async def test_a_machine_reads_its_gpus_from_an_exporter(stub: Exporter) -> None:
    """Facts, versions and readings; nobody knows who holds the GPUs, which is not nobody."""
    machine = Machine(DcgmDriver([target(stub.url)]))
    tick = await machine.collect()

    assert [(gpu.index, gpu.uuid, gpu.name) for gpu in machine.inventory.gpus] == [
        (0, BUSY, "NVIDIA H200"),
        (1, IDLE, "NVIDIA H200"),
    ]
    assert machine.inventory.gpus[0].mem_total_bytes == (75031 + 68124 + 616) << 20
    assert machine.inventory.host.driver_version == "580.159.04"
    assert named(tick, 0)["power_w"] == pytest.approx(612.345)
    assert named(tick, 1)["power_w"] == pytest.approx(76.21)
    assert named(tick, 0)["xid_errors_total"] == 0
    assert tick.holds_reasons == ["unsupported", "unsupported"]
    assert tick.processes.holds == []
    await machine.close()


async def test_new_answers_are_seen_without_being_asked_for(stub: Exporter) -> None:
    """Each exporter has its own thread; a tick only takes what came last."""
    machine = Machine(DcgmDriver([target(stub.url)]))
    await machine.collect()
    stub.body = answer("dcgm-exporter-4.5.prom").replace("612.345000", "400.000000").encode()

    await until(machine, lambda tick: named(tick, 0)["power_w"] == 400)
    await machine.close()


async def test_an_exporter_that_ends_makes_readings_absent_and_is_looked_for(
    stub: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No old value is repeated as live; the state says what to do, once; when it is back, so are the readings."""
    monkeypatch.setattr(dcgm, "MAX_AGE_S", 0.1)
    machine = Machine(DcgmDriver([target(stub.url)]))
    await machine.collect()
    machine.events()
    stub.status = 503

    tick = await until(machine, lambda tick: machine.state != "ok")
    assert all(value is None for column in tick.gpu for value in column)
    await until(machine, lambda tick: machine.state == "no_exporter")
    assert "HTTP status 503" in machine.state_detail
    assert DRIVER_STATES["no_exporter"] in machine.state_detail
    for _ in range(5):
        await machine.collect()
    told = [event.text for event in machine.events() if "status 503" in event.text]
    assert len(told) == 1
    stub.status = 200
    tick = await until(machine, lambda tick: machine.state == "ok" and tick.gpu_reasons[0][0] is None)
    assert named(tick, 0)["power_w"] == pytest.approx(612.345)
    await machine.close()


async def test_an_exporter_that_hangs_holds_up_no_tick(stub: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own thread waits; ticks end as ever, their readings absent once the last answer is too old."""
    monkeypatch.setattr(dcgm, "MAX_AGE_S", 0.2)
    machine = Machine(DcgmDriver([target(stub.url)], deadline_s=0.3), deadline_s=0.5)
    await machine.collect()
    stub.hold.clear()

    began = time.monotonic()
    tick = await machine.collect()
    assert time.monotonic() - began < 0.4
    assert named(tick, 0)["power_w"] == pytest.approx(612.345)
    tick = await until(machine, lambda tick: named(tick, 0)["power_w"] is not None and isinstance(named(tick, 0)["power_w"], str))
    assert {named(tick, 0)["power_w"], named(tick, 1)["power_w"]} == {"timeout"}
    for _ in range(10):  # then it is looked for anew, which takes longer than a tick
        tick = await machine.collect()
        assert named(tick, 0)["power_w"] == "timeout"
    assert machine.state in ("ok", "no_exporter")
    stub.hold.set()
    await machine.close()


async def test_a_new_xid_is_an_event_and_the_one_that_stands_there_is_not(stub: Exporter) -> None:
    """The exporter's gauge shows the last code for ever (V08): only a change says that something happened."""
    old = 'DCGM_FI_DEV_XID_ERRORS{gpu="0"'
    text = answer("dcgm-exporter-4.5.prom")
    lines = [line[:-1] + "31" if line.startswith(old) else line for line in text.splitlines()]
    stub.body = ("\n".join(lines) + "\n").encode()
    machine = Machine(DcgmDriver([target(stub.url)]))
    await machine.collect()
    assert machine.events() == []
    stub.body = ("\n".join(line[:-2] + "79" if line.startswith(old) else line for line in lines) + "\n").encode()

    tick = await until(machine, lambda tick: named(tick, 0)["xid_errors_total"] == 1)
    events = machine.events()
    assert [(event.kind, event.gpu_uuid, event.code) for event in events] == [("xid", BUSY, 79)]
    assert named(tick, 1)["xid_errors_total"] == 0
    await machine.close()


def test_a_gpu_that_is_no_longer_named_is_lost(stub: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card that fell off the bus only makes the exporter's list shorter (D01); an exporter without any GPU has just begun."""
    monkeypatch.setattr(dcgm, "GONE_S", 5.0)
    driver = DcgmDriver([target(stub.url)])
    readers = [device.reader(15) for device in driver.open()]
    driver.close()
    endpoint = driver_endpoint(readers[1])
    now = time.monotonic()
    stub.body = "\n".join(line for line in answer("dcgm-exporter-4.5.prom").splitlines() if IDLE not in line).encode()
    readers[1].collect(now)
    endpoint.ask()

    readers[1].collect(now + 1)
    assert not is_lost(readers[1])
    assert set(readers[1].reasons) == {"timeout"}
    readers[1].collect(now + 6)
    assert is_lost(readers[1])
    readers[0].collect(now + 6)
    assert readers[0].answered
    stub.body = b"# nothing yet\n"
    endpoint.ask()
    readers[0].collect(now + 12)
    assert not is_lost(readers[0])


def driver_endpoint(reader: object) -> dcgm_endpoint.Endpoint:
    """The exporter behind a reader."""
    assert isinstance(reader, DcgmReader)
    return reader._endpoints[0]


def test_an_exporter_that_repeats_itself_for_minutes_is_not_live(stub: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Power and energy of a card move; where they stand still DCGM hangs (V19), and asking anew makes nothing live."""
    driver = DcgmDriver([target(stub.url)])
    [reader, _] = [device.reader(15) for device in driver.open()]
    driver.close()
    monkeypatch.setattr(dcgm_endpoint, "STALE_S", 0.0)
    endpoint = driver_endpoint(reader)
    endpoint.ask()
    reader.collect(time.monotonic())

    assert not reader.answered
    assert set(reader.reasons) == {"timeout"}
    with pytest.raises(DriverError) as caught:
        driver.open()
    assert caught.value.state == "no_exporter"
    assert "the same readings" in str(caught.value)
    monkeypatch.setattr(dcgm_endpoint, "STALE_S", 120.0)
    stub.body = answer("dcgm-exporter-4.5.prom").replace("184467440", "184467999").encode()
    assert len(driver.open()) == 2
    driver.close()


async def test_several_exporters_of_a_node_are_joined_by_uuid(stub: Exporter) -> None:
    """What the first does not tell, the second may; one that does not answer is told of and costs nothing."""
    with exporter() as second:
        second.body = (
            f'DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="{BUSY}",Hostname="node-17"}} 0.71\n'
            f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="{BUSY}",Hostname="node-17"}} 1.0\n'
        ).encode()
        nobody = f"http://127.0.0.1:{free_port()}/metrics"
        machine = Machine(DcgmDriver([target(stub.url), target(second.url), target(nobody)]))
        tick = await machine.collect()

        assert named(tick, 0)["sm_active"] == pytest.approx(0.71)
        assert named(tick, 0)["power_w"] == pytest.approx(612.345)
        assert named(tick, 1)["sm_active"] == "unsupported"
        assert len(machine.inventory.gpus) == 2
        told: list[DeviceEvent] = []
        await until(machine, lambda tick: bool(heard(machine, told)))
        assert [(event.kind, event.text) for event in told] == [
            ("driver", f"A dcgm-exporter is not read: Nobody listens at {nobody}.")
        ]
        await machine.close()


def test_exporters_of_several_nodes_are_refused_with_a_sentence(stub: Exporter) -> None:
    """One agent speaks for one node."""
    with exporter() as other:
        other.body = answer("dcgm-exporter-4.5.prom").replace("node-17", "node-18").replace("GPU-1", "GPU-2").encode()
        with pytest.raises(DriverError) as caught:
            DcgmDriver([target(stub.url), target(other.url)]).open()

    assert caught.value.state == "several_nodes"
    assert "node-17, node-18" in str(caught.value)
    stub.body = "".join(f'DCGM_FI_DEV_GPU_TEMP{{gpu="{i}",UUID="GPU-{i:08}"}} 50\n' for i in range(1, 66)).encode()
    with pytest.raises(DriverError, match="more than 64 GPUs"):
        DcgmDriver([target(stub.url)]).open()


async def test_an_exporter_whose_gpus_are_new_with_each_answer_fills_no_memory(
    stub: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what is remembered of GPUs, nor the places in the columns, of which a server takes 64: the oldest go first."""
    monkeypatch.setattr(dcgm, "GONE_S", 0.0)
    count = iter(range(10_000_000, 99_999_999))

    def body() -> bytes:
        lines = (
            f'DCGM_FI_DEV_POWER_USAGE{{gpu="{i}",UUID="GPU-{next(count)}"}} 100\nDCGM_FI_DEV_XID_ERRORS{{UUID="GPU-{next(count)}"}} 0\n'
            for i in range(20)
        )
        return "".join(lines).encode()

    stub.body = body
    driver = DcgmDriver([target(stub.url)])
    machine = Machine(driver)
    told: list[DeviceEvent] = []
    await until(machine, lambda tick: any("its place is taken" in event.text for event in heard(machine, told)))
    while len(stub.asked) < 20:
        await machine.collect()
    await machine.close()
    [memory] = driver._memories.values()

    assert len(machine.inventory.gpus) <= 64
    assert len(memory.changed) <= 128
    assert len(memory.xids) <= 128


async def test_gpus_by_the_thousand_are_no_reading_and_not_remembered(stub: Exporter) -> None:
    """An exporter that begins to name more GPUs than a node has is not taken for this node's any more."""
    driver = DcgmDriver([target(stub.url)])
    machine = Machine(driver)
    await machine.collect()
    before = stub.body
    stub.body = "".join(f'DCGM_FI_DEV_POWER_USAGE{{UUID="GPU-{i:08}"}} 1\n' for i in range(1, 5001)).encode()
    endpoint = driver._endpoints[0]
    while endpoint.error is None:
        await machine.collect()
    [memory] = driver._memories.values()
    assert str(endpoint.error) == "dcgm-exporter names more than 64 GPUs, which are not read"
    assert set(memory.changed) == set(endpoint.gpus) == {BUSY, IDLE}
    stub.body = before
    await until(machine, lambda tick: endpoint.error is None)
    await machine.close()


def test_nobody_and_nothing_are_states_with_a_remedy(stub: Exporter) -> None:
    """No exporter, and one that names no GPU yet."""
    with pytest.raises(DriverError) as caught:
        DcgmDriver([target(f"http://127.0.0.1:{free_port()}/metrics")]).open()
    assert caught.value.state == "no_exporter"
    stub.body = b"# just started\n"
    with pytest.raises(DriverError) as caught:
        DcgmDriver([target(stub.url)]).open()
    assert caught.value.state == "no_exporter"
    assert str(caught.value).startswith(f"{stub.url} answers and names no GPU: no dcgm-exporter tells of this node's GPUs: check")


async def test_a_models_name_without_an_end_holds_no_reading_up(stub: Exporter) -> None:
    """64 GPUs with names of 5,000 letters each make a hello that a server takes."""
    stub.body = "".join(
        f'DCGM_FI_DEV_POWER_USAGE{{gpu="{i}",UUID="GPU-{i + 1:08}",modelName="{"N" * 5000}",Hostname="h\x1b{"h" * 900}"}} 100\n'
        for i in range(64)
    ).encode()
    machine = Machine(DcgmDriver([target(stub.url)]))
    tick = await machine.collect()
    hello = machine.inventory.hello("n", "b", "1", 1.0)
    await machine.close()

    assert len(encode_text(hello)) < MAX_FRAME_BYTES
    assert {gpu.name for gpu in hello.gpus} == {"N" * 200}
    assert named(tick, 63)["power_w"] == 100


async def test_a_line_with_an_absurd_time_costs_itself_and_is_told_once(stub: Exporter, caplog: pytest.LogCaptureFixture) -> None:
    """All other readings go on, and no GPU is lost for it."""
    machine = Machine(DcgmDriver([target(stub.url)]))
    await machine.collect()
    temperature = "\n".join(
        line for line in answer("dcgm-exporter-4.5.prom").splitlines() if line.startswith("DCGM_FI_DEV_GPU_TEMP{")
    )
    body = answer("dcgm-exporter-4.5.prom").replace("612.345000", "400.000000")
    stub.body = body.replace(temperature, temperature.replace("\n", f" {'9' * 330}\n") + f" {'9' * 330}").encode()
    await until(machine, lambda tick: named(tick, 0)["power_w"] == 400)
    asked = len(stub.asked)
    tick = await machine.collect()
    await until(machine, lambda tick: len(stub.asked) >= asked + 3)
    told = machine.events()
    await machine.close()

    assert named(tick, 0)["temperature_c"] == "unsupported"
    assert told == []
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "that are no samples" in record.getMessage()


async def test_a_defect_in_reading_an_exporter_names_it_and_is_logged_once(
    stub: Exporter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Readings are absent, the state is the exporter's and no driver's, and it is asked again."""
    read = dcgm_readings.gpus

    def break_down(samples: list[Sample], now: float) -> dict[str, GpuAnswer]:
        raise ArithmeticError("of a defect")

    monkeypatch.setattr(dcgm_endpoint, "gpus", break_down)
    machine = Machine(DcgmDriver([target(stub.url)]))
    await until(machine, lambda tick: len(stub.asked) >= 4)
    (event,) = machine.events()

    assert machine.state == "no_exporter"
    assert f"The answer of {stub.url} could not be read" in event.text
    monkeypatch.setattr(dcgm_endpoint, "gpus", read)
    await until(machine, lambda tick: machine.state == "ok" and named(tick, 0)["power_w"] is not None)
    assert next(event.text for event in machine.events()) == "dcgm-exporter answers again."
    monkeypatch.setattr(dcgm_endpoint, "gpus", break_down)
    stub.body = answer("dcgm-exporter-4.5.prom").replace("612.345000", "400.000000").encode()
    asked = len(stub.asked)
    await until(machine, lambda tick: len(stub.asked) >= asked + 4)
    await machine.close()
    assert sum(record.exc_info is not None for record in caplog.records) == 2


async def test_each_instance_is_a_gpu_of_its_own_beside_its_card(stub: Exporter) -> None:
    """Its memory, the profiling of its slice and its job; power and temperature stand at the card alone."""
    stub.serve("dcgm-exporter-3.3-mig.prom")
    machine = Machine(DcgmDriver([target(stub.url)]))
    tick = await machine.collect()
    card, first, *_ = machine.inventory.gpus

    assert [gpu.mig_profile for gpu in machine.inventory.gpus] == [None, "1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"]
    assert (card.mig_mode, first.parent_uuid, first.mig_gpu_instance) == (True, card.uuid, 13)
    assert first.uuid == f"{card.uuid}:1g.10gb:13"
    assert first.index == 100
    assert named(tick, 1)["gr_engine_active"] == pytest.approx(0.784913)
    assert named(tick, 1)["mem_used_bytes"] == 727 << 20
    assert named(tick, 1)["power_w"] == "unsupported"
    assert named(tick, 0)["power_w"] == pytest.approx(131.204)
    await machine.close()


async def test_another_geometry_is_seen_and_told(stub: Exporter) -> None:
    """An instance that was destroyed goes, a new one comes, and the card keeps its place (D07)."""
    stub.serve("dcgm-exporter-3.3-mig.prom")
    machine = Machine(DcgmDriver([target(stub.url)]))
    await machine.collect()
    machine.events()
    text = answer("dcgm-exporter-3.3-mig.prom").replace(
        'GPU_I_PROFILE="3g.40gb",GPU_I_ID="1"', 'GPU_I_PROFILE="4g.40gb",GPU_I_ID="1"'
    )
    stub.body = text.encode()

    await until(machine, lambda tick: machine.inventory.gpus[-1].mig_profile == "4g.40gb")
    assert [gpu.mig_profile for gpu in machine.inventory.gpus] == [None, "1g.10gb", "1g.10gb", "2g.20gb", "4g.40gb"]
    assert [event.text.rpartition(" was ")[2] for event in machine.events()] == ["created.", "destroyed."]
    await machine.close()


def test_the_jobs_of_instances_are_told_apart(stub: Exporter) -> None:
    """The card has them all."""
    stub.serve("dcgm-exporter-3.3-mig.prom")
    driver = DcgmDriver([target(stub.url)])
    driver_gpus = driver.open()
    driver.close()
    labels, readers = [], []
    for device in driver_gpus:
        reader = device.reader(15)
        assert isinstance(reader, DcgmReader)
        readers.append(reader)
        reader.collect(time.monotonic())
        labels.append(reader.labels["hpc_job"])

    assert labels == ["2115078,2115107,2115116", "2115078", "2115078", "2115116", "2115107"]
    assert {name for reader in readers for name in reader.labels} <= GPU_LABELS.keys()
    slices = [device.facts.mig_profile for device in driver_gpus[1:]]
    assert [reader.labels["mig_profile"] for reader in readers[1:]] == slices
    assert readers[0].labels["mig_profile"] == ",".join(sorted({one for one in slices if one}))
    assert readers[1].labels["mig_instance"] == str(driver_gpus[1].facts.mig_gpu_instance)


async def test_a_pod_that_leaves_a_gpu_is_told(stub: Exporter) -> None:
    """The labels of a tick are the exporter's of now."""
    stub.serve("dcgm-exporter-3.3-mig.prom")
    machine = Machine(DcgmDriver([target(stub.url)]))
    tick = await machine.collect()
    assert tick.gpu_labels[1]["hpc_job"] == "2115078"
    assert isinstance(stub.body, bytes)
    stub.body = re.sub(rb',?hpc_job="[^"]*"', b"", stub.body)

    await until(machine, lambda tick: "hpc_job" not in tick.gpu_labels[1])
    await machine.close()
