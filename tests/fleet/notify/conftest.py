"""Fixtures of notify's tests."""

import socket
from collections.abc import Iterator

import pytest
from pytest_django import Settings

from fleet.notify import deliver
from tests.fleet.notify import chats as real
from tests.fleet.notify.chats import Chats
from tests.fleet.notify.receiver import Receiver, receiving


@pytest.fixture
def chat() -> Iterator[Receiver]:
    """A chat service that answers."""
    with receiving() as server:
        yield server


@pytest.fixture
def chats(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chats]:
    """Slack, Feishu, DingTalk and others under their own names, by HTTPS, on loopback; their authority is trusted."""
    authority, certificate = real.certificate()
    settings.FETTLE_NOTIFY_CA_FILE = str(authority)
    monkeypatch.setattr(deliver, "RATE_S", 0.0)
    with real.chatting(certificate) as server:
        leads = {name: [("127.0.0.1", server.server_port)] for name in real.HOSTS}
        monkeypatch.setattr(socket, "getaddrinfo", real.leading(leads))
        yield server
