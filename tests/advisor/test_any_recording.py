"""Whatever stands in a recording, it is judged or refused by file and line; nothing else can happen."""

import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.recorded import judge
from cli.advise import lines
from wire import recording

Place: TypeAlias = tuple[str | int, ...]

RECORDINGS = Path(__file__).resolve().parent.parent.parent / "recordings"
ROWS: list[Any] = [
    json.loads(row) for row in gzip.decompress((RECORDINGS / "bf16_train.jsonl.gz").read_bytes()).splitlines()[:70]
]
EXTREMES: tuple[object, ...] = (
    10**400,
    -(10**400),
    10**30,
    2**63,
    2**64,
    -1,
    0,
    1e308,
    -1e308,
    5e-324,
    4095,
    4096,
    0.5,
    True,
    "",
    [],
    {},
    None,
)

one = st.sampled_from(EXTREMES) | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text(max_size=5)
anything = st.recursive(
    one,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.just("index"), inner, max_size=3),
    max_leaves=4,
)


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every place in a JSON value, the whole first."""
    yield at
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*at, key))


HEADER_PLACES, SAMPLE_PLACES = list(places(ROWS[0])), list(places(ROWS[60]))


def put(value: Any, at: Place, new: Any) -> Any:
    """`value` with `new` at `at`; unchanged where it has no such place."""
    if not at:
        return new
    key, *rest = at
    if isinstance(value, dict) and key in value:
        return value | {key: put(value[key], tuple(rest), new)}
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return [*value[:key], put(value[key], tuple(rest), new), *value[key + 1 :]]
    return value


def judged(path: Path, rows: list[Any]) -> None:
    """Write `rows`, judge them and say the judgement in both forms."""
    path.write_text("\n".join(map(json.dumps, rows)))
    refused = ""
    try:
        judgement = judge(recording.read(path))
    except recording.RecordingError as error:
        refused = str(error)
    if refused:
        assert f"{path}: line " in refused
        return
    assert json.dumps(judgement.as_json(), allow_nan=False)
    assert all(math.isfinite(share) for share in judgement.diagnosis.shares.values())
    assert lines(judgement)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.sampled_from(HEADER_PLACES), new=anything)
def test_any_value_anywhere_in_the_header_is_survived(tmp_path: Path, where: Place, new: Any) -> None:
    """Constants are taken, left out or refused."""
    judged(tmp_path / "any.jsonl", [put(ROWS[0], where, new), *ROWS[1:]])


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.sampled_from(SAMPLE_PLACES), new=anything, line=st.integers(1, 69), always=st.booleans())
def test_any_value_anywhere_in_samples_is_survived(tmp_path: Path, where: Place, new: Any, line: int, always: bool) -> None:
    """In one line or in all of them."""
    rows = [put(row, where, new) if number == line or (always and number) else row for number, row in enumerate(ROWS)]
    judged(tmp_path / "any.jsonl", rows)


@pytest.mark.parametrize("extreme", EXTREMES, ids=lambda value: f"{str(value)[:6]} ({type(value).__name__})")
def test_every_place_survives_the_extremes(tmp_path: Path, extreme: object) -> None:
    """The worst values in every reading of every sample at once."""

    def all_of(row: dict[str, Any]) -> dict[str, Any]:
        return {name: value if name in ("index", "pid", "pids") else extreme for name, value in row.items()}

    rows = [
        {
            "t": row["t"],
            "gpus": [*map(all_of, row["gpus"])],
            "processes": [*map(all_of, row["processes"])],
            "host": all_of(row["host"]),
        }
        for row in ROWS[1:]
    ]
    judged(tmp_path / "any.jsonl", [ROWS[0], *rows])
