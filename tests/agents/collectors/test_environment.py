"""What leaves the node of a process's environment."""

import pytest

from agents.collectors import environment

MIG = "MIG-GPU-01234567-89ab-cdef-0123-456789abcdef/1/0"


def told(*entries: str) -> dict[str, str]:
    """Labels of an environment with these entries, of a process of alice."""
    return environment.labels("".join(f"{entry}\0" for entry in entries).encode(), "alice")


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1", "0,1"),
        ("CUDA_VISIBLE_DEVICES=", ""),
        ("CUDA_VISIBLE_DEVICES=-1", "-1"),
        ("CUDA_VISIBLE_DEVICES=GPU-8f1", "GPU-8f1"),
        (f"CUDA_VISIBLE_DEVICES={MIG}", MIG),
        ("NCCL_IB_HCA==mlx5_0:1,mlx5_1:1", "=mlx5_0:1,mlx5_1:1"),
        ("NCCL_SOCKET_IFNAME=^lo,docker0", "^lo,docker0"),
        (
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128",
            "expandable_segments:True,max_split_size_mb:128",
        ),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "1"),
        ("OMP_PLACES={0:4}:8:4", "{0:4}:8:4"),
        ("NCCL_BUFFSIZE=8M", "8M"),
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50.0", "50.0"),
    ],
)
def test_a_known_variable_is_told_as_it_is(entry: str, value: str) -> None:
    """Numbers, booleans, short words and lists of them."""
    assert told(entry) == {f"env.{entry.split('=')[0]}": value}


@pytest.mark.parametrize(
    "entry",
    [
        "HF_TOKEN=hf_x",
        "AWS_SECRET_ACCESS_KEY=1",
        "PATH=/usr/bin",
        "TORCH_API_KEY=hunter2",
        "NCCL_AUTH=hunter2",
        "PYTORCH_HUB_TOKEN=1234",
        "TORCH_HOME=/home/alice/.cache",
        "NCCL_DEBUG_FILE=/tmp/x.%h",
        "NCCL_TOPO_FILE=topo.xml/../x",
        "TORCH_MIRROR=https://user:pw@host/",
        "NCCL_COMM_ID=10.0.0.1:4000",
        "NCCL_NET_PLUGIN=alice",
        "NCCL_FOO=hf_AbCdEfGhIjKlMnOpQr",
        "TORCH_FOO=8d969eef6ecad3c29a3a629280e686cf",
        "TORCH_FOO=" + "a" * 201,
        "TORCH_FOO=" + "a" * 40,
        "TORCH_FÖÖ=1",
        "torch_foo=1",
        "TORCH_FOO=\x1b[31m",
        "NCCL_" + "A" * 80 + "=1",
        "CUDA_VISIBLE_DEVICES",
        "MY_NCCL_ALGO=Ring",
    ],
)
def test_anything_else_stays_on_the_node(entry: str) -> None:
    """Unknown names, names of secrets, paths, addresses, people, keys, control characters."""
    assert told(entry) == {}


def test_the_slurm_job_and_the_pods_own_name_are_told() -> None:
    """Slurm numbers its named steps; HOSTNAME is no pod's name."""
    assert told("SLURM_JOB_ID=12", "SLURM_STEP_ID=0", "HOSTNAME=x") == {"slurm_job": "12", "slurm_step": "0"}
    assert told("SLURM_JOB_ID=12", "SLURM_STEP_ID=4294967291") == {"slurm_job": "12", "slurm_step": "batch"}
    assert told("SLURM_STEP_ID=1") == {}
    assert told("POD_NAME=train-0") == {"pod_name": "train-0"}
    assert told("POD_NAME=Not A Pod") == {}
