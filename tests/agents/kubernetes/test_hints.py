"""Hints on a cluster's nodes, against an API server over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.kubernetes.hints import CORDONED, HEALTH, REASONS
from agents.kubernetes.rest import Rest, RestError
from agents.kubernetes.rounds import PATIENCE, Rounds, cluster
from cli.__main__ import main
from tests.agents.api_server import TOKEN, Servers, serving


@pytest.fixture
def servers() -> Iterator[Servers]:
    """A cluster and Fettle."""
    with serving() as both:
        yield both


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """The account's token."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    return tmp_path / "token"


class Told(Rounds):
    """Rounds whose lines are kept."""

    def __init__(self, servers: Servers, token: Path, *, cordons: bool = False, share: float = 0.1) -> None:
        self.lines: list[str] = []
        rest = Rest(servers.url, token, None)
        super().__init__(rest, rest, self.lines.append, cordons=cordons, share=share)


def states(servers: Servers) -> dict[str, str | None]:
    """The annotation of every node."""
    return {name: servers.annotations(name).get(HEALTH) for name in servers.nodes}


def test_each_gpu_node_bears_its_health_with_the_reasons(servers: Servers, token: Path) -> None:
    """Nodes without GPUs are left alone; one that Fettle does not know is unknown."""
    servers.add("a", "usable")
    servers.add("b", "avoid", text="GPU 3 is slow.")
    servers.add("c")
    servers.add("cpu", gpus=False)
    rounds = Told(servers, token)

    assert rounds.round() == 0
    assert states(servers) == {"a": "usable", "b": "avoid", "c": "unknown", "cpu": None}
    assert servers.annotations("b")[REASONS] == "GPU 3 is slow."
    assert rounds.lines[1] == "b: avoid (GPU 3 is slow.)"
    assert servers.unschedulable() == []


def test_what_stands_there_already_is_not_written_again(servers: Servers, token: Path) -> None:
    """Thousands of nodes, and a write for those alone that changed; reasons that are over go."""
    servers.add("a", "usable")
    servers.add("b", "avoid", text="GPU 3 is slow.")
    rounds = Told(servers, token)
    rounds.round()
    rounds.round()

    assert servers.patched == ["a", "b"]
    servers.says("b", "usable")
    rounds.round()
    assert servers.patched == ["a", "b", "b"]
    assert servers.annotations("b") == {HEALTH: "usable"}


def test_a_large_cluster_is_read_page_by_page(servers: Servers, token: Path) -> None:
    """And Fettle is asked for as many names as an address holds."""
    servers.page = 100
    for number in range(450):
        servers.add(f"gpu-{number:03}", "usable")
    rounds = Told(servers, token)
    rounds.round(dry=True)

    assert servers.pages == 5
    assert len(rounds.lines) == 450
    assert servers.patched == []


def test_nodes_are_cordoned_only_where_it_is_asked_for(servers: Servers, token: Path) -> None:
    """Those to drain; not those to avoid, and never the unknown."""
    for name, state in (("a", "usable"), ("b", "avoid"), ("c", "drain"), ("d", "unknown"), ("e", None)):
        servers.add(name, state)
    Told(servers, token).round()
    assert servers.unschedulable() == []
    Told(servers, token, cordons=True, share=1).round()

    assert servers.unschedulable() == ["c"]
    assert servers.annotations("c")[CORDONED] == "yes"


def test_what_was_cordoned_here_is_undone_once_it_is_well(servers: Servers, token: Path) -> None:
    """Not while it is unknown, not while it is to be avoided; and what a person cordoned stays."""
    servers.add("a", "drain")
    servers.add("person's", "usable", unschedulable=True)
    rounds = Told(servers, token, cordons=True)
    for state in ("drain", "unknown", "avoid"):
        servers.says("a", state)
        rounds.round()
        assert servers.unschedulable() == ["a", "person's"]
    servers.says("a", "usable")
    rounds.round()

    assert servers.unschedulable() == ["person's"]
    assert CORDONED not in servers.annotations("a")
    assert rounds.lines[-1] == "a: usable, schedulable again"


def test_a_person_who_makes_it_schedulable_has_the_last_word(servers: Servers, token: Path) -> None:
    """Until the node was well and fell ill again."""
    servers.add("a", "drain")
    rounds = Told(servers, token, cordons=True)
    rounds.round()
    servers.nodes["a"]["spec"] = {}
    rounds.round()
    assert servers.unschedulable() == []
    for state in ("usable", "drain"):
        servers.says("a", state)
        rounds.round()

    assert servers.unschedulable() == ["a"]


def test_no_more_than_a_share_is_cordoned(servers: Servers, token: Path) -> None:
    """A wrong rule must not empty a cluster: all are told, two of twenty are cordoned, and one comes when one is well."""
    for number in range(20):
        servers.add(f"n{number:02}", "drain")
    rounds = Told(servers, token, cordons=True)
    rounds.round()
    rounds.round()
    assert servers.unschedulable() == ["n00", "n01"]
    assert set(states(servers).values()) == {"drain"}
    servers.says("n00", "usable")
    rounds.round()
    rounds.round()

    assert servers.unschedulable() == ["n01", "n02"]


def test_a_node_that_changed_meanwhile_waits_for_the_next_round(servers: Servers, token: Path) -> None:
    """Whoever wrote it may have had a reason: no cordon goes over another write."""
    servers.add("a", "drain")
    servers.before_patch["a"] = {"metadata": {"annotations": {"theirs": "1"}}}
    rounds = Told(servers, token, cordons=True)

    assert rounds.round() == 0
    assert servers.unschedulable() == []
    rounds.round()
    assert servers.unschedulable() == ["a"]
    assert servers.annotations("a")["theirs"] == "1"


def test_a_server_that_is_silent_makes_nodes_unknown_and_moves_none(servers: Servers, token: Path) -> None:
    """After three rounds, so that a restart is not told to every node."""
    servers.add("a", "drain")
    servers.add("b", "usable")
    rounds = Told(servers, token, cordons=True)
    rounds.round()
    servers.is_silent = True
    for _ in range(PATIENCE - 1):
        with pytest.raises(RestError, match=r"HTTP status 503: The database does not answer"):
            rounds.round()
    assert states(servers) == {"a": "drain", "b": "usable"}
    rounds.round()

    assert states(servers) == {"a": "unknown", "b": "unknown"}
    assert servers.unschedulable() == ["a"]


def test_a_state_that_is_not_known_here_is_unknown(servers: Servers, token: Path) -> None:
    """A newer server's word moves nothing."""
    servers.add("a", "explode")
    Told(servers, token, cordons=True).round()

    assert states(servers) == {"a": "unknown"}


def test_the_command_makes_one_round(servers: Servers, token: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Through the command line; `kubectl proxy` asks for no token, the stub does: exit code 1 and a sentence."""
    servers.add("a", "usable")
    words = ["kubernetes", "hints", "--server", servers.url, "--token-file", str(token), "--api", servers.url, "--once"]

    assert main(words) == 1
    assert "HTTP status 401: Unauthorized" in capsys.readouterr().err
    assert main([*words, "--most", "101"]) == 2


def test_a_pod_finds_its_clusters_api(monkeypatch: pytest.MonkeyPatch, token: Path) -> None:
    """By the environment, over TLS alone; elsewhere it has to be named."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(RestError, match="kubectl proxy"):
        cluster(None)
    with pytest.raises(RestError, match="no address"):
        cluster("fettle.example")
    (token.parent / "ca.crt").write_text("")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")

    with pytest.raises(RestError, match=r"https://\[::1\]:1 cannot be reached"):
        cluster(None, token.parent).get("/api/v1/nodes")
