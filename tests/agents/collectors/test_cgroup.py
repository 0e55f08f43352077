"""Container, pod and Slurm job from cgroup paths as runtimes write them."""

import pytest

from agents.collectors import cgroup

C = "3f4b1c" + "0" * 52 + "abcdef"
D = "9" * 64
UID = "1b2c3d4e-0f1a-4b5c-8d9e-a0b1c2d3e4f5"
UID_ = UID.replace("-", "_")


@pytest.mark.parametrize(
    ("path", "labels"),
    [
        (f"/docker/{C}", {"container": C}),
        (f"/system.slice/docker-{C}.scope", {"container": C}),
        (f"/kubepods/burstable/pod{UID}/{C}", {"container": C, "pod": UID}),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice/cri-containerd-{C}.scope",
            {"container": C, "pod": UID},
        ),
        (f"/kubepods.slice/kubepods-pod{UID_}.slice/crio-{C}.scope/container", {"container": C, "pod": UID}),
        (
            f"/system.slice/containerd.service/kubepods-besteffort-pod{UID_}.slice:cri-containerd:{C}",
            {"container": C, "pod": UID},
        ),
        (f"/kubepods/besteffort/pod{'a' * 32}/{C}", {"container": C, "pod": "a" * 32}),  # a static pod
        (
            f"/docker/{D}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID_}.slice/cri-containerd-{C}.scope",
            {"container": C, "pod": UID},
        ),
        (f"/machine.slice/libpod-{C}.scope/container", {"container": C}),
        (f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{C}.scope/container", {"container": C}),
        (f"/machine.slice/libpod-conmon-{C}.scope", {}),
        (f"/default/{C}", {"container": C}),
        ("/system.slice/slurmstepd.scope/job_123/step_0/user/task_0", {"slurm_job": "123", "slurm_step": "0"}),
        ("/system.slice/node7_slurmstepd.scope/job_9/step_batch/user/task_0", {"slurm_job": "9", "slurm_step": "batch"}),
        ("/slurm/uid_1000/job_123/step_extern/task_0", {"slurm_job": "123", "slurm_step": "extern"}),
        ("/slurm_node7/uid_1000/job_123", {"slurm_job": "123"}),
        ("/user.slice/user-1000.slice/job_5/step_1", {}),
        ("/", {}),
        ("/../../kubepods", {}),
        ("/user.slice/user-1000.slice/session-3.scope", {}),
        (f"/docker/{C[:-1]}", {}),
        (f"/docker/{C}0", {}),
    ],
)
@pytest.mark.parametrize("prefix", ["0::", "4:memory:", "12:devices:/\n4:memory:"])
def test_a_path_says_what_it_says_and_nothing_more(prefix: str, path: str, labels: dict[str, str]) -> None:
    """The unified hierarchy and the old ones; a process that is in none of these has no label."""
    assert cgroup.labels(f"{prefix}{path}\n") == labels


@pytest.mark.parametrize("content", ["", "0", "::", "garbage\n\0\n", "0::" + "/x" * 5000])
def test_no_content_is_too_odd(content: str) -> None:
    """Nothing is raised."""
    assert cgroup.labels(content) == {}
