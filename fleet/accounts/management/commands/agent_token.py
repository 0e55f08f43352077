"""`manage.py agent_token NODE`: enrol one node's agent, or take its tokens back."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.utils import timezone

from fleet.accounts.models import AgentToken, node_name


class Command(BaseCommand):
    """Prints a new token once and nothing else on standard output; only its digest is kept."""

    help = (
        "Issue a token that lets one agent speak for NODE; it is printed once. With --file: make one only where the file "
        "has none that stands. With --revoke: take NODE's tokens back."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """NODE, and --file or --revoke."""
        parser.add_argument("node", metavar="NODE", help="the node's name, as its agent will give it")
        how = parser.add_mutually_exclusive_group()
        how.add_argument(
            "--file", type=Path, metavar="PATH", help="keep the token in this file (mode 0600); one in it that stands is left"
        )
        how.add_argument("--revoke", action="store_true", help="revoke every token of NODE; its connection ends within seconds")

    def handle(self, *args: Any, **options: Any) -> None:
        """Issue, keep or revoke; CommandError for a name that no node can have, a file that cannot be used, or nothing to revoke."""
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
        if (path := options["file"]) is None:
            self.stdout.write(AgentToken.issue(node_name=node)[1])
            return
        try:
            made = _keep(node, path)
        except OSError as error:
            raise CommandError(f"The token file {path} cannot be used: {error.strerror}.") from None
        self.stderr.write(f"{path} has a new token of {node}." if made else f"The token of {node} in {path} stands.")


def _keep(node: str, path: Path) -> bool:
    """False where the file's token stands and is the node's; else True, with a new one in it. OSError: nothing was issued."""
    try:
        kept = AgentToken.of(path.read_bytes().decode(errors="replace").strip())
    except FileNotFoundError:
        kept = None
    if kept is not None and kept.node_name == node:
        return False
    with transaction.atomic():  # a file that cannot be written takes the token back
        _write(path, AgentToken.issue(node_name=node)[1] + "\n")
    return True


def _write(path: Path, text: str) -> None:
    """The file, whole or as it was: an agent may read it at any moment."""
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mode 0600
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        Path(beside).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(beside).unlink()
        raise
