"""`/api/v1/bench-runs/` and `/api/v1/bench-scores/`: who may send, what is taken, what is read."""

import json
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
from fleet.benches.keep import keep
from fleet.benches.models import BenchRun, BenchScore
from tests.fleet.api.conftest import caller
from tests.fleet.benches.reports import report, report_of
from tests.fleet.rows import gpu, node, person, token

pytestmark = pytest.mark.django_db
RUNS = "/api/v1/bench-runs/"
SCORES = "/api/v1/bench-scores/"
ROOT = Path(__file__).parents[3]


def agent(name: str = "n1") -> APIClient:
    """The agent of a node."""
    return caller(AgentToken.issue(node_name=name)[1])


def post(client: APIClient, body: bytes) -> Any:
    """The answer to a report."""
    return client.generic("POST", RUNS, body, content_type="application/json")  # type: ignore[arg-type] # bytes go as they are


def problem(answer: Any) -> dict[str, Any]:
    """The problem document of an answer."""
    assert answer["Content-Type"] == "application/problem+json"
    said: dict[str, Any] = answer.json()
    return said


def test_an_agent_sends_its_nodes_run_once_and_people_read_it(bob: APIClient) -> None:
    """201, then 200 for the same again; the run comes back with its scores."""
    home = node()
    gpu(home)
    body = report_of(home)
    client = agent()
    first, second = post(client, body), post(client, body)
    one = bob.get(f"{RUNS}{first.json()['id']}/").json()
    (listed,) = bob.get(RUNS).json()["results"]

    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json() == {"id": one["id"], "scores_total": 1, "unknown_gpus": []}
    assert one["scores"][0]["value"] == 700e12
    assert one["scores"][0]["peak_share"] == pytest.approx(700 / 989)
    assert (one["scores"][0]["gpu_index"], one["scores"][0]["model"]) == (0, "NVIDIA H200")
    assert (listed["node_name"], listed["scores_total"]) == ("n1", 1)
    assert "scores" not in listed


def test_an_agent_speaks_for_its_own_node_alone_and_reads_nothing() -> None:
    """Nor does its token open the rest of the API."""
    home = node()
    gpu(home)
    other = agent("n2")

    assert "speaks for n2, not for n1" in problem(post(other, report_of(home)))["detail"]
    assert other.get(RUNS).status_code == 403
    assert other.get("/api/v1/nodes/").status_code == 401
    assert not BenchRun.objects.exists()


def test_a_person_needs_the_right_and_a_token_that_may_write(bob: APIClient, stranger: APIClient) -> None:
    """Operators have the right; a reader, a token that only reads, and a stranger are told."""
    home = node()
    gpu(home)
    olga = person("olga")
    olga.groups.add(Group.objects.get(name="operator"))

    assert "--write" in problem(post(bob, report_of(home)))["detail"]
    assert post(caller(token(olga)), report_of(home)).status_code == 403
    assert post(stranger, report_of(home)).status_code == 401
    assert stranger.get(RUNS).status_code == stranger.get(SCORES).status_code == 401
    assert post(caller(token(olga, write=True)), report_of(home)).status_code == 201


def test_a_revoked_agent_is_refused() -> None:
    """From the moment of its revocation."""
    home = node()
    gpu(home)
    client = agent()
    AgentToken.objects.update(revoked_at=timezone.now())

    assert post(client, report_of(home)).status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[" * 50_000, 400),
        (b'{"node": "n1"}', 400),
        (b"x" * 2_100_000, 413),
        (b"x" * 3_000_000, 413),
        (b"\xff\xfe", 400),
    ],
)
def test_what_is_no_report_is_a_problem_without_a_traceback(body: bytes, status: int, caplog: pytest.LogCaptureFixture) -> None:
    """With where it does not fit."""
    node()
    said = problem(post(agent(), body))

    assert said["status"] == status
    assert [record for record in caplog.records if record.exc_info] == []


def test_what_cannot_be_kept_says_why() -> None:
    """An unknown node, GPUs that it does not have, a text that steers."""
    home = node()
    assert problem(post(agent("n9"), report_of(home, node="n9")))["status"] == 404
    assert "start its agent once" in problem(post(agent(), report_of(home, values={"GPU-x": 1e12})))["detail"]
    gpu(home)
    assert problem(post(agent(), report_of(home, versions={"torch": "\x00"})))["status"] == 400
    assert problem(post(agent(), report_of(home, at=4e9)))["status"] == 409


def test_scores_are_narrowed_by_what_where_and_when(bob: APIClient) -> None:
    """Each parameter by itself; one that is not known is refused."""
    home, other = node(), node("n2")
    for one in (home, other):
        for index in range(2):
            gpu(one, index)
    keep(report(home, at=1.79e9), home, timezone.now())
    keep(report(other, name="memory_copy", at=1.7901e9, protocol="full"), other, timezone.now())
    keep(report(home, name="h2d_pinned_16mib", at=1.7902e9), home, timezone.now())
    card = other.gpus.get(index=1)

    def total(query: str) -> int:
        answer = bob.get(f"{SCORES}?{query}")
        assert answer.status_code == 200, answer.content
        return int(answer.json()["count"])

    assert total("") == 6
    assert total(f"gpu={card.pk}") == 1
    assert total("node=n2") == total(f"node={other.pk}") == 2
    assert total("kind=memory") == total("kind=host") == 2
    assert total("kind=all_reduce") == 0
    assert total("name=memory_copy") == 2
    assert total("protocol=full") == 2
    assert total("model=h200") == 6
    assert total("after=2026-09-23T16:00:00Z") == 2
    assert total("before=2026-09-22T12:00:00Z") == 2
    assert bob.get(f"{SCORES}?colour=red").status_code == 400
    assert bob.get(f"{SCORES}?after=0001-01-01T00:00:00Z").status_code == 400
    assert bob.get(f"{RUNS}?protocol=full").json()["count"] == 1
    assert bob.get(f"{RUNS}?node=n1&after=2026-09-23T16:00:00Z").json()["count"] == 1


def test_rows_are_not_changed_over_the_api(alice: APIClient) -> None:
    """Neither replaced nor deleted."""
    home = node()
    gpu(home)
    run = keep(report(home), home, timezone.now()).run

    assert alice.delete(f"{RUNS}{run.pk}/").status_code in (403, 405)
    assert BenchScore.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_command_sends_a_report_that_was_written_before(live_server: LiveServer, tmp_path: Path) -> None:
    """`fettle bench --from-json FILE --send` from an air-gapped node: the real command, a real server."""
    home = node()
    gpu(home)
    file, secret = tmp_path / "bench.json", tmp_path / "token"
    file.write_bytes(report_of(home))
    secret.write_text(AgentToken.issue(node_name="n1")[1])
    words = ["--from-json", str(file), "--send", "--server", live_server.url.replace("http", "ws", 1) + "/ws/agent/"]

    def sent(*more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "cli", "bench", *words, *more],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    first, second = (sent("--token-file", str(secret)) for _ in range(2))
    secret.write_text("nonsense")
    third = sent("--token-file", str(secret))

    assert (first.returncode, second.returncode, third.returncode) == (0, 0, 1), first.stderr + third.stderr
    assert "it is kept" in first.stderr
    assert "it had it already" in second.stderr
    assert "HTTP status 401" in third.stderr
    assert "nonsense" not in third.stderr
    assert json.loads(file.read_bytes())["node"] == "n1"
    assert BenchRun.objects.get().scores.count() == 1
