"""What of a query cannot be understood is answered 400, by name; it never returns everything."""

import pytest
from rest_framework.test import APIClient

from tests.fleet.rows import gpu, node


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nodes/?is_recording=maybe", "is_recording takes true or false"),
        ("findings/?open=x", "open takes true or false"),
        ("nodes/?page_size=abc", "page_size takes a whole number"),
        ("nodes/?page_size=0", "page_size takes a whole number"),
        ("nodes/?page_size=-1", "page_size takes a whole number"),
        ("nodes/?page_size=1001", "page_size takes a whole number"),
        ("nodes/?page_size=100000000", "page_size takes a whole number"),
        ("series/?scope=gpu&entity=1&metrics=power_w&step=10", "There is no parameter step"),
        ("series/?scope=gpu&entity=1&metrics=power_w&start=1&start=2", "start is given more than once"),
        ("nodes/?nodename=n1", "There is no parameter nodename"),
        ("gpus/?bottleneck=bogus", "bottleneck"),
        ("findings/?bottleneck=bogus", "bottleneck"),
        ("findings/?severity=bogus", "severity"),
        ("findings/?opened_after=0001-01-01T00:00:00%2B14:00", "opened_after"),
        ("findings/?opened_before=9999-12-31T23:59:59-14:00", "opened_before"),
    ],
)
def test_a_query_that_cannot_be_understood_is_refused(path: str, says: str, bob: APIClient) -> None:
    """400, and the parameter is named."""
    answer = bob.get(f"/api/v1/{path}")

    assert answer.status_code == 400
    assert says in answer.content.decode()


def test_gpus_are_asked_for_by_name_or_id_of_their_node(bob: APIClient) -> None:
    """The answer's `node` is an id; it may be asked for as well as the name."""
    home = node("n1")
    card = gpu(home)
    gpu(node("n2"))

    for asked in ("n1", str(home.pk)):
        assert [row["id"] for row in bob.get(f"/api/v1/gpus/?node={asked}").json()["results"]] == [card.pk]


def test_json_nested_too_deeply_is_refused(alice: APIClient) -> None:
    """It is the caller's mistake, not ours."""
    answer = alice.post("/api/v1/planners/batch/", "[" * 100_000, content_type="application/json")

    assert answer.status_code == 400


@pytest.mark.parametrize("path", ["schema/", "docs/"])
def test_the_schema_is_for_who_is_known(path: str, stranger: APIClient) -> None:
    """As the rest of the API."""
    assert stranger.get(f"/api/v1/{path}").status_code == 401


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("findings/?open=x", "open 只接受 true 或 false。"),
        ("nodes/?nodename=n1", "没有参数 nodename"),
        ("nodes/?page_size=0", "page_size 只接受"),
        ("findings/?opened_after=0001-01-01T00:00:00%2B14:00", "opened_after 和 opened_before 只接受"),
        ("series/?scope=gpu&entity=1&metrics=bogus", "范围 gpu 没有指标 bogus。"),
        ("series/?scope=gpu&entity=1&metrics=sm_active&start=x", "“x”不是有效时间"),
        ("series/?scope=gpu&entity=1&metrics=sm_active&start=0&end=999999&step_s=1", "共 999,999 个时间桶"),
    ],
)
def test_the_reason_comes_in_the_language_that_is_asked_for(path: str, says: str, bob: APIClient) -> None:
    """A sentence for people is one that they can read."""
    answer = bob.get(f"/api/v1/{path}", headers={"Accept-Language": "zh-hans"})

    assert answer.status_code == 400
    assert says in answer.content.decode()
