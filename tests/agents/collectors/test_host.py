"""The host's readings from a /proc made of files."""

import os
from pathlib import Path

import pytest

from agents.collectors.cpu import Cpu
from agents.collectors.host import FAST, HOST_METRICS, OTHERS, POSITION, HostCollector, slow
from agents.collectors.host_facts import facts
from agents.collectors.network import Network
from tests.agents.proc import Proc


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    """A host of two cores."""
    made = Proc(tmp_path)
    made.stat((100, 50, 800, 50), (0, 0, 1000, 0))
    made.meminfo(1000, 400)
    made.diskstats(sda=(10, 20), sda1=(10, 20), nvme0n1=(1, 2), nvme0n1p1=(1, 2), dm=(9, 9), loop0=(5, 5))
    made.net(lo=(7, 7), eth0=(100, 200), veth12ab=(50, 60), docker0=(50, 60), ib0=(1000, 2000))
    return made


def host_of(proc: Proc) -> HostCollector:
    """A collector of the made host alone: nothing of this machine is read."""
    return HostCollector(proc.root, proc.root / "sys", proc.root / "shm")


def reading(host: HostCollector, name: str) -> tuple[object, str | None]:
    """Value and reason of one metric."""
    return host.values[POSITION[name]], host.reasons[POSITION[name]]


def test_shares_are_over_the_interval_between_two_ticks(proc: Proc) -> None:
    """Half of the first core's time was user code, a tenth waited for disks."""
    host = host_of(proc)
    host.collect()
    assert reading(host, "cpu_user_pct") == (None, "no_previous")
    proc.stat((150, 70, 820, 60), (0, 0, 1100, 0))
    host.collect()

    assert host.per_core_pct == [pytest.approx(70), 0]
    assert reading(host, "cpu_busy_cores") == (pytest.approx(0.7), None)
    assert reading(host, "cpu_core_max_pct") == (pytest.approx(70), None)
    assert reading(host, "cpu_user_pct") == (pytest.approx(25), None)
    assert reading(host, "cpu_system_pct") == (pytest.approx(10), None)
    assert reading(host, "cpu_iowait_pct") == (pytest.approx(5), None)


def test_what_the_hypervisor_took_is_steal_and_busy(proc: Proc) -> None:
    """A machine that waits for its own host shows it."""
    host = host_of(proc)
    proc.stat((100, 0, 0, 0, 0))
    host.collect()
    proc.stat((150, 0, 20, 0, 30))
    host.collect()

    assert reading(host, "cpu_steal_pct") == (pytest.approx(30), None)
    assert reading(host, "cpu_core_max_pct") == (pytest.approx(80), None)


def test_no_time_between_two_ticks_is_no_interval(proc: Proc) -> None:
    """Nothing is divided by zero, and idle is not made up."""
    host = host_of(proc)
    host.collect()
    host.collect()

    assert reading(host, "cpu_busy_cores") == (None, "no_previous")


def test_whole_disks_alone_are_counted(proc: Proc) -> None:
    """Partitions, loops and mappings would count the same bytes again; a sector is 512 bytes."""
    host = host_of(proc)
    host.collect()

    assert reading(host, "disk_read_bytes_total") == (11 * 512, None)
    assert reading(host, "disk_write_bytes_total") == (22 * 512, None)


def test_interfaces_that_repeat_others_are_left_out(proc: Proc) -> None:
    """Loopback, bridges and container ends carry no traffic of their own."""
    host = host_of(proc)
    host.collect()

    assert reading(host, "net_rx_bytes_total") == (1100, None)
    assert reading(host, "net_tx_bytes_total") == (2200, None)


def test_memory_in_use_is_total_less_available(proc: Proc) -> None:
    """The kernel's own estimate of what is free to use."""
    host = host_of(proc)
    host.collect()

    assert reading(host, "mem_used_bytes") == (600 * 1024, None)
    assert facts(proc.root).mem_total_bytes == 1000 * 1024


@pytest.mark.parametrize("name", ["stat", "meminfo", "diskstats", "net/dev"])
def test_a_missing_file_is_absence_with_a_reason(proc: Proc, name: str) -> None:
    """And what lies in other files is read all the same."""
    (proc.root / name).unlink()
    host = host_of(proc)
    host.collect()
    missing = [metric.name for metric, reason in zip(HOST_METRICS, host.reasons, strict=True) if reason == "unsupported"]

    assert 1 <= len(missing) <= 32
    assert all((value is None) == (reason is not None) for value, reason in zip(host.values, host.reasons, strict=True))


def test_text_that_is_no_number_costs_its_own_readings_alone(proc: Proc) -> None:
    """A kernel that writes one file in another way takes nothing else with it."""
    (proc.root / "diskstats").write_text("8 0 sda 1 0 many 0 1 0 few 0 0 0 0\n")
    host = host_of(proc)
    host.collect()

    assert reading(host, "disk_read_bytes_total") == (None, "not_a_number")
    assert reading(host, "mem_used_bytes") == (600 * 1024, None)
    assert reading(host, "net_rx_bytes_total") == (1100, None)


def test_every_host_metric_has_one_reader(proc: Proc) -> None:
    """A row of the registry that nobody reads would be absent for ever, one that two read would be the later one's."""
    readers = [
        *(reader(proc.root) for reader in (Cpu, *FAST)),
        Network(proc.root, proc.root),
        *slow(proc.root, proc.root, proc.root),
    ]
    names = [name for reader in readers for name in reader.names] + [OTHERS]

    assert sorted(names) == sorted(metric.name for metric in HOST_METRICS)


def test_a_sandbox_that_shows_zeros_is_unsupported_not_idle(proc: Proc) -> None:
    """Some sandboxes' /proc/stat never moves."""
    proc.stat((0, 0, 0, 0), (0, 0, 0, 0))
    proc.diskstats()
    host = host_of(proc)
    host.collect()
    host.collect()

    assert reading(host, "cpu_busy_cores") == (None, "unsupported")
    assert reading(host, "disk_read_bytes_total") == (None, "unsupported")


def test_more_cores_than_one_read_holds(proc: Proc) -> None:
    """A host of a thousand cores is read whole."""
    host = host_of(proc)
    proc.stat(*[(1, 1, 1, 1)] * 1000)
    host.collect()
    proc.stat(*[(2, 1, 1, 1)] * 1000)
    host.collect()

    assert reading(host, "cpu_busy_cores") == (pytest.approx(1000), None)


@pytest.mark.skipif(not os.path.exists("/proc/stat"), reason="no /proc")
def test_this_machine_has_a_memory_reading() -> None:
    """The real /proc, not only ours."""
    host = HostCollector()
    host.collect()
    value, reason = reading(host, "mem_used_bytes")

    assert reason is None
    assert isinstance(value, int)
    assert value > 1 << 20
    host.close()


def test_cores_that_others_keep_busy_are_what_gpu_programs_do_not_use(proc: Proc) -> None:
    """Where one of the two is not known, the difference is not either; it is never below zero."""
    host = host_of(proc)
    host.collect()
    host.tell_used(1.0)
    assert reading(host, "cpu_other_cores") == (None, "no_previous")
    proc.stat((190, 50, 810, 50), (80, 0, 1020, 0))
    host.collect()
    host.tell_used(0.5)
    assert reading(host, "cpu_other_cores") == (pytest.approx(1.2), None)
    host.tell_used(3.0)
    assert reading(host, "cpu_other_cores") == (0.0, None)

    host.tell_used("not_permitted")
    assert reading(host, "cpu_other_cores") == (None, "not_permitted")
