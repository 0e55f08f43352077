"""fp32-without-tensor-cores: FP32 matrix products."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestFp32WithoutTensorCores(RuleCases):
    """FP32 matrix products."""

    rule = "fp32-without-tensor-cores"
    fires: ClassVar[dict[str, Any]] = {
        "fp32_active": 0.62,
        "fp32_active_when_busy": 0.66,
        "tensor_active": 0.03,
        "tensor_active_when_busy": 0.033,
        "dram_active_when_busy": 0.09,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"tensor_active_when_busy": 0.3},
        {"fp32_active_when_busy": 0.05},
        {"fp64_active_when_busy": 0.4},
        {"dram_active_when_busy": 0.8},
        {"tenants": 2},
        {"compute_capability": "6.1"},
        {"share_compute": 0.1},
    ]
    between: ClassVar[dict[str, Any] | None] = {"fp32_active_when_busy": 0.15, "tensor_active_when_busy": 0.033}
    lacks = ("fp32_active",)
