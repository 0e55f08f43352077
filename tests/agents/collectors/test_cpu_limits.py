"""Limits of a process's CPU: control groups of both versions, as Kubernetes, Docker and Slurm lay them out, and affinities."""

import os
from pathlib import Path

import pytest

from agents.collectors import cpu_limits
from agents.collectors.cpu_list import ranges

POD = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0b1a2c3d_4e5f_6071_8293_a4b5c6d7e8f9.slice"
CONTAINER = f"{POD}/cri-containerd-{'4f' * 32}.scope"


class Host:
    """A /proc with process 10, and a /sys, made of files."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = str(root / "proc"), str(root / "sys")
        self._proc, self._groups = root / "proc" / "10", root / "sys" / "fs" / "cgroup"
        self._proc.mkdir(parents=True)
        self._groups.mkdir(parents=True)

    def cgroup(self, *lines: str) -> None:
        """The groups that the process is in."""
        (self._proc / "cgroup").write_text("".join(f"{line}\n" for line in lines))

    def group(self, path: str, **files: str) -> None:
        """A group's files; `__` stands for a dot."""
        folder = self._groups / path.strip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_text(content + "\n")

    def quota(self) -> tuple[object, object, object]:
        """Cores, periods and throttled periods."""
        found = cpu_limits.quota(self.proc, self.sys, 10)
        return found["cpu_quota_cores"], found["cpu_periods_total"], found["cpu_throttled_periods_total"]

    def allowed(self, cpus: str, online: str) -> object:
        """How many CPUs, by the lists of the process and of the machine."""
        (self._proc / "status").write_text(f"Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t{cpus}\nMems_allowed:\t1\n")
        folder = Path(self.sys) / "devices/system/cpu"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "online").write_text(online + "\n")
        return cpu_limits.allowed(self.proc, self.sys, 10)["cpus_allowed"]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Nothing but a process."""
    return Host(tmp_path)


def stat(periods: int, throttled: int) -> str:
    """A cpu.stat of version 2."""
    return f"usage_usec 71\nuser_usec 6\nsystem_usec 1\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec 9\nnr_bursts 0"


def test_a_containers_limit_is_that_of_its_group(host: Host) -> None:
    """Version 2, a pod of two containers of which one is limited to four cores."""
    host.cgroup(f"0::{CONTAINER}")
    host.group(CONTAINER, cpu__max="400000 100000", cpu__stat=stat(1200, 300))
    host.group(POD, cpu__max="max 100000", cpu__stat=stat(0, 0))
    host.group("/", cpu__stat=stat(0, 0))

    assert host.quota() == (4.0, 1200, 300)


def test_the_tightest_limit_above_a_process_counts(host: Host) -> None:
    """A pod's own limit holds its containers back, however much each of them may have."""
    host.cgroup(f"0::{CONTAINER}")
    host.group(CONTAINER, cpu__max="800000 100000", cpu__stat=stat(1200, 0))
    host.group(POD, cpu__max="150000 100000", cpu__stat=stat(900, 450))

    assert host.quota() == (1.5, 900, 450)


def test_version_1_has_its_limit_in_two_files(host: Host) -> None:
    """As Docker on an older distribution; a quota of -1 is none."""
    host.cgroup("5:memory:/docker/ab", "4:cpu,cpuacct:/docker/ab", "0::/system.slice/docker.service")
    host.group("cpu,cpuacct/docker/ab", cpu__cfs_quota_us="250000", cpu__cfs_period_us="100000",
               cpu__stat="nr_periods 50\nnr_throttled 10\nthrottled_time 77")  # fmt: skip
    host.group(
        "cpu,cpuacct/docker", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000", cpu__stat="nr_periods 0\nnr_throttled 0"
    )

    assert host.quota() == (2.5, 50, 10)


def test_without_a_limit_there_are_no_periods(host: Host) -> None:
    """Not zero of them: nothing is there to be held back by."""
    host.cgroup("0::/user.slice")
    host.group("user.slice", cpu__max="max 100000", cpu__stat=stat(0, 0))
    assert host.quota() == ("not_found",) * 3
    host.cgroup("0::/")
    assert host.quota() == ("not_found",) * 3

    host.cgroup("9:name=systemd:/", "1:cpu:/")
    assert host.quota() == ("not_found",) * 3


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["0::/../../docker/ab"], "unsupported"),
        (["0::/gone.scope"], "unsupported"),
        ([], "unsupported"),
        (["rubbish"], "unsupported"),
    ],
    ids=["another namespace", "not mounted", "none", "torn"],
)
def test_a_group_that_the_agent_cannot_see_is_unsupported(host: Host, lines: list[str], reason: str) -> None:
    """An agent in a container may see the path and not the group."""
    host.cgroup(*lines)

    assert host.quota() == (reason,) * 3


def test_an_agent_that_does_not_see_the_group_asks_what_the_process_sees(host: Host) -> None:
    """As in a pod beside the job's: the process's own root of groups is its container's level. No link of the container's is followed."""
    host.cgroup("0::/../../kubepods-pod1.slice/cri-containerd-2.scope")
    inside = Path(host.proc) / "10" / "root" / "sys" / "fs" / "cgroup"
    inside.mkdir(parents=True)
    (inside / "cpu.max").write_text("200000 100000\n")
    (inside / "cpu.stat").write_text(stat(10, 4))
    assert host.quota() == (2.0, 10, 4)
    (inside / "cpu.max").write_text("max 100000\n")
    assert host.quota() == ("not_found",) * 3
    (inside / "cpu.max").unlink()
    (inside / "cpu.max").symlink_to("/proc/uptime")
    assert set(host.quota()) == {"driver_error"}

    host.cgroup("4:cpu,cpuacct:/docker/ab")
    (inside / "cpu,cpuacct").mkdir()
    (inside / "cpu").symlink_to("cpu,cpuacct")
    (inside / "cpu,cpuacct" / "cpu.cfs_quota_us").write_text("300000\n")
    (inside / "cpu,cpuacct" / "cpu.cfs_period_us").write_text("100000\n")
    (inside / "cpu,cpuacct" / "cpu.stat").write_text("nr_periods 7\nnr_throttled 3\nthrottled_time 1\n")
    assert host.quota() == (3.0, 7, 3)


@pytest.mark.parametrize(
    ("limit", "counts"), [("many few", stat(1, 1)), ("100000", stat(1, 1)), ("1 1", "nr_periods 1"), ("1 1", "")]
)
def test_text_that_is_no_limit_is_not_a_number(host: Host, limit: str, counts: str) -> None:
    """A kernel that writes another way costs these readings."""
    host.cgroup("0::/a")
    host.group("a", cpu__max=limit, cpu__stat=counts)

    assert host.quota() == ("not_a_number",) * 3


def test_a_process_that_has_ended_is_not_found(host: Host) -> None:
    """Its folder is gone."""
    assert set(cpu_limits.quota(host.proc, host.sys, 99).values()) == {"not_found"}
    assert cpu_limits.allowed(host.proc, host.sys, 99) == {"cpus_allowed": "not_found"}


def test_cpus_allowed_are_those_that_are_there(host: Host) -> None:
    """The kernel lists all that the board could have."""
    assert host.allowed("0-255", "0-63") == 64
    assert host.allowed("8-15,40", "0-63") == 9
    assert host.allowed("3", "0-63") == 1
    assert host.allowed("none", "0-63") == "not_a_number"


def test_a_real_process_may_run_on_what_the_kernel_says() -> None:
    """This one."""
    assert cpu_limits.allowed("/proc", "/sys", os.getpid()) == {"cpus_allowed": len(os.sched_getaffinity(0))}


def test_a_list_of_absurd_length_is_refused() -> None:
    """It would take the memory of the node."""
    with pytest.raises(ValueError, match="0-99999999"):
        ranges("0-99999999")

    assert ranges("0-2,7\n") == {0, 1, 2, 7}
    assert ranges("") == set()
