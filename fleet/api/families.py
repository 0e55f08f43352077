"""The families of /metrics that come from rows: nodes, GPUs, findings, deliveries, ingest, the advisor's cycle.

Their number does not grow with the fleet; docs/how-to/scrape-the-server.md has the formula.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from django.db.models import Count, Q, QuerySet, Sum
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from advisor.finding import SEVERITIES
from fleet.api.filters import in_state
from fleet.api.fleet_readings import OTHER, FleetReadings, names
from fleet.api.serializers import STATES
from fleet.findings.models import Cycle, Finding, Opened
from fleet.ingest import intake
from fleet.inventory.models import Event, Gpu, Node, Refusal
from fleet.notify.models import DELIVERY_STATES, Delivery

READINGS: Final = FleetReadings()


class FleetCollector(Collector):
    """Nine queries a scrape, whatever the size of the fleet, and one read of the store each few seconds."""

    def collect(self) -> Iterator[Metric]:
        """The families; what was never measured has no sample, and a state that nothing is in is 0."""
        nodes = Node.objects.aggregate(**{state: Count("pk", filter=in_state(state)) for state in STATES})
        yield gauge(
            "fettle_nodes",
            "Nodes by whether they report: stale had no sample for 30 s (the pages call it unknown), unknown never had one.",
            "state",
            nodes.items(),
        )
        yield from _gpus()
        yield from _findings()
        refused = CounterMetricFamily("fettle_frames_refused", "Agents' frames that were refused.", labels=["code"])
        for code, total in Refusal.objects.order_by("code").values("code").annotate(n=Sum("total")).values_list("code", "n"):
            refused.add_metric([code], total)
        yield refused
        deliveries = _by(Delivery.objects.all(), "state", DELIVERY_STATES)
        yield gauge("fettle_deliveries", "Deliveries of findings to routes, by how far they are.", "state", deliveries.items())
        yield from _advisor()
        waiting = Event.objects.filter(handled_at=None).count()
        yield GaugeMetricFamily("fettle_events_unhandled", "Events that wait to be made findings of.", value=waiting)
        yield from _intake()
        yield from READINGS.collect()


def _gpus() -> Iterator[Metric]:
    here = Q(present=True)
    counts = Gpu.objects.order_by("model").values("model").annotate(
        n=Count("pk"),
        ok=Count("pk", filter=here & in_state("ok", "node__")),
        stale=Count("pk", filter=here & in_state("stale", "node__")),
        unknown=Count("pk", filter=~here | in_state("unknown", "node__")),
    )  # fmt: skip
    label = names(row["model"] for row in counts for _ in range(row["n"]))
    by: Counter[tuple[str, str]] = Counter()
    for row in counts:
        told = {"ok": row["ok"], "stale": row["stale"], "unknown": row["unknown"]}
        by.update({(label[row["model"]], state): told[state] for state in STATES})
    totals = {state: sum(n for (_, one), n in by.items() if one == state) for state in STATES}
    yield gauge("fettle_gpus", "GPUs by whether they report; unknown: their agent no longer lists them.", "state", totals.items())
    models = GaugeMetricFamily(
        "fettle_model_gpus", f"The same by model; those of rare models are {OTHER}.", labels=["model", "state"]
    )
    for (model, state), number in sorted(by.items()):
        models.add_metric([model, state], number)
    yield models


def _findings() -> Iterator[Metric]:
    rows = (
        Finding.objects.filter(resolved_at=None, shadow=False)
        .order_by()
        .values("rule", "severity", "condition")
        .annotate(n=Count("pk"))
    )
    counts = {(row["rule"], row["severity"], row["condition"]): row["n"] for row in rows}
    firing = dict.fromkeys(map(str, SEVERITIES), 0)
    for (_, severity, condition), number in counts.items():
        firing[severity] += number if condition == "firing" else 0
    yield gauge("fettle_findings_open", "Findings that fire now.", "severity", firing.items())
    family = GaugeMetricFamily(
        "fettle_findings",
        "Findings that are not resolved; one without any has no sample.",
        labels=["rule", "severity", "condition"],
    )
    for labels, number in sorted(counts.items()):
        family.add_metric(list(labels), number)
    yield family
    opened = CounterMetricFamily("fettle_findings_opened", "Findings that a rule ever opened.", labels=["rule"])
    for rule, total in Opened.objects.order_by("rule").values_list("rule", "total"):
        opened.add_metric([rule], total)
    yield opened


def _advisor() -> Iterator[Metric]:
    last = GaugeMetricFamily("fettle_advisor_last_run_timestamp_seconds", "When the advisor last began to judge the fleet.")
    failed = GaugeMetricFamily("fettle_advisor_last_run_failed", "1 when the advisor's newest run that ended failed, else 0.")
    took = GaugeMetricFamily(
        "fettle_advisor_last_run_seconds", "How long the advisor's newest run took; none while one is going."
    )
    cycle = Cycle.objects.filter(name="advise").first()
    if cycle is not None and cycle.started_at is not None:
        last.add_metric([], cycle.started_at.timestamp())
        failed.add_metric([], float(bool(cycle.error)))
        if cycle.ended_at is not None and cycle.ended_at >= cycle.started_at:
            took.add_metric([], (cycle.ended_at - cycle.started_at).total_seconds())
    yield from (last, failed, took)


_INTAKE_GAUGES: Final = {
    "agents": ("fettle_ingest_agents", "Agents that are connected."),
    "queue_batches": ("fettle_ingest_queue_batches", "Batches that wait to be stored."),
    "queue_bytes": ("fettle_ingest_queue_bytes", "Memory that they are taken to need."),
    "lag_s": (
        "fettle_ingest_lag_seconds",
        "How long the oldest batch of the newest write had waited; while none succeeds, since.",
    ),
    "failing": ("fettle_ingest_store_failing", "1 while the store takes nothing, else 0."),
    "forward.queue_bytes": ("fettle_forward_queue_bytes", "Telemetry that waits to be forwarded."),
    "forward.failing": ("fettle_forward_failing", "1 while the receiver takes nothing, else 0."),
    "forward.succeeded_at": ("fettle_forward_last_success_timestamp_seconds", "When the receiver last took something."),
}


def _intake() -> Iterator[Metric]:
    told = intake.newest()
    rows = CounterMetricFamily(
        "fettle_ingest_rows", "Rows that were stored, one a GPU, host, ... and second.", labels=["process", "scope"]
    )
    waited = SummaryMetricFamily(
        "fettle_ingest_wait_seconds", "Batches that were stored, and how long they waited for it.", labels=["process"]
    )
    for process, numbers in told.items():
        for name, number in sorted(numbers.items()):
            if name.startswith("rows."):
                rows.add_metric([process, name.removeprefix("rows.")], number)
        waited.add_metric([process], count_value=int(numbers["batches"]), sum_value=numbers["waited_s"])
    yield from (rows, waited)
    for name, (family, about) in _INTAKE_GAUGES.items():
        yield gauge(family, about, "process", ((process, numbers[name]) for process, numbers in told.items() if name in numbers))
    sent = CounterMetricFamily("fettle_forward_rows", "Rows that the receiver has taken.", labels=["process"])
    dropped = CounterMetricFamily(
        "fettle_forward_dropped_rows",
        "Rows that were stored and not forwarded: full: they waited too long; late: older than what was sent; refused: by the"
        " receiver; gone: of an engine that the inventory forgot; stopped: the server ended.",
        labels=["process", "reason"],
    )
    for process, numbers in told.items():
        for name, number in sorted(numbers.items()):
            if name == "forward.rows":
                sent.add_metric([process], number)
            elif name.startswith("forward.dropped."):
                dropped.add_metric([process, name.removeprefix("forward.dropped.")], number)
    yield from (sent, dropped)


def gauge(name: str, about: str, label: str, samples: Iterable[tuple[str, float]]) -> GaugeMetricFamily:
    """A family with one label, from its values."""
    family = GaugeMetricFamily(name, about, labels=[label])
    for value, number in samples:
        family.add_metric([value], number)
    return family


def _by(rows: QuerySet[Any], field: str, known: Iterable[str]) -> dict[str, int]:
    counts = rows.order_by().values(field).annotate(n=Count("pk")).values_list(field, "n")
    return dict.fromkeys(known, 0) | dict(counts)
