"""`manage.py api_token USER NAME [--write]`: a token for the REST API, printed once."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fleet.accounts.models import ApiToken, User


class Command(BaseCommand):
    """Issues a token that lets a program call the API as one person."""

    help = "Issue a token for the REST API and print it; it cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        """Whose token, what for, and whether it may change things."""
        parser.add_argument("user", help="The user name of the person whom the token acts for.")
        parser.add_argument("name", help="What the token is for, such as the program's name.")
        parser.add_argument("--write", action="store_true", help="Let it change things; without this it only reads.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Make the token and print it alone on its line."""
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"No active user is named {options['user']!r}.")
        _, token = ApiToken.issue(user=user, name=options["name"], may_write=options["write"])
        self.stdout.write(token)
