"""Which app answers which path."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", include("fleet.api.urls")),
    path("", include("fleet.dashboard.urls")),
]
