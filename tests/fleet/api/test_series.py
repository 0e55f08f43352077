"""/api/v1/series/"""

from typing import Any
from urllib.parse import urlencode

import polars as pl
import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient

from fleet.api.series import MAX_POINTS
from fleet.inventory.models import Engine
from fleet.store.series import store
from tests.fleet.rows import gpu, node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
T = 1_764_504_000


def ask(client: APIClient, **query: object) -> tuple[int, dict[str, object]]:
    """Status and body."""
    answer = client.get(f"/api/v1/series/?{urlencode(query)}")
    return answer.status_code, answer.json()


def test_it_gives_one_list_a_metric_with_null_where_absent(bob: APIClient) -> None:
    """A bucket without a sample, and a sample without the metric, are null; neither is zero or left out."""
    card = gpu(node())
    rows = {"entity": [card.pk] * 3, "ts": [T, T + 5, T + 20], "power_w": [100.0, 300.0, None], "sm_active": [0.5, 0.5, 0.0]}
    store().write("gpu", pl.DataFrame(rows))

    assert ask(bob, scope="gpu", entity=card.pk, metrics="power_w,sm_active", start=T, end=T + 30, step_s=10) == (
        200,
        {"ts": [T, T + 10, T + 20], "power_w": [200.0, None, None], "sm_active": [0.5, None, 0.0]},
    )


def test_it_gives_a_hosts_series_too(bob: APIClient) -> None:
    """Scope host, entity a node's id."""
    home = node()
    store().write("host", pl.DataFrame({"entity": [home.pk], "ts": [T], "cpu_busy_cores": [3.5]}))

    assert ask(bob, scope="host", entity=home.pk, metrics="cpu_busy_cores", start=T, end=T + 10, step_s=10) == (
        200,
        {"ts": [T], "cpu_busy_cores": [3.5]},
    )


def test_it_gives_an_engines_series_too(bob: APIClient) -> None:
    """Scope engine, entity an engine's id, in the server's time where its node's clock is off; an unknown one is 404."""
    home = node(clock_skew_s=100.0)
    at = timezone.now()
    one = Engine.objects.create(node=home, name="http://h:1", kind="vllm", first_seen_at=at, last_seen_at=at)
    store().write("engine", pl.DataFrame({"entity": [one.pk], "ts": [T + 100], "ttft_mean_s": [0.153], "kv_cache_used": [0.5]}))
    query = {"scope": "engine", "metrics": "ttft_mean_s,kv_cache_used", "start": T, "end": T + 10, "step_s": 10}

    assert ask(bob, entity=one.pk, **query) == (200, {"ts": [T], "ttft_mean_s": [0.153], "kv_cache_used": [0.5]})
    assert ask(bob, entity=one.pk + 1, **query)[0] == 404


def test_times_may_be_iso_8601(bob: APIClient) -> None:
    """With an offset, even where the plus sign came as a space."""
    card = gpu(node())
    query = {"scope": "gpu", "entity": card.pk, "metrics": "power_w", "step_s": 60}
    status, body = ask(bob, **query, start="2025-11-30T12:00:00Z", end="2025-11-30T13:02:00 01:00")

    assert status == 200
    assert body["ts"] == [T, T + 60]


def test_without_times_it_is_the_last_hour(bob: APIClient) -> None:
    """In at most some seven hundred buckets."""
    card = gpu(node())
    status, body = ask(bob, scope="gpu", entity=card.pk, metrics="power_w")

    assert status == 200
    assert 715 <= len(body["ts"]) <= 725  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scope": "galaxy"}, "galaxy"),
        ({"scope": "process"}, "process"),
        ({"entity": "x"}, "integer"),
        ({"entity": 0}, "greater"),
        ({"entity": 1 << 80}, "less"),
        ({"metrics": ""}, "blank"),
        ({"metrics": ","}, "at least one"),
        ({"metrics": "power_w,nonsense"}, "nonsense"),
        ({"metrics": "cpu_busy_cores"}, "Scope gpu has no metric cpu_busy_cores"),
        ({"metrics": ",".join(f"m{n}" for n in range(60))}, "60 metrics"),
        ({"start": "yesterday"}, "no time"),
        ({"start": "2025-11-30T12:00:00"}, "offset"),
        ({"start": "nan"}, "outside"),
        ({"start": "inf"}, "outside"),
        ({"start": -5}, "outside"),
        ({"start": T + 60}, "before the end"),
        ({"step_s": 0}, "greater"),
        ({"start": T - MAX_POINTS * 2, "step_s": 1}, "Widen step_s"),
        ({"start": 0, "step_s": 31 * 86_400}, "kept for 730 at most"),
    ],
)
def test_bad_input_gets_a_sentence(bob: APIClient, change: dict[str, object], said: str) -> None:
    """400, and the body says by parameter what does not fit."""
    card = gpu(node())
    query: dict[str, object] = {"scope": "gpu", "entity": card.pk, "metrics": "power_w", "start": T, "end": T + 60, "step_s": 10}
    status, body = ask(bob, **{**query, **change})
    errors: Any = body["errors"]

    assert status == 400
    assert set(errors) <= set(query)
    assert said in str(body)


def test_an_unknown_gpu_is_not_found(bob: APIClient) -> None:
    """404 rather than an empty series."""
    assert ask(bob, scope="gpu", entity=999, metrics="power_w")[0] == 404


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.dictionaries(
        st.sampled_from(["scope", "entity", "metrics", "start", "end", "step_s", "format"]),
        st.one_of(
            st.text(max_size=30),
            st.integers().map(str),
            st.floats().map(str),
            st.sampled_from(["gpu", "host", "1", "power_w", "power_w,sm_active", str(T), "2025-11-30T12:00:00Z"]),
            st.datetimes().map(str),
        ),
    )
)
def test_no_query_breaks_it(bob: APIClient, query: dict[str, str]) -> None:
    """Whatever is asked, the answer is data, a sentence, or not found; and it is bounded."""
    if not store().window("gpu", T, T + 1).height:
        store().write("gpu", pl.DataFrame({"entity": [gpu(node()).pk], "ts": [T], "power_w": [1.0]}))
    answer = bob.get("/api/v1/series/", query)

    assert answer.status_code in (200, 400, 404)
    if answer.status_code == 200:
        assert len(answer.json()["ts"]) <= MAX_POINTS
