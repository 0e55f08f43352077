"""The input side waits for many small reads: a dataset of single files, not a slow disk.

A read of packed data takes what the kernel reads ahead, 128 KiB and more; single images and texts take 4 to 64 KiB, and each costs a
look-up besides. Small reads alone are harmless while the page cache or the disk keeps up, so the GPU must lack data and readers must be
blocked: a fifth of the time of the busiest rank's input side. The recording disk_loader reads 1.6 GB/s in large pieces and is the case
of storage-throughput-bound; none of the recordings has small reads. In its first half hour a job fills the page cache: advice only.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_WAITING = (c.share_data >= param("share_data_opens")) | (c.data_wait_share >= param("data_wait_share_opens"))
_FED = (c.share_data < param("share_data_clears")) & (c.data_wait_share < param("data_wait_share_clears")).fill_null(True)
_SMALL = (c.disk_read_each_bytes < param("read_opens_bytes")) & (c.disk_read_iops >= param("reads_opens_per_s"))
_LARGE = (c.disk_read_each_bytes >= param("read_clears_bytes")).fill_null(True)  # where nothing is read nothing has a size
_LOST = pl.max_horizontal(c.share_data, c.data_wait_share)

RULE = Rule(
    id="storage-small-files",
    scope="job",
    severity=pl.when(c.run_s < 1800).then(pl.lit("advice")).otherwise(pl.lit("warn")),
    bottleneck="data",
    needs=(
        Need(("busy", "disk_read_iops", "io_delay_share"), "medium"),
        Need(
            ("busy", "disk_read_iops", "iowait_cores"),
            "low",
            opens=_WAITING & _SMALL & (c.iowait_cores >= param("iowait_cores_opens")),
            clears=_FED | _LARGE | (c.iowait_cores < param("iowait_cores_clears")),
        ),
    ),
    thresholds=(
        Threshold("share_data_opens", 0.35, "ratio", 0.0, 1.0),
        Threshold("share_data_clears", 0.22, "ratio", 0.0, 1.0),
        Threshold("data_wait_share_opens", 0.15, "ratio", 0.0, 1.0),
        Threshold("data_wait_share_clears", 0.08, "ratio", 0.0, 1.0),
        Threshold("read_opens_bytes", 65536.0, "bytes", 4096.0, 1048576.0),
        Threshold("read_clears_bytes", 131072.0, "bytes", 4096.0, 4194304.0),
        Threshold("reads_opens_per_s", 200.0, "per_second", 1.0, 1e6),
        Threshold("io_delay_share_opens", 0.2, "ratio", 0.0, 1.0),
        Threshold("io_delay_share_clears", 0.1, "ratio", 0.0, 1.0),
        Threshold("iowait_cores_opens", 0.5, "cores", 0.0, 256.0),
        Threshold("iowait_cores_clears", 0.25, "cores", 0.0, 256.0),
    ),
    opens=_WAITING & _SMALL & (c.io_delay_share >= param("io_delay_share_opens")),
    clears=_FED | _LARGE | (c.io_delay_share < param("io_delay_share_clears")),
    unless=c.serves.fill_null(False)
    | pl.coalesce(c.told_phase, c.note_phase).is_in(("checkpoint", "init"))
    | (c.share_checkpoint >= c.share_data),
    title=_("Many small files limit the data loader"),
    summary=_(
        "For {share_data:.0%} of the time the GPU had no batch while {disk_read_iops:.0f} reads a second fetched"
        " {disk_read_each_bytes:.0f} bytes each: the loader waits for single files, not for bandwidth."
    ),
    cases=(
        Says(
            c.data_wait_share.is_not_null(),
            _(
                "For {data_wait_share:.0%} of each step the script waited for a batch while {disk_read_iops:.0f} reads a second fetched"
                " {disk_read_each_bytes:.0f} bytes each: the loader waits for single files, not for bandwidth."
            ),
        ),
    ),
    evidence=(
        Show("disk_read_each_bytes", "bytes", "<", "read_opens_bytes"),
        Show("disk_read_iops", "per_second", ">=", "reads_opens_per_s"),
        Show("io_delay_share", "ratio"),
        Show("iowait_cores", "cores"),
        Show("disk_await_s", "seconds"),
        Show("disk_read_bytes_per_s", "bytes_per_second"),
        Show("share_data", "ratio"),
        Show("data_wait_share", "ratio"),
    ),
    change=(
        Step(
            "command",
            "# once: pack the files into shards of 256 MB to 1 GB, at least as many as workers times ranks\n"
            'find "$DATA" -type f | sort | split -l 2000 -d -a 6 --filter=\'tar -cf "shard-$FILE.tar" -T -\' - ""',
        ),
        Step(
            "diff",
            "- ds = ImageFolder(root)\n"
            '+ ds = webdataset.WebDataset("shard-{{000000..000999}}.tar", shardshuffle=True).shuffle(2000).decode("pil")',
        ),
        Step(
            "command",
            "srun --ntasks-per-node=1 sh -c 'cp shard-*.tar \"$SLURM_TMPDIR/\"'  # and read them from the local disk",
            when=c.scheduler == "slurm",
        ),
    ),
    gain=Expect(
        1 / (1 - 0.3 * _LOST),
        1 / (1 - 0.7 * _LOST),
        _("An estimate: packed shards take away 30 to 70 % of the time that this job waits for files."),
    ),
    risk=_("Shuffling reaches over shards and a buffer, not over single samples; the copy takes time and space once."),
    rollback=_("Keep the original files and point the path back."),
    verify=_("The mean read exceeds 256 KiB, the data share halves and an epoch takes 10 % less time."),
    sources=("github.com/webdataset/webdataset", "docs.kernel.org/admin-guide/iostats.html"),
)
