"""`manage.py api_token USER NAME [--write | --scope SCOPE…] [--days DAYS]`: a token for the REST API, printed once."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from fleet.accounts.models import SCOPES, ApiToken, User


class Command(BaseCommand):
    """Issues a token that lets a program call the API as one person."""

    help = "Issue a token for the REST API and print it; it cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        """Whose token, what for, what it may do and for how long."""
        parser.add_argument("user", help="The user name of the person whom the token acts for.")
        parser.add_argument("name", help="What the token is for, such as the program's name.")
        reach = parser.add_mutually_exclusive_group()
        reach.add_argument("--write", action="store_true", help="Let it change what its person may; without this it only reads.")
        reach.add_argument(
            "--scope",
            action="append",
            choices=SCOPES,
            default=[],
            help="All that it may do; give it again for more. "
            + "; ".join(f"{name}: {does}" for name, does in SCOPES.items())
            + ". Its person needs the right to it, too.",
        )
        parser.add_argument("--days", type=float, help="How long it may be used; without this until it is revoked.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Make the token and print it alone on its line."""
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"No active user is named {options['user']!r}.")
        days: float | None = options["days"]
        if days is not None and not 0 < days <= 3660:
            raise CommandError("--days must be more than 0 and at most 3660 (ten years).")
        _, token = ApiToken.issue(
            user=user,
            name=options["name"],
            may_write=options["write"],
            scopes=sorted(set(options["scope"])),
            expires_at=None if days is None else timezone.now() + timedelta(days=days),
        )
        self.stdout.write(token)
