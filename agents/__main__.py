"""`python -m agents CONFIG.toml`: the agent without the rest of Fettle."""

import sys
from pathlib import Path

from agents import app, config


def main(arguments: list[str]) -> int:
    """0 after a clean end, 2 when the settings cannot be used."""
    try:
        return app.run(config.load(Path(arguments[0]) if arguments else None, {}))
    except config.ConfigError as error:
        sys.stderr.write(f"fettle agent: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
