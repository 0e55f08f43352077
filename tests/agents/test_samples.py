"""Samples out of an answer's text: what can be read is, and no answer takes more memory than it may."""

import tracemalloc

import pytest

from agents import samples
from agents.room import OWN_BYTES, Holding, NoRoomError, Room
from agents.samples import Parser
from agents.scrape import MAX_BYTES, ScrapeError


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


NINES = "9" * 330


@pytest.mark.parametrize(
    "odd",
    [
        f"1 {NINES}",
        f"1 {'9' * 5000}",
        "1 nan",
        "1 inf",
        f"1 -{NINES}",
        "1 1e400",
        f"{'9' * 5000} 1e400",
        "0x1",
        "1 \u0661\u0662x",
    ],
)
def test_a_number_beyond_all_bounds_costs_its_line_alone(odd: str) -> None:
    """At first, and where the series is known already; a value may be as large as it likes, a time may not."""
    parser = Parser(("power",))
    for text in (odd, "5", odd):
        parsed = parser.read(f'power{{gpu="0"}} 1\npower{{gpu="1"}} {text}\npower {text}\npower{{gpu="2"}} 3\n'.encode())

        assert [sample.value for sample in parsed.samples] == ([1, 5, 5, 3] if text == "5" else [1, 3])
        assert parsed.bad_lines == (0 if text == "5" else 2)


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
    monkeypatch.setattr(samples, "_KEEP_HEADS", 10)
    parser = Parser(("power",))
    counts = [len(parser.read(f'power{{request="{i}"}} {i}\n'.encode()).samples) for i in range(30)]

    assert counts == [1] * 30
    assert len(parser._heads) <= 10


def test_an_endpoint_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest answer that is taken, all of it wanted and never the same twice, costs a few times its size and no more."""
    monkeypatch.setattr(samples, "MAX_SAMPLES", 3000)  # a fifth of all bounds, for tracing is slow
    parser = Parser(("power",))
    line = 'power{{request="{}",padding="' + "x" * (MAX_BYTES // 5 // samples.MAX_SAMPLES - 50) + '"}} 1\n'
    tracemalloc.start()
    for answer in range(2):
        body = "".join(line.format(answer * samples.MAX_SAMPLES + i) for i in range(samples.MAX_SAMPLES)).encode()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        assert len(parser.read(body).samples) == samples.MAX_SAMPLES
        _, peak = tracemalloc.get_traced_memory()
        assert peak - before < 8_000_000
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held < 8_000_000


def test_a_line_of_megabytes_costs_itself_and_is_not_parsed() -> None:
    """Its neighbours are read; nothing of it is kept."""
    parser = Parser(("power",))
    parsed = parser.read(
        b'power{gpu="0"} 1\npower{x="' + b"a" * 4_000_000 + b'"} 2\npower{' + b'a="b",' * 600_000 + b"} 3\npower 4\n"
    )

    assert [sample.value for sample in parsed.samples] == [1, 4]
    assert parsed.bad_lines == 2
    assert parser.kept < 1000


def test_an_answer_of_too_many_labels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A label of two letters takes twenty times its bytes; those that are known already take nothing."""
    monkeypatch.setattr(samples, "MAX_LABELS", 30)
    parser = Parser(("power",))
    body = b'power{a="1",b="1",c="1"} 1\n' * 20
    assert len(parser.read(body).samples) == 20
    with pytest.raises(ScrapeError, match="more than 30 labels") as refused:
        parser.read("".join(f'power{{a="{i}",b="1",c="1"}} 1\n' for i in range(2, 20)).encode())

    assert refused.value.reason == "out_of_range"


def test_what_is_held_is_given_back_to_others() -> None:
    """Each may hold a little whatever the others do; more only while there is room."""
    room = Room(1_000_000, 1_200_000)
    one, other = Holding(room), Holding(room)
    with one:
        one.grow(OWN_BYTES + 600_000)
        other.grow(OWN_BYTES)
        with pytest.raises(NoRoomError, match="All answers together"):
            other.grow(600_000)
        with pytest.raises(NoRoomError, match="more than 1 MB"):
            one.grow(200_000)
        assert (one.bytes, other.bytes) == (OWN_BYTES + 600_000, OWN_BYTES)
    other.grow(600_000)

    assert (one.bytes, other.bytes) == (0, OWN_BYTES + 600_000)


def test_an_answer_of_too_many_series_is_refused() -> None:
    """It is a reason for absence, with a sentence; the next answer is read."""
    parser = Parser(("power",))
    with pytest.raises(ScrapeError, match="more than 15000 series") as refused:
        parser.read(b"power 1\n" * (samples.MAX_SAMPLES + 1))

    assert refused.value.reason == "out_of_range"
    assert len(parser.read(b"power 1\nother 2\n" * samples.MAX_SAMPLES).samples) == samples.MAX_SAMPLES
