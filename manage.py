#!/usr/bin/env python
"""Django's command line; `manage.py up` starts everything."""

import os
import sys


def main() -> None:
    """Run one management command."""
    if sys.argv[1:2] == ["up"]:  # before the settings are read: it makes what they need
        from config.up import main as up

        sys.exit(up(sys.argv[2:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    from config.env import SettingError

    try:
        execute_from_command_line(sys.argv)
    except SettingError as error:
        sys.exit(f"fettle: {error}")


if __name__ == "__main__":
    main()
