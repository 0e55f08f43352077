"""People, routes and deliveries for the tests of the alerts' pages."""

from typing import Any
from uuid import uuid4

from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from fleet.accounts.models import User
from fleet.findings.models import Finding
from fleet.notify.models import Delivery, Route
from tests.fleet.dashboard.fleet_rows import make_finding, make_node

SECRET = "json://127.0.0.1:1/T0kenThatNobodyMaySee"
EVIL = "<script>alert(1)</script>"


def person(role: str) -> Client:
    """A browser in which somebody of the role is logged in."""
    user = User.objects.create_user(f"the {role}", password="x")
    user.groups.add(Group.objects.get(name=role))
    client = Client()
    client.force_login(user)
    return client


def alert(node: str = "gpu-01", severity: str = "critical", rule: str = "xid-79", **more: Any) -> Finding:
    """A firing alert on a node of its own."""
    return make_finding(make_node(node, 1), rule=rule, severity=severity, target=node, **more)


def route(name: str = "ops", **more: object) -> Route:
    """A route whose URL is a secret."""
    return Route.objects.create(name=name, url=SECRET, **more)


def delivery(finding: Finding, to: Route, state: str = "sent", **more: object) -> Delivery:
    """What became of the newest change of the finding on the route."""
    sent_at = timezone.now() if state == "sent" else None
    newest = finding.transitions.filter(axis="condition").latest("pk")
    return Delivery.objects.create(route=to, transition=newest, key=uuid4().hex, state=state, sent_at=sent_at, **more)


def text(client: Client, path: str, status: int = 200) -> str:
    """The page's HTML, its white space drawn together."""
    answer = client.get(path)
    assert answer.status_code == status, answer.status_code
    return " ".join(answer.content.decode().split())
