"""What leaves the node of the kernel's log: sentences of ours."""

from collections import deque
from pathlib import Path

import pytest

from agents.device import DeviceEvent
from agents.kernel_events import KernelEvents
from agents.kernel_lines import Line, Lines
from agents.kernel_log import KernelLog
from agents.kernel_storms import QUIET_S, SENTENCES_MAX
from wire.messages import DETAILS

UUIDS = {"0000:19:00": "GPU-a", "0000:3b:00": "GPU-b"}


class Said(KernelLog):
    """A log whose lines a test says."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.lines: deque[tuple[Line, float | None]] = deque()

    def say(self, *messages: str) -> None:
        """As the kernel would."""
        lines = Lines()
        self.lines.extend((line, None) for message in messages if (line := lines.read(message)) is not None)

    def take(self) -> list[tuple[Line, float | None]]:
        found = list(self.lines)
        self.lines.clear()
        return found


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.t = 0.0

    def __call__(self) -> float:
        return self.t


@pytest.fixture
def log() -> Said:
    """A log that says nothing yet."""
    return Said()


@pytest.fixture
def clock() -> Hand:
    """At zero."""
    return Hand()


@pytest.fixture
def source(log: Said, clock: Hand) -> KernelEvents:
    """Two GPUs, and process 77 holds one."""
    return KernelEvents(log, UUIDS.get, {77}.__contains__, clock)


def test_an_xid_names_its_gpu_and_process(log: Said, source: KernelEvents) -> None:
    """The address becomes the UUID; the driver's own words stay on the node."""
    log.say("NVRM: Xid (PCI:0000:19:00 GPU-I:05): 31, pid=77, name=python, MMU Fault: secret faulted @ 0x73ac_1c000000")

    assert source.events() == [
        DeviceEvent(
            "xid",
            "GPU-a",
            31,
            "XID 31 on the GPU at 0000:19:00, MIG instance 5, process 77 (python).",
            details={"pci_bus_id": "0000:19:00", "mig_instance": 5, "pid": 77, "process": "python"},
        )
    ]


def test_what_the_driver_recommends_and_sub_codes_are_numbers(log: Said, source: KernelEvents) -> None:
    """As the registry's `recovery_action` counts them, and as NVIDIA's catalogue writes them."""
    log.say(
        "NVRM: Xid (PCI:0000:19:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        "NVRM: Xid (PCI:0000:3b:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x025001c6 0x00000000)",
    )

    assert [event.text for event in source.events()] == [
        "XID 154 on the GPU at 0000:19:00, recovery action 1.",
        "XID 149.37 on the GPU at 0000:3b:00.",
    ]


def test_a_gpu_that_nobody_knows_keeps_its_address(log: Said, source: KernelEvents) -> None:
    """One that was lost before the agent began is in no list of the driver's."""
    log.say("NVRM: Xid (PCI:0000:99:00): 79, GPU has fallen off the bus.")

    assert source.events() == [
        DeviceEvent("xid", None, 79, "XID 79 on the GPU at 0000:99:00.", details={"pci_bus_id": "0000:99:00"})
    ]


def test_an_nvswitch_is_no_gpu(log: Said, source: KernelEvents) -> None:
    """Its codes are other codes: they must not read as XIDs. Three lines are one event."""
    log.say(
        "nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Data {0x0000002b, 0x0000002b}",
        "nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Non-fatal, Link 44 Minion Link DLREQ interrupt",
        "nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Severity 0 Engine instance 44 Sub-engine instance 00",
    )

    assert [(event.kind, event.gpu_uuid, event.code, event.text) for event in source.events()] == [
        ("sxid", None, 22013, "NVSwitch 3 at 0000:04:00 reports SXid 22013, not fatal.")
    ]


def test_kills_of_gpu_programs_are_told(log: Said, source: KernelEvents) -> None:
    """Whom else the kernel kills is the node's own affair."""
    log.say(
        "Out of memory: Killed process 77 (python) total-vm:1kB, anon-rss:1kB",
        "Memory cgroup out of memory: Killed process 78 (java) total-vm:1kB, anon-rss:1kB",
    )

    assert [(event.kind, event.text) for event in source.events()] == [
        ("oom", "The kernel killed process 77 (python) of a GPU program: memory ran out.")
    ]


def test_errors_of_other_devices_buses_are_not_told(log: Said, source: KernelEvents) -> None:
    """The line names the port and the device; a GPU among them is meant."""
    log.say(
        "pcieport 0000:00:01.0: AER: Corrected error message received from 0000:19:00.0",
        "pcieport 0000:00:02.0: AER: Corrected error message received from 0000:02:00.0",
        "nvidia 0000:3b:00.0: AER: can't recover (no error_detected callback)",
    )

    assert [(event.gpu_uuid, event.text) for event in source.events()] == [
        ("GPU-a", "PCIe reports a corrected error of the GPU at 0000:19:00."),
        ("GPU-b", "PCIe reports a fatal error of the GPU at 0000:3b:00."),
    ]


def test_the_same_sentence_is_told_once_a_minute_and_then_counted(log: Said, clock: Hand, source: KernelEvents) -> None:
    """A bus that corrects errors does so for ever; XIDs are each their own event, for they are counted elsewhere."""
    message = "pcieport 0000:00:01.0: AER: Corrected error message received from 0000:19:00.0"
    xid = "NVRM: Xid (PCI:0000:19:00): 45, pid=77, name=python, Ch 00000001"
    log.say(*[message] * 1000, xid, xid)
    assert [event.kind for event in source.events()] == ["pcie", "xid", "xid"]
    clock.t = QUIET_S - 1
    log.say(message)
    assert source.events() == []
    clock.t = QUIET_S
    log.say(message)

    (event,) = source.events()
    assert event.text.endswith("Again within 60 s: 1000.")
    clock.t = 2 * QUIET_S
    assert [event.text.endswith("Again within 60 s: 1.") for event in source.events()] == [True]
    clock.t = 3 * QUIET_S
    assert source.events() == []
    log.say(message)

    assert len(source.events()) == 1


def test_what_a_port_above_gpus_reports_is_told(log: Said, clock: Hand) -> None:
    """Of one GPU it is that GPU's event; ports are told apart by their function; what other devices report is not ours."""
    ports = {"0000:00:01.1": ("GPU-a",), "0000:40:00.0": ("GPU-a", "GPU-b")}
    source = KernelEvents(log, UUIDS.get, bool, clock, lambda port: ports.get(port, ()))
    log.say(
        "pcieport 0000:00:01.1: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
        "pcieport 0000:40:00.0: AER: Multiple Corrected error received: 0000:40:00.0",
        "pcieport 0000:00:01.2: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)",
        "pcieport 0000:40:00.0: AER: Corrected error received: 0000:41:00.0",
    )

    assert [(event.gpu_uuid, event.severity, event.text) for event in source.events()] == [
        ("GPU-a", "critical", "PCIe reports a fatal error of the port at 0000:00:01.1, above a GPU."),
        (None, "info", "PCIe reports a corrected error of the port at 0000:40:00.0, above 2 GPUs."),
    ]


def test_the_machines_own_errors_are_told_with_their_severity(log: Said, source: KernelEvents) -> None:
    """The line that events were logged says nothing more where another one says what they were."""
    log.say(
        "mce: [Hardware Error]: Machine check events logged",
        "mce: [Hardware Error]: CPU 2: Machine Check: 0 Bank 6: cc59dec000041152",
        "EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#2_DIMM#0 (channel:2 slot:0 page:0xb757589)",
    )
    assert [(event.kind, event.severity, event.text) for event in source.events()] == [
        ("cpu", "info", "The CPU reports a corrected machine check: CPU 2, bank 6."),
        ("memory", "warn", "The host's memory has an uncorrected error: CPU_SrcID#1_MC#1_Chan#2_DIMM#0."),
    ]
    log.say("mce: [Hardware Error]: Machine check events logged")

    (event,) = source.events()
    assert "without saying more" in event.text


def test_a_storm_of_many_parts_is_few_events(log: Said, clock: Hand, source: KernelEvents) -> None:
    """A failing DIMM may be named by hundreds of processors; what could not be corrected is told all the same."""
    for cpu in range(500):
        log.say(f"mce: [Hardware Error]: CPU {cpu}: Machine Check: 0 Bank 7: cc00418000010091")
    log.say("EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#2_DIMM#0 (channel:2)")
    events = source.events()
    assert len(events) == SENTENCES_MAX + 2
    assert events[-1].severity == "warn"
    clock.t = QUIET_S

    assert [event.text for event in source.events()] == [
        "More errors of this machine's hardware are logged, of other parts. Again within 60 s: 479."
    ]


def test_a_version_mismatch_says_what_to_do(log: Said, source: KernelEvents) -> None:
    """Whose library it was is named."""
    log.say("NVRM: API mismatch: the client 'nvidia-powerd' (pid 849)\nNVRM: has the version 570.133.07, but this")
    (event,) = source.events()

    assert event.kind == "driver"
    assert "process 849 (nvidia-powerd)" in event.text
    assert "reboot" in event.text
    assert "570" not in event.text


def test_a_line_that_cannot_be_told_of_costs_itself_alone(log: Said, source: KernelEvents) -> None:
    """Those that came with it are told, before it and after it."""
    for line in (Line("xid", code=31), Line("xid", code=154, detail=1 << 20_000), Line("xid", code=79)):
        log.lines.append((line, None))

    assert [event.code for event in source.events()] == [31, 79]


@pytest.mark.parametrize(
    ("message", "severity", "details"),
    [
        (
            "NVRM: Xid (PCI:0000:19:00): 149, NETIR_LINK_EVT Nonfatal XC0 i0 Link 07 (0x025001c6 0x00000000 0x00000000)",
            "info",
            {"pci_bus_id": "0000:19:00", "sub_code": 37, "unit": "NETIR_LINK_EVT", "link": 7},
        ),
        (
            "NVRM: Xid (PCI:0000:19:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
            None,
            {"pci_bus_id": "0000:19:00", "recovery_action": 2},
        ),
        (
            "NVRM: Xid (PCI:0000:19:00 GPU-I:05): 94, pid=7194, name=python3, Contained: CE User Channel (0x9).",
            None,
            {"pci_bus_id": "0000:19:00", "mig_instance": 5, "pid": 7194, "process": "python3"},
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up",
            "critical",
            {"pci_bus_id": "0000:c2:00", "switch": 0, "fatal": 1},
        ),
        (
            "nvidia-nvswitch4: SXid (PCI:0000:c6:00.0): 19084, Non-fatal, Link 29 AN1 Heartbeat Timeout Error (First)",
            "info",
            {"pci_bus_id": "0000:c6:00", "switch": 4, "fatal": 0},
        ),
    ],
)
def test_what_a_line_says_travels_beside_its_sentence(
    log: Said, message: str, severity: str | None, details: dict[str, int | str]
) -> None:
    """Sub-code, address, process, switch: fields that a program can read, of known names."""
    kernel = KernelEvents(log, UUIDS.get, lambda pid: True)
    log.say(message)
    (event,) = kernel.events()

    assert (event.severity, event.details) == (severity, details)
    assert set(details) <= set(DETAILS)
