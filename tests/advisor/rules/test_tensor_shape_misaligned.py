"""tensor-shape-misaligned: dimensions that are no multiple of 8."""

from typing import Any, ClassVar

import pytest

from tests.advisor.rules.cases import RuleCases


class TestTensorShapeMisaligned(RuleCases):
    """Dimensions that are no multiple of 8."""

    rule = "tensor-shape-misaligned"
    healthy: ClassVar[dict[str, Any]] = {
        "dtype": "bf16", "told_hidden": 1024, "told_heads": 16, "told_vocab": 50304, "told_seq": 1024, "micro_batch": 8,
    }  # fmt: skip
    fires: ClassVar[dict[str, Any]] = {"told_vocab": 50257, "tensor_active_when_busy": 0.1, "sm_active_when_busy": 0.9}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"told_vocab": 50304},
        {"sm_active_when_busy": 0.6},
        {"tensor_active_when_busy": 0.25},
        {"dram_active_when_busy": 0.7},
        {"dtype": "fp32"},
        {"told_class": "vision"},
        {"tenants": 2},
        {"share_launch": 0.4},
    ]
    between: ClassVar[dict[str, Any] | None] = fires | {"tensor_active_when_busy": 0.17, "sm_active_when_busy": 0.75}
    lacks = ("dtype", "tensor_active_when_busy")


def test_a_healthy_shape_is_left_alone_at_low_tensor_activity() -> None:
    """The recording loader_ok reads 0.128 and is fine: an odd dimension is what matters."""
    assert TestTensorShapeMisaligned.judge({"tensor_active_when_busy": 0.1}).findings == []


@pytest.mark.parametrize(
    ("readings", "said", "change"),
    [
        ({}, "The vocabulary of 50257 is no multiple of 8", "+ model.resize_token_embeddings(50257, pad_to_multiple_of=128)"),
        ({"launcher": "megatron"}, "The vocabulary of 50257", "--make-vocab-size-divisible-by 128"),
        ({"told_vocab": 50304, "told_hidden": 1001, "told_heads": 7}, "The hidden size 1001 is no multiple", "+ hidden = -(-1001 // 128) * 128"),
        ({"told_vocab": 50304, "told_hidden": 1024, "told_heads": 12}, "The hidden size 1024 over 12 heads", "+ heads = 1024 // 128"),
        ({"told_vocab": 50304, "micro_batch": 3, "told_seq": 1001}, "Micro-batch times sequence, 3 x 1001,", "pad_to_multiple_of=8"),
    ],
)  # fmt: skip
def test_it_names_the_dimension_and_how_to_pad_it(readings: dict[str, Any], said: str, change: str) -> None:
    """Each with its own change, and no other's."""
    (finding,) = TestTensorShapeMisaligned.judge(TestTensorShapeMisaligned.fires | readings).findings

    assert said in finding.summary.english()
    assert len(finding.change) == 1
    assert change in finding.change[0].text
    assert (finding.severity, finding.confidence) == ("advice", "low")


def test_fp8_asks_for_multiples_of_16() -> None:
    """A hidden size of 1,032 is one of 8."""
    hidden = {"told_vocab": 50304, "told_hidden": 1032, "told_heads": None}

    assert TestTensorShapeMisaligned.judge(TestTensorShapeMisaligned.fires | hidden).findings == []
    assert TestTensorShapeMisaligned.judge(TestTensorShapeMisaligned.fires | hidden | {"dtype": "fp8"}).findings
