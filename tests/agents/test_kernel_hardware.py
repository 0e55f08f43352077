"""Lines of real kernel logs about the machine's own hardware; the comment above each says where it was published."""

from itertools import zip_longest

import pytest

from agents.kernel_line import Line
from agents.kernel_lines import Lines

CHECKS = [
    # https://github.com/home-assistant/operating-system/issues/2989 (corrected: bit 61 of the status is clear)
    (
        "mce: [Hardware Error]: CPU 2: Machine Check: 0 Bank 6: cc59dec000041152",
        Line("cpu", severity="info", where="CPU 2, bank 6"),
    ),
    # https://github.com/andikleen/mcelog/issues/70 (uncorrected, and the processor's context is lost: bits 61 and 57)
    (
        "mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 4: a600000000020408",
        Line("cpu", severity="critical", where="CPU 0, bank 4"),
    ),
    # https://github.com/oracle/oracle-linux/issues/166 (AMD, decoded by the kernel)
    (
        "[Hardware Error]: CPU:0 (17:31:0) MC255_STATUS[-|CE|-|-|AddrV|-|-|-]: 0x9400000000000000",
        Line("cpu", severity="info", where="CPU 0, bank 255"),
    ),
    # https://github.com/mchehab/rasdaemon/issues/95
    ("mce: [Hardware Error]: Machine check events logged", Line("logged")),
]
MEMORY = [
    # https://github.com/radiasoft/devops/issues/134
    (
        "EDAC MC1: 1 CE memory scrubbing error on CPU_SrcID#1_Ha#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0xee30a0 offset:0x0 grain:32 "
        "syndrome:0x0 -  area:DRAM err_code:0008:00c2 socket:1 ha:0 channel_mask:1 rank:0)",
        Line("memory", severity="info", where="CPU_SrcID#1_Ha#0_Chan#0_DIMM#0"),
    ),
    # https://github.com/illinois-scicomp/machine-shop-maintenance/issues/66
    (
        "EDAC MC1: 262 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x2031c14 offset:0x940 grain:32 "
        "syndrome:0x0 -  OVERFLOW area:DRAM err_code:0001:0091 socket:0 ha:0 channel_mask:2 rank:1)",
        Line("memory", severity="info", where="CPU_SrcID#0_Ha#0_Chan#1_DIMM#0", count=262),
    ),
    # https://github.com/ovro-lwa/lwa-issues/issues/117 (a node of GPUs)
    (
        "EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#2_DIMM#0 (channel:2 slot:0 page:0xb757589 offset:0xdc0 grain:32 -  "
        "OVERFLOW",
        Line("memory", severity="warn", where="CPU_SrcID#1_MC#1_Chan#2_DIMM#0"),
    ),
    # https://github.com/openstreetmap/operations/issues/300
    (
        "EDAC MC0: 4 CE error on CPU#0Channel#2_DIMM#0 (channel:2 slot:0 page:0x0 offset:0x0 grain:8 syndrome:0x0)",
        Line("memory", severity="info", where="CPU#0Channel#2_DIMM#0", count=4),
    ),
]
PCIE = [
    # https://github.com/rwth-i6/returnn/issues/1500
    (
        "nvidia 0000:03:00.0: AER: can't recover (no error_detected callback)",
        Line("bus", ("0000:03:00",), severity="critical", where="0000:03:00.0"),
    ),
    (
        "pcieport 0000:00:03.0: AER: device recovery failed",
        Line("bus", ("0000:00:03",), severity="critical", where="0000:00:03.0"),
    ),
    (
        "pcieport 0000:00:03.0: AER: Multiple Uncorrected (Fatal) error received: 0000:00:03.0",
        Line("bus", ("0000:00:03",), severity="critical", where="0000:00:03.0"),
    ),
    (
        "pcieport 0000:00:03.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
        Line("bus", ("0000:00:03",), severity="critical", where="0000:00:03.0"),
    ),
    # https://github.com/ellyq/coreboot/issues/4
    (
        "pcieport 0000:00:01.0: AER: Corrected error message received from 0000:01:00.0",
        Line("bus", ("0000:00:01", "0000:01:00"), severity="info", where="0000:01:00.0"),
    ),
    # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1229
    (
        "pcieport 0000:00:01.2: AER: Uncorrectable (Non-Fatal) error received from 0000:63:00.0",
        Line("bus", ("0000:00:01", "0000:63:00"), severity="warn", where="0000:63:00.0"),
    ),
    # https://github.com/pop-os/pop/issues/3363
    (
        "pcieport 0000:00:03.1: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)",
        Line("bus", ("0000:00:03",), severity="info", where="0000:00:03.1"),
    ),
    # https://github.com/hirschmann/nbfc/issues/181 (kernels before 5.0)
    (
        "pcieport 0000:00:1c.5: PCIe Bus Error: severity=Corrected, type=Physical Layer, id=00e5(Receiver ID)",
        Line("bus", ("0000:00:1c",), severity="info", where="0000:00:1c.5"),
    ),
]
NOTHING = [
    # https://github.com/rwth-i6/returnn/issues/1500 (what was done about it, and its data)
    "pcieport 0000:00:03.0: AER: Root Port link has been reset (0)",
    "pcieport 0000:00:03.0:   device [8086:6f08] error status/mask=00004020/00000000",
    # https://github.com/minisforum-docs/MS-02-Ultra/issues/10
    "pcieport 0000:80:1b.4: AER:   TLP Header: 0x34000000 0x00000052 0x00000000 0x00000000",
    # https://github.com/pop-os/pop/issues/751
    "pcieport 0000:00:1d.0: AER: [ 0] RxErr",
    "nvme 0000:03:00.0: AER: Error of this Agent is reported first",
    # https://github.com/radiasoft/devops/issues/134 (the same error again, in the words of the driver)
    "EDAC sbridge MC1: HANDLING MCE MEMORY ERROR",
    "EDAC sbridge MC1: CPU 1: Machine Check Event: 0 Bank 11: 8c00004f000800c2",
    # https://github.com/andikleen/mcelog/issues/70
    "mce: [Hardware Error]: TSC 0 ADDR fef4c9e0 ",
    "mce: [Hardware Error]: PROCESSOR 0:706a1 TIME 1537152664 SOCKET 0 APIC 0 microcode 28",
    "EDAC MC0: Giving out device to module skx_edac",
]
# https://github.com/prometheus/node_exporter/issues/3511
CORRECTED_MEMORY = """
{35}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 4
{35}[Hardware Error]: It has been corrected by h/w and requires no further action
{35}[Hardware Error]: event severity: corrected
{35}[Hardware Error]:  Error 0, type: corrected
{35}[Hardware Error]:  fru_text: D2
{35}[Hardware Error]:   section_type: memory error
{35}[Hardware Error]:    error_status: Storage error in DRAM memory (0x0000000000000400)
{35}[Hardware Error]:   physical_address: 0x0000006a47d1f540
{35}[Hardware Error]:   error_type: 2, single-bit ECC"""
# https://github.com/kubernetes/node-problem-detector/pull/846
RECOVERABLE_MEMORY = """
{3}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 4
{3}[Hardware Error]: event severity: recoverable
{3}[Hardware Error]:  Error 0, type: recoverable
{3}[Hardware Error]:  fru_text: B1
{3}[Hardware Error]:   section_type: memory error"""
# the layout of drivers/firmware/efi/cper.c, as https://docs.kernel.org/firmware-guide/acpi/apei/output_format.html describes it
FATAL_PCIE = """
{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 5
{1}[Hardware Error]: event severity: fatal
{1}[Hardware Error]:  Error 0, type: fatal
{1}[Hardware Error]:   section_type: PCIe error
{1}[Hardware Error]:   port_type: 0, PCIe end point
{1}[Hardware Error]:   version: 3.0
{1}[Hardware Error]:   command: 0x0406, status: 0x4010
{1}[Hardware Error]:   device_id: 0000:c1:00.0
{1}[Hardware Error]:   slot: 9
{1}[Hardware Error]:   vendor_id: 0x10de, device_id: 0x2330"""


@pytest.mark.parametrize(("message", "line"), [*CHECKS, *MEMORY, *PCIE])
def test_a_published_line_is_understood(message: str, line: Line) -> None:
    """Which part, how bad; nothing else of the text."""
    assert Lines().read(message) == line


@pytest.mark.parametrize("message", NOTHING)
def test_lines_that_repeat_or_only_describe_tell_nothing(message: str) -> None:
    """One error is one line of ours, whatever the kernel writes about it."""
    assert Lines().read(message) is None


@pytest.mark.parametrize(
    ("messages", "line"),
    [
        (CORRECTED_MEMORY, Line("memory", severity="info", where="D2")),
        (RECOVERABLE_MEMORY, Line("memory", severity="warn", where="B1")),
        (FATAL_PCIE, Line("bus", ("0000:c1:00",), severity="critical", where="0000:c1:00.0")),
    ],
)
def test_what_the_firmware_reports_in_several_lines_is_one(messages: str, line: Line) -> None:
    """Its severity stands lines before the part; addresses of memory do not leave the node."""
    lines = Lines()

    assert [found for message in messages.splitlines() if (found := lines.read(message)) is not None] == [line]


def test_two_reports_that_are_written_at_once_are_told_apart() -> None:
    """By their numbers; the beginning of one is not the beginning of the other."""
    lines = Lines()
    pairs = zip_longest(CORRECTED_MEMORY.splitlines(), RECOVERABLE_MEMORY.splitlines(), fillvalue="")
    mixed = [message for pair in pairs for message in pair]
    found = [line for message in mixed if (line := lines.read(message)) is not None]

    assert {(line.severity, line.where) for line in found} == {("info", "D2"), ("warn", "B1")}


def test_a_report_without_its_beginning_tells_nothing() -> None:
    """Nobody knows how bad it was."""
    assert Lines().read("{9}[Hardware Error]:   section_type: memory error") is None


def test_many_reports_that_never_end_are_forgotten() -> None:
    """What is kept of them is bounded."""
    lines = Lines()
    for number in range(1000):
        lines.read(f"{{{number}}}[Hardware Error]: event severity: corrected")

    assert lines.read("{0}[Hardware Error]:   section_type: memory error") is None
    assert lines.read("{999}[Hardware Error]:   section_type: memory error") == Line("memory", severity="info")


def test_the_firmwares_names_are_not_taken_as_they_are() -> None:
    """A part's name is a few plain letters, or none."""
    lines = Lines()
    lines.read("{1}[Hardware Error]: event severity: corrected")
    lines.read("{1}[Hardware Error]:  fru_text: <b>\x1b[31m")

    assert lines.read("{1}[Hardware Error]:   section_type: memory error") == Line("memory", severity="info")
