"""Container, pod and Slurm job of a process, from its cgroup: docker, containerd, cri-o, podman, Kubernetes, Slurm; v1 and v2."""

import re
from typing import Final

_CONTAINER: Final = re.compile(r"(?:^|[-:/])([0-9a-f]{64})(?:\.scope)?$")
_MONITOR: Final = re.compile(r"(?:^|/)(?:libpod|crio)-conmon-")
_POD: Final = re.compile(
    r"(?:^|[-/])pod([0-9a-f]{8}([-_])[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:$|[/:])"
)
_SLURM: Final = re.compile(r"/job_([0-9]{1,10})(?:/step_([0-9]{1,10}|batch|extern|interactive))?(?:/|$)")
_IS_SLURM: Final = re.compile(r"slurmstepd\.scope/|/slurm(?:_[\w.-]+)?/")


def labels(content: str) -> dict[str, str]:
    """Labels `container`, `pod`, `slurm_job` and `slurm_step` of /proc/PID/cgroup; what the paths do not say is left out.

    With containers inside a container the innermost is told. A process that another cgroup namespace hides says nothing.
    """
    found: dict[str, str] = {}
    paths = {line.split(":", 2)[2] for line in content.splitlines() if line.count(":") >= 2}
    for path in sorted(paths, key=lambda path: (path.count("/"), path)):
        if not _MONITOR.search(path):
            for part in path.split("/"):
                if container := _CONTAINER.search(part):
                    found["container"] = container[1]
        for pod in _POD.finditer(path):
            found["pod"] = pod[1].replace("_", "-")
        if _IS_SLURM.search(path) and (slurm := _SLURM.search(path)):
            found["slurm_job"] = slurm[1]
            if slurm[2]:
                found["slurm_step"] = slurm[2]
    return found
