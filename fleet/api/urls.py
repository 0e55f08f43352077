"""Paths under /api/v1/."""

from django.urls import path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.permissions import IsAuthenticated
from rest_framework.routers import SimpleRouter

from fleet.api.annotations import AnnotationViewSet
from fleet.api.benches import BenchRunViewSet, BenchScoreViewSet
from fleet.api.commands import CommandViewSet
from fleet.api.own_rules import OwnRuleViewSet
from fleet.api.planners import PlannersView, PlannerView
from fleet.api.profiles import ProfileViewSet
from fleet.api.rules import RuleChangeViewSet, RuleViewSet
from fleet.api.views import FindingViewSet, GpuViewSet, NodeViewSet, NothingView, SeriesView

router = SimpleRouter()
router.register("nodes", NodeViewSet)
router.register(r"nodes/(?P<node_id>[0-9]{1,18})/commands", CommandViewSet, basename="command")
router.register("gpus", GpuViewSet)
router.register("findings", FindingViewSet)
router.register("bench-runs", BenchRunViewSet)
router.register("bench-scores", BenchScoreViewSet)
router.register("annotations", AnnotationViewSet)
router.register("rules", RuleViewSet, basename="rule")
router.register("own-rules", OwnRuleViewSet)
router.register("rule-changes", RuleChangeViewSet)
router.register("profiles", ProfileViewSet)

urlpatterns = [
    *router.urls,
    path("series/", SeriesView.as_view(), name="series"),
    path("planners/", PlannersView.as_view(), name="planners-api"),
    path("planners/<slug:id>/", PlannerView.as_view(), name="planner-api"),
    path("schema/", SpectacularAPIView.as_view(permission_classes=[IsAuthenticated]), name="schema"),
    path("docs/", SpectacularSwaggerSplitView.as_view(permission_classes=[IsAuthenticated]), name="docs"),
    path("", NothingView.as_view()),
    path("<path:rest>/", NothingView.as_view()),  # last; a path without the slash is led to one with it
]
