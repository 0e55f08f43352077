"""The XIDs that NVIDIA published up to driver 620, one a row: pure data, read by advisor/xid_catalog.py.

`action` is NVIDIA's name for what to do at once, as its catalogue has it; empty where none is published. `sources` are letters of SOURCES.
Facts were read there in 2026-11; the sentences are ours. Codes that NVIDIA lists as unused are left out: whoever sees one should ask.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from advisor.finding import Severity
from advisor.text import _

SOURCES: Final[Mapping[str, str]] = {
    "C": "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html",
    "H": "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/src/common/sdk/nvidia/inc/nverror.h",
    "G": "https://docs.nvidia.com/deploy/gpu-operational-events/latest/release-notes.html",
    "M": "https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",
}
Fault: TypeAlias = Literal["hardware", "application", "either", "driver", "none"]
"""Where the fault is to be sought; `driver`: in the driver, its firmware or its settings; `none`: it tells of no fault."""


@dataclass(frozen=True, slots=True)
class Xid:
    """One code. `companion`: it follows other trouble, or a plain kill, and opens nothing by itself.

    `severity`: where it is not its rule's. `since`: the first driver that has the code, where that is after 515. `earlier`: what it meant
    before a driver (its branch and the meaning). `rule` is empty for what asks for nothing.
    """

    code: int
    meaning: str
    rule: str
    fault: Fault
    action: str = ""
    sources: str = "CH"
    severity: Severity | None = None
    companion: bool = False
    since: str = ""
    earlier: tuple[int, str] | None = None

    def meant(self, driver_branch: int | None) -> str:
        """What the code means with a driver of that branch (570); its newest meaning where the branch is not known."""
        if self.earlier is not None and driver_branch is not None and driver_branch < self.earlier[0]:
            return self.earlier[1]
        return self.meaning


_COPY: Final = _("copy engine error")
_DECODER: Final = _("video decoder error")
_JPEG: Final = _("JPEG engine error")
_APP, _RESET, _ECC, _LINK, _OTHER = "app-fault-xid", "gpu-reset-required", "uncorrectable-ecc", "nvlink-fault", "xid-other"


def _engines(codes: range | tuple[int, ...], meaning: str, since: str = "") -> tuple[Xid, ...]:
    return tuple(Xid(code, meaning, _APP, "either", "RESTART_APP", since=since) for code in codes)


# fmt: off
XIDS: Final = tuple(sorted((
    Xid(8, _("the GPU stopped processing"), _APP, "either", "RESTART_APP", "C"),
    Xid(11, _("corrupted push buffer stream"), _APP, "application", "RESTART_APP", "C"),
    Xid(13, _("graphics engine exception"), _APP, "application", "RESTART_APP"),
    Xid(25, _("illegal push buffer stream"), _APP, "application", "RESTART_APP", "C"),
    Xid(31, _("GPU memory page fault"), _APP, "application", "RESTART_APP"),
    Xid(32, _("corrupted push buffer stream"), _APP, "application", "RESTART_APP"),
    Xid(37, _("driver firmware error"), _OTHER, "driver", "IGNORE", "C", "info"),
    Xid(38, _("driver firmware error"), _OTHER, "driver", "IGNORE", "C", "info"),
    *_engines((39, 40, 41, 70, 71, 72, 75, 76, 77, 85), _COPY),
    *_engines(range(126, 136), _COPY, since="560"),
    Xid(43, _("a channel was reset and its process stopped"), _APP, "application", "IGNORE"),
    Xid(44, _("graphics engine fault during a context switch"), _OTHER, "driver", "IGNORE", severity="info"),
    Xid(45, _("preemptive cleanup, after an earlier error or a kill"), _APP, "application", "WORKFLOW_XID_45", companion=True),
    Xid(46, _("the GPU stopped processing"), _RESET, "hardware", "RESET_GPU", "C"),
    Xid(48, _("double-bit ECC error"), _ECC, "hardware", "WORKFLOW_XID_48"),
    Xid(54, _("auxiliary power is not connected to the board"), _OTHER, "hardware", "CHECK_MECHANICALS", "C", "critical"),
    Xid(60, _("video processor exception"), _APP, "either", "RESTART_APP"),
    Xid(62, _("internal micro-controller halt"), _RESET, "hardware", "RESET_GPU"),
    Xid(63, _("a memory row was set aside, to be remapped"), "row-remap-pending", "hardware", "IGNORE", "CHM"),
    Xid(64, _("a memory row could not be set aside"), "row-remap-failed", "hardware", "RESET_GPU", "CHM"),
    Xid(66, _("illegal access by the driver"), _OTHER, "driver", "IGNORE", "C", "info"),
    Xid(67, _("illegal access by the driver"), _OTHER, "driver", "IGNORE", "C", "info"),
    *_engines((68, 83, 84, 88, 89), _DECODER),
    *_engines((96, 97, 98), _DECODER, since="525"),
    Xid(69, _("graphics engine class error"), _APP, "application", "RESTART_APP"),
    Xid(74, _("NVLink error"), _LINK, "hardware", "WORKFLOW_NVLINK_ERR"),
    Xid(78, _("a virtual GPU could not start"), _OTHER, "driver", "UPDATE_SWFW", severity="warn"),
    Xid(79, _("the GPU has fallen off the bus"), "xid-fallen-off-bus", "hardware", "RESTART_BM"),
    Xid(80, _("corrupted data sent to the GPU"), _APP, "application", "RESTART_APP"),
    *_engines((82,), _JPEG),
    *_engines(range(99, 106), _JPEG, since="525"),
    *_engines((86,), _("optical flow engine error")),
    Xid(92, _("high rate of corrected memory errors"), "correctable-ecc-rate", "hardware", "IGNORE"),
    Xid(93, _("InfoROM written more often than it may be"), _OTHER, "hardware", "IGNORE", severity="advice"),
    Xid(94, _("contained memory error"), _ECC, "hardware", "RESTART_APP", "CHM"),
    Xid(95, _("uncontained memory error"), _ECC, "hardware", "RESET_GPU", "CHM"),
    Xid(106, _("test message of the management bus"), "", "none", "IGNORE", "C"),
    Xid(107, _("test message of the management bus"), "", "none", "IGNORE", "C"),
    Xid(109, _("context switch timeout"), _RESET, "either", "RESET_GPU", "C"),
    Xid(110, _("security fault"), _RESET, "hardware", "RESET_GPU", since="520"),
    Xid(119, _("timeout of a call to the GPU's system processor (GSP)"), _RESET, "driver", "RESET_GPU"),
    Xid(120, _("error of the GPU's system processor (GSP)"), _RESET, "driver", "RESET_GPU"),
    Xid(121, _("error of the link between chips (C2C)"), _OTHER, "hardware", "IGNORE", severity="warn"),
    Xid(136, _("an NVLink could not be trained"), _LINK, "hardware", "RESET_GPU", since="525"),
    Xid(137, _("NVLink privilege error"), _LINK, "either", "IGNORE", companion=True, since="530"),
    Xid(139, _("optical flow engine error"), _APP, "either", "RESTART_APP", since="535", earlier=(560, _("CUDA fast path error"))),
    Xid(140, _("unrecovered ECC error"), _ECC, "hardware", "RESET_GPU", since="535"),
    Xid(141, _("CUDA fast path error"), _OTHER, "driver", "IGNORE", severity="info", since="550"),
    Xid(143, _("the GPU could not be initialised"), _RESET, "hardware", "RESET_GPU", since="550"),
    Xid(144, _("NVLink error in the SAW unit"), _LINK, "hardware", "WORKFLOW_NVLINK5_ERR", since="560",
        earlier=(560, _("key rotation error"))),
    Xid(145, _("NVLink error in the RLW unit"), _LINK, "hardware", "WORKFLOW_NVLINK5_ERR", since="560"),
    Xid(146, _("NVLink error in the TLW unit"), _LINK, "hardware", "WORKFLOW_NVLINK5_ERR", since="560"),
    Xid(147, _("NVLink error in the TREX unit"), _LINK, "hardware", "WORKFLOW_NVLINK5_ERR", since="560"),
    Xid(148, _("NVLink error in the NVLPW unit"), _LINK, "hardware", "WORKFLOW_NVLINK5_ERR", since="560"),
    Xid(149, _("NVLink error in the NETIR unit"), _LINK, "hardware", "WORKFLOW_NVLINK5_ERR", since="560"),
    Xid(150, _("NVLink error in the MSE unit"), _LINK, "hardware", "WORKFLOW_NVLINK5_ERR", since="560"),
    Xid(151, _("key rotation error"), _OTHER, "driver", "RESTART_VM", severity="warn", since="555"),
    Xid(152, _("memory translation error of the DLA"), _OTHER, "driver", "IGNORE", "C", "info"),
    Xid(153, _("timeout of the DLA"), _OTHER, "driver", "IGNORE", "C", "info"),
    Xid(154, _("the recommended recovery action changed"), _RESET, "hardware", "XID_154", since="565"),
    Xid(155, _("NVLink error found by software"), _LINK, "either", "RESET_GPU", since="570"),
    Xid(156, _("a resource of the GPU was retired"), "row-remap-pending", "hardware", "RESET_GPU", since="570"),
    Xid(157, _("a resource of the GPU could not be retired"), "row-remap-failed", "hardware", "IGNORE", since="570"),
    Xid(158, _("fatal timeout of the GPU"), _RESET, "hardware", "RESET_GPU", since="575"),
    Xid(159, _("error on the coherent link that carries no data"), _OTHER, "either", "CHECK_UVM", severity="advice", since="575"),
    Xid(160, _("a memory channel was retired"), _OTHER, "hardware", "IGNORE", severity="advice", since="570"),
    Xid(161, _("a memory channel could not be retired"), _OTHER, "hardware", "IGNORE", severity="warn", since="570"),
    Xid(162, _("power smoothing is on again"), "", "none", since="580"),
    Xid(163, _("power smoothing was switched off"), _OTHER, "hardware", severity="advice", since="580"),
    Xid(164, _("power smoothing is near the end of its life"), _OTHER, "hardware", severity="advice", since="580"),
    Xid(165, _("power smoothing is at the end of its life"), _OTHER, "hardware", severity="advice", since="580"),
    Xid(166, _("secure NVLink error"), _OTHER, "either", severity="warn", since="580"),
    Xid(167, _("fatal timeout of PCIe"), "xid-fallen-off-bus", "hardware", since="580"),
    Xid(168, _("the GPU works with less memory"), _OTHER, "hardware", severity="warn", since="580"),
    Xid(169, _("halt of the security processor"), _OTHER, "hardware", severity="warn", since="580"),
    Xid(170, _("secure NVLink error"), _OTHER, "either", severity="warn", since="580"),
    Xid(171, _("uncorrectable error in DRAM, beside XID 48"), _ECC, "hardware", since="580"),
    Xid(172, _("uncorrectable error in SRAM, beside XID 48"), _ECC, "hardware", since="580"),
    Xid(173, _("fatal failure of the link between chips (C2C)"), _OTHER, "hardware", "", "H", "critical", since="580"),
    Xid(174, _("a channel was reset and its process ended silently"), "", "none", "", "H", since="590"),
    Xid(175, _("memory subsystem error"), _OTHER, "hardware", "", "H", "warn", since="595"),
    Xid(176, _("correctable error of PCIe"), _OTHER, "hardware", "", "H", "info", since="595"),
    Xid(185, _("the state of spare parts of the GPU changed"), _OTHER, "hardware", "", "G", "advice", since="620"),
), key=lambda xid: xid.code))
# fmt: on

LINK_DOWN_IGNORED: Final = frozenset({38, 40})
"""Sub-codes of XID 149 (bits 20 to 25 of the first word, of NETIR's link-down events) after which NVIDIA asks for nothing at once.

After every other that is published (0, 1, 2, 4, 10, 15 to 18, 21, 22, 32 to 37, 42, 43) the GPU is to be reset; so is it after one that is not.
"""

RECOVERY: Final[Mapping[int, str]] = {
    0: _("none"), 1: _("reset the GPU"), 2: _("reboot the node"), 3: _("drain peer-to-peer traffic"), 4: _("drain, then reset the GPU"),
    5: _("recover the IMEX domain"), 6: _("reset the bus"), 7: _("reboot the system"),
}  # fmt: skip
"""Recovery actions of XID 154 and of NVML's field 230."""
