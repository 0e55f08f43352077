"""Reading a Prometheus endpoint within bounds, against a real server on loopback."""

import gzip

import pytest

from agents import scrape
from agents.scrape import ScrapeError, target
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


def test_a_body_packed_in_several_parts_is_read_whole() -> None:
    """As gzip has it; what is no gzip behind a part is no answer."""
    with exporter() as stub:
        stub.headers = {"Content-Encoding": "gzip"}
        stub.body = gzip.compress(b"up 1\n") + gzip.compress(b"up 2\n")
        assert scrape.fetch(target(stub.url)) == b"up 1\nup 2\n"
        stub.body = gzip.compress(b"up 1\n") + b"x" * 1_000_000
        assert reason(stub.url) == "not_a_number"


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
