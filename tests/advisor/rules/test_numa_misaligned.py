"""numa-misaligned: a rank on the wrong processor."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestNumaMisaligned(RuleCases):
    """A rank on the wrong processor."""

    rule = "numa-misaligned"
    fires: ClassVar[dict[str, Any]] = {"numa_local_share": 0.1, "numa_nodes": 2}
    silent: ClassVar[list[dict[str, Any]]] = [{"numa_nodes": 1}, {"numa_local_share": 0.9}, {"main_cores": 0.02}]
    between: ClassVar[dict[str, Any] | None] = {"numa_local_share": 0.7, "numa_nodes": 2}
    lacks = ("numa_local_share",)


def test_binding_is_said_for_the_jobs_own_launcher() -> None:
    """torchrun binds by itself, others by numactl; Slurm and Kubernetes each by their own words."""
    by_torchrun = TestNumaMisaligned.judge(TestNumaMisaligned.fires | {"launcher": "torchrun", "scheduler": "slurm"}).findings[0]
    by_hand = TestNumaMisaligned.judge(TestNumaMisaligned.fires | {"launcher": "deepspeed", "scheduler": "kubernetes"}).findings[
        0
    ]

    assert [change.text.split()[0] for change in by_torchrun.change] == ["torchrun", "#SBATCH"]
    assert [change.text.split()[0] for change in by_hand.change] == ["numactl", "cpuManagerPolicy:"]
