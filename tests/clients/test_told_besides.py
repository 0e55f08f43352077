"""What else the client tells: more of each step, checkpoints, errors that were survived, and what the run is."""

import json
import socket
import types
from pathlib import Path
from typing import Any

import pytest

from tests.clients.reporting import got


def test_what_else_a_step_may_tell_comes_as_sums_too(agent: socket.socket, client: Any) -> None:
    """A figure that no step ever gave is not there: none is not zero."""
    client.step(tokens=100)
    client.step(tokens=100, h2d_s=0.25, comm_s=0.5, grad_norm=2.0)
    client.step(h2d_s=0.25, grad_norm=float("inf"))
    first, second, third = got(agent)

    assert "tokens" not in first  # its time is not known
    assert not {"h2ds", "comms", "grad_norm", "grad_norm_spikes", "checkpoints", "ooms"} & first.keys()
    assert (second["tokens"], second["tokens_s"]) == (100.0, second["step_s"])
    assert (third["h2ds"], third["h2d_s"], third["comms"], third["comm_s"]) == (2, 0.5, 1, 0.5)
    assert (second["grad_norm"], third["grad_norm"], third["grad_norm_spikes"]) == (2.0, None, 0)


def test_a_norm_of_ten_times_the_median_is_a_spike(agent: socket.socket, client: Any) -> None:
    """Not before there are enough to have a median, and a climb that lasts is no row of spikes."""
    for norm in (1.0, 1.0, 50.0, *[1.0] * 2 * client.FEW):
        client.step(grad_norm=norm)
    assert got(agent)[-1]["grad_norm_spikes"] == 0
    for norm in (9.9, 10.0, 11.0):
        client.step(grad_norm=norm)
    assert got(agent)[-1]["grad_norm_spikes"] == 2
    for _ in range(2 * client.LAST):
        client.step(grad_norm=20.0)
    got(agent)
    spikes = client._reporter.told["grad_norm_spikes"]
    for _ in range(client.LAST):
        client.step(grad_norm=20.0)

    assert client._reporter.told["grad_norm_spikes"] == spikes


def test_the_longest_step_is_told_until_it_has_arrived(
    agent: socket.socket, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And steps over five times the median are counted: the pauses for an evaluation, or a stall."""
    now = [100.0]
    monkeypatch.setattr(client, "time", types.SimpleNamespace(monotonic=lambda: now[0]))

    def step_of(seconds: float) -> dict[str, Any]:
        now[0] += seconds
        client.step()
        return (got(agent) or [{}])[-1]

    for _ in range(2 * client.FEW):
        found = step_of(1.0)
    assert (found["step_max_s"], found["slow_steps"]) == (1.0, 0)
    client.SEND_S = 60.0
    step_of(1.0)
    assert step_of(6.0) == step_of(2.0) == {}
    client._reporter.send_at = 0.0
    while True:  # nobody reads: this one is lost, and with it nothing
        try:
            client._reporter.socket.send(b"{}")
        except BlockingIOError:
            break
    client.step()
    got(agent)
    client.SEND_S = client._reporter.send_at = 0.0
    found = step_of(0.5)
    assert (found["step_max_s"], found["slow_steps"], found["dropped"]) == (6.0, 1, 1)

    assert step_of(0.5)["step_max_s"] == 0.5


def test_a_loss_that_stands_still_is_counted(agent: socket.socket, client: Any) -> None:
    """To the last digit; steps that tell no loss are passed over, and what is no number never stands."""
    found = []
    for loss in (1.0, 1.0, None, 1.0, 0.5, float("inf"), float("inf")):
        client.step(loss=loss)
        found.append(got(agent)[-1].get("loss_still"))

    assert found == [0, 1, 1, 2, 0, 0, 0]


def test_a_checkpoint_and_a_survived_oom_are_told_at_once(
    agent: socket.socket, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not a step is reported; the checkpoint's age goes with each datagram."""
    now = [100.0]
    monkeypatch.setattr(client, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    client.checkpoint(12.5, bytes=1 << 33)
    client.oom()
    now[0] += 40
    client.checkpoint(object(), bytes=-1)
    now[0] += 3
    client.step()
    first, second, third, last = got(agent)

    assert (first["steps"], first["checkpoints"], first["checkpoint_s"], first["checkpoint_bytes"]) == (0, 1, 12.5, 1 << 33)
    assert ("ooms" in first, second["ooms"]) == (False, 1)
    assert (third["checkpoints"], third["checkpoint_s"], third["checkpoint_bytes"]) == (2, None, None)
    assert (first["since_checkpoint_s"], last["since_checkpoint_s"]) == (0.0, 3.0)


def test_a_description_is_told_when_it_changes_and_now_and_then(agent: socket.socket, client: Any) -> None:
    """Facts add up, None takes one back; a datagram that was lost is no reason to keep silent."""
    client.describe(params=7e9, dtype="bf16", offload=False)
    client.step()
    client.describe(seq=4096, dtype=None)
    client.step()
    client._reporter.describe_at = 1.0
    client.step()
    told = [one.get("described") for one in got(agent)]

    now = {"params": 7_000_000_000, "offload": False, "seq": 4096}
    assert told == [{"params": 7_000_000_000, "dtype": "bf16", "offload": False}, None, now, None, now]


def test_an_agent_that_comes_later_hears_the_description(path: Path, client: Any) -> None:
    """It may have been started anew."""
    client.describe(params=1)
    client.step()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.bind(str(path))
        link.setblocking(False)
        client._reporter.retry_at = 0.0
        client.step()
        assert [one["described"] for one in got(link)] == [{"params": 1}]
    path.unlink()
    client.step()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.bind(str(path))
        link.setblocking(False)
        client._reporter.retry_at = 0.0
        client.step()

        assert [one["described"] for one in got(link)] == [{"params": 1}]


@pytest.mark.parametrize("odd", [b"1", [1], {}, object(), 10**400, complex(1), float("nan"), "x" * 41, "a\nb", "ü"])
def test_nothing_that_a_script_may_tell_besides_raises(agent: socket.socket, client: Any, odd: object) -> None:
    """What is no usable fact is left out."""
    client.describe(odd=odd, layers=3)
    client.checkpoint(odd, odd)
    client.step(tokens=odd, h2d_s=odd, comm_s=odd, grad_norm=odd)
    client.oom(odd, odd=odd)
    found = got(agent)

    assert found[0]["described"] == {"layers": 3}
    assert len(found) == 4
    for one in found:
        json.dumps(one, allow_nan=False)


def test_the_largest_datagram_is_one_that_every_agent_takes(agent: socket.socket, client: Any) -> None:
    """2,048 bytes, whatever the numbers; facts that do not fit are left out, the first ones kept."""
    client._reporter.told.update(dict.fromkeys(client._reporter.told, 1 << 53))
    client.describe(**{f"a_name_of_length_{number:02}": 1.2345678901234567e-300 for number in range(99)}, **{"x" * 999: 1})
    client._reporter.told.update(dict.fromkeys(client.ALLOCATOR, 1 << 53))
    client.step(1e11 / 3, 1e29 / 3, 1e5 / 3, 1e29 / 3, tokens=1e11 / 3, h2d_s=1e5 / 3, comm_s=1e5 / 3, grad_norm=1e29 / 3)
    client.checkpoint(1e5 / 3, 1 << 52)
    client.oom()
    client.describe(a_name_of_length_00=1)
    found = got(agent)[-1]

    assert "a_name_of_length_00" in found["described"]
    assert 700 < len(json.dumps(found, separators=(",", ":"))) < 2048
