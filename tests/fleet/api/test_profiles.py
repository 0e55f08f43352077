"""`/api/v1/profiles/`: who may send, what is taken, what is read."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer
from rest_framework.test import APIClient

from fleet.accounts.models import AgentToken
from fleet.profiles import keep as keeping
from fleet.profiles.keep import keep
from fleet.profiles.models import JobProfile
from tests.advisor.profiles.traces import SCENE, SCENE_METADATA, write
from tests.fleet.api.conftest import caller
from tests.fleet.profiles.reports import report, report_of
from tests.fleet.rows import node, person, token
from wire.profile import MAX_BYTES

pytestmark = pytest.mark.django_db
PROFILES = "/api/v1/profiles/"
ROOT = Path(__file__).parents[3]


def agent(name: str = "n1") -> APIClient:
    """The agent of a node."""
    return caller(AgentToken.issue(node_name=name)[1])


def post(client: APIClient, body: bytes) -> Any:
    """The answer to a report."""
    return client.generic("POST", PROFILES, body, content_type="application/json")  # type: ignore[arg-type] # bytes go as they are


def problem(answer: Any) -> dict[str, Any]:
    """The problem document of an answer."""
    assert answer["Content-Type"] == "application/problem+json"
    said: dict[str, Any] = answer.json()
    return said


def test_an_agent_sends_a_profile_once_and_people_read_it(bob: APIClient) -> None:
    """201, then 200 for the same again; one comes back with its summary, a list with what rules read."""
    body, client = report_of(node()), agent()
    first, second = post(client, body), post(client, body)
    one = bob.get(f"{PROFILES}{first.json()['id']}/").json()
    (listed,) = bob.get(PROFILES).json()["results"]

    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json() == {"id": one["id"], "job": "n1/alice/python"}
    assert one["summary"]["idle_launching_s"] == 0.5
    assert listed["features"]["profile_launch_gap_share"] == 0.5
    assert (listed["node_name"], listed["job"]) == ("n1", "n1/alice/python")
    assert "summary" not in listed


def test_an_agent_speaks_for_its_own_node_alone_and_reads_nothing() -> None:
    """Nor for a job of another node in the name of its own."""
    home, other = node(), agent("n2")
    node("n2")

    assert "speaks for n2, not for n1" in problem(post(other, report_of(home)))["detail"]
    assert problem(post(other, report_of(home, node="n2")))["status"] == 400
    assert other.get(PROFILES).status_code == 403
    assert not JobProfile.objects.exists()


def test_a_person_needs_the_right_and_a_token_that_may_write(bob: APIClient, stranger: APIClient) -> None:
    """Operators have the right; a reader, a token that only reads, and a stranger are told."""
    home, olga = node(), person("olga")
    olga.groups.add(Group.objects.get(name="operator"))

    assert "--write" in problem(post(bob, report_of(home)))["detail"]
    assert post(caller(token(olga)), report_of(home)).status_code == 403
    assert post(stranger, report_of(home)).status_code == 401
    assert stranger.get(PROFILES).status_code == 401
    assert post(caller(token(olga, write=True)), report_of(home)).status_code == 201


def test_a_revoked_agent_is_refused() -> None:
    """From the moment of its revocation."""
    home, client = node(), agent()
    AgentToken.objects.update(revoked_at=timezone.now())

    assert post(client, report_of(home)).status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[" * 50_000, 400),
        (b'{"node": "n1"}', 400),
        (b'{"traceEvents": []}', 400),
        (b"x" * (MAX_BYTES + 1), 413),
        (b"x" * 3_000_000, 413),
        (b"\xff\xfe", 400),
    ],
)
def test_what_is_no_summary_is_a_problem_without_a_traceback(body: bytes, status: int, caplog: pytest.LogCaptureFixture) -> None:
    """With where it does not fit."""
    node()
    said = problem(post(agent(), body))

    assert said["status"] == status
    assert [record for record in caplog.records if record.exc_info] == []


def test_what_cannot_be_kept_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown node, a text that steers, a trace of the future, too many within a day."""
    home = node()
    monkeypatch.setattr(keeping, "MAX_A_DAY", 1)

    assert problem(post(agent("n9"), report_of(home, node="n9", job="n9/a/b")))["status"] == 404
    assert problem(post(agent(), report_of(home, job="n1/\x00/b")))["status"] == 400
    assert "future" in problem(post(agent(), report_of(home, at=4e9)))["detail"]
    assert post(agent(), report_of(home)).status_code == 201
    assert problem(post(agent(), report_of(home, rank=1)))["status"] == 429


def test_profiles_are_narrowed_by_job_node_and_time(bob: APIClient) -> None:
    """Each parameter by itself; one that is not known is refused."""
    home, other = node(), node("n2")
    keep(report(home, at=1.79e9), home, timezone.now())
    keep(report(other, at=1.7902e9), other, timezone.now())

    def total(query: str) -> int:
        answer = bob.get(f"{PROFILES}?{query}")
        assert answer.status_code == 200, answer.content
        return int(answer.json()["count"])

    assert total("") == 2
    assert total("job=n1/alice/python") == total("node=n2") == total(f"node={other.pk}") == 1
    assert total("after=2026-09-23T16:00:00Z") == total("before=2026-09-22T12:00:00Z") == 1
    assert bob.get(f"{PROFILES}?colour=red").status_code == 400
    assert bob.get(f"{PROFILES}?after=0001-01-01T00:00:00Z").status_code == 400


def test_rows_are_not_changed_over_the_api(alice: APIClient) -> None:
    """Neither replaced nor deleted."""
    home = node()
    row = keep(report(home), home, timezone.now()).profile

    assert alice.delete(f"{PROFILES}{row.pk}/").status_code in (403, 405)
    assert JobProfile.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_command_sends_the_summary_of_a_trace(live_server: LiveServer, tmp_path: Path) -> None:
    """`fettle profile TRACE --send`: the real command, a real server; by a job's name, and by a process of the node."""
    node()
    trace, secret = write(tmp_path / "run.json", SCENE, **SCENE_METADATA), tmp_path / "token"
    secret.write_text(AgentToken.issue(node_name="n1")[1])
    server = live_server.url.replace("http", "ws", 1) + "/ws/agent/"

    def sent(*more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "cli", "profile", str(trace), "--send", "--server", server, "--token-file", str(secret), *more],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    first, second = (sent("--job", "n1/alice/python") for _ in range(2))
    third = sent("--node", "n1", "--pid", "4711")
    fourth = sent("--job", "n2/alice/python")

    assert (first.returncode, second.returncode, third.returncode, fourth.returncode) == (0, 0, 0, 1), first.stderr
    assert "it is kept" in first.stderr
    assert "it had it already" in second.stderr
    assert "speaks for n1, not for n2" in fourth.stderr
    rows = {row.job: row for row in JobProfile.objects.all()}
    assert rows["n1/alice/python"].features["profile_exposed_comm_share"] == pytest.approx(0.16)
    assert rows[""].pid == 4711
    assert abs(rows[""].at.timestamp() - trace.stat().st_mtime) < 1
