"""Changes that nobody told of, seen in later runs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleet.findings.models import Diagnosis, Finding, Transition
from fleet.inventory.models import Node
from fleet.slow.models import JobRun
from fleet.verdicts.models import Verification
from fleet.verdicts.seen import BY_CONDITION, BY_FLAGS, asked, carried, look
from tests.fleet.verdicts.site import FP32, content

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
BF16 = [{"kind": "flag", "text": "--bf16 True --tf32 True  # Hugging Face Trainer"}]
HOUR = timedelta(hours=1)


def test_flags_and_variables_with_values_are_asked_for_and_placeholders_are_not() -> None:
    """As labels of processes name them."""
    change = [
        *BF16,
        {"kind": "flag", "text": "--per_device_train_batch_size $((2 * B))  # B as now"},
        {"kind": "env", "text": "NCCL_IB_DISABLE=0 OMP_NUM_THREADS={cores}"},
        {"kind": "diff", "text": "+ x = --num-workers=8"},
    ]
    found = asked(change)

    assert found["flag.bf16"] == "true"
    assert found["flag.tf32"] == "true"
    assert found["env.NCCL_IB_DISABLE"] == "0"
    assert "env.OMP_NUM_THREADS" not in found
    assert "flag.num-workers" not in found


def test_what_was_so_before_is_not_carried() -> None:
    """Only what changed as the advice says counts."""
    assert carried(BF16, {"flag.bf16": "false"}, {"flag.bf16": "true"}) == ["flag.bf16"]
    assert carried(BF16, {"flag.bf16": "true"}, {"flag.bf16": "true"}) == []
    assert carried(BF16, {}, {"flag.bf16": "false"}) == []


def rows(change: list[dict[str, str]], before: dict[str, str], after: dict[str, str], **more: Any) -> Finding:
    """A finding on a run, and a later run of its family."""
    node = Node.objects.create(name="n1")
    for first, told in ((NOON, before), (NOON + 2 * HOUR, after)):
        JobRun.objects.create(
            job="n1/ann/train.py", program="ann/train.py", node=node, first_seen=first, last_seen=first + HOUR, merged_to=0,
            told=told, gpu_model="NVIDIA H200", gpus=1,
        )  # fmt: skip
    share = {"name": "share_compute", "value": 0.9, "unit": "ratio", "threshold": 0.3, "comparison": ">="}
    defaults: dict[str, Any] = {
        "fingerprint": f"{FP32}:job:n1/ann/train.py", "rule": FP32, "severity": "warn", "severity_rank": 2, "scope": "job",
        "target": "n1/ann/train.py", "node": node, "bottleneck": "compute", "confidence": "high",
        "content": content(change=change, evidence=[share]), "opened_at": NOON, "last_seen_at": NOON + HOUR,
    }  # fmt: skip
    return Finding.objects.create(**{**defaults, **more})


def test_a_later_run_with_the_flag_of_the_advice_is_applied_when_it_began() -> None:
    """The transition says how that was seen, and a row waits for the verdict."""
    finding = rows(BF16, {"flag.bf16": "false"}, {"flag.bf16": "true"})

    assert look(NOON + 3 * HOUR) == 1
    finding.refresh_from_db()
    assert finding.advice == "applied"
    said = Transition.objects.get(axis="advice")
    assert (said.at, said.by, said.note) == (NOON + 2 * HOUR, None, BY_FLAGS)
    row = Verification.objects.get()
    assert row.by_advisor
    assert row.applied_at == NOON + 2 * HOUR
    assert look(NOON + 3 * HOUR) == 0


@pytest.mark.parametrize(
    ("after", "more"),
    [({"flag.bf16": "false"}, {}), ({"flag.lr": "1"}, {}), ({"flag.bf16": "true"}, {"advice": "dismissed"})],
)
def test_a_later_run_without_it_or_advice_that_was_dismissed_claims_nothing(after: dict[str, str], more: dict[str, str]) -> None:
    """Only what can be seen."""
    rows(BF16, {"flag.bf16": "false"}, after, **more)

    assert look(NOON + 3 * HOUR) == 0
    assert not Verification.objects.exists()


@pytest.mark.parametrize(("share", "seen"), [(0.1, 1), (0.6, 0)])
def test_trouble_that_is_gone_in_a_later_run_counts_where_its_share_has_halved(share: float, seen: int) -> None:
    """The finding is over, the run was long enough to judge, and its diagnosis is another one."""
    finding = rows([], {}, {}, resolved_at=NOON + HOUR, condition="resolved")
    at = NOON + 3 * HOUR
    Diagnosis.objects.create(
        scope="job", target="n1/ann/train.py", bottleneck="data", shares={"compute": share, "data": 1 - share},
        window_start=at - HOUR / 2, window_end=at,
    )  # fmt: skip

    assert look(at) == seen
    if seen:
        finding.refresh_from_db()
        assert finding.advice == "applied"
        assert Transition.objects.get(axis="advice").note == BY_CONDITION
