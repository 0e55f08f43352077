"""The GPU waits for input while CPU cores sit free.

Share of time waiting for data: 0.88 with the loader in the main process, 0.63 with four workers on a slow disk; healthy
loaders 0.1 and less. Cores are free when the input side could grow by half, and by two cores at least. `children` is no
worker count (torch.compile leaves 33 idle helpers): only children at work tell. A job that has as many loader workers as would
be suggested waits for something else: batches in order behind a slow one, the one thread that receives them.

A profile in which the program waits inside its DataLoader confirms it; of free cores it says nothing, so alone it opens nothing.
"""

import polars as pl

from advisor.room import LOADERS
from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.started import ACCELERATE, KUBERNETES, MEGATRON, SLURM
from advisor.text import _

c = pl.col

_INPUT_CORES = pl.max_horizontal(c.children_cores, c.main_cores, pl.lit(1.0))

RULE = Rule(
    id="dataloader-too-few-workers",
    scope="job",
    severity="warn",
    bottleneck="data",
    needs=(Need(("busy", "main_cores", "free_cores", "children", "children_cores")), Need(("busy", "free_cores"), "low")),
    thresholds=(
        Threshold("share_data_opens", 0.35, "ratio", 0.0, 1.0),
        Threshold("share_data_clears", 0.22, "ratio", 0.0, 1.0),
        Threshold("free_cores_opens", 2.0, "cores", 0.5, 256.0),
        Threshold("profile_data_wait_share_confirms", 0.05, "ratio", 0.0, 1.0),
    ),
    opens=(c.share_data >= param("share_data_opens"))
    & (c.free_cores >= param("free_cores_opens"))
    & (c.free_cores >= 0.5 * _INPUT_CORES),
    clears=c.share_data < param("share_data_clears"),
    unless=c.workers_per_rank >= c.suggested_workers,
    confirmed=c.profile_data_wait_share >= param("profile_data_wait_share_confirms"),
    yields_to=(
        "storage-throughput-bound",
        "dataloader-oversubscribed",
        "storage-small-files",
        "slow-sample-head-of-line",
        "cpu-offload-stall",
        "cgroup-cpu-throttled",
        "container-shm-small",
    ),
    title=_("The GPU waits for the data loader while CPU cores sit free"),
    summary=_(
        "For {share_data:.0%} of the time the GPU had no batch. Cores used by the job's helper processes ({children:.0f} of them):"
        " {children_cores:.1f}, by the main process: {main_cores:.1f}; {free_cores:.0f} of the node's {cores:.0f} cores were free."
    ),
    cases=(
        Says(
            c.children.is_null() | c.children_cores.is_null() | c.main_cores.is_null(),
            _(
                "For {share_data:.0%} of the time the GPU had no batch, and {free_cores:.0f} of the node's {cores:.0f} cores were free."
                " How many helper processes the job has, and what they do, is not known."
            ),
        ),
    ),
    evidence=(
        Show("share_data", "ratio", ">=", "share_data_opens"),
        Show("free_cores", "cores", ">=", "free_cores_opens"),
        Show("children", "processes"),
        Show("children_cores", "cores"),
        Show("main_cores", "cores"),
        Show("busy", "ratio"),
        Show("pcie_rx_bytes_per_s", "bytes_per_second"),
        Show("profile_data_wait_share", "ratio", ">=", "profile_data_wait_share_confirms"),
    ),
    change=(
        Step(
            "diff",
            "- loader = DataLoader(ds, batch_size=B)\n"
            "+ loader = DataLoader(ds, batch_size=B, num_workers={suggested_workers}, pin_memory=True,\n"
            "+                     persistent_workers=True, prefetch_factor=4)",
            when=~MEGATRON & ~ACCELERATE & LOADERS,
        ),
        Step(
            "diff",
            "- loader = DataLoader(ds, num_workers=W)\n"
            "+ loader = DataLoader(ds, num_workers=W + 1, prefetch_factor=1)  # one more at a time: host or shared memory is short",
            when=~MEGATRON & ~ACCELERATE & ~LOADERS,
        ),
        Step(
            "flag",
            "--dataloader_num_workers {suggested_workers} --dataloader_persistent_workers True  # Hugging Face Trainer",
            when=ACCELERATE & LOADERS,
        ),
        Step(
            "flag",
            "--dataloader_num_workers $((W + 1)) --dataloader_prefetch_factor 1  # Hugging Face Trainer; one more at a time: host or shared memory is short",
            when=ACCELERATE & ~LOADERS,
        ),
        Step("flag", "--num-workers {suggested_workers}  # Megatron-LM", when=MEGATRON & LOADERS),
        Step(
            "flag",
            "--num-workers $((W + 1))  # Megatron-LM; one more at a time: host or shared memory is short",
            when=MEGATRON & ~LOADERS,
        ),
        Step("config", "#SBATCH --cpus-per-task={suggested_cpus}  # of each rank", when=SLURM),
        Step("config", 'resources: {{requests: {{cpu: "{suggested_cpus}"}}}}  # for each GPU', when=KUBERNETES),
    ),
    gain=Expect(
        (0.4 / (1 - c.share_data).clip(0.05)).clip(1.1, None),
        1 / (1 - c.share_data).clip(0.05),
        _(
            "The upper value is 1 / (1 - data share): no more waiting, at today's speed of work. Runs of ResNet-50 with 16 workers instead of"
            " none reached 0.48 to 0.80 of it (5.1 to 8.9 times the speed)."
        ),
    ),
    risk=_(
        "Each worker takes host memory and shared memory for its prefetched batches; more workers than cores slow each other down."
    ),
    rollback=_("Set num_workers back."),
    verify=_("The data share falls below 0.05 and samples per second reach 80 % of the predicted gain over 200 steps."),
    sources=("docs.pytorch.org/docs/stable/data.html", "recordings loader_starved and loader_ok"),
)
