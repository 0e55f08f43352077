"""Messages reach public addresses, and of the site's own network what the setting names: whatever leads there."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
import requests
from pytest_django import Settings

from fleet.notify import heard, reach
from fleet.notify.deliver import send
from fleet.notify.note import Message
from tests.fleet.notify import chats as real
from tests.fleet.notify.chats import Chats
from tests.fleet.notify.receiver import Receiver

HELLO = Message("T", "B", "info", "k" * 32)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1",
        "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "/run/docker.sock", "", "localhost", "2130706433",
    ],
)  # fmt: skip
def test_no_address_of_the_own_network_may_be_reached(address: str, settings: Settings) -> None:
    """Also wrapped into IPv6, link-local, or no address at all."""
    settings.FETTLE_NOTIFY_ALLOW = []

    assert not reach.allowed(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "54.230.1.1", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_may(address: str, settings: Settings) -> None:
    """No setting is needed for a chat."""
    settings.FETTLE_NOTIFY_ALLOW = []

    assert reach.allowed(address)


def test_what_the_setting_names_may(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network, an address, a name with all of its addresses; nothing beside them."""
    monkeypatch.setattr(socket, "getaddrinfo", real.leading({"mail.corp": [("10.9.9.9", 25), ("fd00::9", 25)]}))
    settings.FETTLE_NOTIFY_ALLOW = ["10.20.0.0/16", "192.168.7.7", "fd01::/32", "mail.corp", "gone.corp"]

    for address in ("10.20.3.4", "::ffff:10.20.3.4", "192.168.7.7", "fd01::5", "10.9.9.9", "fd00::9"):
        assert reach.allowed(address), address
    for address in ("10.21.0.1", "192.168.7.8", "fd02::5", "10.9.9.8", "127.0.0.1", "169.254.169.254"):
        assert not reach.allowed(address), address


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1", "0"])
def test_a_webhook_to_this_machine_is_refused_however_it_is_written(host: str, chat: Receiver, settings: Settings) -> None:
    """Nothing arrives, and the reason says what to set."""
    settings.FETTLE_NOTIFY_ALLOW = []
    outcome = send(f"json://{host}:{chat.server_port}/x", HELLO)

    assert (outcome.sent, outcome.unsure, chat.got) == (False, False, [])
    if host in ("127.0.0.1", "localhost"):  # others are no hosts to Apprise, or lead nowhere
        assert outcome.failure == "never"
        assert "FETTLE_NOTIFY_ALLOW" in outcome.error


def test_a_name_that_leads_to_this_machine_is_refused(chats: Chats, settings: Settings) -> None:
    """The chats' own names lead to loopback here; nobody allowed that."""
    settings.FETTLE_NOTIFY_ALLOW = []
    outcome = send(real.SLACK, HELLO)

    assert (outcome.sent, outcome.failure, outcome.unsure, chats.got) == (False, "never", False, [])
    assert "127.0.0.1" in outcome.error


def test_a_name_that_changes_where_it_leads_is_refused_at_the_connection(
    chats: Chats, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public at the first look, this machine at the second: the address counts that is connected to."""
    settings.FETTLE_NOTIFY_ALLOW = []
    looks = iter([[("8.8.8.8", 443)], *[[("127.0.0.1", chats.server_port)]] * 9])
    asked: list[str] = []

    def look(host: object, port: object, *words: object, **more: object) -> object:
        asked.append(str(host))
        return real.leading({"rebinding.example.org": next(looks)})(host, port)

    monkeypatch.setattr(socket, "getaddrinfo", look)
    assert socket.getaddrinfo("rebinding.example.org", 443)[0][4][0] == "8.8.8.8"  # whoever looks before it is used
    outcome = send("jsons://rebinding.example.org/x", HELLO)

    assert (outcome.sent, outcome.failure, chats.got) == (False, "never", [])
    assert len(asked) > 1


def test_of_several_addresses_only_those_that_may_be_reached_are_tried(
    chats: Chats, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One refused address does not open the way to it, nor close that to the others."""
    settings.FETTLE_NOTIFY_ALLOW = ["127.0.0.1"]
    leads = {"chat.example.org": [("127.0.0.2", chats.server_port), ("127.0.0.1", chats.server_port)]}
    monkeypatch.setattr(socket, "getaddrinfo", real.leading(leads))

    assert send("jsons://chat.example.org/x", HELLO).sent


def test_other_libraries_are_held_to_it_too(settings: Settings) -> None:
    """A mail server on this machine is not spoken to."""
    settings.FETTLE_NOTIFY_ALLOW = []
    with closing(socket.socket()) as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        server.settimeout(0.2)
        outcome = send(f"mailto://me:pass@example.org?smtp=127.0.0.1&port={server.getsockname()[1]}&mode=insecure", HELLO)

        assert (outcome.sent, outcome.failure) == (False, "never")
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Chats]:
    """The environment's proxy."""
    with real.chatting(None) as server:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setenv("no_proxy", "")
        yield server


def test_the_environments_proxy_is_used_and_leads_to_no_place_that_may_not_be_reached(proxy: Chats, settings: Settings) -> None:
    """The proxy's own address needs no leave; an address behind it does, as far as it can be told from here."""
    settings.FETTLE_NOTIFY_ALLOW = []
    assert send("json://8.8.8.8/x", HELLO).sent
    refused = send("json://10.1.2.3/x", HELLO)

    assert (refused.sent, refused.failure) == (False, "never")
    assert [got.path for got in proxy.got] == ["http://8.8.8.8/x"]


def test_who_does_not_deliver_is_asked_nothing(chat: Receiver, settings: Settings) -> None:
    """The server's own connections, such as to its store, are no messages."""
    settings.FETTLE_NOTIFY_ALLOW = []
    send("json://127.0.0.1:9/x", HELLO)

    assert requests.post(f"http://127.0.0.1:{chat.server_port}/x", json={"title": "mine"}, timeout=5).status_code == 200


def test_after_its_time_a_delivery_reaches_nobody(chat: Receiver) -> None:
    """A thread that goes on, whose delivery is told as failed, sends no more."""
    with heard.hearing() as hearing:
        hearing.end(late=True)
        with pytest.raises(requests.ConnectionError):
            heard.http.post(f"http://127.0.0.1:{chat.server_port}/x", json={"title": "late"}, timeout=5)

    assert chat.got == []
