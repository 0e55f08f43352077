"""The pages and the JSON fragments that their scripts ask for."""

from django.contrib.auth import views as auth
from django.urls import include, path, register_converter

from fleet.dashboard.views import (
    advice,
    commands,
    families,
    findings,
    gpus,
    icon,
    jobs,
    nodes,
    overview,
    own_rules,
    planners,
    rules,
)


class NodeName:
    """A node's name in an address, recordings' with slashes too; PostgreSQL cannot look up one with a NUL in it."""

    regex = r"[^\x00-\x1f\x7f]+"

    def to_python(self, value: str) -> str:
        """As it is."""
        return value

    def to_url(self, value: str) -> str:
        """As it is."""
        return value


register_converter(NodeName, "node")

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("fleet.json", overview.heat_map, name="heat-map"),
    path("nodes/<node:name>/command/", commands.command, name="node-command"),
    path("nodes/<node:name>/", nodes.node, name="node"),
    path("gpus/<int:gpu_id>/", gpus.gpu, name="gpu"),
    path("gpus/<int:gpu_id>/series.json", gpus.series, name="gpu-series"),
    path("families/<node:name>/", families.family, name="family"),
    path("findings/", findings.findings, name="findings"),
    path("findings/<int:finding_id>/", findings.finding, name="finding"),
    path("findings/<int:finding_id>/evidence.json", findings.evidence, name="finding-evidence"),
    path("findings/<int:finding_id>/decide/", findings.decide, name="finding-decide"),
    path("jobs/", jobs.jobs, name="jobs"),
    path("jobs/<int:job_id>/", jobs.job, name="job"),
    path("advice/", advice.advice, name="advice"),
    path("advice/<int:verification_id>/chart.json", advice.chart, name="verdict-chart"),
    path("planners/", planners.planners, name="planners"),
    path("planners/<slug:name>/", planners.planner, name="planner"),
    path("rules/", rules.rules, name="rules"),
    path("rules/new/", own_rules.new, name="own-rule-new"),
    path("rules/<slug:rule_id>/", rules.rule, name="rule"),
    path("rules/<slug:rule_id>/state/", rules.state, name="rule-state"),
    path("rules/<slug:rule_id>/override/", rules.override, name="rule-override"),
    path("rules/<slug:rule_id>/edit/", own_rules.edit, name="own-rule-edit"),
    path("rules/<slug:rule_id>/try/", own_rules.try_it, name="own-rule-try"),
    path("rules/<slug:rule_id>/remove/", own_rules.remove, name="own-rule-remove"),
    path("favicon.ico", icon.favicon),
    path("login/", auth.LoginView.as_view(template_name="dashboard/login.html", redirect_authenticated_user=True), name="login"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("i18n/", include("django.conf.urls.i18n")),
]
