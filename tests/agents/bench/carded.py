"""A machine with two H200 for tests: NVML answers from a recording, and torch is the one of `fake_torch`."""

import json
from pathlib import Path
from typing import Any

import pytest

from agents.bench import session
from agents.nvml_device import NvmlDriver
from tests.agents.fake_nvml import FakeNvml

TORCH = Path(__file__).parent / "fake_torch"


def idle() -> FakeNvml:
    """Two H200 that nobody uses."""
    nvml = FakeNvml()
    for gpu in nvml.gpus:
        gpu["processes"] = []
        gpu["calls"]["nvmlDeviceGetMemoryInfo(33554472)"]["used"] = 5 << 20
    return nvml


def machine(monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml | None = None, **knobs: Any) -> None:
    """Put the machine where the real one is asked; `knobs` are the fake torch's."""
    found = idle() if nvml is None else nvml
    monkeypatch.setattr(session, "NvmlDriver", lambda: NvmlDriver(found))
    monkeypatch.syspath_prepend(str(TORCH))
    monkeypatch.setenv("FAKE_TORCH", json.dumps(knobs))
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
