"""`manage.py enrolment_code`: a single-use code with which a node's install script fetches its token."""

from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from fleet.accounts.models import EnrolmentCode, node_name


class Command(BaseCommand):
    """Prints a new code once and nothing else on standard output; only its digest is kept."""

    help = "Issue a code with which one node may enrol, once; it is printed once."

    def add_arguments(self, parser: CommandParser) -> None:
        """Which node, and for how long."""
        parser.add_argument(
            "--node", default="", help="the only node that may use it; tokens that the node has are then replaced"
        )
        parser.add_argument("--hours", type=float, default=24, help="how long it may be used (24)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Make the code; CommandError for a name that no node can have or a time that makes no sense."""
        if options["node"]:
            try:
                node_name(options["node"])
            except ValidationError as error:
                raise CommandError(f"{options['node']!r}: {error.message}") from None
        if not 0 < options["hours"] <= 24 * 366:
            raise CommandError("--hours must be more than 0 and at most 8784 (a year).")
        self.stdout.write(EnrolmentCode.issue(options["node"], timedelta(hours=options["hours"])))
