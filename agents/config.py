"""The agent's settings: a TOML file, the environment over it, flags over both. Whatever is not known is an error.

A setting is one field of AgentConfig with its description; flags, variables and the reference page are made from it.
"""

import difflib
import os
import re
import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from agents import server_url
from agents.hosts import is_host_here
from agents.scrape import target
from agents.token_files import ConfigError as ConfigError
from agents.token_files import read, sendable, tokens_of
from wire.labels import ENGINES
from wire.sentence import Sentence, _

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PREFIX: Final = "FETTLE_AGENT_"
OTHERS: Final = {
    "FETTLE_AGENT_TOKEN": "the node's token itself, where no file holds it",
    "FETTLE_AGENT_CONFIG": "the TOML file, as `--config`",
    "FETTLE_AGENT_CACHE": "where the one-file agent unpacks itself",
    "FETTLE_AGENT_FILE": "the server's: the file that it installs on nodes",
}
"""Variables with the prefix that are no setting."""
COMMANDS: Final = ("pause_profiling", "release")
"""What can be asked of a running agent, on the node or, where `allow_commands` names it, by the server."""
LISTEN_PORT: Final = 9401
_LISTEN: Final = re.compile(r"(?:(?:\[(?P<six>[^\[\]]+)\]|(?P<name>[^\[\]:]*)):)?(?P<port>[0-9]{1,5})")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")  # the names for which the server gives tokens out


def _about(description: str, metavar: str = "", **bounds: Any) -> Meta:
    """What a field's reader must know; `metavar` stands for its value in the help."""
    return Meta(description=description, extra={"metavar": metavar}, **bounds)


# fmt: off
class AgentConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of the agent."""

    server: Annotated[str | None, _about(_("The server's agent socket: `wss://fettle.example/ws/agent/`; ws:// without TLS."), "URL")] = None
    token_file: Annotated[Path | None, _about(_("File with this node's token."), "FILE")] = None
    tokens: Annotated[Path | None, _about(_("With `replay`: JSON file of node names and their tokens."), "FILE")] = None
    node: Annotated[str, _about(_("The node's name. Default: the host's name."), "NAME")] = ""
    spool: Annotated[Path | None, _about(_("Folder that keeps what the server has not stored yet. Unset: memory, lost when the agent ends."), "DIR")] = None
    spool_max_mb: Annotated[int, _about(_("The spool's bound in MB of 1,000,000 bytes each."), "N", ge=1, le=1_000_000)] = 64
    wire: Annotated[Literal["msgpack", "json"], _about(_("`json` sends text frames, for debugging."))] = "msgpack"
    replay: Annotated[tuple[Path, ...], _about(_("Play recordings (files or folders) as nodes."), "PATH")] = ()
    gpus: Annotated[Annotated[int, Meta(ge=1, le=64)] | None, _about(_("With `replay`: GPUs of each node, filled by copies."), "N")] = None
    speed: Annotated[float, _about(_("With `replay`: seconds of recording a second."), "X", gt=0, le=1000)] = 1.0
    proc: Annotated[Path, _about(_("Where the node's /proc is, for containers that mount it elsewhere."), "DIR")] = Path("/proc")
    sys: Annotated[Path, _about(_("Where the node's /sys is."), "DIR")] = Path("/sys")
    kernel_log: Annotated[Path, _about(_("The kernel's log; where it may not be read, journalctl is asked."), "FILE")] = Path("/dev/kmsg")
    report_socket: Annotated[Path | None, _about(_("Where training scripts report their steps. Default: /run/fettle/report.sock, or the same below XDG_RUNTIME_DIR."), "FILE")] = None
    pod_resources: Annotated[Path | None, _about(_("The kubelet's pod-resources socket, which tells the pods of the GPUs. Default: `/var/lib/kubelet/pod-resources/kubelet.sock`, where it is."), "FILE")] = None
    kubernetes_cluster: Annotated[str, _about(_("What jobs of this node's Kubernetes are listed under."), "NAME", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] = "kubernetes"
    source: Annotated[Literal["nvml", "dcgm"], _about(_("Who tells of the GPUs; `dcgm`: the endpoints of `dcgm`."))] = "nvml"
    dcgm: Annotated[tuple[str, ...], _about(_("This node's dcgm-exporters, for `source` dcgm: `http://127.0.0.1:9400/metrics`."), "URL")] = ()
    engines: Annotated[tuple[str, ...], _about(_("Serving engines to ask, each KIND=URL: `vllm=http://127.0.0.1:8000`."), "KIND=URL")] = ()
    find_engines: Annotated[bool, _about(_("Ask those engines too whose command line tells where they serve."))] = True
    listen: Annotated[str | None, _about(_("Serve /metrics and /healthz at HOST:PORT, as `127.0.0.1:9401`; a port alone means loopback. Unset: not at all."), "HOST:PORT")] = None
    otlp: Annotated[str | None, _about(_("Send metrics every 10 s by OTLP/HTTP, in JSON or protobuf: `http://127.0.0.1:4318`. Unset: not at all."), "URL")] = None
    run_dir: Annotated[Path | None, _about(_("Folder of the lock and the control socket. Default: /run/fettle, or fettle below XDG_RUNTIME_DIR, or the spool."), "DIR")] = None
    allow_commands: Annotated[tuple[Literal["pause_profiling", "release"], ...], _about(_("Commands that the server may give: `pause_profiling`, `release`. Default: none."), "NAME")] = ()

    def token(self, node: str) -> str:
        """The token of `node`; ConfigError where none is given."""
        if self.tokens is not None:
            known = tokens_of(self.tokens)
            if node not in known:
                raise ConfigError(
                    Sentence(_("{file} has no token for node {node}; known are {known}."), file=self.tokens, node=repr(node), known=', '.join(sorted(known)) or 'none')
                )
            return sendable(known[node], f"{self.tokens}, node {node!r}")
        if self.token_file is not None:
            return sendable(read(self.token_file).strip(), str(self.token_file))
        token = os.environ.get("FETTLE_AGENT_TOKEN", "").strip()
        if not token:
            raise ConfigError(Sentence(_("no token: give --token-file FILE, or the variable FETTLE_AGENT_TOKEN.")))
        return sendable(token, "FETTLE_AGENT_TOKEN")
# fmt: on


class Setting(NamedTuple):
    """One field of AgentConfig, for flags and pages. `choices`: all it may be; `is_list`: it may be given several times."""

    name: str
    type: Any
    default: object
    about: str
    metavar: str
    choices: tuple[str, ...]
    is_list: bool

    @property
    def flag(self) -> str:
        """Its flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its environment variable; a list's parts stand between commas."""
        return PREFIX + self.name.upper()


def settings() -> tuple[Setting, ...]:
    """Every setting, in the order of the fields."""
    hints = get_type_hints(AgentConfig, include_extras=True)
    found = []
    for field in msgspec.structs.fields(AgentConfig):
        hint = hints[field.name]
        base, meta = hint.__origin__, hint.__metadata__[0]
        inner = get_args(base)
        is_list = getattr(base, "__origin__", None) is tuple
        words = inner[0] if is_list else base
        choices = get_args(words) if getattr(words, "__origin__", None) is Literal else ()
        found.append(
            Setting(field.name, hint, field.default, meta.description, (meta.extra or {})["metavar"], tuple(choices), is_list)
        )
    return tuple(found)


def file_of(given: Path | None) -> Path | None:
    """The file of the settings: the one given, else the one that FETTLE_AGENT_CONFIG names; None: neither."""
    return given or (Path(named) if (named := os.environ.get("FETTLE_AGENT_CONFIG")) else None)


def load(file: Path | None, flags: Mapping[str, object], environment: Mapping[str, str] | None = None) -> AgentConfig:
    """The settings of `file` (None: none), then of the environment (None: this process's), then of `flags` that are not None."""
    environment = os.environ if environment is None else environment
    known = {setting.name: setting for setting in settings()}
    given: dict[str, Any] = {}
    written = list(_of_file(file, known))
    words = [*_of_environment(environment, known), *_of_flags(flags, known)]
    for number, (origin, name, value) in enumerate((*written, *words)):
        is_text = number >= len(written)  # "64" is a number there, while a file knows numbers itself
        if (value == "" and name != "node") or (isinstance(value, list | tuple) and "" in value):
            raise ConfigError(Sentence(_("{origin} is empty: give it a value, or leave it out."), origin=origin))
        if any(_CONTROL.search(str(one)) for one in (value if isinstance(value, list | tuple) else (value,))):
            raise ConfigError(Sentence(_("{origin} has a control character in it: leave that out."), origin=origin))
        try:
            given[name] = msgspec.convert(value, known[name].type, strict=not is_text, dec_hook=_path)
        except msgspec.ValidationError as error:
            choices = known[name].choices
            can = Sentence(_(" It can be {known}."), known=", ".join(choices)) if choices else ""
            raise ConfigError(Sentence(_("{origin}: {why}.{choices}"), origin=origin, why=error, choices=can)) from None
    config = AgentConfig(**given)
    _check_endpoints(config)
    return _named(config)


def _named(config: AgentConfig) -> AgentConfig:
    """With the host's name where the settings give none; ConfigError for a name that no server takes."""
    node = config.node or socket.gethostname()
    if not (config.replay or _NODE.fullmatch(node)):
        whose = "node" if config.node else Sentence(_("the host's name"))
        raise ConfigError(
            Sentence(
                _(
                    "{whose}={node} can be no node's name, which has letters, digits, dots, dashes and underscores only and begins with a letter or a digit: give one with --node."
                ),
                whose=whose,
                node=repr(node),
            )
        )
    return msgspec.structs.replace(config, node=node)


def listen_address(text: str) -> tuple[str, int]:
    """Host and port of the setting `listen`; loopback where it names no host. ConfigError where it is neither."""
    found = _LISTEN.fullmatch(text)
    host = "" if found is None else found["six"] or found["name"] or "127.0.0.1"
    if found is None or not is_host_here(host) or (":" in host) != bool(found["six"]) or int(found["port"]) >= 1 << 16:
        raise ConfigError(
            Sentence(
                _("listen={text} must be HOST:PORT, as 127.0.0.1:{port} or [::1]:{port}."), text=repr(text), port=LISTEN_PORT
            )
        )
    return host, int(found["port"])


def _of_file(file: Path | None, known: Mapping[str, Setting]) -> Iterable[tuple[str, str, object]]:
    if file is None:
        return
    try:
        found = tomllib.loads(read(file))
    except RecursionError:
        raise ConfigError(Sentence(_("{file}: not TOML: its brackets stand too deep in each other."), file=file)) from None
    except ValueError as error:
        raise ConfigError(Sentence(_("{file}: not TOML: {why}."), file=file, why=error)) from None
    for name, value in found.items():
        if name not in known:
            raise ConfigError(
                Sentence(
                    _("{file}: there is no setting {name}; {nearest}"), file=file, name=repr(name), nearest=_nearest(name, known)
                )
            )
        yield f"{file}: {name}", name, value


def _of_environment(environment: Mapping[str, str], known: Mapping[str, Setting]) -> Iterable[tuple[str, str, object]]:
    by_variable = {setting.variable: setting for setting in known.values()}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(PREFIX) or variable in OTHERS:
            continue
        setting = by_variable.get(variable)
        if setting is None:
            raise ConfigError(
                Sentence(
                    _("there is no variable {variable}; {nearest}"),
                    variable=variable,
                    nearest=_nearest(variable, (*by_variable, *OTHERS)),
                )
            )
        yield variable, setting.name, [part.strip() for part in text.split(",") if part.strip()] if setting.is_list else text


def _of_flags(flags: Mapping[str, object], known: Mapping[str, Setting]) -> Iterable[tuple[str, str, object]]:
    return [(known[name].flag, name, value) for name, value in flags.items() if value is not None]


def _nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that is not known."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 1)
    if close:
        return Sentence(_("did you mean {close}?"), close=close[0])
    return Sentence(_("there are {known}."), known=", ".join(names))


def _check_endpoints(config: AgentConfig) -> None:
    """ConfigError for an address that cannot be asked; the message does not repeat it, for it may hold a password."""
    if config.server is not None:
        try:
            server_url.check(config.server)
        except ValueError as error:
            raise ConfigError(Sentence(_("server {why}."), why=error)) from None
    for number, url in enumerate(config.dcgm, 1):
        _check_address(f"dcgm, address {number}", url)
    if config.source == "dcgm" and not config.dcgm:
        raise ConfigError(Sentence(_('source="dcgm" needs an endpoint: dcgm = ["http://127.0.0.1:9400/metrics"].')))
    for number, engine in enumerate(config.engines, 1):
        kind, _sign, url = engine.partition("=")
        if kind not in ENGINES:
            raise ConfigError(
                Sentence(
                    _("engines, entry {number}: it must begin with {kinds} and =, as in vllm=http://127.0.0.1:8000/metrics."),
                    number=number,
                    kinds=", ".join(ENGINES),
                )
            )
        _check_address(f"engines, entry {number}", url)
    if config.otlp is not None:
        _check_address("otlp", config.otlp)
    if config.listen is not None:
        listen_address(config.listen)


def _check_address(name: str, url: str) -> None:
    try:
        target(url)
    except ValueError as error:
        raise ConfigError(Sentence(_("{name}: {why}."), name=name, why=error)) from None


def _path(wanted: type, value: object) -> object:
    if wanted is Path and isinstance(value, str | Path):
        return Path(value)
    raise ValueError("Expected a path, as text")
