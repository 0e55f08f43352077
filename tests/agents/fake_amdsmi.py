"""AMD SMI's Python library answering from a file of tests/device_answers: everything of ours above it is real."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ANSWERS = Path(__file__).parent.parent / "device_answers"
CODES = {
    "AMDSMI_STATUS_NOT_SUPPORTED": 2,
    "AMDSMI_STATUS_RETRY": 9,
    "AMDSMI_STATUS_NO_PERM": 10,
    "AMDSMI_STATUS_IO": 12,
    "AMDSMI_STATUS_FILE_ERROR": 14,
    "AMDSMI_STATUS_INIT_ERROR": 18,
    "AMDSMI_STATUS_DRIVER_NOT_LOADED": 34,
    "AMDSMI_STATUS_NO_DATA": 40,
}


class AmdSmiException(Exception):  # noqa: N818 - the library's own name
    """The base of the library's errors."""


class AmdSmiLibraryException(AmdSmiException):
    """One status of the C library."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.err_code = CODES[status]

    def __str__(self) -> str:
        return f"Error code:\n\t{self.err_code} | {self.args[0]}"


class AmdSmiRetryException(AmdSmiLibraryException):
    """The device is busy."""

    def __init__(self) -> None:
        super().__init__("AMDSMI_STATUS_RETRY")


class AmdSmiParameterException(AmdSmiException):
    """An argument of the wrong type."""


RAISED: dict[str, Callable[[], AmdSmiException]] = {
    "AMDSMI_STATUS_RETRY": AmdSmiRetryException,
    "AmdSmiParameterException": AmdSmiParameterException,
}


class Members:
    """An enumeration of the library: every member that is asked for is its own name."""

    def __init__(self, *names: str) -> None:
        for name in names:
            setattr(self, name, name)


class FakeAmdSmi:
    """Use it as the module `amdsmi`. `gpus[i]` may be changed at any time: by call and arguments, an answer or `{"error": status}`."""

    AmdSmiException = AmdSmiException
    AmdSmiClkType = Members("GFX", "MEM")
    AmdSmiTemperatureType = Members("EDGE", "HOTSPOT", "VRAM")
    AmdSmiTemperatureMetric = Members("CURRENT")
    amdsmi_wrapper = SimpleNamespace(**{name: code for name, code in CODES.items() if name != "AMDSMI_STATUS_NO_DATA"})

    def __init__(self, name: str = "amd-mi300x-mi210.json") -> None:
        self.gpus: list[dict[str, Any]] = json.loads((ANSWERS / name).read_text())["gpus"]
        self.asked: list[str] = []
        self.init_error: str | None = None
        self.running = 0  # starts less shutdowns
        self._hanging: dict[int, threading.Event] = {}

    def hang(self, index: int) -> threading.Event:
        """Block every call of one GPU until the event that comes back is set."""
        self._hanging[index] = threading.Event()
        return self._hanging[index]

    def amdsmi_init(self) -> None:
        """Start."""
        if self.init_error:
            raise AmdSmiLibraryException(self.init_error)
        self.running += 1

    def amdsmi_shut_down(self) -> None:
        """End."""
        self.running -= 1

    def amdsmi_get_processor_handles(self) -> list[int]:
        """Handles, which are the GPUs' numbers here."""
        return list(range(len(self.gpus)))

    def __getattr__(self, call: str) -> Any:
        if not call.startswith("amdsmi_get_") or not any(key.split("(")[0] == call for gpu in self.gpus for key in gpu):
            raise AttributeError(name=call, obj=self)

        def ask(handle: int, *arguments: str) -> Any:
            if handle in self._hanging:
                self._hanging[handle].wait(30)
            key = f"{call}({', '.join(arguments)})" if arguments else call
            self.asked.append(f"{handle} {key}")
            answer = self.gpus[handle].get(key, {"error": "AMDSMI_STATUS_NOT_SUPPORTED"})
            if isinstance(answer, dict) and "error" in answer:
                raise RAISED.get(answer["error"], lambda: AmdSmiLibraryException(answer["error"]))()
            return answer

        return ask
