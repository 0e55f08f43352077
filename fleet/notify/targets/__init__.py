"""Apprise's targets that are ours: services it does not know, and those whose alerts it would not close."""


def register() -> None:
    """Make Apprise use them; once in a process."""
    from apprise.manager_plugins import NotificationManager

    from fleet.notify.targets.alertmanager import NotifyAlertmanager
    from fleet.notify.targets.opsgenie import NotifyOpsgenieAlerts
    from fleet.notify.targets.pagerduty import NotifyPagerDutyEvents

    known = NotificationManager()
    for target, schema in (
        (NotifyAlertmanager, "alertmanagers"),
        (NotifyPagerDutyEvents, "pagerduty"),
        (NotifyOpsgenieAlerts, "opsgenie"),
    ):
        if schema not in known or known[schema] is not target:
            known.add(target, force=True)
