"""Samples out of an answer's text: what can be read is, and no answer takes more memory than it may."""

import tracemalloc

import pytest

from agents import samples
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


def test_an_endpoint_cannot_fill_the_memory() -> None:
    """The largest answer that is taken, all of it wanted and never the same twice, costs a few times its size and no more."""
    parser = Parser(("power",))
    line = 'power{{request="{}",padding="' + "x" * (MAX_BYTES // samples.MAX_SAMPLES - 50) + '"}} 1\n'
    tracemalloc.start()
    for answer in range(3):
        body = "".join(line.format(answer * samples.MAX_SAMPLES + i) for i in range(samples.MAX_SAMPLES)).encode()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        assert len(parser.read(body).samples) == samples.MAX_SAMPLES
        _, peak = tracemalloc.get_traced_memory()
        assert peak - before < 40_000_000
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held < 40_000_000


def test_an_answer_of_too_many_series_is_refused() -> None:
    """It is a reason for absence, with a sentence; the next answer is read."""
    parser = Parser(("power",))
    with pytest.raises(ScrapeError, match="more than 15000 series") as refused:
        parser.read(b"power 1\n" * (samples.MAX_SAMPLES + 1))

    assert refused.value.reason == "out_of_range"
    assert len(parser.read(b"power 1\nother 2\n" * samples.MAX_SAMPLES).samples) == samples.MAX_SAMPLES
