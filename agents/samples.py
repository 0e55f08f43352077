"""Samples of a Prometheus answer, within bounds: so many series, labels and bytes of one line, and no more.

The exporter's own TYPE and HELP lines are never looked at; the registry knows what a metric is.
"""

import io
import math
from typing import Final, NamedTuple

from agents.room import Holding
from agents.scrape import ScrapeError, hold

MAX_SAMPLES: Final = 15_000
"""Of one answer, of those that are wanted: the agent's memory must not be an endpoint's to fill."""
MAX_LABELS: Final = 200_000
"""Of one answer. A node of 16 cards in 7 slices each, 100 fields of every one with 15 labels, has 168,000."""
MAX_LINE: Final = 8_192
"""Bytes; a line with every label that Kubernetes gives has one or two thousand."""
SAMPLE_BYTES: Final = 300
LABEL_BYTES: Final = 150
"""What a sample, and each of its labels, take in memory; a label that comes again with other samples takes less."""
_KEEP_HEADS: Final = MAX_SAMPLES
_KEEP_BYTES: Final = 5_000_000
"""Of one endpoint's series, what is remembered from answer to answer."""


class Sample(NamedTuple):
    """One line: its name, labels and value; `at` is the exporter's own time in epoch seconds where it gives one."""

    name: str
    labels: dict[str, str]
    value: float
    at: float | None


class Parsed(NamedTuple):
    """The samples that could be read, and how many lines could not."""

    samples: list[Sample]
    bad_lines: int


class Parser:
    """Reads answers of one endpoint; what stands before a value is parsed once, for it is the same in every answer.

    `kept` is what that takes in memory, in bytes as they are reckoned.
    """

    def __init__(self, starts: tuple[str, ...]) -> None:
        self.kept = 0
        self._wanted = tuple(start.encode() for start in starts)
        self._heads: dict[str, tuple[str, dict[str, str]]] = {}
        self._head_bytes = 0
        self._head_labels = 0
        self._words: dict[str, str] = {}

    def read(self, body: bytes, holding: Holding | None = None) -> Parsed:
        """The samples whose lines begin with one of `starts`; a line that is no sample costs itself alone.

        ScrapeError where there are more than MAX_SAMPLES or MAX_LABELS, or no room for them in `holding`.
        """
        samples: list[Sample] = []
        bad = labels = 0
        for line in io.BytesIO(body):  # one at a time: all of them as text take many times the body
            if not line.startswith(self._wanted):
                continue
            if len(samples) + bad >= MAX_SAMPLES:
                raise ScrapeError("out_of_range", f"The answer has more than {MAX_SAMPLES} series, which are not read.")
            if len(line) > MAX_LINE:
                bad += 1
                continue
            text = line.decode(errors="replace")
            head, brace, rest = text.rpartition("}")
            known = self._heads.get(head) if brace else None
            more = 0 if known is not None else text.count("=")
            labels += more
            if labels > MAX_LABELS:
                raise ScrapeError("out_of_range", f"The answer has more than {MAX_LABELS} labels, which are not read.")
            if holding is not None:
                hold(holding, SAMPLE_BYTES + more * LABEL_BYTES)
            try:
                samples.append(self._parsed(head, text) if known is None else _again(known, rest))
            except Exception:  # whatever a line does to a parser: numbers beyond all bounds raise more than ValueError
                bad += 1
        return Parsed(samples, bad)

    def forget(self) -> None:
        """Remember nothing of the answers before; the next one is parsed anew."""
        self._heads.clear()
        self._words.clear()
        self.kept = self._head_bytes = self._head_labels = 0

    def _parsed(self, head: str, line: str) -> Sample:
        sample = _parsed(line)
        if not head:
            return sample
        self._head_bytes += len(head)
        self._head_labels += len(sample.labels)
        if len(self._heads) >= _KEEP_HEADS or self._head_bytes > _KEEP_BYTES or self._head_labels > MAX_LABELS:
            self.forget()  # labels that change with every answer are not worth keeping
            self._head_bytes, self._head_labels = len(head), len(sample.labels)
        word = self._words.setdefault  # most words stand in most series
        labels = {word(name, name): word(value, value) for name, value in sample.labels.items()}
        self._heads[head] = (word(sample.name, sample.name), labels)
        self.kept += SAMPLE_BYTES + LABEL_BYTES * len(labels) + len(head)
        return sample._replace(labels=labels)


def _again(known: tuple[str, dict[str, str]], rest: str) -> Sample:
    """The sample of a series that is known, from what stands behind its labels."""
    words = rest.split()
    if not 1 <= len(words) <= 2:
        raise ValueError
    return Sample(*known, float(words[0]), _time(int(words[1]) / 1000) if len(words) == 2 else None)


def _parsed(line: str) -> Sample:
    """One line's sample; raises whatever the library does where it is none."""
    from prometheus_client.parser import text_string_to_metric_families  # 4 MB that only who scrapes pays

    [family] = text_string_to_metric_families(line)
    [sample] = family.samples
    at = sample.timestamp
    return Sample(sample.name, sample.labels, float(sample.value), None if at is None else _time(float(at)))


def _time(at: float) -> float:
    """The same; ValueError where it is no second of any time."""
    if not math.isfinite(at):
        raise ValueError
    return at
