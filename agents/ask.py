"""`fettle agent status`, `pause-profiling` and `release`: a question to the agent that runs on this node."""

import json
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from agents import lock
from agents.config import AgentConfig
from wire.sentence import Sentence, _
from wire.terminal import printable

DEFAULT_S: Final = 600.0
ANSWER_S: Final = 10.0
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}


class AskError(Exception):
    """The agent could not be asked; the message says why and what to do."""


def main(config: AgentConfig, do: str, duration: str | None, as_json: bool, said: Callable[[object], str] = str) -> int:
    """0 when the agent did it, 1 with a sentence on stderr when there is none or it did not."""
    try:
        question: dict[str, Any] = {"do": do.replace("-", "_")}
        if do != "status":
            question["seconds"] = seconds(duration)
        answer = ask(config, question)
    except AskError as error:
        sys.stderr.write(f"fettle agent: {printable(said(error))}\n")
        return 1
    ok = bool(answer.pop("ok", False))
    if as_json:
        sys.stdout.write(json.dumps({"ok": ok, **answer}) + "\n")
    elif "text" in answer:
        (sys.stdout if ok else sys.stderr).write(f"{printable(str(answer['text']))}\n")
    else:
        sys.stdout.write("".join(printable(f"{name:<20} {value}") + "\n" for name, value in answer.items()))
    return 0 if ok else 1


def seconds(text: str | None) -> float:
    """The seconds of 90s, 10m or 2h; DEFAULT_S for None. AskError for anything else."""
    if text is None:
        return DEFAULT_S
    found = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)([smh]?)", text.strip())
    if found is None:
        raise AskError(Sentence(_("--for {text}: give a time like 90s, 10m or 2h."), text=text))
    return float(found[1]) * _UNITS[found[2]]


def ask(config: AgentConfig, question: dict[str, Any]) -> dict[str, Any]:
    """The agent's answer; AskError where none runs, or several and the settings do not say which."""
    path = _socket_of(config)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(ANSWER_S)
            asking.connect(str(path))
            asking.sendall(json.dumps(question).encode() + b"\n")
            with asking.makefile("rb") as answer:
                found = json.loads(answer.readline(1 << 16))
    except PermissionError:
        raise AskError(Sentence(_("{path}: only the agent's user and root may ask it."), path=path)) from None
    except (OSError, ValueError) as error:
        reason = Sentence(_("it did not answer in time")) if isinstance(error, TimeoutError) else str(error)
        raise AskError(Sentence(_("the agent at {path} cannot be asked: {why}."), path=path, why=reason)) from None
    return dict(found)


def running(config: AgentConfig) -> list[Path]:
    """The control sockets that an agent listens at."""
    found = []
    for place in lock.places(config.run_dir, config.spool):
        try:
            paths = sorted(place.glob("agent-*.sock"))
        except OSError:
            continue
        found += [path for path in paths if _listens(path)]
    return found


def _socket_of(config: AgentConfig) -> Path:
    found = running(config)
    if config.server is not None:
        wanted = lock.stem(config.server, config.node) + ".sock"
        found = [path for path in found if path.name == wanted]
    if not found:
        places = ", ".join(map(str, lock.places(config.run_dir, config.spool)))
        raise AskError(
            Sentence(_("no agent runs here, as far as {places} tell; give the --config that it was started with."), places=places)
        )
    if len(found) > 1:
        raise AskError(Sentence(_("several agents run here: give --config, or --server and --node, of the one to ask.")))
    return found[0]


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except PermissionError:
            return True
        except OSError:
            return False
        return True
