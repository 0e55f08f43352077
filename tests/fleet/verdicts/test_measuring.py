"""What keeps a verdict away, and what it is made of."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from fleet.findings.concluded import conclude
from fleet.findings.lifecycle import MoveError, advise_transition
from fleet.findings.models import Diagnosis, Finding
from fleet.inventory.models import Gpu, Node
from fleet.slow.models import JobRun
from fleet.store.series import store
from fleet.verdicts.models import Verification
from fleet.verdicts.recovered import records
from fleet.verdicts.tasks import go_on
from tests.fleet.verdicts.site import FP32, content

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def cards(count: int, name: str = "n1") -> list[Gpu]:
    """GPUs of a node."""
    node = Node.objects.get_or_create(name=name)[0]
    return [Gpu.objects.create(node=node, uuid=f"GPU-{name}-{k}", index=k, model="NVIDIA H200") for k in range(count)]


def works(held: list[Gpu], start: datetime, samples_per_s: float | None, seconds: int = 120) -> JobRun:
    """A run of train.py that reports so many samples a second."""
    t = int(start.timestamp())
    wave = [1 + 0.01 * ((7 * k) % 5 - 2) for k in range(seconds)]
    told = {} if samples_per_s is None else {"samples_per_s": samples_per_s}
    gpu = [
        {"entity": card.pk, "ts": t + k, "gr_engine_active": 0.9 * wave[k], "sm_active": 0.8, "gpu_util_pct": 90.0}
        for card in held
        for k in range(seconds)
    ]
    process = [
        {"entity": card.pk, "pid": 7 + n + t % 1000, "ts": t + k, "name": "train.py", "user": "ann", "gpu_mem_bytes": 30 << 30,
         **{name: value * wave[k] for name, value in told.items()}}
        for n, card in enumerate(held)
        for k in range(seconds)
    ]  # fmt: skip
    store().write("gpu", pl.DataFrame(gpu))
    store().write("process", pl.DataFrame(process))
    node = held[0].node
    return JobRun.objects.create(
        job=f"{node.name}/ann/train.py", program="ann/train.py", node=node, first_seen=start,
        last_seen=start + timedelta(seconds=seconds), merged_to=0, gpu_ids=[card.pk for card in held], gpu_model="NVIDIA H200",
        gpus=len(held),
    )  # fmt: skip


def rename(held: list[Gpu], start: datetime, name: str, seconds: int) -> None:
    """Let another program be what held the cards then, and the only one."""
    t = int(start.timestamp())
    rows = [
        {
            "entity": card.pk,
            "pid": 7 + n + t % 1000,
            "ts": t + k,
            "name": name,
            "user": "ann",
            "gpu_mem_bytes": 30 << 30,
            "samples_per_s": 100.0,
        }
        for n, card in enumerate(held)
        for k in range(seconds)
    ]
    store().write("process", pl.DataFrame(rows))


def found(held: list[Gpu], **more: Any) -> Finding:
    """A finding on the run that began at noon."""
    defaults: dict[str, Any] = {
        "fingerprint": f"{FP32}:job:n1/ann/train.py", "rule": FP32, "severity": "warn", "severity_rank": 2, "scope": "job",
        "target": "n1/ann/train.py", "node": held[0].node if held else None, "bottleneck": "compute", "confidence": "high", "content": content(),
        "opened_at": NOON + MINUTE, "last_seen_at": NOON + 2 * MINUTE,
    }  # fmt: skip
    finding = Finding.objects.create(**{**defaults, **more})
    finding.gpus.set(held)
    return finding


def applied(finding: Finding) -> None:
    """Told at three minutes past noon."""
    advise_transition(finding, "applied", None, at=NOON + 3 * MINUTE)
    go_on(NOON + 3 * MINUTE)


def test_reported_throughput_of_the_runs_before_and_after_gives_the_verdict() -> None:
    """100 and 150 samples a second, on any node: half as fast again, and the record of the rule says so."""
    held = cards(1)
    works(held, NOON, 100.0)
    applied(found(held))
    works(cards(1, "n2"), NOON + 5 * MINUTE, 150.0)
    go_on(NOON + 20 * MINUTE)
    row = Verification.objects.get()

    assert (row.verdict, row.measure) == ("helped", "samples_per_s")
    assert row.ratio == pytest.approx(1.5, rel=0.01)
    assert row.before == pytest.approx(100, rel=0.02)
    record = records()[0]
    assert (record.rule, record.helped, record.measured, record.waiting) == (FP32, 1, 1, 0)
    assert record.ratio == row.ratio


def test_worse_keeps_the_rollback_and_counts_what_was_lost() -> None:
    """Half the speed: as many GPU-hours lost as half of what was run."""
    held = cards(1)
    works(held, NOON, 100.0)
    applied(found(held))
    works(held, NOON + 5 * MINUTE, 50.0)
    go_on(NOON + 20 * MINUTE)
    row = Verification.objects.get()

    assert row.verdict == "worse"
    assert row.rollback["id"] == "Remove the line or the context."
    assert row.recovered_gpu_hours == pytest.approx(-0.5 * 2 / 60, rel=0.05)


def test_a_run_on_more_gpus_is_not_compared_and_the_next_one_is() -> None:
    """The row says meanwhile why it still waits."""
    held = cards(2)
    works(held[:1], NOON, 100.0)
    applied(found(held[:1]))
    works(held, NOON + 5 * MINUTE, 90.0)
    go_on(NOON + 20 * MINUTE)
    row = Verification.objects.get()

    assert row.verdict == ""
    assert row.reason["params"] == {"before": "1", "after": "2"}

    works(held[:1], NOON + 30 * MINUTE, 200.0)
    go_on(NOON + 40 * MINUTE)
    row.refresh_from_db()
    assert row.verdict == "helped"


def test_the_last_reason_stays_when_it_is_due() -> None:
    """Nothing but runs on other GPU counts for two weeks."""
    held = cards(2)
    works(held[:1], NOON, 100.0)
    applied(found(held[:1]))
    works(held, NOON + 5 * MINUTE, 90.0)
    row = Verification.objects.get()
    go_on(row.due_at)
    row.refresh_from_db()

    assert row.verdict == "cannot_tell"
    assert row.reason["id"].startswith("Not as many GPUs")
    assert row.reason["params"] == {"before": "1", "after": "2"}


def test_a_run_that_goes_on_is_waited_for_until_it_is_long_enough() -> None:
    """Thirty seconds after its warm-up it is not."""
    held = cards(1)
    works(held, NOON, 100.0)
    applied(found(held))
    works(held, NOON + 5 * MINUTE, 150.0, seconds=50)
    go_on(NOON + 5 * MINUTE + timedelta(seconds=50))

    assert Verification.objects.get().verdict == ""


@pytest.mark.parametrize(
    ("scope", "why"),
    [
        ("service", "The service told nothing before the change"),
        ("job", "Nothing is stored of the time before"),
        ("fleet", "No job is known that this held back"),
    ],
)
def test_what_can_never_be_told_is_not_waited_for(scope: str, why: str) -> None:
    """Without telemetry, or anybody who suffered, there is no before."""
    applied(found(cards(1), scope=scope))
    row = Verification.objects.get()

    assert row.verdict == "cannot_tell"
    assert row.reason["id"].startswith(why)
    assert Finding.objects.get().advice == "cannot_tell"


def test_a_change_to_a_gpu_shows_on_it_without_a_new_run() -> None:
    """Its clocks were unlocked while the job went on."""
    held = cards(1)
    works(held, NOON, 100.0)
    works(held, NOON + 2 * MINUTE, 130.0, seconds=240)
    finding = found(held, rule="clocks-locked-low", scope="gpu", target=str(held[0].pk), bottleneck="clocks")
    applied(finding)
    go_on(NOON + 8 * MINUTE)
    row = Verification.objects.get()

    assert row.verdict in ("helped", "no_effect")
    assert row.after_from == NOON + 3 * MINUTE + timedelta(seconds=20)


def test_a_node_whose_first_minute_was_of_another_program_is_looked_at_again() -> None:
    """Meanwhile the row says why; the next minute is of the same program, and no minute is looked at twice."""
    held = cards(1)
    works(held, NOON, 100.0)
    finding = found(held, rule="dataloader-oversubscribed", scope="node", target="n1", bottleneck="data")
    applied(finding)
    works(held, NOON + 3 * MINUTE, 100.0, seconds=80)
    rename(held, NOON + 3 * MINUTE, "eval.py", 80)
    go_on(NOON + 5 * MINUTE)
    row = Verification.objects.get()
    assert row.reason["id"].startswith("Not the same program")
    assert row.looked == {"to": (NOON + 4 * MINUTE + timedelta(seconds=20)).timestamp()}

    works(held, NOON + 4 * MINUTE + timedelta(seconds=20), 150.0)
    go_on(NOON + 6 * MINUTE)
    row.refresh_from_db()
    assert (row.verdict, row.measure) == ("helped", "samples_per_s")
    assert row.ratio == pytest.approx(1.5, rel=0.02)


def test_advice_to_the_whole_fleet_is_measured_on_those_that_it_held_back() -> None:
    """Storage was slow for the jobs on two nodes, and not for a third's: their samples a second before and after."""
    suffering, other = [*cards(1), *cards(1, "n2")], cards(1, "n3")
    for card in (*suffering, *other):
        works([card], NOON, 50.0)
    for card in suffering:
        Diagnosis.objects.create(
            scope="job",
            target=f"{card.node.name}/ann/train.py",
            window_start=NOON + MINUTE,
            window_end=NOON + 2 * MINUTE,
            bottleneck="data",
        )
    finding = found([], rule="shared-storage-contention", scope="fleet", target="fleet", node=None, bottleneck="data")
    applied(finding)
    for card in suffering:
        works([card], NOON + 3 * MINUTE, 100.0)
    works(other, NOON + 3 * MINUTE, 10.0)
    go_on(NOON + 5 * MINUTE)
    row = Verification.objects.get()

    assert row.before_side["gpus"] == [card.pk for card in suffering]
    assert (row.verdict, row.measure, row.gpus) == ("helped", "samples_per_s", 2)
    assert row.ratio == pytest.approx(2.0, rel=0.03)


@pytest.mark.parametrize(("told", "began"), [(10 * MINUTE, 5 * MINUTE), (6 * MINUTE, 6 * MINUTE)])
def test_who_says_so_after_the_restart_means_the_run_that_began_before(told: timedelta, began: timedelta) -> None:
    """Said at ten past, of the run that began at five past and in which the finding was never seen; a time that is told is kept."""
    held = cards(1)
    works(held, NOON, 100.0)
    finding = found(held)
    works(held, NOON + 5 * MINUTE, 150.0)
    advise_transition(finding, "applied", None, at=NOON + told)
    go_on(NOON + 10 * MINUTE)

    assert Verification.objects.get().applied_at == NOON + began


def test_one_that_is_told_again_is_one_row() -> None:
    """The task is safe to repeat."""
    held = cards(1)
    works(held, NOON, 100.0)
    applied(found(held))
    go_on(NOON + 4 * MINUTE)

    assert Verification.objects.count() == 1


def test_applied_may_be_told_of_a_finding_that_ended_with_its_job() -> None:
    """To apply a change the job was restarted; anything else about an ended finding is refused still."""
    finding = found(cards(1), resolved_at=NOON + 3 * MINUTE, condition="resolved")

    with pytest.raises(MoveError, match="has ended"):
        advise_transition(finding, "dismissed", None)
    assert advise_transition(finding, "applied", None).after == "applied"


def test_only_a_verdict_concludes_and_only_what_is_applied() -> None:
    """Nobody else moves it there."""
    finding = found(cards(1))

    with pytest.raises(ValueError, match="no verdict"):
        conclude(finding, "splendid", NOON)
    assert not conclude(finding, "helped", NOON)
