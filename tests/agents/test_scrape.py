"""Reading a Prometheus endpoint within bounds, against a real server on loopback."""

import gzip
import tracemalloc

import pytest

from agents import scrape
from agents.scrape import Parser, ScrapeError, target
from tests.agents.exporter import exporter, free_port


def reason(url: str, **bounds: float) -> str:
    """Why the endpoint brings nothing."""
    with pytest.raises(ScrapeError) as caught:
        scrape.fetch(target(url), **bounds)  # type: ignore[arg-type]
    return caught.value.reason


def test_it_brings_the_body_plain_or_packed() -> None:
    """Servers that pack are read as those that do not."""
    with exporter() as stub:
        stub.body = b"up 1\n"
        plain = scrape.fetch(target(stub.url))
        stub.body, stub.headers = gzip.compress(b"up 1\n"), {"Content-Encoding": "gzip"}
        packed = scrape.fetch(target(stub.url))

    assert plain == packed == b"up 1\n"
    assert stub.asked[0][0] == "/metrics"
    assert "gzip" in stub.asked[0][1]["Accept-Encoding"]


def test_an_answer_that_never_comes_is_a_timeout() -> None:
    """The deadline holds whatever the server does."""
    with exporter() as stub:
        stub.hold.clear()
        assert reason(stub.url, deadline_s=0.1) == "timeout"


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_that_is_too_large_is_not_read(packed: bool) -> None:
    """Neither plain nor as a bomb of gzip: unpacking stops at the limit."""
    with exporter() as stub:
        stub.body = b"x" * 5_000_000
        if packed:
            stub.body, stub.headers = gzip.compress(stub.body), {"Content-Encoding": "gzip"}
        assert reason(stub.url, max_bytes=1_000_000) == "out_of_range"


@pytest.mark.parametrize(
    ("status", "why"), [(301, "driver_error"), (401, "not_permitted"), (404, "not_found"), (500, "driver_error")]
)
def test_a_status_is_a_reason(status: int, why: str) -> None:
    """A redirect is refused like an error: it could lead anywhere."""
    with exporter() as stub:
        stub.status, stub.headers = status, {"Location": stub.url + "/elsewhere"}
        assert reason(stub.url) == why
    assert [path for path, _ in stub.asked] == ["/metrics"]


def test_nobody_there_is_not_found() -> None:
    """A refused connection and a promise that is not kept are told apart."""
    with exporter() as stub:
        stub.body, stub.headers = b"up 1\n", {"Content-Length": "100", "Connection": "close"}
        assert reason(stub.url) == "driver_error"
    assert reason(f"http://127.0.0.1:{free_port()}/metrics") == "not_found"


def test_credentials_are_sent_and_never_told() -> None:
    """An address with a password says so to the server alone."""
    with exporter() as stub:
        stub.status = 403
        where = target(f"http://me:secret%21@127.0.0.1:{stub.port}/metrics?token=hidden")
        with pytest.raises(ScrapeError) as caught:
            scrape.fetch(where)

    told = f"{caught.value} {where!r} {where.url} {where.origin}"
    assert stub.asked[0][0] == "/metrics?token=hidden"
    assert stub.asked[0][1]["Authorization"] == "Basic bWU6c2VjcmV0IQ=="
    assert "secret" not in told
    assert "hidden" not in told


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8000", "ftp://host/metrics", "http:///metrics", "http://host:99999/", "http://a b/", "http://[fe80::1%25eth0]/"],
)
def test_what_is_no_address_is_refused_with_a_sentence(url: str) -> None:
    """The sentence says what is wanted and does not repeat what may be a secret."""
    with pytest.raises(ValueError, match=r"address like|port is not") as caught:
        target(url)
    assert "ftp" not in str(caught.value)


def test_a_line_that_is_no_sample_costs_itself_alone() -> None:
    """Text where a number belongs (V07) leaves every other line readable; comments and other names are not looked at."""
    body = b"""# TYPE power counter
power{gpu="0"} 12.5
power{gpu="1"} [N/A]
power{gpu="2"} ERR!
power{gpu="3" 3
power{gpu="4"} NaN 1700000000000
other 1
"""
    parsed = Parser(("power",)).read(body)

    assert parsed.bad_lines == 3
    assert [(sample.name, sample.labels["gpu"]) for sample in parsed.samples] == [("power", "0"), ("power", "4")]
    assert parsed.samples[0].value == 12.5
    assert parsed.samples[1].at == 1_700_000_000


def test_an_answer_that_comes_again_is_read_as_at_first() -> None:
    """What stands before a value is parsed once: escapes and braces in labels, times and new values come out the same."""
    body = b'power{name="a\\"}b",gpu="0"} 1\npower{name="x"} +Inf 1700000000500\npower 3\npower{name="late"} 7\n'
    parser = Parser(("power",))
    first, again = parser.read(body), parser.read(body.replace(b'late"} 7', b'late"} 8.5').replace(b"} 1\n", b"} nonsense\n"))

    assert [sample.value for sample in first.samples] == [1, float("inf"), 3, 7]
    assert first.samples[0].labels == {"name": 'a"}b', "gpu": "0"}
    assert first.samples[1].at == 1_700_000_000.5
    assert again.samples[:2] == first.samples[1:3]
    assert again.samples[2].value == 8.5
    assert again.bad_lines == 1


def test_labels_that_never_come_again_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered is bounded; nothing is lost by forgetting."""
    monkeypatch.setattr(scrape, "_KEEP_HEADS", 10)
    parser = Parser(("power",))
    counts = [len(parser.read(f'power{{request="{i}"}} {i}\n'.encode()).samples) for i in range(30)]

    assert counts == [1] * 30
    assert len(parser._heads) <= 10


def test_an_endpoint_cannot_fill_the_memory() -> None:
    """The largest answer that is taken, all of it wanted and never the same twice, costs a few times its size and no more."""
    parser = Parser(("power",))
    line = 'power{{request="{}",padding="' + "x" * (scrape.MAX_BYTES // scrape.MAX_SAMPLES - 50) + '"}} 1\n'
    tracemalloc.start()
    for answer in range(3):
        body = "".join(line.format(answer * scrape.MAX_SAMPLES + i) for i in range(scrape.MAX_SAMPLES)).encode()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        assert len(parser.read(body).samples) == scrape.MAX_SAMPLES
        _, peak = tracemalloc.get_traced_memory()
        assert peak - before < 40_000_000
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held < 40_000_000


def test_an_answer_of_too_many_series_is_refused() -> None:
    """It is a reason for absence, with a sentence; the next answer is read."""
    parser = Parser(("power",))
    with pytest.raises(ScrapeError, match="more than 15000 series") as refused:
        parser.read(b"power 1\n" * (scrape.MAX_SAMPLES + 1))

    assert refused.value.reason == "out_of_range"
    assert len(parser.read(b"power 1\nother 2\n" * scrape.MAX_SAMPLES).samples) == scrape.MAX_SAMPLES
