"""What the kernel's log tells of the machine's own hardware: machine checks (MCE), memory errors (EDAC), the firmware's reports (APEI), PCIe (AER).

Tests have each shape's source (tests/agents/test_kernel_hardware.py).
"""

import re
from typing import Final

from agents.kernel_line import Line, Severity

WORTH: Final = ("AER: ", "PCIe Bus Error", "[Hardware Error]", "EDAC MC")
_CHECK: Final = re.compile(r"CPU (\d{1,5}): Machine Check(?: Exception)?: [0-9a-f]+ Bank (\d{1,3}): ([0-9a-f]{1,16})\b")
_AMD: Final = re.compile(r"CPU:(\d{1,5}) \([0-9a-f:]{1,12}\) MC(\d{1,3})_STATUS\[([^\]]{1,80})\]")
_LOGGED: Final = "Machine check events logged"
_UNCORRECTED: Final = 1 << 61
_CONTEXT_LOST: Final = 1 << 57
"""Bits of a bank's status, the same on all x86: Intel SDM volume 3, 17.3.2.2; AMD64 APM volume 2, 9.3.2.1."""
_EDAC: Final = re.compile(
    r"EDAC (MC\d{1,3}): (?:(\d{1,7}) )?(CE|UE)\b(?:[^(\"]*? on ([\w#.:/-]{1,60})|[^\"]*label \"([\w #.:/-]{1,60})\")?"
)
_RECORD: Final = re.compile(
    r"(?:\{(\d{1,9})\})?\[Hardware Error\]:\s*(?:Error \d+, )?(event severity|type|fru_text|section_type|device_id): (.*)"
)
_SEVERITIES: Final[dict[str, Severity]] = {"corrected": "info", "info": "info", "recoverable": "warn", "fatal": "critical"}
_PART: Final = re.compile(r"[\w #.:/-]{1,60}")
_FUNCTION: Final = re.compile(r"\b([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?![0-9a-f])", re.IGNORECASE)
_OPEN_MAX: Final = 8
_BUS: Final = re.compile(r"\b(un)?correct|can't recover|recovery failed", re.IGNORECASE)


class Hardware:
    """Reads one message after the other; what the firmware reports takes several lines, which its number holds together."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, str]] = {}

    def read(self, text: str) -> Line | None:
        """What a message tells of the machine's hardware; None: nothing."""
        if "EDAC MC" in text:
            return _of_memory(text)
        if "[Hardware Error]" not in text:
            return _of_bus(text)
        if check := _CHECK.search(text):
            status = int(check[3], 16)
            bad: Severity = "critical" if status & _CONTEXT_LOST else "warn"
            severity: Severity = bad if status & _UNCORRECTED else "info"
            return Line("cpu", severity=severity, where=f"CPU {int(check[1])}, bank {int(check[2])}")
        if check := _AMD.search(text):
            flags = check[3].split("|")
            severity = "critical" if "PCC" in flags else "info" if "CE" in flags else "warn"
            return Line("cpu", severity=severity, where=f"CPU {int(check[1])}, bank {int(check[2])}")
        if _LOGGED in text:
            return Line("logged")
        return self._of_firmware(text)

    def _of_firmware(self, text: str) -> Line | None:
        found = _RECORD.search(text)
        if found is None:
            return None
        number, name, value = found[1] or "", found[2], found[3].strip()
        if name == "event severity":
            self._open.pop(number, None)
            while len(self._open) >= _OPEN_MAX:
                del self._open[next(iter(self._open))]
            self._open[number] = {"severity": value}
            return None
        record = self._open.get(number)
        if record is None:
            return None
        if name == "type":  # of one of the errors in the record
            record["severity"] = value
        elif name == "fru_text":
            record["part"] = value if _PART.fullmatch(value) else ""
        elif name == "section_type":
            record["section"] = value
            return None if value.startswith("PCIe") else _of_section(record)
        elif record.get("section", "").startswith("PCIe"):
            return _at(value, _SEVERITIES.get(record["severity"], "warn"))
        return None


def _of_section(record: dict[str, str]) -> Line:
    section = record["section"]
    severity = _SEVERITIES.get(record["severity"], "warn")
    part = record.get("part", "")
    if section.startswith("memory"):
        return Line("memory", severity=severity, where=part)
    if "processor" in section:
        return Line("cpu", severity=severity, where=part)
    named = section if _PART.fullmatch(section) else ""
    return Line("hardware", severity=severity, where=part or named)


def _of_memory(text: str) -> Line | None:
    found = _EDAC.search(text)
    if found is None:
        return None
    part = found[4] or found[5] or found[1]
    return Line("memory", severity="info" if found[3] == "CE" else "warn", where=part, count=max(1, int(found[2] or 1)))


def _of_bus(text: str) -> Line | None:
    """A line of AER that says how bad an error is; those of its data, its headers and of what was done about it tell nothing."""
    found = _BUS.search(text)
    if found is None:
        return None
    is_bad = found[1] is not None or not found[0].lower().endswith("correct")
    is_lost = "recover" in found[0].lower() or "fatal" in text.lower().replace("non-fatal", "")
    return _at(text, "info" if not is_bad else "critical" if is_lost else "warn")


def _at(text: str, severity: Severity) -> Line | None:
    named = [one.lower() for one in _FUNCTION.findall(text)]
    if not named:
        return None
    # the port that tells of it stands first, the device that it came from last
    addresses = tuple(dict.fromkeys(f"{int(one.partition(':')[0], 16):04x}:{one.partition(':')[2][:5]}" for one in named))
    return Line("bus", addresses, severity=severity, where=f"{addresses[-1]}{named[-1][-2:]}")
