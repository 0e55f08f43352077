"""The install a second time, and when something is in its way: an older agent, a code that will not do, no room, no root."""

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.deploy.bare_root import NO_ROOT, Bare, can_isolate, with_python_of
from tests.deploy.enrolling import code, script, was_used
from tests.serving import NOW, Server, serve

pytestmark = pytest.mark.skipif(not can_isolate(), reason=NO_ROOT)
FILE = "opt/fettle-agent/fettle-agent.pyz"


@pytest.fixture(scope="module")
def server(agent_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that gives the agent out."""
    with serve(tmp_path_factory.mktemp("server") / "data", {"FETTLE_AGENT_FILE": str(agent_file)}) as server:
        yield server


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    """A new node."""
    return with_python_of(Path(sys.base_prefix), tmp_path / "node")


def left(root: Path) -> list[str]:
    """The files that an install left on the node."""
    return sorted(
        str(path.relative_to(root)) for name in ("opt", "etc", "var/lib") for path in (root / name).rglob("*") if path.is_file()
    )


def folders(root: Path) -> set[str]:
    """Every folder of the places that an install writes to."""
    return {
        str(path.relative_to(root)) for name in ("opt", "etc", "var/lib") for path in (root / name).rglob("*") if path.is_dir()
    }


def test_an_older_agent_is_renewed_without_a_code(bare: Bare, server: Server, agent_file: Path) -> None:
    """The file is the new one; token and settings, those of the site included, are the old ones."""
    first = bare.run("/bin/sh", text=script(server), FETTLE_ENROLMENT_CODE=code(server, "first"), FETTLE_NODE="again-1")
    assert first.returncode == 0, first.stderr
    token = (bare.root / "etc/fettle/agent-token").read_bytes()
    with (bare.root / "etc/fettle/agent.toml").open("a") as file:
        file.write("spool_max_mb = 64\n")
    (bare.root / FILE).write_bytes(b"an older agent")
    ran = bare.run("/bin/sh", text=script(server))

    assert ran.returncode == 0, ran.stderr
    assert "again-1 keeps its token" in ran.stdout
    assert (bare.root / FILE).read_bytes() == agent_file.read_bytes()
    assert (bare.root / "etc/fettle/agent-token").read_bytes() == token
    assert "spool_max_mb = 64" in (bare.root / "etc/fettle/agent.toml").read_text()
    assert left(bare.root) == ["etc/fettle/agent-token", "etc/fettle/agent.toml", FILE]


def test_a_code_made_for_the_node_gives_it_another_token(bare: Bare, server: Server) -> None:
    """Under the name of its settings, whatever the host is called; the old token speaks no more."""
    assert bare.run(
        "/bin/sh", text=script(server), FETTLE_ENROLMENT_CODE=code(server, "second"), FETTLE_NODE="again-2"
    ).returncode == 0  # fmt: skip
    token = (bare.root / "etc/fettle/agent-token").read_bytes()
    ran = bare.run("/bin/sh", text=script(server), FETTLE_ENROLMENT_CODE=code(server, "own", "again-2"))
    live = server.rows("SELECT 1 FROM accounts_agenttoken WHERE node_name = 'again-2' AND revoked_at IS NULL")

    assert ran.returncode == 0, ran.stderr
    assert (bare.root / "etc/fettle/agent-token").read_bytes() != token
    assert len(live) == 1


@pytest.mark.parametrize(
    ("words", "expires", "sentence"),
    [
        ("used", "2100-01-01 00:00:00", "was used already; each one enrols one node"),
        ("old", NOW, "is too old; ask for a new one"),
        (None, "", "is not known here"),
    ],
)
def test_a_code_that_will_not_do_leaves_the_node_as_it_was(
    bare: Bare, server: Server, words: str | None, expires: str, sentence: str
) -> None:
    """Nothing of the agent is there afterwards, no empty folder either, and the sentence is the server's."""
    if words is not None:
        code(server, words, expires=expires)
    if words == "used":
        server.execute("UPDATE accounts_enrolmentcode SET used_at = ?, used_by = 'another' WHERE used_at IS NULL", NOW)
    before = folders(bare.root)
    ran = bare.run("/bin/sh", text=script(server), FETTLE_ENROLMENT_CODE=words or "never made", FETTLE_NODE="again-3")

    assert ran.returncode == 1
    assert sentence in ran.stderr
    assert left(bare.root) == []
    assert folders(bare.root) == before


def test_a_code_that_will_not_do_leaves_an_older_agent_as_it_was(bare: Bare, server: Server) -> None:
    """Neither its file nor its token nor its settings change."""
    assert bare.run(
        "/bin/sh", text=script(server), FETTLE_ENROLMENT_CODE=code(server, "fourth"), FETTLE_NODE="again-4"
    ).returncode == 0  # fmt: skip
    (bare.root / FILE).write_bytes(b"an older agent")
    before = {name: (bare.root / name).read_bytes() for name in left(bare.root)}
    ran = bare.run("/bin/sh", text=script(server), FETTLE_ENROLMENT_CODE="never made")

    assert ran.returncode == 1
    assert {name: (bare.root / name).read_bytes() for name in left(bare.root)} == before


@pytest.mark.parametrize("folder", ["/opt", "/tmp"])
def test_a_full_disk_is_said_and_spends_no_code(bare: Bare, server: Server, folder: str) -> None:
    """Where the file belongs, or where it is tried out: the code is good for the next try, and half a file is not left."""
    words = code(server, f"no room in {folder}")
    ran = bare.run("/bin/sh", text=script(server), small=folder, FETTLE_ENROLMENT_CODE=words, FETTLE_NODE=f"full{folder[1:]}")

    assert ran.returncode == 1
    assert "cannot be written: No space left on device" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not was_used(server, words)
    assert left(bare.root) == []


def test_who_is_not_root_is_told_what_to_do(bare: Bare, server: Server) -> None:
    """In a sentence, before anything is fetched; with a folder of their own it goes on."""
    words = code(server, "no root")
    refused = bare.run("/bin/sh", text=script(server), user="65534:65534", FETTLE_ENROLMENT_CODE=words, FETTLE_NODE="again-5")
    ran = bare.run(
        "/bin/sh", text=script(server), user="65534:65534", FETTLE_ENROLMENT_CODE=words, FETTLE_NODE="again-5", FETTLE_ROOT="/tmp/own"
    )  # fmt: skip

    assert refused.returncode == 1
    assert "run it with sudo, or give a folder of your own as FETTLE_ROOT" in refused.stderr
    assert ran.returncode == 0, ran.stderr
    assert (bare.root / "tmp/own/etc/fettle/agent-token").stat().st_mode & 0o777 == 0o600


def test_settings_of_another_node_or_server_are_not_touched(bare: Bare, server: Server) -> None:
    """A node that speaks to another server, or under another name, is not moved by accident."""
    words = code(server, "another")
    settings = bare.root / "etc/fettle/agent.toml"
    settings.parent.mkdir()
    settings.write_text(f'server = "ws://127.0.0.1:{server.port}/ws/agent/"\nnode = "its-name"\n')
    name = bare.run("/bin/sh", text=script(server), FETTLE_ENROLMENT_CODE=words, FETTLE_NODE="other-name")
    settings.write_text('server = "wss://elsewhere.example/ws/agent/"\nnode = "its-name"\n')
    place = bare.run("/bin/sh", text=script(server), FETTLE_ENROLMENT_CODE=words)

    assert (name.returncode, place.returncode) == (1, 1)
    assert "names the node its-name, not other-name" in name.stderr
    assert "names another server" in place.stderr
    assert not was_used(server, words)


@contextmanager
def broken_off() -> Iterator[int]:
    """The port of a server that promises more than it sends, once."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")

        thread = threading.Thread(target=answer)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(10)


def test_a_connection_that_breaks_off_is_said(bare: Bare, server: Server) -> None:
    """With what to do, and without a traceback; a proxy of the environment is not asked for this machine."""
    with broken_off() as port:
        text = script(server).replace(f"127.0.0.1:{server.port}", f"localhost:{port}")
        hosts = bare.root / "etc/hosts"
        hosts.write_text("127.0.0.1 localhost\n")
        ran = bare.run(
            "/bin/sh", text=text, FETTLE_ENROLMENT_CODE="x", FETTLE_NODE="again-6", http_proxy="http://127.0.0.1:9"
        )  # fmt: skip
        hosts.unlink()

    assert ran.returncode == 1
    assert "broke off" in ran.stderr
    assert "Run it again." in ran.stderr
    assert left(bare.root) == []
