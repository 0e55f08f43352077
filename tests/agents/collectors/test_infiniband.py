"""InfiniBand ports: words of four octets, wraps, stuck counters, drivers that give octets already."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from agents.collectors.infiniband import InfiniBand

SECOND = 12_500_000_000
"""Octets that a 100 Gb/s port carries in a second."""


class Port:
    """One port made of files."""

    def __init__(self, sys: Path, device: str = "mlx5_0", number: int = 1) -> None:
        self.folder = sys / "class" / "infiniband" / device / "ports" / str(number)
        (self.folder / "counters").mkdir(parents=True)
        (self.folder / "state").write_text("4: ACTIVE\n")
        (self.folder / "rate").write_text("100 Gb/sec (4X EDR)\n")
        (self.folder / "link_layer").write_text("InfiniBand\n")
        (sys / "class" / "infiniband" / device / "board_id").write_text("MT_0000000838\n")
        for name in ("port_rcv_data", "port_xmit_data", "symbol_error", "link_downed", "port_xmit_wait"):
            self.counts(name, 0)

    def counts(self, name: str, value: object) -> None:
        """Set a counter."""
        (self.folder / "counters" / name).write_text(f"{value}\n")


@pytest.fixture
def clock() -> Callable[[], float]:
    """Steps by a second each time it is asked."""
    ticks = count()
    return lambda: float(next(ticks))


def test_data_counters_count_words_of_four_octets(tmp_path: Path, clock: Callable[[], float]) -> None:
    """Over all ports; a port without a link is counted and not active."""
    one, two = Port(tmp_path), Port(tmp_path, "mlx5_1")
    (two.folder / "state").write_text("1: DOWN\n")
    ib = InfiniBand(tmp_path, clock)
    ib.read()
    one.counts("port_rcv_data", 1000)
    two.counts("port_rcv_data", 10)
    one.counts("symbol_error", 3)
    two.counts("port_xmit_wait", 70)
    found = ib.read()

    assert found["ib_rx_bytes_total"] == 4040
    assert found["ib_tx_bytes_total"] == 0
    assert (found["ib_ports"], found["ib_ports_active"]) == (2, 1)
    assert (found["ib_symbol_errors_total"], found["ib_link_downed_total"], found["ib_xmit_wait_total"]) == (3, 0, 70)


def test_a_counter_of_32_bits_that_wraps_goes_on(tmp_path: Path, clock: Callable[[], float]) -> None:
    """No abs() of a negative difference, no loss."""
    port = Port(tmp_path)
    port.counts("port_rcv_data", (1 << 32) - 100)
    ib = InfiniBand(tmp_path, clock)
    before = ib.read()["ib_rx_bytes_total"]
    port.counts("port_rcv_data", 50)

    assert ib.read()["ib_rx_bytes_total"] == int(before) + 150 * 4


def test_a_counter_that_began_anew_begins_anew(tmp_path: Path, clock: Callable[[], float]) -> None:
    """What would have been sent meanwhile is more than the wire carries: a reset, which the server sees as one."""
    port = Port(tmp_path)
    port.counts("port_rcv_data", 10_000_000_000)
    ib = InfiniBand(tmp_path, clock)
    ib.read()
    port.counts("port_rcv_data", 25)

    assert ib.read()["ib_rx_bytes_total"] == 100


def test_octets_are_told_from_words_by_what_the_port_can_carry(tmp_path: Path, clock: Callable[[], float]) -> None:
    """Four times as much would not fit the wire: this driver counts octets."""
    port = Port(tmp_path)
    ib = InfiniBand(tmp_path, clock)
    ib.read()
    port.counts("port_xmit_data", SECOND)
    assert ib.read()["ib_tx_bytes_total"] == SECOND
    port.counts("port_xmit_data", SECOND + 7)

    assert ib.read()["ib_tx_bytes_total"] == SECOND + 7


def test_more_than_the_wire_carries_even_as_octets_is_no_number(tmp_path: Path, clock: Callable[[], float]) -> None:
    """A firmware's garbage costs one interval; the next one is counted again."""
    port = Port(tmp_path)
    ib = InfiniBand(tmp_path, clock)
    ib.read()
    port.counts("port_rcv_data", 9 * SECOND)
    assert ib.read()["ib_rx_bytes_total"] == "out_of_range"
    port.counts("port_rcv_data", 9 * SECOND + 5)

    assert ib.read()["ib_rx_bytes_total"] == 20


@pytest.mark.parametrize(
    ("content", "reason"), [(0xFFFFFFFF, "blank"), ("N/A (no PMA)", "not_a_number")], ids=["stuck at its end", "no PMA"]
)
def test_a_counter_without_a_value_has_a_reason(tmp_path: Path, clock: Callable[[], float], content: object, reason: str) -> None:
    """And the sum of all ports with it: a sum that lacks a port is not the sum."""
    Port(tmp_path, "mlx5_1")
    Port(tmp_path).counts("port_rcv_data", content)
    found = InfiniBand(tmp_path, clock).read()

    assert found["ib_rx_bytes_total"] == reason
    assert found["ib_tx_bytes_total"] == 0


def test_a_virtual_function_has_no_counters(tmp_path: Path, clock: Callable[[], float]) -> None:
    """Its port is there all the same; a node without InfiniBand says nothing."""
    port = Port(tmp_path)
    for file in (port.folder / "counters").iterdir():
        file.unlink()

    assert InfiniBand(tmp_path, clock).read()["ib_rx_bytes_total"] == "unsupported"
    assert InfiniBand(tmp_path / "none", clock).read() == {}


def rates(sys: Path) -> tuple[object, object]:
    """The ports' speed in Gb/s, now and at their best; or the reasons."""
    found = InfiniBand(sys).read()
    told = (found["ib_rate_bytes_per_s"], found["ib_rate_max_bytes_per_s"])
    return tuple(value if isinstance(value, str) else value * 8 / 1e9 for value in told)  # type: ignore[return-value]


def test_a_port_that_trained_down_is_slower_than_its_peers(tmp_path: Path) -> None:
    """One lane of four; a port that is down has no speed, and a board of another kind is no peer."""
    ports = [Port(tmp_path, f"mlx5_{number}") for number in range(4)]
    storage = Port(tmp_path, "mlx5_4")
    (tmp_path / "class/infiniband/mlx5_4/board_id").write_text("MT_0000000359\n")
    (storage.folder / "rate").write_text("25 Gb/sec (1X EDR)\n")
    assert rates(tmp_path) == (425.0, 425.0)
    (ports[2].folder / "rate").write_text("25 Gb/sec (1X EDR)\n")
    assert rates(tmp_path) == (350.0, 425.0)
    (ports[2].folder / "state").write_text("1: DOWN\n")
    (ports[2].folder / "rate").write_text("2.5 Gb/sec (1X SDR)\n")

    assert rates(tmp_path) == (325.0, 325.0)


def test_an_ethernet_port_of_the_same_board_is_no_peer(tmp_path: Path) -> None:
    """A board may speak either, at another speed."""
    roce = Port(tmp_path, "mlx5_1")
    Port(tmp_path)
    (roce.folder / "link_layer").write_text("Ethernet\n")
    (roce.folder / "rate").write_text("25 Gb/sec (1X EDR)\n")

    assert rates(tmp_path) == (125.0, "not_found")


def test_ports_that_do_not_say_how_fast_they_are_have_no_speed(tmp_path: Path) -> None:
    """Neither zero nor that of the others alone; without a link there is none to have."""
    Port(tmp_path)
    odd = Port(tmp_path, "mlx5_1")
    (odd.folder / "rate").write_text("\n")
    assert rates(tmp_path) == ("unsupported", "unsupported")
    for port in tmp_path.glob("class/infiniband/*/ports/1/state"):
        port.write_text("1: DOWN\n")

    assert rates(tmp_path) == (0.0, "not_found")
