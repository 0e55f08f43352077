"""Which app answers which path."""

from django.contrib import admin
from django.urls import include, path

from fleet.api.health import healthz, readyz

urlpatterns = [
    path("admin/", admin.site.urls),
    path("healthz", healthz),
    path("readyz", readyz),
    path("api/v1/", include("fleet.api.urls")),
    path("", include("fleet.dashboard.urls")),
]
