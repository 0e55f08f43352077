"""The ring keeps the newest and five minutes, whatever order data comes in."""

import numpy as np
import pytest

from fleet.ingest.window import KEEP_S, Ring

T = 1_750_000_000.0


@pytest.fixture
def ring() -> Ring:
    """A ring with one node of two GPUs."""
    ring = Ring()
    ring.enrol(1, [11, 12])
    return ring


def put(ring: Ring, *rows: tuple[int, float, float]) -> None:
    """Rows of (GPU, time, power)."""
    values = np.full((len(rows), len(ring.gpu.names)), np.nan)
    values[:, ring.gpu.column["power_w"]] = [power for *_, power in rows]
    ring.put_gpus(np.array([gpu for gpu, *_ in rows]), np.array([at for _, at, _ in rows]), values)


def latest(ring: Ring, gpu: int) -> float:
    """The newest power."""
    return float(ring.gpu.values[ring.gpu.slots[gpu], ring.gpu.column["power_w"]])


def test_a_backlog_never_hides_what_is_newer(ring: Ring) -> None:
    """Old rows, in the same call or a later one, leave the newest value as it is and enter the history in their place."""
    put(ring, (11, T, 5.0), (11, T - 2, 3.0))
    put(ring, (11, T - 1, 4.0))

    assert latest(ring, 11) == 5.0
    assert ring.history(11, T)["ts"] == [T - 2, T - 1, T]
    assert ring.history(11, T)["power_w"] == [3.0, 4.0, 5.0]


def test_the_later_of_two_rows_of_one_second_stays(ring: Ring) -> None:
    """As in the store: of rows written twice the later one counts."""
    put(ring, (11, T, 1.0), (11, T, 2.0))

    assert latest(ring, 11) == 2.0
    assert ring.history(11, T)["power_w"] == [2.0]


def test_history_ends_after_five_minutes(ring: Ring) -> None:
    """What is older is not shown, neither when it comes late nor when its place is taken by a newer second."""
    put(ring, *[(11, T + second, float(second)) for second in range(KEEP_S + 10)])
    put(ring, (11, T + 5, 99.0))
    found = ring.history(11, T + KEEP_S + 9)

    assert found["power_w"] == [float(second) for second in range(10, KEEP_S + 10)]


def test_a_gap_is_a_gap_and_an_absent_value_null(ring: Ring) -> None:
    """Seconds without a sample are left out; a sample without the metric is null."""
    put(ring, (11, T, 1.0), (11, T + 5, float("nan")))

    assert ring.history(11, T + 5)["ts"] == [T, T + 5]
    assert ring.history(11, T + 5)["power_w"] == [1.0, None]


def test_a_gpu_that_is_no_longer_listed_is_forgotten(ring: Ring) -> None:
    """Its row goes to another GPU, without the old one's values or history."""
    put(ring, (11, T, 1.0), (12, T, 2.0))
    ring.enrol(1, [12])
    ring.enrol(1, [12, 13])

    assert 11 not in ring.gpu.slots
    assert np.isnan(latest(ring, 13))
    assert ring.history(13, T)["ts"] == []
    assert latest(ring, 12) == 2.0


def test_rows_of_unknown_gpus_are_passed_over(ring: Ring) -> None:
    """A batch that was still queued when its GPU went does not bring it back."""
    put(ring, (99, T, 1.0))

    assert 99 not in ring.gpu.slots


def test_it_grows_with_the_fleet() -> None:
    """A thousand nodes keep their own values."""
    ring = Ring()
    for node in range(1000):
        ring.enrol(node, [node * 2, node * 2 + 1])
    put(ring, *[(gpu, T, float(gpu)) for gpu in range(2000)])

    assert [latest(ring, gpu) for gpu in (0, 777, 1999)] == [0.0, 777.0, 1999.0]
    assert ring.history(1234, T)["power_w"] == [1234.0]
