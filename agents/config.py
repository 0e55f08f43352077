"""The agent's settings: a TOML file, then flags over it. An unknown key is an error."""

import json
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agents.scrape import target
from wire.labels import ENGINES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class ConfigError(Exception):
    """The settings cannot be used; the message says which and what to do."""


class AgentConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of the agent."""

    server: str | None = None
    token_file: Path | None = None
    tokens: Path | None = None
    node: str = ""
    spool: Path | None = None
    spool_max_mb: int = 64  # of 1,000,000 bytes each
    wire: Literal["msgpack", "json"] = "msgpack"
    replay: tuple[Path, ...] = ()
    gpus: int | None = None
    speed: float = 1.0
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    kernel_log: Path = Path("/dev/kmsg")  # where it may not be read, journalctl is asked
    report_socket: Path | None = None  # where training scripts report their steps; None: the usual places
    source: Literal["nvml", "dcgm"] = "nvml"  # who tells of the GPUs
    dcgm: tuple[str, ...] = ()  # endpoints of this node's dcgm-exporter, for source = "dcgm"
    engines: tuple[str, ...] = ()  # serving engines to ask, each KIND=URL
    find_engines: bool = True  # ask those too whose command line tells where they serve

    def token(self, node: str) -> str:
        """The token of `node`; ConfigError where none is given."""
        if self.tokens is not None:
            tokens = _tokens(self.tokens)
            if node not in tokens:
                raise ConfigError(
                    f"{self.tokens} has no token for node {node!r}; known are {', '.join(sorted(tokens)) or 'none'}."
                )
            return tokens[node]
        if self.token_file is not None:
            return _read(self.token_file).strip()
        token = os.environ.get("FETTLE_AGENT_TOKEN", "").strip()
        if not token:
            raise ConfigError("no token: give --token-file FILE, or the variable FETTLE_AGENT_TOKEN.")
        return token


def load(file: Path | None, flags: Mapping[str, object]) -> AgentConfig:
    """The settings of `file` (None: no file) with `flags` over them; flags that are None do not count."""
    settings: dict[str, Any] = {}
    if file is not None:
        try:
            settings = tomllib.loads(_read(file))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{file}: not TOML: {error}.") from None
    settings |= {name: value for name, value in flags.items() if value is not None}
    try:
        config = msgspec.convert(settings, AgentConfig, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file or 'flags'}: {error}.") from None
    if config.gpus is not None and not 1 <= config.gpus <= 64:
        raise ConfigError(f"gpus={config.gpus} is outside 1 to 64.")
    if not 0 < config.speed <= 1000:
        raise ConfigError(f"speed={config.speed} is outside 0 to 1000.")
    if not 1 <= config.spool_max_mb <= 1_000_000:
        raise ConfigError(f"spool_max_mb={config.spool_max_mb} is outside 1 to 1000000.")
    if config.server is not None and not config.server.startswith(("ws://", "wss://")):
        raise ConfigError(f"server={config.server!r} must begin with ws:// or wss://.")
    _check_endpoints(config)
    return config if config.node else msgspec.structs.replace(config, node=socket.gethostname())


def _check_endpoints(config: AgentConfig) -> None:
    """ConfigError for an address that cannot be asked; the message does not repeat it, for it may hold a password."""
    for number, url in enumerate(config.dcgm, 1):
        _check_address(f"dcgm, address {number}", url)
    if config.source == "dcgm" and not config.dcgm:
        raise ConfigError('source="dcgm" needs an endpoint: dcgm = ["http://127.0.0.1:9400/metrics"].')
    for number, engine in enumerate(config.engines, 1):
        kind, _, url = engine.partition("=")
        if kind not in ENGINES:
            raise ConfigError(
                f"engines, entry {number}: it must begin with {', '.join(ENGINES)} and =, as in vllm=http://127.0.0.1:8000/metrics."
            )
        _check_address(f"engines, entry {number}", url)


def _check_address(name: str, url: str) -> None:
    try:
        target(url)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}.") from None


def _path(wanted: type, value: object) -> object:
    if wanted is Path and isinstance(value, str | Path):
        return Path(value)
    raise NotImplementedError(f"{value!r} is no {wanted.__name__}")


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _tokens(file: Path) -> dict[str, str]:
    try:
        return msgspec.convert(json.loads(_read(file)), dict[str, str])
    except (json.JSONDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{file}: not a JSON object of node names and tokens: {error}.") from None
