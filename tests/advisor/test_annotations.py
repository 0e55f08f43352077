"""The registry of annotations: every key says what it takes, and takes no more."""

import math
from typing import Any

import pytest

from advisor.annotations import BY_KEY, NOTES, fits


def test_a_key_stands_once_and_says_what_it_is() -> None:
    """Names are features' names; a word has words, a number has bounds in order."""
    assert len(BY_KEY) == len(NOTES)
    for note in NOTES:
        assert note.key.isidentifier(), note
        assert note.scopes, note
        assert note.help.endswith("."), note
        assert bool(note.words) == (note.kind == "word"), note
        assert note.low < note.high, note


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("deadline", True),
        ("job_kind", "train"),
        ("image", "registry.example.org/train@sha256:0"),
        ("expected_gpus", 8),
        ("canary_share", 0.05),
        ("exit_code", -9),
        ("quality_age_s", 0),
    ],
)
def test_it_takes_what_the_key_says(key: str, value: Any) -> None:
    """Each kind once."""
    assert fits(BY_KEY[key], value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("deadline", 1),
        ("deadline", "true"),
        ("job_kind", "Train"),
        ("image", ""),
        ("image", "   "),
        ("image", "x" * 201),
        ("image", 3),
        ("expected_gpus", True),
        ("expected_gpus", -1),
        ("expected_gpus", 1025),
        ("canary_share", math.nan),
        ("canary_share", math.inf),
        ("canary_share", "0.1"),
        ("canary_share", None),
        ("exit_code", 10**400),
        ("quality_age_s", -1),
    ],
)
def test_it_takes_nothing_else(key: str, value: Any) -> None:
    """Other kinds, values out of bounds, and numbers that are none."""
    assert not fits(BY_KEY[key], value)
