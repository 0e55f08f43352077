"""`manage.py agent_token`: printed once, kept as a digest, revocable."""

from io import StringIO

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
