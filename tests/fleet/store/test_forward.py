"""Forwarding by remote write: what a real Prometheus then has, and what is left out, refused or wrong."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from pytest_django import Settings

from fleet.inventory.models import Gpu
from fleet.store.endpoint import PassingError
from fleet.store.forward import Forward, chosen, forward
from fleet.store.series import StoreError
from tests.fleet.rows import gpu, node
from tests.fleet.store.prometheus import Prometheus, prometheus
from tests.fleet.store.receiver import WriteReceiver, receiving

pytestmark = pytest.mark.django_db
OUT_OF_ORDER = "storage:\n  tsdb:\n    out_of_order_time_window: 1h\n"


@pytest.fixture
def receiver() -> Iterator[WriteReceiver]:
    """A receiver that takes everything."""
    with receiving() as running:
        yield running


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that takes remote writes."""
    with prometheus(tmp_path_factory.mktemp("prometheus"), "", "--web.enable-remote-write-receiver") as running:
        yield running


@pytest.fixture
def card() -> Gpu:
    """A GPU whose id, and so whose series, no other test has."""
    return gpu(node(), pk=next(_ids))


_ids = iter(range(1000, 2000))


def to(settings: Settings, url: str, **more: Any) -> Forward:
    """What the settings make."""
    settings.FETTLE_FORWARD_URL = url
    for name, value in more.items():
        setattr(settings, f"FETTLE_FORWARD_{name}", value)
    made = forward()
    assert made is not None
    return made


def send(made: Forward, rows: dict[str, Any], scope: Any = "gpu") -> tuple[int, int]:
    """How many of the rows were late, and how many refused."""
    parts, late = made.parts(scope, pl.DataFrame(rows))
    return late, sum(made.send(part) for part in parts)


def test_prometheus_has_what_was_stored_under_known_names(settings: Settings, program: Prometheus, card: Gpu) -> None:
    """Every second, every digit, the labels of dcgm-exporter; what is absent has no sample, and no row is marked."""
    made, now = to(settings, program.url + "/api/v1/write"), int(time.time()) - 10
    rows: dict[str, Any] = {
        "entity": [card.pk] * 5,
        "ts": [now + second for second in range(5)],
        "power_w": [512.125, None, 1 / 3, 0.0, 700.0],
    }
    assert send(made, rows) == (0, 0)

    found = program.raw(f'fettle_gpu_power_w{{entity="{card.pk}"}}', 60)
    assert found == [(now, 512.125), (now + 2, 0.333), (now + 3, 0.0), (now + 4, 700.0)]
    (labels, _) = program.query(f'fettle_gpu_power_w{{entity="{card.pk}"}}')[0]
    assert labels == {
        "__name__": "fettle_gpu_power_w", "entity": str(card.pk), "fleet": "fettle", "Hostname": "n1", "UUID": "GPU-n1-0",
        "gpu": "0", "modelName": "NVIDIA H200",
    }  # fmt: skip
    assert not program.query("fettle_gpu_row")


def test_late_rows_are_left_out_for_a_receiver_that_would_refuse_all_for_them(
    settings: Settings, program: Prometheus, card: Gpu
) -> None:
    """A backlog that comes after live rows is counted; the live rows beside it arrive."""
    made, now = to(settings, program.url + "/api/v1/write"), int(time.time()) - 10
    send(made, {"entity": [card.pk], "ts": [now + 5], "power_w": [5.0]})
    late, refused = send(made, {"entity": [card.pk] * 3, "ts": [now, now + 5, now + 6], "power_w": [1.0, 5.0, 6.0]})

    assert (late, refused) == (2, 0)
    assert program.raw(f'fettle_gpu_power_w{{entity="{card.pk}"}}', 60) == [(now + 5, 5.0), (now + 6, 6.0)]


def test_a_receiver_that_takes_late_rows_gets_them(settings: Settings, tmp_path: Path, card: Gpu) -> None:
    """With Prometheus' out_of_order_time_window and FETTLE_FORWARD_LATE, an hour of backlog is whole."""
    with prometheus(tmp_path, "", "--web.enable-remote-write-receiver", more=OUT_OF_ORDER) as program:
        made, now = to(settings, program.url + "/api/v1/write", LATE=True), int(time.time()) - 10
        send(made, {"entity": [card.pk], "ts": [now + 5], "power_w": [5.0]})
        assert send(made, {"entity": [card.pk] * 2, "ts": [now, now + 6], "power_w": [1.0, 6.0]}) == (0, 0)

        assert program.raw(f'fettle_gpu_power_w{{entity="{card.pk}"}}', 60) == [(now, 1.0), (now + 5, 5.0), (now + 6, 6.0)]


def test_rows_that_prometheus_refuses_cost_no_others(settings: Settings, program: Prometheus, card: Gpu) -> None:
    """A server that started anew does not know what it sent before; what is refused then is looked for and dropped alone."""
    others = [gpu(card.node, number, pk=next(_ids)) for number in range(1, 6)]
    now = int(time.time()) - 10
    send(to(settings, program.url + "/api/v1/write"), {"entity": [others[2].pk], "ts": [now + 5], "power_w": [5.0]})
    made = to(settings, program.url + "/api/v1/write")
    ids = [card.pk, *(one.pk for one in others)]
    late, refused = send(made, {"entity": ids, "ts": [now] * 6, "power_w": [1.0] * 6})

    assert (late, refused) == (0, 1)
    assert len(program.query("fettle_gpu_power_w == 1")) >= 5
    assert program.raw(f'fettle_gpu_power_w{{entity="{others[2].pk}"}}', 60) == [(now + 5, 5.0)]


def test_a_receiver_that_refuses_everything_is_not_asked_for_ever(settings: Settings, receiver: WriteReceiver) -> None:
    """One request becomes some 64 at most, whatever is in it."""
    home = node()
    cards = [gpu(home, number) for number in range(200)]
    made = to(settings, receiver.url)
    receiver.always = 400
    late, refused = send(made, {"entity": [one.pk for one in cards], "ts": [int(time.time())] * 200, "power_w": [1.0] * 200})

    assert (late, refused) == (0, 200)
    assert 64 <= len(receiver.asked) <= 80
    for more in range(1, 4):
        receiver.asked.clear()
        ids = [one.pk for one in cards]
        send(made, {"entity": ids, "ts": [int(time.time()) + more] * 200, "power_w": [1.0] * 200})
    assert len(receiver.asked) <= 3
    receiver.always = None
    assert send(made, {"entity": ids, "ts": [int(time.time()) + 10] * 200, "power_w": [1.0] * 200}) == (0, 0)


def test_what_a_receiver_says_back_of_our_secrets_is_not_told(
    settings: Settings, receiver: WriteReceiver, card: Gpu, tmp_path: Path
) -> None:
    """A proxy that echoes what it was sent puts neither token nor password, nor their encoding, into the sentence."""
    secret = tmp_path / "secret"
    secret.write_text("s3cr3t-w0rd\n")
    encoded = "YW5uOnMzY3IzdC13MHJk"
    receiver.says = f"denied: Bearer s3cr3t-w0rd, Basic {encoded}, s3cr3t-w0rd"
    for access in ({"TOKEN_FILE": str(secret)}, {"TOKEN_FILE": "", "USER": "ann", "PASSWORD_FILE": str(secret)}):
        made = to(settings, receiver.url, **access)
        receiver.statuses = [403]
        (part,), _ = made.parts("gpu", pl.DataFrame({"entity": [card.pk], "ts": [int(time.time())], "power_w": [1.0]}))
        with pytest.raises(StoreError, match=r"denied: \S") as caught:
            made.send(part)
        assert "s3cr3t" not in str(caught.value)
        assert (encoded in str(caught.value)) == ("USER" not in access)


def test_a_token_that_no_header_can_carry_is_said_at_check(settings: Settings, tmp_path: Path) -> None:
    """Before the first request fails for it."""
    token = tmp_path / "token"
    token.write_text("пароль\n")
    settings.FETTLE_FORWARD_URL, settings.FETTLE_FORWARD_TOKEN_FILE = "http://127.0.0.1:9/api/v1/write", str(token)
    with pytest.raises(SystemCheckError, match="no HTTP header can carry"):
        call_command("check")


@pytest.mark.parametrize("status", [429, 500, 503, 401, 404])
def test_what_may_pass_or_be_mended_is_no_refusal(settings: Settings, receiver: WriteReceiver, card: Gpu, status: int) -> None:
    """Nothing is dropped for a receiver that is busy, or whose password somebody will correct."""
    made = to(settings, receiver.url)
    receiver.statuses = [status]
    rows = {"entity": [card.pk], "ts": [int(time.time())], "power_w": [1.0]}
    (part,), _ = made.parts("gpu", pl.DataFrame(rows))
    with pytest.raises(StoreError) as caught:
        made.send(part)

    assert isinstance(caught.value, PassingError) == (status in (429, 500, 503))
    assert "127.0.0.1" in str(caught.value)
    assert made.send(part) == 0
    assert len(receiver.got) == 1


def test_only_what_the_list_allows_leaves(settings: Settings, receiver: WriteReceiver, card: Gpu) -> None:
    """Neither a scope nor a metric beside it."""
    made = to(settings, receiver.url + "?tenant=a", METRICS=["gpu.power_*", "process.gpu_mem_bytes"])
    now = int(time.time())
    send(made, {"entity": [card.pk], "ts": [now], "power_w": [1.0], "power_limit_w": [7.0], "temperature_c": [40.0]})
    send(
        made, {"entity": [card.pk], "pid": [7], "ts": [now], "gpu_mem_bytes": [5], "name": ["python"], "user": ["ann"]}, "process"
    )

    told = b"".join(receiver.got)
    assert [
        word in told for word in (b"fettle_gpu_power_w", b"fettle_gpu_power_limit_w", b"fettle_process_gpu_mem_bytes", b"python")
    ] == [True] * 4
    assert b"temperature" not in told
    assert set(made.chosen) == {"gpu", "process"}
    assert receiver.asked[0][0] == "/api/v1/write?tenant=a"


def test_credentials_come_from_files(settings: Settings, receiver: WriteReceiver, card: Gpu, tmp_path: Path) -> None:
    """A password or a token, and headers; the protocol's own headers beside them."""
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    rows = {"entity": [card.pk], "ts": [int(time.time())], "power_w": [1.0]}
    send(to(settings, receiver.url, USER="ann", PASSWORD_FILE=str(secret), HEADERS=["X-Scope-OrgID: fleet"]), rows)
    send(to(settings, receiver.url, USER="", PASSWORD_FILE="", TOKEN_FILE=str(secret)), rows)

    (_, basic), (_, bearer) = receiver.asked
    assert (basic["authorization"], basic["x-scope-orgid"]) == ("Basic YW5uOnMzY3JldA==", "fleet")
    assert bearer["authorization"] == "Bearer s3cret"
    assert basic["x-prometheus-remote-write-version"] == "0.1.0"
    assert (basic["content-encoding"], basic["content-type"]) == ("snappy", "application/x-protobuf")


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("URL", "prometheus:9090", "FETTLE_FORWARD_URL is no address"),
        ("URL", "http://prom etheus:9090/api/v1/write", "FETTLE_FORWARD_URL is no address"),
        ("METRICS", ["gpu.watts"], "'gpu.watts' names no metric"),
        ("USER", "ann", "FETTLE_FORWARD_USER and FETTLE_FORWARD_PASSWORD_FILE belong together"),
        ("TOKEN_FILE", "/nonexistent/token", "FETTLE_FORWARD_TOKEN_FILE=/nonexistent/token cannot be read"),
        ("CA_FILE", "/etc/hostname", "no certificate"),
        ("HEADERS", ["X-Scope-OrgID"], "FETTLE_FORWARD_HEADERS has a part that is no header"),
    ],
)
def test_a_wrong_setting_stops_the_start_with_a_sentence(settings: Settings, name: str, value: Any, word: str) -> None:
    """Both `manage.py check` and whoever starts it say it."""
    settings.FETTLE_FORWARD_URL = "http://127.0.0.1:9/api/v1/write"
    setattr(settings, f"FETTLE_FORWARD_{name}", value)

    with pytest.raises(SystemCheckError, match=r"fleet\.store\.E001") as caught:
        call_command("check")
    assert word in str(caught.value)
    with pytest.raises(StoreError):
        forward()


def test_nothing_is_forwarded_until_a_setting_says_where_to(settings: Settings) -> None:
    """The other settings then do not matter."""
    settings.FETTLE_FORWARD_METRICS = ["nonsense"]

    assert forward() is None
    assert chosen(["*.gpu_mem_bytes", "process.gpu_mem_bytes"]) == {"process": ["gpu_mem_bytes"]}
