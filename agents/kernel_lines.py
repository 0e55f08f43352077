"""What the kernel's log tells of GPUs, line by line.

A line gives a code, a PCI address, a process's number and name, and nothing else of its text: a log may hold anything.
Shapes are those that drivers from 304 to 610 print (tests/agents/test_kernel_lines.py has each one's source).
"""

import re
from typing import Final

from agents.kernel_hardware import WORTH, Hardware
from agents.kernel_line import Line as Line
from wire.pci import address

_WORTH: Final = ("NVRM: ", "SXid", "Killed process", *WORTH)
_XID: Final = re.compile(r"NVRM: Xid \((?P<where>[^)]{1,60})\): (?P<code>\d{1,5})\b(?P<rest>.*)")
_WHERE: Final = re.compile(r"(?P<pci>\S+)(?: GPU-I:(?P<instance>\d{1,4})\b)?")
_PROCESS: Final = re.compile(r",\s*(?:pid='?(?:<unknown>|unknown|(?P<pid>\d+))'?)?(?:,?\s*name='?(?P<name>[^,']*)'?)?")
_NVLINK: Final = range(144, 151)
_FIRST_WORD: Final = re.compile(r"\(0x([0-9a-f]{8}) ", re.IGNORECASE)
_UNIT: Final = re.compile(r",\s*(?P<unit>[A-Z][A-Z0-9_/]{1,40}) (?P<how>Fatal|Nonfatal)\b(?:.{0,40}? Link (?P<link>\d{1,3})\b)?")
_RECOVERY: Final = 154
_ACTION: Final = re.compile(r" to 0x([0-9a-f]{1,8})\b", re.IGNORECASE)
_SXID: Final = re.compile(r"nvidia-nvswitch(\d{1,4}): SXid \((?P<pci>[^)\s]+)\): (?P<code>\d{1,6}), (?P<fatal>Fatal|Non-fatal)\b")
_MISMATCH: Final = re.compile(r"NVRM: API mismatch: the client(?: '(?P<name>[^']*)')?(?: \(pid (?P<pid>\d+)\))?")
_KILLED: Final = re.compile(r"Killed process (?P<pid>\d+)(?:, UID \d+,)? \((?P<name>.*?)\),? total-vm")
_LOST: Final = "fallen off the bus"
_LOST_BEGINS: Final = "NVRM: The NVIDIA GPU "
_ADDRESS: Final = re.compile(r"\b(?:[0-9a-f]{4,8}:)[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?(?![0-9a-f:])", re.IGNORECASE)
_NAME_MAX: Final = 32


class Lines:
    """Reads one message after the other; a message that the log broke into several lines is put together again."""

    def __init__(self) -> None:
        self._lost: tuple[str, ...] = ()
        self._hardware = Hardware()

    def read(self, message: str) -> Line | None:
        """What a message of the kernel tells of GPUs and of the machine's hardware; None: nothing."""
        if not any(word in message for word in _WORTH):
            return None
        text = message.replace("\n", " ").replace("#012", " ")
        if "NVRM: " not in text:
            return _of_switch(text) if "SXid" in text else _of_killed(text) or self._hardware.read(text)
        found = _XID.search(text)
        if found is not None:
            return _of_xid(found)
        if _LOST in text:
            addresses, self._lost = _addresses(text) or self._lost, ()
            return Line("lost", addresses)
        if _LOST_BEGINS in text:
            self._lost = _addresses(text)
        elif not text.startswith("NVRM: (PCI ID"):
            self._lost = ()
        mismatch = _MISMATCH.search(text)
        return Line("mismatch", pid=_pid(mismatch["pid"]), name=_name(mismatch["name"])) if mismatch else None


def _of_xid(found: re.Match[str]) -> Line:
    code, rest = int(found["code"]), found["rest"]
    where = _WHERE.match(found["where"])
    pci = address(where["pci"]) if where else None
    process = _PROCESS.match(rest)
    detail = None
    unit = _UNIT.match(rest) if code in _NVLINK else None
    if code in _NVLINK and (word := _FIRST_WORD.search(rest)):
        detail = int(word[1], 16) >> 20 & 0x3F
    elif code == _RECOVERY and (action := _ACTION.search(rest)):
        detail = int(action[1], 16)
    return Line(
        "xid",
        () if pci is None else (pci,),
        code,
        detail,
        int(where["instance"]) if where and where["instance"] else None,
        _pid(process["pid"]) if process else None,
        _name(process["name"]) if process and unit is None else None,
        severity=("critical" if unit["how"] == "Fatal" else "info") if unit else None,
        where=unit["unit"] if unit else "",
        link=int(unit["link"]) if unit and unit["link"] else None,
    )


def _of_switch(text: str) -> Line | None:
    """The line of three that says how bad it is; the other two are the same fault's data."""
    found = _SXID.search(text)
    if found is None:
        return None
    pci = address(found["pci"])
    return Line("sxid", () if pci is None else (pci,), int(found["code"]), int(found[1]), is_fatal=found["fatal"] == "Fatal")


def _of_killed(text: str) -> Line | None:
    found = _KILLED.search(text)
    return None if found is None else Line("oom", pid=_pid(found["pid"]), name=_name(found["name"]))


def _addresses(text: str) -> tuple[str, ...]:
    found = (address(one[0]) for one in _ADDRESS.finditer(text))
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _pid(text: str | None) -> int | None:
    """Drivers write 0 for a process that they do not know."""
    return int(text) or None if text and len(text) <= 10 else None


def _name(text: str | None) -> str | None:
    if not text or text in ("<unknown>", "unknown"):
        return None
    return "".join(one if one.isprintable() else "?" for one in text[:_NAME_MAX])
