"""Errors, drops and resent segments of the host's network."""

from pathlib import Path

import pytest

from agents.collectors.network import Network, NicRate, Retransmits


def test_errors_and_drops_stand_beside_the_bytes(tmp_path: Path) -> None:
    """Columns as the kernel's header names them."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "dev").write_text(
        "Inter-|   Receive                            |  Transmit\n face |bytes packets errs drop ...\n"
        "    lo: 9 9 9 9 0 0 0 0 9 9 9 9 0 0 0 0\n  eth0: 100 1 2 3 0 0 0 0 200 4 5 6 0 0 0 0\n  ib0: 10 1 1 1 0 0 0 0 20 1 1 1 0 0 0 0\n"
    )

    assert Network(tmp_path, tmp_path / "no sys").read() == {
        "net_rx_bytes_total": 110, "net_tx_bytes_total": 220, "net_rx_errors_total": 3, "net_tx_errors_total": 6,
        "net_rx_drops_total": 4, "net_tx_drops_total": 7,
    }  # fmt: skip


def interfaces(root: Path, *names: str) -> None:
    """A kernel's list of them; each has received 100 bytes."""
    (root / "net").mkdir(exist_ok=True)
    rows = [f"{name:>6}: 100 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n" for name in names]
    (root / "net" / "dev").write_text("Inter-|\n face |\n" + "".join(rows))


def device(root: Path, name: str, master: str = "") -> None:
    """What /sys says of a card's interface."""
    (root / "class" / "net" / name / "device").mkdir(parents=True)
    if master:
        (root / "class" / "net" / name / "master").symlink_to(f"../{master}")


def test_only_devices_count_where_sys_tells_them(tmp_path: Path) -> None:
    """A VLAN, a bridge, a bond and a tunnel carry the devices' bytes again; a bond's members count once each."""
    interfaces(tmp_path, "lo", "ens1", "ens2", "bond0", "bond0.100", "br0", "wg0", "ens1.42", "storage")
    device(tmp_path, "ens1", master="bond0")
    device(tmp_path, "ens2", master="bond0")
    (tmp_path / "class" / "net" / "bond0").mkdir()
    assert Network(tmp_path, tmp_path).read()["net_rx_bytes_total"] == 200


def test_a_virtual_function_below_the_device_that_counts_it_is_left_out(tmp_path: Path) -> None:
    """As Hyper-V's accelerated networking has it."""
    interfaces(tmp_path, "eth0", "enP1s1")
    device(tmp_path, "eth0")
    device(tmp_path, "enP1s1", master="eth0")
    assert Network(tmp_path, tmp_path).read()["net_rx_bytes_total"] == 100


def test_an_interface_that_comes_later_is_looked_at(tmp_path: Path) -> None:
    """A card that is plugged in counts from its first read on."""
    interfaces(tmp_path, "ens1")
    device(tmp_path, "ens1")
    network = Network(tmp_path, tmp_path)
    first = network.read()
    interfaces(tmp_path, "ens1", "ens2")
    device(tmp_path, "ens2")
    assert (first["net_rx_bytes_total"], network.read()["net_rx_bytes_total"]) == (100, 200)


@pytest.mark.parametrize(
    "name", ["br0", "wg0", "tun0", "tap3", "vlan100", "eth0.100", "vxlan.calico", "gre0", "sit0", "macvtap0"]
)
def test_names_say_what_stands_on_others_where_sys_does_not_tell(tmp_path: Path, name: str) -> None:
    """A container's own eth0 is no device; it counts, and what stands on it does not."""
    interfaces(tmp_path, "lo", "eth0", name)
    assert Network(tmp_path, tmp_path / "no sys").read()["net_rx_bytes_total"] == 100


def test_resent_segments_are_found_by_their_name(tmp_path: Path) -> None:
    """Kernels add columns."""
    (tmp_path / "net").mkdir()
    snmp = tmp_path / "net" / "snmp"
    snmp.write_text("Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm OutSegs RetransSegs InErrs\nTcp: 1 1000 42 0\nUdp: A\nUdp: 1\n")
    assert Retransmits(tmp_path).read() == {"tcp_retransmits_total": 42}

    snmp.write_text("Tcp: RtoAlgorithm\nTcp: 1\n")
    assert Retransmits(tmp_path).read() == {}


def test_the_fastest_card_that_is_up_tells_its_speed(tmp_path: Path) -> None:
    """The kernel counts in Mb/s; bridges are no cards, and one that is down has no speed."""
    for name, state, speed in (
        ("ens1", "up", "25000"),
        ("ens2", "up", "100000"),
        ("ens3", "down", "400000"),
        ("ens4", "up", "-1"),
    ):
        device(tmp_path, name)
        (tmp_path / "class/net" / name / "operstate").write_text(state + "\n")
        (tmp_path / "class/net" / name / "speed").write_text(speed + "\n")
    (tmp_path / "class/net/br0").mkdir()
    (tmp_path / "class/net/br0/operstate").write_text("up\n")
    (tmp_path / "class/net/br0/speed").write_text("800000\n")

    assert NicRate(tmp_path).read() == {"nic_rate_bytes_per_s": 12.5e9}


def test_a_virtual_machines_card_that_does_not_say_is_no_answer(tmp_path: Path) -> None:
    """Not zero: nothing is known."""
    device(tmp_path, "eth0")
    (tmp_path / "class/net/eth0/operstate").write_text("up\n")
    (tmp_path / "class/net/eth0/speed").write_text("-1\n")

    assert NicRate(tmp_path).read() == {}
    assert NicRate(tmp_path / "none").read() == {}
