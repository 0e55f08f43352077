"""The whole fleet's storage: who starves, who reads most, how much longer a request takes."""

from typing import Any

import polars as pl
import pytest

from advisor.storage import fleet_row


def jobs(*rows: dict[str, Any]) -> pl.DataFrame:
    """A job each."""
    return pl.DataFrame([{"job": f"j{number}", "node": number, **row} for number, row in enumerate(rows)])


def test_it_counts_who_waits_and_names_who_reads() -> None:
    """Three starve on two nodes, one of them by its label's share; the heavy reader does not wait itself."""
    told = fleet_row(
        jobs(
            {"node": 1, "data_wait_share": 0.15, "share_data": 0.9, "storage_read_bytes_per_s": 1e8},
            {"node": 1, "data_wait_share": 0.5, "share_data": None, "storage_read_bytes_per_s": 2e8},
            {"node": 2, "data_wait_share": None, "share_data": 0.2, "storage_read_bytes_per_s": 1e8},
            {"node": 3, "data_wait_share": 0.01, "share_data": 0.9, "storage_read_bytes_per_s": 4e8},
        ),
        pl.DataFrame({"node": [1, 2, 3], "disk_await_s": [0.03, 0.05, 0.001], "base_disk_await_s": [0.01, 0.01, 0.001]}),
    )

    assert told["data_starved_jobs"] == 3
    assert told["data_starved_nodes"] == 2
    assert told["storage_top_job"] == "j3"
    assert told["storage_top_share"] == pytest.approx(0.5)
    assert told["storage_await_ratio"] == pytest.approx(4.0)


def test_what_nobody_tells_is_unknown() -> None:
    """No column, no row, no base: None, and never zero."""
    unknown = dict.fromkeys(
        ("data_starved_jobs", "data_starved_nodes", "storage_top_job", "storage_top_share", "storage_await_ratio")
    )

    assert fleet_row(pl.DataFrame(), pl.DataFrame()) == unknown
    assert fleet_row(jobs({"gpus": 1}), pl.DataFrame({"node": [0], "disk_await_s": [0.1]})) == unknown


def test_nobody_who_waits_is_zero() -> None:
    """Both are told, and small."""
    told = fleet_row(jobs({"data_wait_share": 0.0, "storage_read_bytes_per_s": 0.0}), pl.DataFrame())

    assert (told["data_starved_jobs"], told["data_starved_nodes"], told["storage_top_job"]) == (0, 0, None)
