"""A row of each kind that alerts have: by the name of its list its id."""

from datetime import timedelta
from uuid import uuid4

from django.utils import timezone

from fleet.findings.models import Finding
from fleet.notify.models import Delivery, Inhibition, Route, Silence

RULES = [{"label": "rule", "op": "in", "values": ["no-such-rule"]}]


def alerting(finding: Finding) -> dict[str, int]:
    """The ids by list: routes, silences, inhibitions, deliveries (a dead one of the finding)."""
    route = Route.objects.create(name="chat", url="json://127.0.0.1:9/", enabled=False)
    silence = Silence.objects.create(
        matchers=RULES, ends_at=timezone.now() + timedelta(hours=1), comment="Known", by_name="alice"
    )
    inhibition = Inhibition.objects.create(name="none", source=RULES, target=RULES)
    transition = finding.transitions.order_by("-pk")[0]
    dead = Delivery.objects.create(route=route, transition=transition, state="dead", key=uuid4().hex)
    return {"routes": route.pk, "silences": silence.pk, "inhibitions": inhibition.pk, "deliveries": dead.pk}
