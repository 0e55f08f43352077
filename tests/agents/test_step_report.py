"""What a datagram comes to, from today's client, from an older one, and at an older agent."""

import json
import types
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.step_report import Told, decode, lasting, means, passing
from wire.metrics import Reported, of

SOURCE = Path(__file__).resolve().parents[2] / "clients" / "fettle_report.py"


def told(**fields: Any) -> Told:
    """A datagram as it is read."""
    return decode(json.dumps({"steps": 10, **fields}).encode())


def test_every_reported_metric_has_a_figure() -> None:
    """But for the three that need to know when and what was told before."""
    names = {metric.name for metric in of("process") if isinstance(metric.source, Reported)}
    found = means(None, told()) | lasting(told(), 0.0) | passing(told())

    assert names == found.keys() | {"step_time_max_s", "since_step_s"}


def test_means_are_of_those_steps_that_told_the_figure() -> None:
    """A step that told no tokens adds no time to them."""
    before = told(timed=9, step_s=9.0, tokens=900.0, tokens_s=9.0, h2ds=4, h2d_s=1.0, comms=1, comm_s=0.5)
    after = told(timed=19, step_s=29.0, tokens=1900.0, tokens_s=13.0, h2ds=8, h2d_s=3.0, comms=1, comm_s=0.5)
    found = means(before, after)

    assert (found["step_time_s"], found["tokens_per_s"], found["h2d_s"]) == (2.0, 250.0, 0.5)
    assert (found["comm_s"], found["data_wait_s"]) == ("not_found", "not_found")


def test_a_checkpoints_age_goes_on_while_nothing_comes() -> None:
    """Its figures stand however long ago it was."""
    found = lasting(told(checkpoints=3, checkpoint_s=20.0, checkpoint_bytes=1 << 33, since_checkpoint_s=5.0), 600.0)

    assert (found["checkpoints_total"], found["checkpoint_save_s"], found["checkpoint_bytes"]) == (3, 20.0, 1 << 33)
    assert found["since_checkpoint_s"] == 605.0


@pytest.mark.parametrize(
    ("counts", "errors"), [({}, "not_found"), ({"ooms": 2}, 2), ({"alloc_ooms": 0}, 0), ({"ooms": 1, "alloc_ooms": 3}, 3)]
)
def test_an_out_of_memory_error_that_both_counted_is_one(counts: dict[str, int], errors: object) -> None:
    """PyTorch's allocator counts what the script catches."""
    assert lasting(told(**counts), 0.0)["ooms_total"] == errors


def test_a_norm_that_is_infinite_is_told_as_such() -> None:
    """Not as one that nobody tells."""
    assert passing(told(grad_norm=None, grad_norm_spikes=0))["grad_norm"] == "not_a_number"
    assert passing(told())["grad_norm"] == "not_found"
    assert passing(told(grad_norm=2.5, loss_still=4))["grad_norm"] == 2.5


def test_what_an_older_client_does_not_tell_is_absent_not_zero() -> None:
    """A datagram of the first client, as it was."""
    old = {"steps": 11, "timed": 10, "waits": 0, "loss_not_finite": 0, "dropped": 0, "step_s": 2.0, "wait_s": 0.0}
    found = lasting(told(**old), 0.0) | passing(told(**old))

    present = {name: value for name, value in found.items() if value != "not_found"}
    assert present == {"steps_total": 11, "loss_not_finite_total": 0}


class FirstTold(msgspec.Struct, frozen=True, kw_only=True):
    """What the first agent that heard of steps read, and passed over nothing that it knew."""

    steps: int
    timed: int = 0
    step_s: float = 0.0
    waits: int = 0
    wait_s: float = 0.0
    samples: float = 0.0
    sampled_s: float = 0.0
    loss: float | None = None
    loss_not_finite: int = 0
    loss_scale: float | None = None
    alloc_peak_bytes: int | None = None
    alloc_retries: int | None = None
    dropped: int = 0


def test_an_older_agent_reads_what_it_knows_of_todays_datagram() -> None:
    """All figures and a description beside those that it knows."""
    client: Any = types.ModuleType("fettle_report")
    exec(compile(SOURCE.read_text(), str(SOURCE), "exec"), client.__dict__)
    client.describe(params=7e9)
    client.checkpoint(1.0, 10)
    client.step(samples=10, tokens=5, grad_norm=1.0)
    client.step(samples=10, loss=0.5, data_wait_s=0.25, h2d_s=0.5)
    datagram = client._datagram({**client._reporter.told, "described": client._reporter.facts})
    found = msgspec.json.decode(datagram, type=FirstTold)

    assert (found.steps, found.timed, found.waits, found.wait_s, found.samples, found.loss) == (2, 1, 1, 0.25, 10.0, 0.5)
    assert decode(datagram).described == {"params": 7_000_000_000}
