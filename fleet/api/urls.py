"""Paths under /api/v1/."""

from django.urls import path, re_path
from rest_framework.routers import SimpleRouter

from fleet.api.alertmanager import AlertmanagerView
from fleet.api.annotations import AnnotationViewSet
from fleet.api.baselines import BaselineView, PowerFloorsView
from fleet.api.benches import BenchRunViewSet, BenchScoreViewSet
from fleet.api.commands import CommandViewSet
from fleet.api.coverage import CoverageView
from fleet.api.deliveries import DeliveryViewSet, NoiseView
from fleet.api.job_report import JobReportView
from fleet.api.jobs import JobViewSet
from fleet.api.node_health import GPU, NODE, FleetHealthView, GpuHealthView, NodeHealthView
from fleet.api.own_rules import OwnRuleViewSet
from fleet.api.placements import PlacementsView
from fleet.api.planners import PlannersView, PlannerView
from fleet.api.profiles import ProfileViewSet
from fleet.api.routes import RouteViewSet
from fleet.api.rules import RuleChangeViewSet, RuleViewSet
from fleet.api.schema import DocsView, SchemaView
from fleet.api.silences import InhibitionViewSet, SilenceViewSet
from fleet.api.verifications import RecordViewSet, VerificationViewSet
from fleet.api.views import FindingViewSet, GpuViewSet, NodeViewSet, NothingView, SeriesView, SlashlessView
from fleet.api.xids import XidViewSet

router = SimpleRouter()
router.register("nodes", NodeViewSet)
router.register(r"nodes/(?P<node_id>[0-9]{1,18})/commands", CommandViewSet, basename="command")
router.register("gpus", GpuViewSet)
router.register("findings", FindingViewSet)
router.register("bench-runs", BenchRunViewSet)
router.register("bench-scores", BenchScoreViewSet)
router.register("jobs", JobViewSet)
router.register("annotations", AnnotationViewSet)
router.register("rules", RuleViewSet, basename="rule")
router.register("own-rules", OwnRuleViewSet)
router.register("rule-changes", RuleChangeViewSet)
router.register("xids", XidViewSet, basename="xid")
router.register("routes", RouteViewSet)
router.register("silences", SilenceViewSet)
router.register("inhibitions", InhibitionViewSet)
router.register("deliveries", DeliveryViewSet)
router.register("profiles", ProfileViewSet)
router.register("verifications", VerificationViewSet)
router.register("verification-records", RecordViewSet, basename="verification-record")

urlpatterns = [
    *router.urls,
    re_path(rf"^nodes/{NODE}/health/$", NodeHealthView.as_view(), name="node-health"),
    re_path(rf"^gpus/{GPU}/health/$", GpuHealthView.as_view(), name="gpu-health"),
    re_path(r"^jobs/(?P<id>[0-9]{1,18})/report/$", JobReportView.as_view(), name="job-report"),
    path("health/", FleetHealthView.as_view(), name="fleet-health"),
    path("alertmanager/", AlertmanagerView.as_view(), name="alertmanager"),
    path("placements/", PlacementsView.as_view(), name="placements"),
    re_path(r"^jobs/(?P<id>[0-9]{1,18})/baseline/$", BaselineView.as_view(), name="job-baseline"),
    path("power-floors/", PowerFloorsView.as_view(), name="power-floors"),
    path("series/", SeriesView.as_view(), name="series"),
    path("coverage/", CoverageView.as_view(), name="coverage"),
    path("noise/", NoiseView.as_view(), name="noise"),
    path("planners/", PlannersView.as_view(), name="planners-api"),
    path("planners/<slug:id>/", PlannerView.as_view(), name="planner-api"),
    path("schema/", SchemaView.as_view(), name="schema"),
    path("docs/", DocsView.as_view(), name="docs"),
    re_path(r"\A(?:[\s\S]*/)?\Z", NothingView.as_view()),  # last, and of every path, whatever signs it holds
    re_path(r"[\s\S]", SlashlessView.as_view()),
]
