"""`fettle agent`: stream this node's telemetry to a server, play recordings, print one tick, or speak with a running agent."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cli.language import _, gettext_noop, said
from cli.parser import RawHelp
from cli.unknown import parsed

if TYPE_CHECKING:
    from agents.config import AgentConfig

HELP = gettext_noop(
    "Stream this node's GPU, host and process telemetry to a server, print one tick, or speak with the agent that runs."
)
DOINGS = {
    "run": gettext_noop("stream (what happens without a word)"),
    "doctor": gettext_noop("tell what works here, what does not, why, and what to do; exit code 1 when something is wrong"),
    "status": gettext_noop("ask the agent that runs on this node"),
    "pause-profiling": gettext_noop("let another profiler have the counters for a while (--for)"),
    "release": gettext_noop("close every handle of the driver for a while (--for), so that it can be unloaded"),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags: one for each setting, and those that are no setting."""
    from agents.config import settings

    parser.formatter_class = RawHelp
    parser.description = f"{_(HELP)}\n\n" + "\n".join(f"  {word:<16} {_(about)}" for word, about in DOINGS.items())
    parser.epilog = _(
        "Each setting may also stand in the --config file (spool_max_mb = 64) or in the environment (FETTLE_AGENT_SPOOL_MAX_MB); "
        "flags win over the environment, and that over the file."
    )
    parser.add_argument("do", nargs="?", default="run", metavar="WORD", help=_("one of the words above"))
    parser.add_argument("--config", type=Path, metavar="FILE", help=_("TOML file with the settings below"))
    parser.add_argument("--once", action="store_true", help=_("read everything once, print it and end; no server needed"))
    parser.add_argument("--json", action="store_true", help=_("with --once, doctor and status: print JSON"))
    parser.add_argument("--for", dest="duration", metavar="TIME", help=_("with pause-profiling and release: 90s, 10m, 2h (10m)"))
    for setting in settings():
        about = _(setting.about).replace("`", "").replace("%", "%%")
        if isinstance(setting.default, bool):
            parser.add_argument(setting.flag, dest=setting.name, action=argparse.BooleanOptionalAction, default=None, help=about)
            continue
        if setting.default not in (None, "", ()):
            about += f" ({setting.default})"
        parser.add_argument(
            setting.flag,
            dest=setting.name,
            nargs="+" if setting.is_list else None,
            choices=setting.choices or None,
            metavar=setting.metavar or None,
            help=about,
        )


def call(options: argparse.Namespace) -> int:
    """0 after a clean end; 1 where another agent runs or something is wrong; 2 with a sentence where the settings cannot be used."""
    from agents import config
    from wire.terminal import printable

    if options.do not in DOINGS:  # judged here and not by argparse, which would take the value of a flag that is not known for it
        says = _("there is no {word}; there are {known}.").format(word=options.do, known=", ".join(DOINGS))
        print(f"fettle agent: {says}", file=sys.stderr)
        return 2
    names = {setting.name for setting in config.settings()}
    flags = {name: value for name, value in vars(options).items() if name in names}
    file = config.file_of(options.config)
    try:
        return _do(options, config.load(file, flags))
    except config.ConfigError as error:
        print(printable(f"fettle agent: {said(error)}"), file=sys.stderr)
        return 2


def main(words: list[str], program: str) -> int:
    """The agent alone, under the name of its own file; exit codes as `fettle agent`."""
    return call(parsed(words, program, arguments))


def _do(options: argparse.Namespace, settings: "AgentConfig") -> int:
    """What the word asks for."""
    if options.once:
        from agents import once

        print(once.text(settings, as_json=options.json))
        return 0
    if options.do == "doctor":
        from agents import doctor

        return doctor.main(settings, as_json=options.json, said=said)
    if options.do == "run":
        from agents import app

        return app.run(settings)
    from agents import ask

    return ask.main(settings, options.do, options.duration, as_json=options.json, said=said)
