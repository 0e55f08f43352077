"""docker-compose.yml, the server's Dockerfile and its secrets, read as text: no container engine runs here."""

import gzip
import json
import re
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped] # it has no types of its own
import pytest
import yaml

from config.celery import app
from tests.deploy import compose_file
from tests.deploy.conftest import ROOT

HERE: Final = ROOT / "deploy" / "server"
FILE: Final = ROOT / "docker-compose.yml"
# The Compose Specification's schema of June 2026 (Apache-2.0): https://github.com/compose-spec/compose-spec
SCHEMA: Final = ROOT / "tests" / "deploy" / "schemas" / "compose-spec-2026-06.json.gz"
ONCE: Final = ("migrate", "agent-token")


def wrong(document: object) -> list[str]:
    """Where Compose would not take it, unknown fields included."""
    schema = json.loads(gzip.decompress(SCHEMA.read_bytes()))
    return [error.json_path for error in jsonschema.Draft202012Validator(schema).iter_errors(document)]


@pytest.fixture
def document() -> dict[str, Any]:
    """The file as it is without a .env."""
    return compose_file.load(FILE, {})


@pytest.fixture
def services(document: dict[str, Any]) -> dict[str, Any]:
    """Its services."""
    found: dict[str, Any] = document["services"]
    return found


def ours(services: dict[str, Any]) -> dict[str, Any]:
    """The services that our image runs."""
    return {name: service for name, service in services.items() if service["image"].startswith("fettle:")}


def test_compose_takes_the_file() -> None:
    """Each field is one of the specification's, of its kind."""
    assert wrong(yaml.safe_load(FILE.read_text())) == []


@pytest.mark.parametrize(
    ("right", "broken"),
    [
        ("start_period: 15s", "start_periods: 15s"),
        ("condition: service_healthy", "condition: healthy"),
        ('restart: "no"', "restart: [no]"),
    ],
)
def test_what_compose_does_not_take_is_seen(right: str, broken: str) -> None:
    """A misspelt field, a word that means nothing, a value of another kind."""
    text = FILE.read_text()

    assert right in text
    assert wrong(yaml.safe_load(text.replace(right, broken))) != []


def test_all_parts_are_there_and_several_of_those_that_may_be_several(services: dict[str, Any]) -> None:
    """Two web processes and two workers, one beat."""
    several = {name for name, service in services.items() if int(service.get("deploy", {}).get("replicas", 1)) > 1}

    assert set(services) == {
        "proxy", "web", "worker", "messenger", "beat", "migrate", "agent", "agent-token", "postgres", "valkey", "victoriametrics",
    }  # fmt: skip
    assert several == {"web", "worker"}


def test_every_service_says_what_it_runs_how_it_fares_and_what_it_may(services: dict[str, Any]) -> None:
    """A command of its own, a health check where it lasts, a file system to read, no capability, and but one open to the network."""
    for name, service in services.items():
        assert service["command"], name
        assert ("healthcheck" in service) is (name not in ONCE), name
        assert service["restart"] == ("no" if name in ONCE else "unless-stopped"), name
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert ("ports" in service) is (name == "proxy"), name
        assert not service["image"].endswith(":latest") or name in ours(services), name


def test_what_a_service_waits_for_can_be_waited_for(services: dict[str, Any]) -> None:
    """Health where there is a check, an end where there is one; and nothing of ours starts before the migration."""
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert (how["condition"] == "service_completed_successfully") is (other in ONCE), (name, other)
    for name in ("web", "worker", "messenger", "beat", "agent-token"):
        assert "migrate" in services[name]["depends_on"], name


def test_secrets_are_read_from_files_that_are_mounted(document: dict[str, Any], services: dict[str, Any]) -> None:
    """No password stands in the file, and each that is asked for is one that make-secrets.sh makes."""
    for name, service in services.items():
        text = json.dumps([service.get("environment"), service["command"], service.get("healthcheck")])
        mounted = set(compose_file.secret_files(service).values())

        assert set(re.findall(r"/run/secrets/[\w.]+", text)) - mounted == set(), name
        for variable, value in (service.get("environment") or {}).items():
            if variable.endswith("_FILE") and variable != "FETTLE_ALIVE_FILE":
                assert value in mounted, (name, variable)
            assert not re.search(r"(PASSWORD|SECRET|TOKEN)(?!.*_FILE)", variable), (name, variable)
    for secret in document["secrets"].values():
        assert secret["file"].startswith("deploy/server/secrets/")


def test_the_settings_are_settings(services: dict[str, Any]) -> None:
    """Every FETTLE_ variable is in the reference: a misspelt one would stop the start."""
    known = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "reference" / "settings.md").read_text(), re.M))
    image = compose_file.final_environment(HERE / "Dockerfile")
    for name, service in ours(services).items():
        given = {*image, *(service["environment"] or {})}

        assert {one for one in given if one.startswith("FETTLE_")} - known == {"FETTLE_SECRET_KEY_FILE"} & given, name


def test_the_workers_take_every_queue(services: dict[str, Any]) -> None:
    """Whatever is sent has somebody who does it, each queue by one kind of worker."""
    queues = [
        service["command"][service["command"].index("--queues") + 1] for service in services.values() if "--queues" in service["command"]
    ]  # fmt: skip
    routed = {route["queue"] for route in app.conf.task_routes.values()}

    assert sorted(queues) == sorted({app.conf.task_default_queue, *routed})


def test_the_image_is_made_of_the_code_and_runs_as_nobody_in_particular(services: dict[str, Any]) -> None:
    """Two stages, packages by their hashes, every package of the project copied, a user without rights, the file's own."""
    recipe = (HERE / "Dockerfile").read_text()
    build, _, final = recipe.rpartition("\nFROM ")
    copied = {word.split("/")[0] for words in re.findall(r"^COPY (.+) \S+$", build, re.M) for word in words.split()}
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    ignored = (HERE / "Dockerfile.dockerignore").read_text().splitlines()

    assert {name.rstrip("*") for name in packages} <= copied
    assert all((ROOT / name).exists() for name in copied)
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    assert "--require-hashes --only-binary=:all:" in build
    assert not re.search(r"apt-get|pip install|gcc|COPY (?!--from=build )", final)
    assert re.search(r"^USER 10001:10001$", final, re.M)
    assert {service["user"] for service in ours(services).values()} == {"10001:10001"}


def test_secrets_are_made_once(tmp_path: Path) -> None:
    """In a folder that is closed to others; a second run changes nothing, and each is long enough."""
    folder = tmp_path / "secrets"
    make = ["sh", str(HERE / "make-secrets.sh"), "fettle.example", str(folder)]
    subprocess.run(make, check=True, capture_output=True)
    made = {file.name: file.read_text() for file in folder.iterdir()}
    subprocess.run(make, check=True, capture_output=True)
    asked = ["openssl", "x509", "-in", str(folder / "tls.pem"), "-noout", "-ext", "subjectAltName"]
    names = subprocess.run(asked, check=True, capture_output=True, text=True).stdout

    assert {file.name: file.read_text() for file in folder.iterdir()} == made
    assert set(made) == {Path(secret["file"]).name for secret in yaml.safe_load(FILE.read_text())["secrets"].values()}
    assert all(len(text) >= 65 for text in made.values())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o444}
    assert "DNS:fettle.example" in names


def test_what_is_a_sites_own_does_not_get_into_the_repository() -> None:
    """git ignores the secrets, the settings and .env."""
    asked = ["git", "check-ignore", ".env", "deploy/server/fettle.env", "deploy/server/secrets/secret_key"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.stdout.split() == asked[2:]
