"""`manage.py route_test NAME`: send a test message through one route, now."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from fleet.notify.models import Route
from fleet.notify.trial import trial


class Command(BaseCommand):
    """Sends a test message and says what became of it."""

    help = "Send a test message through one route and say what became of it."

    def add_arguments(self, parser: CommandParser) -> None:
        """The route's name."""
        parser.add_argument("name", help="The route's name.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Send, then report; exit code 1 when the target did not take it."""
        route = Route.objects.filter(name=options["name"]).first()
        if route is None:
            known = ", ".join(Route.objects.order_by("name").values_list("name", flat=True)) or "none"
            raise CommandError(f"No route is named {options['name']!r}. Known: {known}.")
        outcome = trial(route)
        if not outcome.sent:
            raise CommandError(f"Not sent: {outcome.error}")
        self.stdout.write(f"Sent a test message through {route.name}. Links will begin with {settings.FETTLE_BASE_URL}.")
