"""One process drives several GPUs: nn.DataParallel scatters, gathers and updates on the first of them.

That GPU holds and does more than the others (outputs, gradients and the optimizer live there), and one Python thread launches for all.
One that holds several GPUs and works on one is job-partial-gpu-use's. A serving engine, or a framework that is made that way, drives several GPUs from one process without that tilt.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.started import ACCELERATE, DEEPSPEED, SLURM
from advisor.text import _

c = pl.col

RULE = Rule(
    id="dataparallel-legacy",
    scope="job",
    severity="warn",
    bottleneck="communication",
    needs=(
        Need(("gpus_per_process_max", "gpu0_mem_ratio", "gpu0_sm_ratio")),
        Need(("gpus_per_process_max", "gpu0_mem_ratio"), "medium"),
    ),
    thresholds=(
        Threshold("gpu0_mem_ratio_opens", 1.15, "ratio", 1.0, 4.0),
        Threshold("gpu0_mem_ratio_clears", 1.05, "ratio", 1.0, 4.0),
        Threshold("gpu0_sm_ratio_opens", 1.2, "ratio", 1.0, 4.0),
    ),
    opens=(c.gpus_per_process_max >= 2)
    & (c.working_gpus >= 2)
    & (c.gpu0_mem_ratio >= param("gpu0_mem_ratio_opens"))
    & (c.gpu0_sm_ratio.fill_null(9) >= param("gpu0_sm_ratio_opens")),
    clears=(c.gpus_per_process_max < 2) | (c.working_gpus < 2) | (c.gpu0_mem_ratio < param("gpu0_mem_ratio_clears")),
    unless=c.serves | c.serving_engine.is_in(["vllm", "sglang", "triton", "trtllm"]),
    title=_("One process drives several GPUs"),
    summary=_(
        "One process works on {gpus_per_process_max} GPUs; the first holds {gpu0_mem_ratio:.2f} times the memory of the others. All its"
        " batches are scattered and gathered through that GPU, and one thread launches the work of all."
    ),
    evidence=(
        Show("gpus_per_process_max", "gpus", ">=", 2.0),
        Show("gpu0_mem_ratio", "ratio", ">=", "gpu0_mem_ratio_opens"),
        Show("gpu0_sm_ratio", "ratio", ">=", "gpu0_sm_ratio_opens"),
        Show("main_thread_share", "cores"),
        Show("pcie_rx_bytes_per_s", "bytes_per_second"),
    ),
    change=(
        Step("command", "torchrun --nproc-per-node={gpus_on_node} train.py", when=~ACCELERATE & ~DEEPSPEED),
        Step("command", "accelerate launch --num_processes {gpus} train.py", when=ACCELERATE),
        Step("command", "deepspeed --num_gpus {gpus_on_node} train.py", when=DEEPSPEED),
        Step("config", "#SBATCH --ntasks-per-node=1 --gpus-per-node={gpus}  # torchrun starts the ranks", when=SLURM),
        Step(
            "diff",
            "- model = nn.DataParallel(model).cuda()\n"
            '+ local_rank = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(local_rank)\n'
            '+ dist.init_process_group("nccl")\n'
            "+ model = DistributedDataParallel(model.cuda(), device_ids=[local_rank])\n"
            "+ sampler = DistributedSampler(ds)  # sampler.set_epoch(epoch) each epoch; save on rank 0 alone",
        ),
    ),
    gain=Expect(
        1.2,
        3.0,
        _("Published comparisons on 4 to 8 GPUs; PyTorch's documentation recommends one process a GPU even on one node."),
    ),
    risk=_("The batch becomes that of each GPU times the ranks: divide it, or rescale the learning rate."),
    rollback=_("Start the script with python again and wrap the model in DataParallel."),
    verify=_("One process a GPU, memory of the GPUs within 5 % of each other, and samples per second up by at least 20 %."),
    sources=(_("docs.pytorch.org/docs/stable/notes/cuda.html (use DistributedDataParallel instead of DataParallel)"),),
)
