"""Which app answers which path."""

from django.contrib import admin
from django.urls import include, path

from fleet.api.gpu_metrics import GpuMetricsView
from fleet.api.health import healthz, readyz
from fleet.api.metrics import MetricsView

handler400 = "fleet.api.errors.bad_request"
handler500 = "fleet.api.errors.server_error"

urlpatterns = [
    path("admin/", admin.site.urls),
    path("healthz", healthz),
    path("readyz", readyz),
    path("metrics", MetricsView.as_view()),
    path("metrics/gpus", GpuMetricsView.as_view()),
    path("agent/", include("fleet.accounts.urls")),
    path("api/v1/", include("fleet.api.urls")),
    path("", include("fleet.dashboard.urls")),
]
