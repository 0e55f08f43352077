"""docker-compose.yml as Compose reads it: names filled in, `$$` undone."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

_NAME: Final = re.compile(r"\$(?:(\$)|\{(\w+)(?::([-+])((?:[^{}]|\{[^{}]*\})*))?\})")


def load(path: Path, names: Mapping[str, str]) -> dict[str, Any]:
    """The document with `names` (what `.env` would hold) in it; KeyError for one without a value or a default."""
    document = _filled(yaml.safe_load(path.read_text()), names)
    assert isinstance(document, dict)
    return document


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, names) for item in value]
    return _NAME.sub(lambda found: _one(found, names), value) if isinstance(value, str) else value


def _one(found: re.Match[str], names: Mapping[str, str]) -> str:
    """`$$`, `${NAME}`, `${NAME:-where it is empty}`, `${NAME:+where it is not}`."""
    dollar, name, how, other = found.groups()
    if dollar:
        return "$"
    if how is None:
        return names[name]
    if how == "-" and names.get(name):
        return names[name]
    return str(_filled(other, names)) if how == "-" or names.get(name) else ""


def seconds(duration: str) -> float:
    """Compose's `1m30s` in seconds."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)(ms|[hms])", duration))


def secret_files(service: Mapping[str, Any]) -> dict[str, str]:
    """The path at which the service finds each of its secrets, by the secret's name."""
    found = {}
    for item in service.get("secrets", []):
        source, target = (item, item) if isinstance(item, str) else (item["source"], item.get("target", item["source"]))
        found[source] = target if target.startswith("/") else f"/run/secrets/{target}"
    return found


def volumes(service: Mapping[str, Any]) -> dict[str, str]:
    """The named volume at each path."""
    return {path: name for name, path in (text.split(":")[:2] for text in service.get("volumes", []))}


def final_environment(dockerfile: Path) -> dict[str, str]:
    """ENV of the last stage."""
    last = re.split(r"^FROM ", dockerfile.read_text(), flags=re.M)[-1].replace("\\\n", " ")
    lines = re.findall(r"^ENV (.+)$", last, re.M)
    return dict(word.split("=", 1) for line in lines for word in line.split())
