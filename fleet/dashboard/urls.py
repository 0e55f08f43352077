"""The pages and the JSON fragments that their scripts ask for."""

from django.contrib.auth import views as auth
from django.urls import include, path, register_converter

from fleet.dashboard.views import (
    ack_link,
    advice,
    alerts,
    commands,
    deliveries,
    dry_run,
    families,
    findings,
    gpus,
    icon,
    jobs,
    nodes,
    overview,
    own_rules,
    planners,
    routes,
    rules,
    silences,
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
    path("alerts/", alerts.alerts, name="alerts"),
    path("alerts/acknowledge/", alerts.look_after, name="alerts-acknowledge"),
    path("alerts/acknowledge/<str:token>/", ack_link.ack_link, name="ack-link"),
    path("alerts/silences/", silences.silences, name="silences"),
    path("alerts/silences/new/", silences.new, name="silence-new"),
    path("alerts/silences/<int:silence_id>/end/", silences.end, name="silence-end"),
    path("alerts/maintenance/", silences.maintain, name="maintenance"),
    path("alerts/maintenance/<int:annotation_id>/end/", silences.maintained, name="maintenance-end"),
    path("alerts/routes/", routes.routes, name="routes"),
    path("alerts/routes/new/", routes.new, name="route-new"),
    path("alerts/routes/try/", dry_run.try_it, name="route-try"),
    path("alerts/routes/<int:route_id>/", routes.route, name="route"),
    path("alerts/routes/<int:route_id>/act/", routes.act, name="route-act"),
    path("alerts/inhibitions/new/", routes.inhibition, name="inhibition-new"),
    path("alerts/inhibitions/<int:inhibition_id>/", routes.inhibition, name="inhibition"),
    path("alerts/deliveries/", deliveries.deliveries, name="deliveries"),
    path("alerts/deliveries/send-again/", deliveries.send_again, name="send-again"),
    path("alerts/noise/", deliveries.noisy, name="noise-report"),
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
