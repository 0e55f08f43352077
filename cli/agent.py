"""`fettle agent`: stream this node's telemetry to a server, play recordings, or print one tick."""

import argparse
import sys
from pathlib import Path

HELP = "Stream this node's GPU, host and process telemetry to a server, or print one tick."


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file with the settings below; flags win")
    parser.add_argument("--once", action="store_true", help="read everything once, print it and end; no server needed")
    parser.add_argument("--json", action="store_true", help="with --once: print JSON")
    parser.add_argument("--server", metavar="URL", help="the server's agent socket, e.g. ws://127.0.0.1:8000/ws/agent/")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="file with this node's token")
    parser.add_argument("--tokens", type=Path, metavar="FILE", help="with --replay: JSON file {node: token}")
    parser.add_argument("--node", metavar="NAME", help="the node's name (default: the host's name)")
    parser.add_argument("--spool", type=Path, metavar="DIR", help="keep what the server has not stored yet in this directory")
    parser.add_argument(
        "--spool-max-mb", type=int, metavar="N", help="the spool's size limit in MB, of 1,000,000 bytes each (64)"
    )
    parser.add_argument(
        "--report-socket", type=Path, metavar="FILE", help="where training scripts report their steps (/run/fettle/report.sock)"
    )
    parser.add_argument("--source", choices=("nvml", "dcgm"), help="who tells of the GPUs (nvml); dcgm: the endpoints of --dcgm")
    parser.add_argument("--dcgm", nargs="+", metavar="URL", help="this node's dcgm-exporters, e.g. http://127.0.0.1:9400/metrics")
    parser.add_argument(
        "--engines", nargs="+", metavar="KIND=URL", help="serving engines to ask, e.g. vllm=http://127.0.0.1:8000"
    )
    parser.add_argument(
        "--no-find-engines",
        dest="find_engines",
        action="store_false",
        default=None,
        help="ask only those of --engines, look for no others",
    )
    parser.add_argument("--wire", choices=("msgpack", "json"), help="json sends text frames, for debugging")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="PATH", help="play recordings (files or directories) as nodes")
    parser.add_argument("--gpus", type=int, metavar="N", help="with --replay: GPUs of each node, filled by copies")
    parser.add_argument("--speed", type=float, metavar="X", help="with --replay: seconds of recording a second")


def call(options: argparse.Namespace) -> int:
    """0 after a clean end; 2 with a sentence on stderr when the settings cannot be used."""
    from agents import config

    flags = {name: value for name, value in vars(options).items() if name in config.AgentConfig.__struct_fields__}
    try:
        settings = config.load(options.config, flags)
    except config.ConfigError as error:
        print(f"fettle agent: {error}", file=sys.stderr)
        return 2
    if options.once:
        from agents import once

        print(once.text(settings, as_json=options.json))
        return 0
    from agents import app

    try:
        return app.run(settings)
    except config.ConfigError as error:
        print(f"fettle agent: {error}", file=sys.stderr)
        return 2


def main(words: list[str], program: str) -> int:
    """The agent alone, under the name of its own file; exit codes as `fettle agent`."""
    parser = argparse.ArgumentParser(prog=program, description=HELP)
    arguments(parser)
    return call(parser.parse_args(words))
