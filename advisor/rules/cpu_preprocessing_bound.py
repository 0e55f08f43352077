"""Preparing samples takes all the CPU there is: move it off the CPU or ahead of time.

The counterpart of dataloader-too-few-workers: the GPU waits for data and the input side cannot grow by half any more, or as many loader
processes as would be advised are at work already (12 of them at 0.85 of a core each left 5 of 16 cores free: lab, an H200 machine).
"""

import polars as pl

from advisor.bottleneck import WORKER_FULL
from advisor.room import GPU_MEMORY
from advisor.rule import Expect, Need, Rule, Show, Step, Terms, Threshold, param
from advisor.started import KUBERNETES, SLURM
from advisor.text import _

c = pl.col

_INPUT_CORES = pl.max_horizontal(c.children_cores, c.main_cores)

_enough_workers = ((c.workers_per_rank >= c.suggested_workers) & (c.worker_cores >= WORKER_FULL)).fill_null(False)

RULE = Rule(
    id="cpu-preprocessing-bound",
    scope="job",
    severity="warn",
    bottleneck="data",
    needs=(
        Need(("busy", "main_cores", "free_cores", "cores", "children_cores", "iowait_cores")),
        Need(("busy", "main_cores", "free_cores", "cores"), "low"),
    ),
    thresholds=(
        Threshold("share_data_opens", 0.35, "ratio", 0.0, 1.0),
        Threshold("share_data_clears", 0.22, "ratio", 0.0, 1.0),
    ),
    opens=(c.share_data >= param("share_data_opens"))
    & ((c.free_cores < 2) | (c.free_cores < 0.5 * _INPUT_CORES) | _enough_workers)
    & (c.iowait_cores.fill_null(0) < 0.25 * _INPUT_CORES),
    clears=c.share_data < param("share_data_clears"),
    yields_to=(
        "storage-throughput-bound",
        "dataloader-oversubscribed",
        "dataloader-too-few-workers",
        "storage-small-files",
        "cpu-offload-stall",
        "cgroup-cpu-throttled",
    ),
    title=_("Decoding and augmentation saturate the CPU"),
    summary=_(
        "For {share_data:.0%} of the time the GPU had no batch, and {cpu_busy_cores:.1f} of {cores:.0f} cores were busy: more"
        " workers would not help."
    ),
    evidence=(
        Show("share_data", "ratio", ">=", "share_data_opens"),
        Show("cpu_busy_cores", "cores"),
        Show("free_cores", "cores"),
        Show("cores", "cores"),
        Show("children_cores", "cores"),
        Show("busy", "ratio"),
    ),
    change=(
        Step(
            "diff",
            '+ images = torchvision.io.decode_jpeg(data, device="cuda")\n+ images = torchvision.transforms.v2.Resize(224)(images)  # on the GPU',
            when=GPU_MEMORY,
        ),
        Step(
            "diff",
            '# or once, ahead of time: resized images or token ids in shards\n+ ds = webdataset.WebDataset(urls).decode("torchrgb8")',
        ),
        Step("config", "#SBATCH --cpus-per-task={suggested_cpus}  # of each rank, where the node has them", when=SLURM),
        Step(
            "config",
            'resources: {{requests: {{cpu: "{suggested_cpus}"}}}}  # for each GPU, where the node has them',
            when=KUBERNETES,
        ),
    ),
    gain=Expect(
        1.2,
        pl.min_horizontal(3.0, 1 / (1 - c.share_data).clip(0.05)),
        _(
            "The upper value is 1 / (1 - data share), 3 at most; moving decoding to the GPU typically gives 1.2 to 2 times where the"
            " CPU is full (augmentation alone, on three H200 machines: 1.28 to 2.74)."
        ),
    ),
    risk=_("Augmentations differ a little between libraries: check the validation metric."),
    rollback=_("Switch the pipeline back."),
    verify=_("The data share falls below 0.05, busy cores by 30 %, samples per second rise by 15 %."),
    terms=(
        Terms(
            ~GPU_MEMORY,
            _(
                "What is prepared ahead of time takes disk space, and its augmentation is the same in each epoch: check the validation metric."
            ),
            _("Read the original files again."),
            _("The data share falls below 0.05, busy cores by 30 %, samples per second rise by 15 %."),
        ),
    ),
    sources=("docs.pytorch.org/vision: decode_jpeg", "docs.nvidia.com/deeplearning/dali"),
)
