"""Which annotation counts for which target."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from fleet.annotations.matching import noted
from fleet.annotations.models import Annotation

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def say(target: str, key: str = "job_kind", value: Any = "train", scope: str = "job", **more: Any) -> None:
    """One annotation, told an hour ago."""
    Annotation.objects.create(
        **{"scope": scope, "target": target, "key": key, "value": value, "at": NOW - timedelta(hours=1), **more}
    )


def of_job(job: str) -> dict[str, Any]:
    """What counts for one job now."""
    return noted("job", {1: [job]}, NOW).get(1, {})


def test_the_target_itself_goes_before_patterns_and_the_most_exact_pattern_before_others() -> None:
    """Whatever came first."""
    for target, value in (("n1/ann/train.py", "eval"), ("n1/ann/*", "train"), ("*/ann/*", "other"), ("n?/bob/*", "serve")):
        say(target, value=value)

    assert of_job("n1/ann/train.py") == {"job_kind": "eval"}
    assert of_job("n1/ann/other.py") == {"job_kind": "train"}
    assert of_job("n2/ann/other.py") == {"job_kind": "other"}
    assert of_job("n3/bob/x") == {"job_kind": "serve"}
    assert of_job("n33/bob/x") == {}


def test_keys_of_several_patterns_come_together() -> None:
    """Each key has a value of its own."""
    say("n1/*", "deadline", value=True)
    say("*/train.py", "phase", value="train")

    assert of_job("n1/ann/train.py") == {"deadline": True, "phase": "train"}


def test_a_pattern_that_ends_or_begins_within_another_part_does_not_fit() -> None:
    """`xy*yx` is not `xyx`."""
    say("xy*yx")

    assert of_job("xyx") == {}
    assert of_job("xyyx") == {"job_kind": "train"}
    assert of_job("xy\nyx") == {"job_kind": "train"}


def test_signs_of_expressions_are_signs() -> None:
    """A target is no expression."""
    say("n1/(a+)+/[x].py")

    assert of_job("n1/(a+)+/[x].py") == {"job_kind": "train"}
    assert of_job("n1/aa/x.py") == {}


def test_what_is_over_or_still_to_come_does_not_count() -> None:
    """From `at` on, and before `until`."""
    say("old", until=NOW)
    say("new", at=NOW + timedelta(seconds=1))
    say("now", until=NOW + timedelta(seconds=1))

    assert (of_job("old"), of_job("new"), of_job("now")) == ({}, {}, {"job_kind": "train"})


def test_an_age_grows() -> None:
    """It was an hour when it was told, an hour ago."""
    say("n1/a/b", "quality_eval_age_s", 3600)

    assert of_job("n1/a/b")["quality_eval_age_s"] == pytest.approx(7200)


def test_what_the_registry_no_longer_takes_does_not_count() -> None:
    """Rows outlive releases."""
    say("a", "gone")
    say("b", "job_kind", "forgotten word")
    say("c", "maintenance", True)  # of nodes

    assert [of_job(job) for job in "abc"] == [{}, {}, {}]


def test_gpus_and_the_fleet_are_named_and_not_matched() -> None:
    """A star in their target is a star."""
    say("*", "energy_policy", True, "fleet")

    assert noted("fleet", {"fleet": ["fleet"]}, NOW) == {}


def test_a_pattern_made_to_be_slow_is_not() -> None:
    """Two hundred hostile ones on a thousand jobs; with an expression that goes back it would take years."""
    for number in range(200):
        say("a*" * 145 + str(number))
    jobs = {number: ["a" * 300] for number in range(20)}

    assert noted("job", jobs, NOW) == {}
