"""`manage.py agent_token`: printed once, kept as a digest, revocable."""

import stat
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from fleet.accounts.models import AgentToken

pytestmark = pytest.mark.django_db


def issued(node: str) -> str:
    """What the command prints."""
    out = StringIO()
    call_command("agent_token", node, stdout=out)
    return out.getvalue()


def test_it_prints_a_token_and_keeps_only_its_digest() -> None:
    """One line, which opens the node's row; the row does not hold it."""
    printed = issued("gpu-node-1")
    token = printed.strip()
    row = AgentToken.of(token)

    assert printed == f"{token}\n"
    assert len(token) >= 40
    assert row is not None
    assert row.node_name == "gpu-node-1"
    assert token not in str(vars(row))


def test_two_tokens_of_a_node_differ_and_both_work() -> None:
    """A token can be replaced without a gap: issue, install, revoke."""
    one, other = issued("n").strip(), issued("n").strip()

    assert one != other
    assert AgentToken.of(one) is not None
    assert AgentToken.of(other) is not None


def test_it_revokes_every_token_of_the_node_alone() -> None:
    """--revoke ends this node's tokens; another node's go on."""
    mine, others = issued("a").strip(), issued("b").strip()
    call_command("agent_token", "a", "--revoke", stderr=StringIO())

    assert AgentToken.of(mine) is None
    assert AgentToken.of(others) is not None


def test_it_says_when_there_is_nothing_to_revoke() -> None:
    """A misspelt name must not look like success."""
    with pytest.raises(CommandError, match="no token"):
        call_command("agent_token", "nobody", "--revoke")


@pytest.mark.parametrize("name", ["", "../etc", "a/b", "-rf", "a b", "a\n", "ü", "x" * 201, ".hidden"])
def test_it_refuses_names_that_no_node_can_have(name: str) -> None:
    """Names end up in pages, commands and messages: letters, digits, dots, dashes, underscores."""
    with pytest.raises(CommandError, match="name has letters"):
        call_command("agent_token", "--", name)


def kept_in(path: Path, node: str) -> str:
    """The file's text after the command; it prints nothing on standard output."""
    out = StringIO()
    call_command("agent_token", node, "--file", str(path), stdout=out, stderr=StringIO())
    assert out.getvalue() == ""
    return path.read_text()


def test_a_file_gets_a_token_once_and_keeps_it_while_it_stands(tmp_path: Path) -> None:
    """A start that is repeated changes nothing: same file, same token, no second row; nobody else may read it."""
    path = tmp_path / "token"
    first = kept_in(path, "n")
    found = path.stat()

    assert AgentToken.of(first.strip()) is not None
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert kept_in(path, "n") == first
    assert path.stat().st_ino == found.st_ino
    assert AgentToken.objects.count() == 1


@pytest.mark.parametrize("was", [b"", b"of no one\n", b"\xff\x00", "revoked", "another's"])
def test_a_token_in_a_file_that_is_no_longer_valid_is_replaced(tmp_path: Path, was: bytes | str) -> None:
    """Empty, unknown, not text, revoked or another node's: the agent could not speak with it."""
    path = tmp_path / "token"
    if isinstance(was, bytes):
        path.write_bytes(was)
    else:
        path.write_text(issued("n" if was == "revoked" else "other"))
    if was == "revoked":
        call_command("agent_token", "n", "--revoke", stderr=StringIO())
    row = AgentToken.of(kept_in(path, "n").strip())

    assert row is not None
    assert row.node_name == "n"
    assert [one.name for one in tmp_path.iterdir()] == ["token"]


def test_a_file_that_cannot_be_written_is_named_and_issues_nothing(tmp_path: Path) -> None:
    """Else each try would leave a token that nobody has."""
    with pytest.raises(CommandError, match=r"token file .*nowhere/token cannot be used: No such file"):
        call_command("agent_token", "n", "--file", str(tmp_path / "nowhere" / "token"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(CommandError, match="cannot be used: Is a directory"):
        call_command("agent_token", "n", "--file", str(tmp_path / "folder"))

    assert not AgentToken.objects.exists()
