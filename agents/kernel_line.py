"""One thing that the kernel's log tells, as its readers hand it on."""

from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["xid", "sxid", "lost", "mismatch", "oom", "bus", "cpu", "memory", "hardware", "logged"]
Severity: TypeAlias = Literal["info", "warn", "critical"]


class Line(Struct, frozen=True):
    """One thing that the log tells. `addresses` are all that the line names, as `wire.pci.address` writes them."""

    kind: Kind
    addresses: tuple[str, ...] = ()
    code: int | None = None
    detail: int | None = None
    """xid: the sub-code of an NVLink error, or the recovery action of XID 154; sxid: the switch."""
    instance: int | None = None
    """The MIG instance."""
    pid: int | None = None
    name: str | None = None
    is_fatal: bool = False
    """sxid: fatal."""
    severity: Severity | None = None
    """bus, cpu, memory, hardware: corrected, survived, or fatal; xid: of an NVLink error, fatal or not (info)."""
    where: str = ""
    """xid: the unit of an NVLink error; cpu, memory, hardware: which part, in few letters that the firmware chose; bus: the address with its function that the error is of."""
    link: int | None = None
    """xid: the NVLink that the error is of."""
    count: int = 1
    """Errors that the line stands for."""
