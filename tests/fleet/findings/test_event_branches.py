"""What of an event makes a finding and what does not: sub-codes, switches, planned work, debuggers, whose fault it is, what the site says."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from fleet.accounts.models import User
from fleet.annotations.models import Annotation
from fleet.findings import faults
from fleet.findings.models import Finding
from fleet.findings.tasks import event_arrived
from fleet.inventory.models import Event, Gpu, Node
from fleet.tuning.changes import TuneError
from fleet.tuning.models import RuleChange
from fleet.tuning.xid_changes import WantedXid, set_xid
from tests.fleet.rows import event, gpu, node, person

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh() -> None:
    """What was read of faults in another test's database."""
    faults.forget()


def told(of: Gpu | None, code: int | None, kind: str = "xid", home: Node | None = None, **more: Any) -> Event:
    """An event that was handled; `details` and `severity` as its source gives them."""
    if of is not None:
        one = event(of, code, kind, at=more.pop("at", None), text=more.pop("text", ""))
    else:
        assert home is not None
        one = Event.objects.create(
            node=home, boot="b", seq=Event.objects.count() + 10_000, kind=kind, code=code, observed_at=timezone.now()
        )
    if more:
        Event.objects.filter(pk=one.pk).update(**more)
    event_arrived(one.pk)
    return one


def steps(row: Finding) -> str:
    """Its change, as one text."""
    return "\n".join(step["text"] for step in row.content["change"])


def test_the_recovery_action_decides_what_to_do() -> None:
    """XID 154 that asks for a reboot says so, and names no reset of one GPU."""
    told(gpu(node()), 154, details={"recovery_action": 2})

    row = Finding.objects.get()
    assert row.rule == "gpu-reset-required"
    assert "scontrol reboot" in steps(row)
    assert "nvidia-smi -i" not in steps(row)


def test_the_driver_calls_its_request_off() -> None:
    """XID 154 that goes back to none is the one certain word that the request is over; alone it opens nothing."""
    card = gpu(node())
    at = timezone.now() - timedelta(minutes=5)
    told(card, 154, details={"recovery_action": 0}, at=at - timedelta(minutes=1))
    assert not Finding.objects.exists()

    told(card, 119, at=at)
    told(card, 154, details={"recovery_action": 0})
    assert Finding.objects.get().condition == "resolved"


@pytest.mark.parametrize(
    ("severity", "sub_code", "expected"),
    [("critical", 37, "critical"), ("info", 0, "advice"), ("critical", 38, "advice"), ("", None, "critical")],
)
def test_an_nvlink_line_says_itself_how_bad_it_is(severity: str, sub_code: int | None, expected: str) -> None:
    """Fatal, not fatal, or a sub-code after which NVIDIA asks for nothing; without a word the rule's severity stands."""
    told(gpu(node()), 149, severity=severity, details={} if sub_code is None else {"sub_code": sub_code})

    row = Finding.objects.get()
    assert (row.rule, row.severity) == ("nvlink-fault", expected)


def test_a_switch_that_fails_is_an_alert_of_its_node() -> None:
    """A fatal SXid is critical at once, and what is not fatal does not make it less that day."""
    home = node()
    told(None, 19084, "sxid", home, severity="info", details={"fatal": 0})
    assert Finding.objects.get().severity == "advice"

    told(None, 20034, "sxid", home, severity="critical", details={"fatal": 1})
    told(None, 19084, "sxid", home, severity="info", details={"fatal": 0})
    row = Finding.objects.get()
    assert (row.rule, row.scope, row.target, row.severity, row.seen_total) == (
        "nvswitch-fault",
        "node",
        str(home.pk),
        "critical",
        3,
    )
    assert row.content["summary"]["params"]["code"] == 20034


@pytest.mark.parametrize("code", [79, 119, 154, 74, 48, 95])
def test_planned_work_is_no_fault(code: int) -> None:
    """On a node in maintenance a reset, a swap or an injected error opens nothing; the event is kept."""
    home = node()
    Annotation.objects.create(scope="node", target="n1", key="maintenance", value=True, at=timezone.now())
    told(gpu(home), code)

    assert not Finding.objects.exists()
    assert Event.objects.get().handled_at is not None


def test_a_spent_row_is_told_in_maintenance_too() -> None:
    """Nobody plans a remapping that fails."""
    home = node()
    Annotation.objects.create(scope="node", target="n1", key="maintenance", value=True, at=timezone.now())
    told(gpu(home), 64)

    assert Finding.objects.get().rule == "row-remap-failed"


@pytest.mark.parametrize("code", [109, 13])
def test_a_debugger_stops_a_gpu_on_purpose(code: int) -> None:
    """Of cuda-gdb nothing is told; of the same code from a program it is."""
    card = gpu(node())
    told(card, code, details={"process": "cuda-gdb"})
    assert not Finding.objects.exists()

    told(card, code, details={"process": "python3"})
    assert Finding.objects.exists()


@pytest.mark.parametrize(("after_s", "opens"), [(30, False), (600, True)])
def test_links_err_until_the_fabric_manager_is_up(after_s: float, opens: bool) -> None:
    """Right after a boot an NVLink error is none; later it is."""
    home = node(booted_at=timezone.now() - timedelta(seconds=after_s))
    told(gpu(home), 74)

    assert Finding.objects.exists() is opens


def test_a_privilege_error_of_nvlink_alone_is_benign() -> None:
    """XID 137 counts beside another fault of a link, not beside a program's."""
    card = gpu(node())
    told(card, 137)
    told(card, 31)
    assert not Finding.objects.filter(rule="nvlink-fault").exists()

    told(card, 145)
    told(card, 137)
    assert Finding.objects.get(rule="nvlink-fault").seen_total == 3  # the first one too: now it is known what it followed


def test_a_contained_error_costs_its_program_alone() -> None:
    """XID 94: start the job again, reset later; 95: drain and reset."""
    home = node()
    told(gpu(home), 94)
    told(gpu(home, 1), 95)

    contained, other = (steps(row) for row in Finding.objects.order_by("id"))
    assert "start the job again" in contained
    assert "state=drain" not in contained
    assert "state=drain" in other


def test_an_error_that_nvml_reports_without_a_code_is_told() -> None:
    """NVML's event of a double-bit error is evidence too; that of a corrected one is not."""
    card = gpu(node())
    told(card, 1, "ecc")
    assert not Finding.objects.exists()

    told(card, 2, "ecc")
    assert Finding.objects.get().rule == "uncorrectable-ecc"


def test_a_fault_of_a_gpu_that_nobody_can_name_is_the_nodes() -> None:
    """The kernel may name an address that no agent ever listed; nothing is done to a card without a name."""
    home = node()
    told(None, 79, home=home)

    row = Finding.objects.get()
    assert (row.rule, row.scope, row.target) == ("xid-fallen-off-bus", "node", str(home.pk))
    assert "nvidia-smi -i" not in steps(row)


def test_one_program_that_faults_on_two_gpus_has_a_fault_of_its_own() -> None:
    """Same program, two GPUs, thirty days: its code."""
    home = node()
    text = "XID 31 on the GPU at 0000:01:00, process 7 (train)."
    told(gpu(home), 31, text=text, at=timezone.now() - timedelta(days=20))
    faults.forget()
    told(gpu(home, 1), 31, text=text)

    row = Finding.objects.order_by("-id").first()
    assert row is not None
    assert "points at its code" in row.content["summary"]["id"]
    assert row.severity == "advice"


def test_two_programs_that_fault_on_one_gpu_speak_against_the_card() -> None:
    """Same GPU, two programs: the hardware, and the advice is to diagnose it."""
    card = gpu(node())
    told(card, 31, text="XID 31 on the GPU at 0000:01:00, process 7 (train).", at=timezone.now() - timedelta(days=20))
    Finding.objects.all().delete()
    faults.forget()
    told(card, 13, text="XID 13 on the GPU at 0000:01:00, process 9 (serve).")

    row = Finding.objects.get()
    assert "points at the hardware" in row.content["summary"]["id"]
    assert row.severity == "warn"
    assert "compute-sanitizer" not in steps(row)


def test_a_code_means_what_the_driver_meant_by_it() -> None:
    """144 was another code's name before driver 560."""
    told(gpu(node(driver_version="550.90.07")), 144)

    assert Finding.objects.get().content["summary"]["params"]["meaning"] == "key rotation error"


@pytest.fixture
def operator() -> User:
    """Who sets what codes mean."""
    return person("olga")


def test_a_site_gives_a_code_another_severity(operator: User) -> None:
    """The narrowest that matches is in force, and each change has its line in the audit trail."""
    set_xid("xid", 31, [WantedXid(severity="critical"), WantedXid("node", "lab*", severity="info")], operator, "users complain")
    told(gpu(node("n1")), 31)
    told(gpu(node("lab1")), 31)

    assert dict(Finding.objects.values_list("node__name", "severity")) == {"n1": "critical", "lab1": "info"}
    assert RuleChange.objects.filter(rule="xid-31", what="xid", by_name="olga").count() == 2


def test_a_site_ignores_a_code_on_one_model(operator: User) -> None:
    """The event is kept, nothing is opened; other models go on."""
    set_xid("xid", 92, [WantedXid("gpu_model", "*L4*", ignored=True)], operator)
    told(gpu(node(), model="NVIDIA L4"), 92)
    assert not Finding.objects.exists()

    told(gpu(node("n2")), 92)
    assert Finding.objects.get().rule == "correctable-ecc-rate"


def test_a_site_says_what_an_unknown_code_is(operator: User) -> None:
    """Evidence for the rule that it names, with that rule's advice."""
    set_xid("xid", 999, [WantedXid("partition", "gpu-*", rule="gpu-reset-required")], operator)
    home = node()
    Annotation.objects.create(scope="node", target="n1", key="partition", value="gpu-long", at=timezone.now())
    told(gpu(home), 999)

    row = Finding.objects.get()
    assert (row.rule, row.severity) == ("gpu-reset-required", "critical")
    set_xid("xid", 999, [WantedXid("partition", "gpu-*", removed=True)], operator)
    told(gpu(home, 1), 999)
    assert Finding.objects.filter(rule="xid-unknown").exists()


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("xid", WantedXid(rule="node-silent")), ("xid", WantedXid(severity="loud")), ("xid", WantedXid("job", "x", ignored=True)),
        ("xid", WantedXid("node", "", ignored=True)), ("xid", WantedXid()), ("xid", WantedXid("node", "x", removed=True)), ("xid", WantedXid(ignored=True)),
        ("sxid", WantedXid(rule="nvlink-fault")), ("mxid", WantedXid(ignored=True)),
    ],
)  # fmt: skip
def test_what_cannot_be_set_is_refused_with_a_sentence(operator: User, kind: str, wanted: WantedXid) -> None:
    """Nothing of it is written."""
    with pytest.raises(TuneError):
        set_xid(kind, 31, [WantedXid(severity="warn"), wanted], operator)

    assert not RuleChange.objects.exists()
