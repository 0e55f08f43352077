"""Lines of real kernel logs; the comment above each says where it was published."""

import pytest

from agents.kernel_lines import Line, Lines

XIDS = [
    # https://docs.nvidia.com/deploy/xid-errors/ (drivers before 346 write no PCI:)
    ("NVRM: Xid (0000:03:00): 14, Channel 00000001", Line("xid", ("0000:03:00",), 14)),
    # https://github.com/Bumblebee-Project/Bumblebee/issues/677
    (
        "NVRM: Xid (PCI:0000:01:00): 31, Ch 00000003, engmask 00000101, intr 10000000",
        Line("xid", ("0000:01:00",), 31),
    ),
    # https://github.com/leptonai/gpud/pull/46
    (
        "NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0): "
        "Illegal Instruction Parameter",
        Line("xid", ("0000:cb:00",), 13),
    ),
    # https://github.com/leptonai/gpud/pull/46
    (
        "NVRM: Xid (PCI:0000:cb:00): 109, pid=1797828, name=pt_main_thread, Ch 00000008, errorString CTX SWITCH TIMEOUT, "
        "Info 0x58005",
        Line("xid", ("0000:cb:00",), 109, pid=1797828, name="pt_main_thread"),
    ),
    # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/446
    (
        "NVRM: Xid (PCI:0000:61:00): 119, pid=1346198, name=nvidia-smi, Timeout waiting for RPC from GSP! Expected function 103 "
        "(GSP_RM_ALLOC) (0x80 0x38).",
        Line("xid", ("0000:61:00",), 119, pid=1346198, name="nvidia-smi"),
    ),
    # https://github.com/NVIDIA/nvidia-docker/issues/1553
    ("NVRM: Xid (PCI:0000:09:00): 79, pid=0, GPU has fallen off the bus.", Line("xid", ("0000:09:00",), 79)),
    # https://modal.com/docs/guide/gpu-health
    (
        "NVRM: Xid (PCI:0000:c6:00): 79, pid=1101234, name=nvc:[driver], GPU has fallen off the bus.",
        Line("xid", ("0000:c6:00",), 79, pid=1101234, name="nvc:[driver]"),
    ),
    # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1229
    (
        "NVRM: Xid (PCI:0000:63:00): 31, name=plasmashell, MMU Fault: ENGINE GR_HOST0 HUBCLIENT_ESC0",
        Line("xid", ("0000:63:00",), 31, name="plasmashell"),
    ),
    # https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html (MIG)
    (
        "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No",
        Line("xid", ("0000:01:00",), 94, instance=5, pid=7194),
    ),
    # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/1150
    (
        "NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149",
        Line("xid", ("0000:dc:00",), 45, pid=1818990, name="python3"),
    ),
    # https://github.com/leptonai/gpud/pull/1174 (a sub-code in the first word)
    (
        "NVRM: Xid (PCI:0000:00:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x025001c6 0x00000000 0x00000000 0x00000000 "
        "0x00000000 0x00000000)",
        Line("xid", ("0000:00:00",), 149, 37, severity="critical", where="NETIR_LINK_EVT", link=0),
    ),
    # https://github.com/leptonai/gpud/pull/1174
    (
        "NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 0x00000001 0x00000000 "
        "0x00100000 0x00000004)",
        Line("xid", ("0018:01:00",), 145, 0, severity="info", where="RLW_RXPIPE", link=13),
    ),
    # https://forums.developer.nvidia.com/t/364958 (RTX PRO 6000)
    (
        "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        Line("xid", ("0000:01:00",), 154, 1),
    ),
    # https://forums.developer.nvidia.com/t/364958
    (
        "NVRM: Xid (PCI:0000:01:00): 62, 223b6a66 00002100 00000000 20662342 20662ba6 20664272 2065f7ca 2063f48c",
        Line("xid", ("0000:01:00",), 62),
    ),
    # https://forums.developer.nvidia.com/t/364958
    (
        "NVRM: Xid (PCI:0000:01:00): 45, pid=12542, name=VLLM::Worker, channel 0x00000002",
        Line("xid", ("0000:01:00",), 45, pid=12542, name="VLLM::Worker"),
    ),
    # https://github.com/akash-network/support/issues/244
    (
        "NVRM: Xid (PCI:0000:00:08): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No",
        Line("xid", ("0000:00:08",), 94),
    ),
]
OTHERS = [
    # https://github.com/NVIDIA/nvtrust/issues/124
    (
        "nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Non-fatal, Link 44 Minion Link DLREQ interrupt",
        Line("sxid", ("0000:04:00",), 22013, 3),
    ),
    # https://github.com/NVIDIA/nvidia-docker/issues/1553
    ("NVRM: GPU 0000:09:00.0: GPU has fallen off the bus.", Line("lost", ("0000:09:00",))),
    # https://github.com/NVIDIA/NVSentinel/issues/155
    (
        "NVRM: The NVIDIA GPU 0000:b3:00.0\nNVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        "NVRM: fallen off the bus and is not responding to commands.",
        Line("lost", ("0000:b3:00",)),
    ),
    # https://github.com/stackhpc/ansible-slurm-appliance/issues/287 (rsyslog writes newlines as #012)
    (
        "NVRM: API mismatch: the client has the version 535.54.03, but#012NVRM: this kernel module has the version 530.30.02.",
        Line("mismatch"),
    ),
    # https://github.com/NVIDIA/open-gpu-kernel-modules/issues/829
    (
        "NVRM: API mismatch: the client 'nvidia-powerd' (pid 849)\nNVRM: has the version 570.133.07, but this kernel module has\n",
        Line("mismatch", pid=849, name="nvidia-powerd"),
    ),
    # https://github.com/equinor/ert/issues/7797
    (
        "Out of memory: Killed process 1440763 (perl) total-vm:87033376kB, anon-rss:60356340kB, file-rss:0kB, shmem-rss:0kB, "
        "UID:21417 pgtables:169956kB oom_score_adj:0",
        Line("oom", pid=1440763, name="perl"),
    ),
    # https://github.com/docker/for-linux/issues/1001 (a name with brackets of its own)
    (
        "Out of memory: Killed process 15925 ((resolved)) total-vm:168424kB, anon-rss:4064kB, file-rss:3584kB, shmem-rss:0kB",
        Line("oom", pid=15925, name="(resolved)"),
    ),
    # https://github.com/Soltra/plugin-crits/issues/1 (a kernel of 2015)
    (
        "Killed process 29591, UID 500, (python2.7) total-vm:3446192kB, anon-rss:2751508kB, file-rss:20kB",
        Line("oom", pid=29591, name="python2.7"),
    ),
]
NOTHING = [
    # https://github.com/NVIDIA/nvtrust/issues/124 (data of a fault that another line names)
    "nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Severity 0 Engine instance 44 Sub-engine instance 00",
    # https://github.com/NVIDIA/nvidia-docker/issues/1553
    "NVRM: GPU at PCI:0000:09:00: GPU-26fba6b2-9e52-006e-68db-4ce18382a5ea",
    # driver 580.159.04 on a node of H200
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)  ",
    # https://github.com/genular/pandora/issues/49 (the line before the kill itself)
    "Out of memory: Kill process 27438 (R) score 31 or sacrifice child",
    "NVRM: Xid error: xyz, invalid data",
    "",
]


@pytest.mark.parametrize(("message", "line"), [*XIDS, *OTHERS])
def test_a_published_line_is_understood(message: str, line: Line) -> None:
    """Code, address, process; nothing else."""
    assert Lines().read(message) == line


@pytest.mark.parametrize("message", NOTHING)
def test_other_lines_tell_nothing(message: str) -> None:
    """A log is long, and little of it is about faults of GPUs."""
    assert Lines().read(message) is None


def test_a_message_that_the_log_broke_into_lines_is_one() -> None:
    """https://github.com/leptonai/gpud/pull/1209: newer drivers' lines may come one by one."""
    lines = Lines()
    found = [
        lines.read("NVRM: The NVIDIA GPU 0000:b3:00.0"),
        lines.read("NVRM: (PCI ID: 10de:26b5) installed in this system has"),
        lines.read("mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link ACTIVE"),
        lines.read("NVRM: fallen off the bus and is not responding to commands."),
    ]

    assert found == [None, None, None, Line("lost", ("0000:b3:00",))]


def test_a_lost_gpu_without_an_address_is_not_the_one_before() -> None:
    """What was said of another card is over with another message of the driver."""
    lines = Lines()
    lines.read("NVRM: The NVIDIA GPU 0000:b3:00.0")
    lines.read("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04")

    assert lines.read("NVRM: GPU has fallen off the bus.") == Line("lost", ())


def test_a_process_cannot_write_what_it_likes_through_its_name() -> None:
    """Control characters go, and it is short: the kernel's own names have 15 letters."""
    line = Lines().read(f"NVRM: Xid (PCI:0000:01:00): 43, pid=9, name=\x1b[31m{'x' * 90}, Ch 00000008")

    assert line is not None
    assert line.name == "?[31m" + "x" * 27


@pytest.mark.parametrize(
    "message",
    [
        "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x" + "f" * 5000 + " (Reset)",
        "NVRM: Xid (PCI:0000:01:00 GPU-I:" + "9" * 5000 + "): 154, pid=" + "9" * 5000,
        "NVRM: Xid (PCI:0000:01:00 GPU-I:" + "9" * 20 + "): 154, pid=" + "9" * 5000,
        "nvidia-nvswitch" + "9" * 5000 + ": SXid (PCI:0000:01:00.0): 1, Fatal, Link 0",
    ],
)
def test_numbers_without_end_are_no_numbers(message: str) -> None:
    """Python turns none of more than 4,300 digits into text."""
    line = Lines().read(message)

    assert line is None or (line.detail, line.instance, line.pid) == (None, None, None)
