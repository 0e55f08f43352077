"""cgroup-cpu-throttled: a quota that stops the job."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestCgroupCpuThrottled(RuleCases):
    """A quota that stops the job."""

    rule = "cgroup-cpu-throttled"
    healthy: ClassVar[dict[str, Any]] = {}
    fires: ClassVar[dict[str, Any]] = {"cpu_throttled_share": 0.4, "cpu_quota_cores": 4.0, "sm_active": 0.4, "quota_suggested": 8}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"cpu_throttled_share": 0.005},
        {"sm_active": 0.9},
    ]
    between: ClassVar[dict[str, Any] | None] = {"cpu_throttled_share": 0.05, "sm_active": 0.4}
    lacks = ("cpu_throttled_share",)


def test_the_new_quota_is_a_number_in_the_jobs_own_words() -> None:
    """Half more than it uses."""
    (in_pod,) = TestCgroupCpuThrottled.judge(TestCgroupCpuThrottled.fires | {"scheduler": "kubernetes"}).findings
    (in_slurm,) = TestCgroupCpuThrottled.judge(TestCgroupCpuThrottled.fires | {"scheduler": "slurm"}).findings

    assert '+ requests: {cpu: "8"}' in in_pod.change[0].text
    assert in_slurm.change[0].text == "#SBATCH --cpus-per-task=8"
