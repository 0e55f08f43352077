"""What leaves the node of a process's environment."""

import pytest

from agents.collectors import environment
from wire.variables import ENV, ENV_KINDS, ENV_WORDS

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
        ("NCCL_ALGO=^Tree", "^Tree"),
        ("NCCL_ALGO=allreduce:tree,ring;broadcast:ring", "allreduce:tree,ring;broadcast:ring"),
        ("NCCL_DEBUG_SUBSYS=INIT,^NET", "INIT,^NET"),
        ("NCCL_P2P_LEVEL=NVL", "NVL"),
        ("NCCL_NET_GDR_LEVEL=3", "3"),
        ("NCCL_SOCKET_IFNAME=enp1s0f0np0,ens5,eth", "enp1s0f0np0,ens5,eth"),
        ("NCCL_IB_HCA=rocep1s0f0,mlx5_bond_0", "rocep1s0f0,mlx5_bond_0"),
        ("NCCL_IB_TIMEOUT=22", "22"),
        (
            "PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.8,roundup_power2_divisions:[256:1,512:2,>:4]",
            "garbage_collection_threshold:0.8,roundup_power2_divisions:[256:1,512:2,>:4]",
        ),
        ("TORCH_DISTRIBUTED_DEBUG=DETAIL", "DETAIL"),
        ("TORCH_LOGS=+dynamo,graph_breaks", "+dynamo,graph_breaks"),
        ("OMP_PLACES=cores", "cores"),
        ("OMP_SCHEDULE=dynamic,4", "dynamic,4"),
        ("OMP_DYNAMIC=TRUE", "TRUE"),
        ("MKL_THREADING_LAYER=GNU", "GNU"),
    ],
)
def test_a_known_variable_is_told_as_it_is(entry: str, value: str) -> None:
    """Documented variables of NCCL, PyTorch, CUDA, OpenMP and oneMKL, with values of their kinds."""
    assert told(entry) == {f"env.{entry.split('=')[0]}": value}


@pytest.mark.parametrize(
    "entry",
    [
        # documented, and not what it should be
        "NCCL_ALGO=hunter2",
        "NCCL_DEBUG=INFO swordfish",
        "NCCL_P2P_LEVEL=2001:db8::5",
        "NCCL_P2P_LEVEL=02:42:10:11:00:02",
        "CUDA_VISIBLE_DEVICES=3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "CUDA_VISIBLE_DEVICES=0\n1",
        "CUDA_VISIBLE_DEVICES=0,\x0b1",
        "NCCL_SOCKET_IFNAME=enx0242ac110002",
        "NCCL_SOCKET_IFNAME=alice",
        "NCCL_IB_HCA=10.0.0.1",
        "OMP_PLACES=02:42:10:11:00:02",
        "OMP_NUM_THREADS=8 hunter2",
        "OMP_NUM_THREADS=8\n",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:hunter2",
        "PYTORCH_CUDA_ALLOC_CONF=password:1",
        "NCCL_BUFFSIZE=" + "1" * 201,
        "TORCH_LOGS=+hunter2",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING=\x1b[31m",
        "MKL_NUM_THREADS=\u0663",
        # of a known prefix
        "NCCL_COMM_ID=[2001:db8::5]:1234",
        "NCCL_COMM_ID=10.0.0.1:4000",
        "NCCL_HOSTS=master.corp.example:29500",
        "OMP_X=02:42:ac:11:00:02",
        "TORCH_APIKEY=a1B2c3D4e5F6g7",
        "TORCH_API_KEY=hunter2",
        "PYTORCH_DBPASS=hunter2",
        "NCCL_PSK=swordfish",
        "TORCH_B64=Xk3a9QzP7+Yt5Lm2+Qq8Zz1=",
        "TORCH_SESSION=3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "TORCH_HOME=/home/alice/.cache",
        "TORCH_PIN=1234",
        "TORCH_ON=on",
        "TORCH_EMPTY=",
        "NCCL_DEBUG_FILE=/tmp/x.%h",
        "CUDA_MPS_PIPE_DIRECTORY=/tmp/alice",
        "TORCH_MIRROR=https://user:pw@host/",
    ],
)
def test_of_any_other_value_only_that_it_is_set_is_told(entry: str) -> None:
    """What a site puts behind a prefix, or into a documented variable in place of what belongs there, is nobody's business."""
    assert told(entry) == {f"env.{entry.split('=')[0]}": "set"}


@pytest.mark.parametrize(
    "entry",
    [
        "HF_TOKEN=hf_x",
        "AWS_SECRET_ACCESS_KEY=1",
        "PATH=/usr/bin",
        "TORCH_FÖÖ=1",
        "torch_foo=1",
        "TORCH_ALICE=1",
        "TORCH_A B=1",
        "TORCH_FOO\n=1",
        "NCCL_" + "A" * 80 + "=1",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "MY_NCCL_ALGO=Ring",
    ],
)
def test_of_other_variables_nothing_leaves_the_node(entry: str) -> None:
    """Other prefixes, names that are no variable's, the user's own name."""
    assert told(entry) == {}


def test_no_kind_of_value_is_missing_its_shape() -> None:
    """Every documented variable takes a plain value of its kind, and none takes an address, a word of a site's own or a key."""
    plain: dict[str, str] = {
        "number": "22", "numbers": "8,4", "boolean": "1", "size": "4194304", "devices": "0,1", "interfaces": "^=ibp24s0,mlx5_1:1",
        "places": "cores(4)", "allocator": "backend:native", "limits": "0=1G,1=512MB", "architectures": "8.0;9.0a+PTX",
        "domains": "MKL_DOMAIN_BLAS=4",
    }  # fmt: skip
    assert plain.keys() == ENV_KINDS.keys()
    known = [*((name, plain[kind]) for name, kind in ENV.items()), *((name, words[0]) for name, words in ENV_WORDS.items())]
    for name, value in known:
        assert told(f"{name}={value}") == {f"env.{name}": value}
        for secret in ("hunter2", "10.0.0.1", "fe80::1", "a1B2c3D4e5F6g7", "/srv/x"):
            assert told(f"{name}={secret}") == {f"env.{name}": "set"}, (name, secret)


def test_the_slurm_job_and_the_pods_own_name_are_told() -> None:
    """Slurm numbers its named steps; HOSTNAME is no pod's name."""
    assert told("SLURM_JOB_ID=12", "SLURM_STEP_ID=0", "HOSTNAME=x") == {"slurm_job": "12", "slurm_step": "0"}
    assert told("SLURM_JOB_ID=12", "SLURM_STEP_ID=4294967291") == {"slurm_job": "12", "slurm_step": "batch"}
    assert told("SLURM_STEP_ID=1") == {}
    assert told("POD_NAME=train-0") == {"pod_name": "train-0"}
    assert told("POD_NAME=Not A Pod") == {}


def test_the_partition_of_a_slurm_job_is_told() -> None:
    """A plain word beside the job's number, and no user's name."""
    assert told("SLURM_JOB_PARTITION=h200-long", "SLURM_JOB_ID=12") == {"slurm_job": "12", "slurm_partition": "h200-long"}
    assert told("SLURM_JOB_PARTITION=debug") == {}
    for value in ("", "/srv/x", "a b", "x" * 65, "alice-own", "debug,batch"):
        assert told("SLURM_JOB_ID=12", f"SLURM_JOB_PARTITION={value}") == {"slurm_job": "12"}, value


@pytest.mark.parametrize("value", ["hunter2SECRETtoken", "alice_home", "1_2", "", "12345678901", "٣"])
def test_slurm_gives_numbers_and_nothing_else_is_told_for_one(value: str) -> None:
    """The variables are the process's own to set."""
    assert told(f"SLURM_JOB_ID={value}", "SLURM_STEP_ID=0") == {}
    assert told("SLURM_JOB_ID=12", f"SLURM_STEP_ID={value}") == {"slurm_job": "12"}


@pytest.mark.parametrize(
    ("user", "entry"),
    [
        ("alice", "POD_NAME=alice"),
        ("alice", "POD_NAME=jupyter-alice-0"),
        ("alice", "NCCL_ALICEKEY=1"),
        ("a_smith", "NCCL_A_SMITH_KEY=1"),
        ("a.smith", "POD_NAME=train-asmith-0"),
        ("j.doe", "NCCL_J_DOE=1"),
        ("svc-ml", "POD_NAME=svc-ml"),
        ("bo", "POD_NAME=bo-train"),
    ],
)
def test_the_users_name_is_not_told_whatever_separates_its_parts(user: str, entry: str) -> None:
    """As a name that somebody chose, or within one."""
    assert environment.labels(entry.encode() + b"\0", user) == {}


def test_a_short_name_within_a_word_is_no_name() -> None:
    """Else a user called bo would hide every robot."""
    assert environment.labels(b"POD_NAME=robot-0\0", "bo") == {"pod_name": "robot-0"}
    assert environment.labels(b"POD_NAME=robot-0\0", "") == {"pod_name": "robot-0"}
