"""The engine on a real VictoriaMetrics: what it says when it cannot, how it comes back, what Grafana sees."""

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fleet.store import victoria_durable
from fleet.store.endpoint import Access, Endpoint, basic
from fleet.store.memory import MemorySeries
from fleet.store.series import StoreError, TooOldError
from fleet.store.victoria import RAW_S, VictoriaSeries
from fleet.store.victoria_durable import Page, Watch, duration_s
from tests.fleet.store.servers import (
    Flushed,
    Program,
    flushed_victoria,
    new_victoria,
    running,
    shared_victoria,
    victoria,
    victoria_program,
)
from tests.serving import free_port

T = 1_790_000_000 // 3600 * 3600
ROW = pl.DataFrame({"entity": [1], "ts": [T], "sm_active": [0.5], "power_w": [321.5]})


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """A VictoriaMetrics of this test's own."""
    with running(victoria_program(tmp_path)) as one:
        yield one


def asked(url: str, path: str, **fields: str) -> Any:
    """The data of an answer of the query API."""
    with urllib.request.urlopen(f"{url}{path}?{urllib.parse.urlencode(fields)}", timeout=10) as answer:
        return json.load(answer)["data"]


# What others see


def test_grafana_finds_a_series_for_each_metric_and_gpu_with_the_labels_that_exporters_give() -> None:
    """One name for each metric, dcgm-exporter's labels, and ours to tell fleets and things apart."""
    labels = {"Hostname": "node-1", "UUID": "GPU-aa", "gpu": "0", "modelName": "NVIDIA H200"}
    url = shared_victoria()
    server = Endpoint(url, Access(), "VictoriaMetrics")
    store = VictoriaSeries(server, server, Flushed(server), "grafana", lambda scope, entities: dict.fromkeys(entities, labels))
    store.write("gpu", ROW)
    found = asked(url, "/api/v1/series", **{"match[]": '{fleet="grafana"}', "start": str(T - 60)})

    assert sorted(found, key=lambda one: one["__name__"]) == [
        {"__name__": f"fettle_gpu_{name}", "entity": "1", "fleet": "grafana", **labels}
        for name in ("power_w", "row", "sm_active")
    ]
    power = asked(url, "/api/v1/query", query='fettle_gpu_power_w{UUID="GPU-aa"}', time=str(T + 1))
    assert power["result"][0]["value"][1] == "321.5"


def test_a_gpu_that_gets_another_name_keeps_its_rows() -> None:
    """Labels are for people; the entity alone says whose row it is."""
    url = shared_victoria()
    server = Endpoint(url, Access(), "VictoriaMetrics")
    names = ["old", "new"]
    store = VictoriaSeries(
        server, server, Flushed(server), "renamed", lambda scope, ids: {one: {"Hostname": names[0]} for one in ids}
    )
    store.write("gpu", ROW)
    del names[0]
    store.write("gpu", ROW.with_columns(pl.col("ts") + 1))

    assert store.window("gpu", T, T + 2)["ts"].to_list() == [T, T + 1]
    assert store.latest("gpu", T)["ts"].to_list() == [T + 1]


def test_fleets_in_one_server_do_not_see_each_other() -> None:
    """The same ids mean other GPUs."""
    mine, other = new_victoria(), new_victoria()
    mine.write("gpu", ROW)

    assert len(mine.window("gpu", T, T + 1)) == 1
    assert other.window("gpu", T, T + 1).is_empty()
    assert other.latest("gpu", T).is_empty()


def test_a_row_that_two_processes_write_is_one_row() -> None:
    """A node that moves from one ingest process to another is sent again what was not acked; neither knows of the other's writes."""
    url, fleet = shared_victoria(), "moved"
    first, second = flushed_victoria(url, fleet), flushed_victoria(url, fleet)
    first.write("gpu", ROW)
    second.write("gpu", ROW)
    for one in (first, second, first):
        one.write("gpu", ROW.with_columns(pl.col("ts") + 1, sm_active=pl.lit(0.1)))

    told = first.window("gpu", T, T + 2, metrics=["sm_active", "power_w"]).rows()
    assert told == [(1, T, 321.5, 0.5), (1, T + 1, 321.5, 0.1)]


def test_many_entities_are_read_without_naming_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a bound the server is asked for all of them, and the answer is the same."""
    store = new_victoria()
    store.write("gpu", pl.DataFrame({"entity": [1, 2, 3], "ts": [T] * 3, "sm_active": [0.1, 0.2, 0.3]}))
    named = store.window("gpu", T, T + 1, [1, 3])
    monkeypatch.setattr("fleet.store.victoria.WIDE", 1)

    assert named["entity"].to_list() == [1, 3]
    assert store.window("gpu", T, T + 1, [1, 3]).equals(named)
    assert store.latest("gpu", T, [1, 3]).equals(named)


# Buckets


def test_the_servers_buckets_are_those_of_the_rows() -> None:
    """Over a span of days: mean, least, most and last as memory has them, a gap is a gap, absent stays absent."""
    seconds = [second for second in range(T, T + RAW_S + 7200, 97) if not T + 9000 < second < T + 20_000]
    frame = pl.DataFrame(
        {
            "entity": 1,
            "ts": seconds,
            "sm_active": [None if 30_000 < ts - T < 40_000 else ts % 1000 / 1000 for ts in seconds],
            "energy_j_total": [float(ts - T) for ts in seconds],
            "pstate": [ts // 600 % 3 for ts in seconds],
        }
    )
    store, memory = new_victoria(), MemorySeries()
    for one in (store, memory):
        one.write("gpu", frame)
    wanted = ["sm_active", "energy_j_total", "pstate"]
    told, held = (one.series("gpu", 1, wanted, T, T + RAW_S + 7200, 600) for one in (store, memory))

    assert told.schema == held.schema
    assert told["ts"].to_list() == held["ts"].to_list()
    for name in told.columns:
        assert told[name].is_null().to_list() == held[name].is_null().to_list(), name
        assert told[name].drop_nulls().to_list() == pytest.approx(held[name].drop_nulls().to_list(), rel=1e-9), name
    full = [one.series("gpu", 1, wanted, T, T + RAW_S + 7200, 600, full=True) for one in (store, memory)]
    assert full[0].equals(full[1])


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_in_a_bucket_of_two_names_the_newer_one_has_the_last_value(names: tuple[str, str]) -> None:
    """A host that was renamed while it was down: its counters began anew, and its states are those of after it."""
    server = Endpoint(shared_victoria(), Access(), "VictoriaMetrics")
    now = [names[0]]
    store = VictoriaSeries(
        server, server, Flushed(server), f"renamed-{names[0]}", lambda scope, ids: {one: {"Hostname": now[0]} for one in ids}
    )
    memory = MemorySeries()
    wanted = ["energy_j_total", "pstate", "sm_active"]
    for part, name in enumerate(names):
        now[0] = name
        times = range(T + part * 1000, T + part * 1000 + 900, 10)
        values = {"energy_j_total": [1e6 / (part * 1e5 + 1) + ts - T for ts in times], "pstate": 8 - 8 * part, "sm_active": 0.5}
        for one in (store, memory):
            one.write("gpu", pl.DataFrame({"entity": 1, "ts": times, **values}))
    told, held = (one.series("gpu", 1, wanted, T, T + RAW_S + 7200, 3600) for one in (store, memory))

    assert told.rows() == held.rows()
    assert told["pstate"].to_list() == [0]
    assert store.series("gpu", 1, wanted, T, T + 3600, 3600).equals(held)


# When it cannot


def test_a_server_that_is_away_is_said_and_found_again(tmp_path: Path) -> None:
    """No connection: a sentence with the address. The same engine works on as soon as the server is there, and resends nothing twice."""
    program = victoria_program(tmp_path)
    store = flushed_victoria(program.url, "away")
    with pytest.raises(StoreError, match=rf"VictoriaMetrics at {program.url} cannot be reached: Connection refused"):
        store.write("gpu", ROW)
    with pytest.raises(StoreError, match="cannot be reached"):
        store.window("gpu", T, T + 1)
    with running(program):
        store.write("gpu", ROW)
        program.kill()
        with pytest.raises(StoreError, match="cannot be reached"):
            store.latest("gpu", T)
        program.start()
        store.write("gpu", ROW)

        assert store.window("gpu", T, T + 1, metrics=["sm_active"]).rows() == [(1, T, 0.5)]


def test_a_server_that_hangs_costs_no_more_than_the_time_limit(program: Program) -> None:
    """It takes the connection and says nothing; later it answers again."""
    server = Endpoint(program.url, Access(read_s=0.5), "VictoriaMetrics")
    store = VictoriaSeries(server, server, Flushed(server), "hangs")
    program.pause()
    with pytest.raises(StoreError, match="does not answer in time"):
        store.window("gpu", T, T + 1)
    program.go_on()

    assert store.window("gpu", T, T + 1).is_empty()


def test_a_server_that_asks_for_a_password_gets_it_or_is_said_to_refuse(tmp_path: Path) -> None:
    """Basic credentials in a header, or in the address; without them the sentence says which settings to set, and never the password."""
    with running(victoria_program(tmp_path, "-httpAuth.username=fettle", "-httpAuth.password=se cret")) as program:
        with pytest.raises(StoreError, match=r"refuses our credentials \(HTTP 401\).*FETTLE_STORE_PASSWORD_FILE") as refused:
            victoria(program.url, access=Access({"Authorization": basic("fettle", "wrong")})).write("gpu", ROW)
        access = Access({"Authorization": basic("fettle", "se cret")})
        server = Endpoint(program.url, access, "VictoriaMetrics")
        store = VictoriaSeries(server, server, Flushed(server), "secret")
        store.write("gpu", ROW)
        victoria(program.url, access=access).ready()
        in_address = Endpoint(program.url.replace("//", "//fettle:se%20cret@"), Access(), "VictoriaMetrics")

        assert len(store.window("gpu", T, T + 1)) == 1
        assert len(VictoriaSeries(in_address, in_address, Flushed(in_address), "secret").window("gpu", T, T + 1)) == 1
        assert "cret" not in in_address.name
        assert "wrong" not in str(refused.value)


def test_a_certificate_of_the_sites_own_is_trusted_when_named(tmp_path: Path) -> None:
    """TLS with a certificate that no public authority vouches for: refused with a sentence, taken with FETTLE_STORE_CA_FILE."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=victoria", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    subprocess.run([*command, *subject], check=True, capture_output=True)
    program = victoria_program(tmp_path, "-tls", f"-tlsCertFile={certificate}", f"-tlsKeyFile={key}")
    with running(program):
        url = program.url.replace("http:", "https:")
        with pytest.raises(StoreError, match=r"is not trusted.*FETTLE_STORE_CA_FILE"):
            victoria(url).ready()
        server = Endpoint(url, Access(ca=certificate), "VictoriaMetrics")
        store = VictoriaSeries(server, server, Flushed(server), "tls")
        store.write("gpu", ROW)

        assert len(store.window("gpu", T, T + 1)) == 1


def test_a_server_without_space_is_said_to_be_full(tmp_path: Path) -> None:
    """VictoriaMetrics turns read-only before its disk is full: nothing is taken, reads go on."""
    with running(victoria_program(tmp_path, "-storage.minFreeDiskSpaceBytes=900000GB")) as program:
        store = flushed_victoria(program.url, "full")
        with pytest.raises(StoreError, match="disk is nearly full"):
            store.write("gpu", ROW)

        assert store.window("gpu", T, T + 1).is_empty()


def test_an_address_that_is_another_programs_is_said_so(program: Program) -> None:
    """A wrong path, and a page that is no page of metrics."""
    wrong = Endpoint(program.url + "/nowhere", Access(), "VictoriaMetrics")
    with pytest.raises(StoreError, match=r"FETTLE_STORE_URL"):
        VictoriaSeries(wrong, wrong, Flushed(wrong), "wrong").write("gpu", ROW)
    with pytest.raises(StoreError, match="process_start_time_seconds"):
        Watch([Endpoint(program.url + "/health", Access(), "VictoriaMetrics")]).look()


def test_a_flag_that_drops_samples_is_refused(tmp_path: Path) -> None:
    """Deduplication over seconds would keep one sample of many; nothing is written to such a server."""
    with (
        running(victoria_program(tmp_path, "-dedup.minScrapeInterval=15s")) as program,
        pytest.raises(StoreError, match=r"-dedup.minScrapeInterval=15s"),
    ):
        victoria(program.url).write("gpu", ROW)


def test_rows_older_than_the_servers_retention_are_refused_and_not_said_to_be_stored(tmp_path: Path) -> None:
    """VictoriaMetrics would answer that it took them, and throw them away; younger ones are stored."""
    program = victoria_program(tmp_path)
    program.command[program.command.index("-retentionPeriod=100y")] = "-retentionPeriod=2d"
    with running(program):
        now = int(time.time())
        server = Endpoint(program.url, Access(), "VictoriaMetrics")
        store = VictoriaSeries(server, server, Watch([Endpoint(program.url + "/metrics", Access(), "VictoriaMetrics")]), "short")
        store.send({"gpu": ROW.with_columns(ts=pl.lit(now - 47 * 3600))})
        with pytest.raises(TooOldError, match=r"1 rows .*\(2 days\)") as refused:
            store.send({"gpu": ROW.with_columns(ts=pl.lit(now - 49 * 3600))})
        assert now - 1 <= refused.value.before + 48 * 3600 <= time.time()

    assert store.keeps_s == 2 * 86_400


def test_the_servers_retention_is_read_as_it_counts() -> None:
    """Months of 31 days without a unit; nothing is known of what it does not say."""
    told = {text: Page("1", {"retentionPeriod": text}).keeps_s for text in ("1", "3d", "12h", "2w", "100y", "soon")}
    day = 86_400
    assert told == {"1": 31 * day, "3d": 3 * day, "12h": day / 2, "2w": 14 * day, "100y": 36_500 * day, "soon": None}
    assert Page("1", {}).keeps_s is None


# When it is durable


def test_a_restart_during_the_wait_is_no_ack(program: Program) -> None:
    """The process that took the samples is not the one that answers after the wait: nobody knows what is on its disk."""

    def crash(seconds: float) -> None:
        waited.append(seconds)
        program.kill()
        program.start()

    waited: list[float] = []
    server = Endpoint(program.url, Access(), "VictoriaMetrics")
    watch = Watch([Endpoint(program.url + "/metrics", Access(), "VictoriaMetrics")], crash)
    with pytest.raises(StoreError, match="was restarted before"):
        VictoriaSeries(server, server, watch, "crash").write("gpu", ROW)

    assert waited == [13.0]


def test_the_wait_follows_the_servers_own_flag() -> None:
    """Twice its interval and what rows wait before; versions without the flag flush every five seconds."""
    assert Page("1", {}).durable_after_s == 13
    assert Page("1", {"inmemoryDataFlushInterval": "5s"}).durable_after_s == 13
    assert Page("1", {"inmemoryDataFlushInterval": "1m0s"}).durable_after_s == 123
    assert Page("1", {"inmemoryDataFlushInterval": "1s"}).durable_after_s == 2 + 2 * victoria_durable.PENDING_S + 1
    assert duration_s("1h2m3.5s") == 3723.5
    with pytest.raises(StoreError, match="duration"):
        duration_s("soon")


def test_a_port_where_nobody_listens_costs_no_wait() -> None:
    """Where the server is away, the write fails at once and is tried again by the writer."""
    waited: list[float] = []
    page = Endpoint(f"http://127.0.0.1:{free_port()}/metrics", Access(), "VictoriaMetrics")
    with pytest.raises(StoreError, match="cannot be reached"):
        VictoriaSeries(page, page, Watch([page], waited.append), "gone").write("gpu", ROW)

    assert waited == []
