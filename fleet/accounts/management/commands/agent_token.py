"""`manage.py agent_token NODE`: enrol one node's agent, or take its tokens back."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from fleet.accounts.models import AgentToken, node_name


class Command(BaseCommand):
    """Prints a new token once and nothing else on standard output; only its digest is kept."""

    help = "Issue a token that lets one agent speak for NODE; it is printed once. With --revoke: take NODE's tokens back."

    def add_arguments(self, parser: CommandParser) -> None:
        """NODE, and --revoke."""
        parser.add_argument("node", metavar="NODE", help="the node's name, as its agent will give it")
        parser.add_argument(
            "--revoke", action="store_true", help="revoke every token of NODE; its connection ends within seconds"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Issue or revoke; CommandError for a name that no node can have, or when there is nothing to revoke."""
        node: str = options["node"]
        if options["revoke"]:
            revoked = AgentToken.objects.filter(node_name=node, revoked_at=None).update(revoked_at=timezone.now())
            if not revoked:
                raise CommandError(f"{node} has no token to revoke.")
            self.stderr.write(f"{revoked} token(s) of {node} revoked.")
            return
        try:
            node_name(node)
        except ValidationError as error:
            raise CommandError(f"{node!r}: {error.message}") from None
        _, token = AgentToken.issue(node_name=node)
        self.stdout.write(token)
