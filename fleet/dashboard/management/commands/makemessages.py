"""`manage.py makemessages` for this tree: its one language, what to leave out, texts that mean their per cent sign, and rules' prose."""

import json
import tempfile
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandParser
from django.core.management.commands import makemessages

from advisor import prose

LEFT_OUT: Final = (".venv", "data", "tests", "lab", "build", "staticfiles", ".scratch")


class Command(makemessages.Command):
    """Django's command with this tree's options; needs GNU gettext."""

    # The advisor writes "8 % over 200 steps" in brace formats; xgettext would take "% o" for an octal number.
    xgettext_options = [*makemessages.Command.xgettext_options, "--flag=_:1:no-python-format"]

    def add_arguments(self, parser: CommandParser) -> None:
        """Django's arguments with defaults under which a second run changes nothing."""
        super().add_arguments(parser)
        parser.set_defaults(locale=["zh_Hans"], ignore_patterns=list(LEFT_OUT), no_location=True, no_wrap=True, no_obsolete=True)

    def handle(self, *args: Any, **options: Any) -> None:
        """Collect the texts into locale/zh_Hans/LC_MESSAGES/django.po."""
        with tempfile.TemporaryDirectory() as folder:
            self.prose = Path(folder) / "prose.py"
            self.prose.write_text(
                "".join(f"_({json.dumps(text, ensure_ascii=False)})\n" for text in sorted(set(prose.texts()))), encoding="utf-8"
            )
            super().handle(*args, **options)

    def find_files(self, root: str) -> list[makemessages.TranslatableFile]:
        """The tree's files, and one with what the rules say in docstrings and comments: xgettext reads neither."""
        found: list[makemessages.TranslatableFile] = super().find_files(root)
        found = [
            one for one in found if not Path(one.dirpath).is_relative_to("bench")
        ]  # a pattern would leave agents/bench out too
        return [*found, makemessages.TranslatableFile(str(self.prose.parent), self.prose.name, self.default_locale_path)]
