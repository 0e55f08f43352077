"""Put on PYTHONPATH of a real process, this answers `CDLL("libnvidia-ml.so.1")` with the fake driver of library.py.

Nothing of the process knows: nvidia-ml-py loads it, passes it ctypes structs and reads what it filled. FETTLE_FAKE_NVML names
the file of answers; it is read again whenever it changes, so a test can lose a GPU by writing it anew.
"""

import ctypes
import importlib.util
import os
from pathlib import Path
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_real = ctypes.CDLL


class _CDLL(_real):
    def __new__(cls, name: str | None = None, *args: Any, **kwargs: Any) -> Any:
        if name != _LIBRARY:
            return _real(name, *args, **kwargs)
        spec = importlib.util.spec_from_file_location("fake_nvml_library", Path(__file__).with_name("library.py"))
        if spec is None or spec.loader is None:
            raise OSError(f"{_LIBRARY}: cannot open shared object file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.Library(Path(os.environ["FETTLE_FAKE_NVML"]))


if "FETTLE_FAKE_NVML" in os.environ:
    ctypes.CDLL = _CDLL  # type: ignore[misc]
