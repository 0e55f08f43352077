"""Numbers in bodies of requests: true and false are none."""

import pytest
from rest_framework import serializers

import fleet.api.urls  # noqa: F401 - every body of the API is declared by what it imports
from fleet.api.asked import AskedSerializer


def bodies() -> list[type[AskedSerializer]]:
    """Every body that may be sent."""
    found = [AskedSerializer]
    for one in found:
        found += one.__subclasses__()
    return found[1:]


NUMBERS = [
    (body, name)
    for body in bodies()
    for name, field in body().fields.items()
    if isinstance(field, serializers.FloatField | serializers.IntegerField | serializers.DecimalField)
]


def test_there_are_bodies_with_numbers() -> None:
    """Else the next test would check nothing."""
    assert {(body.__name__, name) for body, name in NUMBERS} >= {("WantedSerializer", "value"), ("AskSerializer", "seconds")}


@pytest.mark.parametrize(("body", "name"), NUMBERS)
@pytest.mark.parametrize("flag", [True, False])
def test_true_and_false_are_no_numbers(body: type[AskedSerializer], name: str, flag: bool) -> None:
    """Python counts with them as 1 and 0; a caller who sends one meant something else, and is told at that key."""
    asked = body(data={name: flag})

    assert not asked.is_valid()
    assert asked.errors[name] == ["This must be a number, not true or false."]
