"""low-mfu: a model that uses little of its cards."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases, frames


class TestLowMfu(RuleCases):
    """A model that uses little of its cards."""

    rule = "low-mfu"
    healthy: ClassVar[dict[str, Any]] = {"mfu": 0.45, "params": 8e9, "dtype": "bf16", "tokens_per_s": 80_000.0}
    fires: ClassVar[dict[str, Any]] = {"mfu": 0.2, "params": 8e9, "dtype": "bf16", "tokens_per_s": 35_000.0}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"mfu": 0.31},
        {"params": 1e8},
        {"told_seq": 256.0},
        {"told_kind": "serve"},
        {"told_trainable": 4e7},
        {"told_class": "moe", "mfu": 0.21},
        {"sm": 100, "mfu": 0.26},
    ]
    between: ClassVar[dict[str, Any] | None] = {"mfu": 0.32, "params": 8e9, "dtype": "bf16", "tokens_per_s": 55_000.0}
    lacks = ("mfu",)


def test_what_explains_it_is_said_instead() -> None:
    """A starved job is told of its loader, not of its MFU as well."""
    from advisor.engine import evaluate
    from advisor.rule import load

    starved = {
        "share_data": 0.8,
        "share_compute": 0.2,
        "busy": 0.2,
        "children": 0.0,
        "children_cores": 0.0,
        "workers_per_rank": 0.0,
        "dataloader_workers": 0.0,
        "free_cores": 27.0,
    }
    found = evaluate(load(), frames(**(TestLowMfu.fires | starved | {"main_cores": 4.0}))).findings

    assert "dataloader-too-few-workers" in {finding.rule for finding in found}
    assert "low-mfu" not in {finding.rule for finding in found}
