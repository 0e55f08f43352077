"""Errors, drops and resent segments of the host's network."""

from pathlib import Path

from agents.collectors.network import Network, Retransmits


def test_errors_and_drops_stand_beside_the_bytes(tmp_path: Path) -> None:
    """Columns as the kernel's header names them."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "dev").write_text(
        "Inter-|   Receive                            |  Transmit\n face |bytes packets errs drop ...\n"
        "    lo: 9 9 9 9 0 0 0 0 9 9 9 9 0 0 0 0\n  eth0: 100 1 2 3 0 0 0 0 200 4 5 6 0 0 0 0\n  ib0: 10 1 1 1 0 0 0 0 20 1 1 1 0 0 0 0\n"
    )

    assert Network(tmp_path).read() == {
        "net_rx_bytes_total": 110, "net_tx_bytes_total": 220, "net_rx_errors_total": 3, "net_tx_errors_total": 6,
        "net_rx_drops_total": 4, "net_tx_drops_total": 7,
    }  # fmt: skip


def test_resent_segments_are_found_by_their_name(tmp_path: Path) -> None:
    """Kernels add columns."""
    (tmp_path / "net").mkdir()
    snmp = tmp_path / "net" / "snmp"
    snmp.write_text("Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm OutSegs RetransSegs InErrs\nTcp: 1 1000 42 0\nUdp: A\nUdp: 1\n")
    assert Retransmits(tmp_path).read() == {"tcp_retransmits_total": 42}

    snmp.write_text("Tcp: RtoAlgorithm\nTcp: 1\n")
    assert Retransmits(tmp_path).read() == {}
