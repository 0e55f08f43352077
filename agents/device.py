"""The seam between Fettle and a GPU driver: what a device answers, and how a refusal reads."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from wire.messages import Cell, GpuFacts
from wire.metrics import REASONS, Accounted, Number, of

SLOW_S: Final = 15.0
"""Seconds between two readings of the slow metrics; one reading of the PCIe link's generation alone costs 2 ms."""
_ = str
"""Marks a text for translation: the command line says it in the reader's language."""

DRIVER_STATES: Final = {
    "ok": "",
    "not_read": _("the driver was not asked"),
    "no_library": _(
        "NVML (libnvidia-ml.so.1) is not on this machine: install the NVIDIA driver, or give the container the GPUs "
        "(`docker run --gpus all`, the NVIDIA container toolkit)"
    ),
    "no_driver": _("the NVIDIA kernel module is not loaded: `modprobe nvidia`, or see `dmesg` for why it refused"),
    "version_mismatch": _(
        "the kernel module and the NVML library are of different versions, as after an upgrade: reboot, or stop "
        "every GPU program and reload the nvidia modules"
    ),
    "not_permitted": _(
        "this user may not open /dev/nvidia*: run the agent as a user who may, or add the devices to the container"
    ),
    "no_gpu": _("the driver answers but shows no GPU: check `lspci`, the kernel log, and which devices the container was given"),
    "timeout": _("the driver did not answer in time: look for XID errors in the kernel log; a stuck GPU needs a reset"),
    "driver_error": _("the driver refused to start: see the kernel log"),
    "released": _(
        "the driver was let go on command, so that it can be unloaded or a GPU be reset; it is taken up again by itself"
    ),
    "no_exporter": _(
        "no dcgm-exporter tells of this node's GPUs: check that it runs, that the setting `dcgm` names its endpoint, and "
        "the log of its DCGM"
    ),
    "no_amd_library": _(
        "AMD SMI's Python library or its libamd_smi.so does not load: install amd-smi-lib of the same ROCm as the driver"
    ),
    "no_amd_driver": _("the amdgpu kernel module is not loaded: `modprobe amdgpu`, or see `dmesg` for why it refused"),
    "amd_not_permitted": _(
        "this user may not open /dev/kfd and /dev/dri/renderD*: join the groups `render` and `video`, or give the "
        "container both (`--device=/dev/kfd --device=/dev/dri`)"
    ),
    "no_npu_driver": _(
        "npu-smi cannot use the Ascend driver: run the agent as root or in the driver's group (HwHiAiUser), give a container "
        "/dev/davinci* and /dev/davinci_manager, see that `lsmod` shows the driver, and restart the machine after a new driver or firmware"
    ),
    "no_npu_tool": _("npu-smi is not on this machine any more: install the Ascend driver, which brings it"),
    "unknown_layout": _("npu-smi answers in a layout that the agent does not know: report the answer of `npu-smi info`"),
    "several_nodes": _(
        "one agent speaks for one node: name in the setting `dcgm` the exporters of this node alone, and run an agent "
        "on each other node"
    ),
}
"""Names of the driver's states with their remedy; everything but `ok` means that no GPU can be read."""


class DeviceError(Exception):
    """One device or one reading failed; `reason` is one of wire.metrics.REASONS."""

    def __init__(self, reason: str, detail: str = "") -> None:
        if reason not in REASONS:
            raise ValueError(f"{reason!r} is not a reason of the registry")
        super().__init__(detail or reason)
        self.reason = reason


class ResetRequiredError(DeviceError):
    """The driver answers this of the GPU no more until the GPU is reset."""


class DriverError(Exception):
    """The driver as a whole cannot be used; `state` is a key of DRIVER_STATES."""

    def __init__(self, state: str, detail: str = "") -> None:
        remedy = DRIVER_STATES[state]
        super().__init__(f"{detail}: {remedy}" if detail else remedy)
        self.state = state


class Versions(Struct, frozen=True):
    """The driver's version and the newest CUDA that it serves; None: it did not say."""

    driver: str | None = None
    cuda: str | None = None


class DeviceEvent(Struct, frozen=True):
    """Something the driver reported of one GPU; kinds as in wire.messages.Event."""

    kind: str
    gpu_uuid: str | None
    code: int | None
    text: str
    at: float | None = None
    """The epoch second it happened; None: just now."""
    severity: str | None = None
    """One of wire.messages.SEVERITIES; None: its source does not say."""
    details: dict[str, int | str] = {}
    """What its source says beside, by the names of wire.messages.DETAILS."""


ACCOUNTED: Final = tuple(metric for metric in of("process") if isinstance(metric.source, Accounted))


class Accounts(Struct, frozen=True):
    """What the driver keeps of the processes of one GPU. `mode`: whether it keeps anything; None: it cannot."""

    mode: bool | None = None
    by_pid: dict[int, dict[str, Cell | str]] = {}
    """A number or a reason by the names of ACCOUNTED."""

    def of(self, pid: int) -> dict[str, Cell | str]:
        """What is kept of one process; reasons where nothing is."""
        if pid in self.by_pid:
            return self.by_pid[pid]
        reason = {None: "unsupported", False: "switched_off", True: "no_previous"}[self.mode]
        return {metric.name: reason for metric in ACCOUNTED}


NO_ACCOUNTS: Final = Accounts()
Answer = Number | DeviceError
"""One reading of several asked at once: its number, or why there is none."""
FieldId = int | tuple[int, int]
"""A field, or a field of one link with its scope."""


class GpuReader(Protocol):
    """Reads one GPU, whatever its vendor. `values[i]` and `reasons[i]`: metric i of `wire.metrics.sent("gpu")`; one is None."""

    values: list[Cell]
    reasons: list[str | None]
    holds: list[tuple[int, int | None]]
    """(pid, bytes) of its processes; nobody knows them while `holds_reason` is not None."""
    holds_reason: str | None
    xids: int
    answered: bool
    """In the last tick the device answered at least one question."""
    mig_mode: bool | None
    instances: tuple[str, ...]
    """UUIDs of the MIG instances that the GPU is split into now; none where it is not split."""
    accounts: Accounts

    @property
    def is_lost(self) -> bool:
        """True when the driver no longer reached the GPU in the last tick."""

    def collect(self, now: float) -> None:
        """Read what is due at monotonic second `now`; a failure is a reason."""

    def fail(self, reason: str) -> None:
        """Mark the whole GPU absent for `reason`; everything is read again as soon as it answers."""

    def pause_profiling(self, until: float) -> None:
        """Leave the profiling counters to others until monotonic second `until`."""


class Gpu(Protocol):
    """One GPU as its driver shows it."""

    @property
    def facts(self) -> GpuFacts:
        """What does not change while the driver is loaded."""

    def reader(self, slow_s: float) -> GpuReader:
        """A new reader of it, which reads slow metrics every `slow_s` seconds."""


class NvmlGpu(Protocol):
    """What NVML tells of one GPU. Every call may raise DeviceError; none returns a made-up value."""

    @property
    def facts(self) -> GpuFacts:
        """What does not change while the driver is loaded."""

    def call(self, name: str, args: tuple[int | str, ...], struct: str | None = None) -> Any:
        """The answer of one plain call: a number, a list, or a struct with members (`struct`: the one that the call fills)."""

    def asker(self, name: str, args: tuple[int | str, ...], struct: str | None = None) -> Callable[[], Any]:
        """A call made ready: asks each time that it is called, and answers as `call` does."""

    @property
    def found(self) -> tuple[str, ...]:
        """UUIDs of the MIG instances that it was split into when the driver was opened; asks nothing."""

    def unsupported(self, mig_mode: bool | None) -> set[str]:
        """What the device is known not to answer in this MIG mode, under this driver; to be added to. Kept while the agent runs."""

    def fields(self, ids: Sequence[FieldId]) -> list[Answer]:
        """The values of several field ids, asked at once; each has its own status."""

    def gpm(self, ids: Sequence[int]) -> list[Answer]:
        """Means since the call before, asked at once; `no_previous` on the first call."""

    def let_profiling_go(self) -> None:
        """Free what the profiling metrics hold; the next `gpm` begins anew."""

    def processes(self) -> list[tuple[int, int | None]]:
        """(pid, bytes) of each process that computes on this GPU; bytes None where the driver will not say."""

    def mig_mode(self) -> bool | None:
        """True while the GPU is split into instances; None where it cannot be."""

    def instances(self) -> tuple[str, ...]:
        """UUIDs of the MIG instances that it is split into now."""


class Driver(Protocol):
    """The driver of a machine."""

    def open(self) -> tuple[Gpu, ...]:
        """The GPUs that answer; DriverError when there are none or the driver cannot be used."""

    def versions(self) -> Versions:
        """The versions of an open driver."""

    def unreachable(self) -> tuple[str, ...]:
        """GPUs that are counted but did not answer when the driver was opened: a sentence each."""

    def event(self, timeout_ms: int) -> DeviceEvent | None:
        """The next event, or None after `timeout_ms`; DeviceError where events are not to be had."""

    def close(self) -> None:
        """Let the driver go; its devices must not be used any more."""
