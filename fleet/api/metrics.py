"""/metrics: what Prometheus may know of the server itself, read from the database at each scrape.

Counts of a few states only, so a fleet of any size is a page of this length; the GPUs' own readings are not here.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from django.db.models import Count, Q, QuerySet, Sum
from django.http import HttpResponse
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from rest_framework.request import Request
from rest_framework.views import APIView

from advisor.finding import SEVERITIES
from fleet.api.filters import in_state
from fleet.api.serializers import STATES
from fleet.findings.models import Cycle, Finding
from fleet.inventory.models import Event, Gpu, Node, Refusal
from fleet.notify.models import DELIVERY_STATES, Delivery


class FleetCollector(Collector):
    """Seven queries a scrape, whatever the size of the fleet."""

    def collect(self) -> Iterator[Metric]:
        """The families; what was never measured has no sample, and a state that nothing is in is 0."""
        nodes = Node.objects.aggregate(**{state: Count("pk", filter=in_state(state)) for state in STATES})
        yield _gauge(
            "fettle_nodes",
            "Nodes by whether they report: stale had no sample for 30 s (the pages call it unknown), unknown never had one.",
            "state",
            nodes.items(),
        )
        here = Q(present=True)
        gpus = Gpu.objects.aggregate(
            ok=Count("pk", filter=here & in_state("ok", "node__")),
            stale=Count("pk", filter=here & in_state("stale", "node__")),
            unknown=Count("pk", filter=~here | in_state("unknown", "node__")),
        )
        yield _gauge(
            "fettle_gpus", "GPUs by whether they report; unknown: their agent no longer lists them.", "state", gpus.items()
        )
        firing = Finding.objects.filter(condition="firing", resolved_at=None)
        findings = _by(firing, "severity", SEVERITIES)
        yield _gauge("fettle_findings_open", "Findings that fire now.", "severity", findings.items())
        refused = CounterMetricFamily("fettle_frames_refused", "Agents' frames that were refused.", labels=["code"])
        for code, total in Refusal.objects.order_by("code").values("code").annotate(n=Sum("total")).values_list("code", "n"):
            refused.add_metric([code], total)
        yield refused
        deliveries = _by(Delivery.objects.all(), "state", DELIVERY_STATES)
        yield _gauge("fettle_deliveries", "Deliveries of findings to routes, by how far they are.", "state", deliveries.items())
        yield from _advisor()
        waiting = Event.objects.filter(handled_at=None).count()
        yield GaugeMetricFamily("fettle_events_unhandled", "Events that wait to be made findings of.", value=waiting)


def _advisor() -> Iterator[Metric]:
    last = GaugeMetricFamily("fettle_advisor_last_run_timestamp_seconds", "When the advisor last began to judge the fleet.")
    failed = GaugeMetricFamily("fettle_advisor_last_run_failed", "1 when the advisor's newest run that ended failed, else 0.")
    cycle = Cycle.objects.filter(name="advise").first()
    if cycle is not None and cycle.started_at is not None:
        last.add_metric([], cycle.started_at.timestamp())
        failed.add_metric([], float(bool(cycle.error)))
    yield last
    yield failed


def _gauge(name: str, about: str, label: str, samples: Iterable[tuple[str, int]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about, labels=[label])
    for value, number in samples:
        family.add_metric([value], number)
    return family


def _by(rows: QuerySet[Any], field: str, known: Iterable[str]) -> dict[str, int]:
    counts = rows.order_by().values(field).annotate(n=Count("pk")).values_list(field, "n")
    return dict.fromkeys(known, 0) | dict(counts)


REGISTRY: Final = CollectorRegistry()
REGISTRY.register(FleetCollector())


class MetricsView(APIView):
    """The page, for a person with a session and for a program with a token."""

    schema = None  # no part of the REST API

    def get(self, request: Request) -> HttpResponse:
        """The text that the caller's Accept asks for: Prometheus's or OpenMetrics."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return HttpResponse(encode(REGISTRY), content_type=content_type, headers={"Cache-Control": "no-store"})

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Whatever the Accept: the encoder above reads it."""
        return super().perform_content_negotiation(request, force=True)
