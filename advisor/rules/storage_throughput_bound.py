"""The input side waits for the disk.

Loader processes blocked on reads, by the cores' time in I/O wait over their number: 0.46 with four workers on a slow disk, 0
elsewhere. An I/O wait in percent of all cores means nothing: four blocked workers of a 32-core node cannot exceed 12.5.
"""

import polars as pl

from advisor.room import MORE_LOADERS
from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.started import KUBERNETES, NO_SCHEDULER, SLURM
from advisor.text import _

c = pl.col

_READERS = pl.max_horizontal(c.children, pl.lit(1.0))

RULE = Rule(
    id="storage-throughput-bound",
    scope="job",
    severity="warn",
    bottleneck="data",
    needs=(
        Need(("busy", "iowait_cores", "disk_read_bytes_per_s", "children", "children_cores")),
        Need(("busy", "iowait_cores", "disk_read_bytes_per_s"), "low"),
    ),
    thresholds=(
        Threshold("share_data_opens", 0.35, "ratio", 0.0, 1.0),
        Threshold("share_data_clears", 0.22, "ratio", 0.0, 1.0),
        Threshold("disk_read_opens_bytes_per_s", 1e6, "bytes_per_second", 0.0, 1e11),
        Threshold("iowait_per_reader_opens", 0.15, "ratio", 0.0, 1.0),
        Threshold("iowait_per_reader_clears", 0.05, "ratio", 0.0, 1.0),
    ),
    opens=(c.share_data >= param("share_data_opens"))
    & (c.disk_read_bytes_per_s >= param("disk_read_opens_bytes_per_s"))
    & (
        c.iowait_cores
        >= param("iowait_per_reader_opens") * pl.min_horizontal(_READERS, pl.max_horizontal(c.children_cores * 4, pl.lit(1.0)))
    ),
    clears=(c.share_data < param("share_data_clears")) | (c.iowait_cores < param("iowait_per_reader_clears") * _READERS),
    yields_to=("storage-small-files",),
    title=_("Reading from storage limits the job"),
    summary=_(
        "For {share_data:.0%} of the time the GPU had no batch. {iowait_cores:.1f} cores' worth of processes waited for the disk,"
        " which delivered {disk_read_gb_per_s:.2f} GB/s."
    ),
    evidence=(
        Show("share_data", "ratio", ">=", "share_data_opens"),
        Show("iowait_cores", "cores"),
        Show("disk_read_bytes_per_s", "bytes_per_second", ">=", "disk_read_opens_bytes_per_s"),
        Show("children", "processes"),
        Show("children_cores", "cores"),
        Show("busy", "ratio"),
    ),
    change=(
        Step(
            "command", 'srun --ntasks-per-node=1 rsync -a "$DATA/" "$SLURM_TMPDIR/data/"  # stage to the local disk', when=SLURM
        ),
        Step(
            "config",
            "volumes: [{{name: scratch, emptyDir: {{}}}}]  # on the node's disk; an init container stages the data into it",
            when=KUBERNETES,
        ),
        Step("command", 'rsync -a "$DATA/" "${{TMPDIR:-/tmp}}/data/"  # stage to the local disk', when=NO_SCHEDULER),
        Step(
            "diff",
            "- loader = DataLoader(ds, num_workers=W)\n+ loader = DataLoader(ds, num_workers=2 * W, prefetch_factor=4)  # more reads in flight",
            when=MORE_LOADERS,
        ),
        Step(
            "command",
            'tar --sort=name -cf shard-000000.tar -C "$DATA" .  # many small files: pack them, 256 MB to 1 GB a shard, read with webdataset',
        ),
    ),
    gain=Expect(
        1.2,
        pl.min_horizontal(3.0, 1 / (1 - c.share_data).clip(0.05)),
        _(
            "The upper value is 1 / (1 - data share), 3 at most. For comparison, another run of ResNet-50 went from 1,690 to 4,394"
            " images/s when fed from memory (2.6 times)."
        ),
    ),
    risk=_("Staging takes time and scratch space; stale copies."),
    rollback=_("Point the path back."),
    verify=_("Time in I/O wait is near zero, the data share below 0.05, samples per second up to the next limit."),
    sources=("docs.kernel.org: /proc/stat iowait", "recordings disk_loader and loader_ok"),
)
