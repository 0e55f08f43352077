"""How many sequences are decoded at once: as engines and scripts tell it, and by the roofline."""

from typing import Any

import polars as pl
import pytest

from advisor.decoding import with_sequences

GPU = pl.DataFrame({"gpu": [0, 1, 2], "job": ["a", "a", "b"]})


def told(service: pl.DataFrame | None = None, **job: Any) -> dict[str, Any]:
    """What is known of job a."""
    columns = {
        "job": "a",
        "gpu_model": "NVIDIA H200",
        "tensor_active_when_busy": 0.032,
        "dram_active_when_busy": 0.818,
        "micro_batch": None,
    }
    frame = pl.DataFrame([columns | job], schema_overrides={"micro_batch": pl.Float64})
    row: dict[str, Any] = with_sequences(frame, service, GPU).row(0, named=True)
    return row


@pytest.mark.parametrize(("tensor", "memory", "sequences"), [(0.0320, 0.818, 8), (0.24, 0.80, 64)])
def test_the_roofline_tells_the_batch_of_the_recordings(tensor: float, memory: float, sequences: int) -> None:
    """Of an H200 within 5 %."""
    found = told(tensor_active_when_busy=tensor, dram_active_when_busy=memory)

    assert found["sequences_padded"] == pytest.approx(sequences, rel=0.05)
    assert found["sequences_now"] is None
    assert 56 <= found["sequences_planned"] <= 64


def test_nothing_is_said_of_a_card_that_is_not_known_nor_of_one_that_rests() -> None:
    """Null, not a guess."""
    strange = told(gpu_model="NVIDIA X1")
    resting = told(dram_active_when_busy=0.0)

    assert (strange["sequences_padded"], strange["sequences_planned"]) == (None, None)
    assert (resting["sequences_padded"], resting["sequences_planned"]) == (None, None)


def test_engines_go_before_the_script_and_their_caches_bound_the_plan() -> None:
    """An engine on two GPUs counts once; those of another job do not count."""
    service = pl.DataFrame(
        {
            "service": [1, 2],
            "members": [[0, 1], [2]],
            "requests_running": [6.0, 9.0],
            "batch_size": [None, 4.0],
            "seqs_that_fit": [24, 99],
        },
        schema_overrides={"batch_size": pl.Float64},
    )
    found = told(service, micro_batch=3.0)

    assert (found["sequences_now"], found["sequences_planned"]) == (6.0, 24)
    assert told(micro_batch=3.0)["sequences_now"] == 3.0
    assert told(service.filter(pl.col("service") == 2))["sequences_now"] is None
