"""A service's slow requests come when other programs of its host are at work.

Backups, log rotation, agents: they take cores, disks and the memory bus for a minute. Told from spikes that fall together with bursts of
programs without a GPU, over a day.
"""

import polars as pl

from advisor.rule import Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="background-job-latency-spikes",
    scope="service",
    severity="warn",
    bottleneck="contention",
    needs=(Need(("latency_spikes", "spikes_with_noise_share")),),
    thresholds=(
        Threshold("spikes_opens", 5.0, "events", 1.0, 10_000.0),
        Threshold("noise_share_opens", 0.6, "ratio", 0.1, 1.0),
        Threshold("noise_share_clears", 0.4, "ratio", 0.0, 1.0),
    ),
    opens=(c.latency_spikes >= param("spikes_opens")) & (c.spikes_with_noise_share >= param("noise_share_opens")),
    clears=(c.latency_spikes < 0.5 * param("spikes_opens")) | (c.spikes_with_noise_share < param("noise_share_clears")),
    unless=c.hw_slowdown_share > 0.01,
    title=_("Programs in the background cause latency spikes"),
    summary=_(
        "{latency_spikes:.0f} times in a day the latency rose above five times its median, {spikes_with_noise_share:.0%} of these times while other programs of the host were busy; {other_cores:.1f} cores are theirs now."
    ),
    evidence=(
        Show("latency_spikes", "events", ">=", "spikes_opens"),
        Show("spikes_with_noise_share", "ratio", ">=", "noise_share_opens"),
        Show("other_cores", "cores"),
        Show("psi_cpu_some_pct", "percent"),
        Show("psi_io_some_pct", "percent"),
        Show("disk_write_bytes_per_s", "bytes_per_second"),
    ),
    change=(
        Step("command", "systemctl list-timers --all  # which of them fits the minutes of the spikes"),
        Step("command", "systemctl set-property NAME.service CPUWeight=10 IOWeight=10"),
        Step("config", "17 4 * * * nice -n 19 ionice -c3 COMMAND  # crontab"),
        Step(
            "config",
            "cpuManagerPolicy: static  # and Guaranteed pods, so that the service's cores are its own",
            when=c.scheduler == "kubernetes",
        ),
    ),
    recovers=0.0,
    risk=_("Backups and logs come later: plan them."),
    rollback=_("systemctl revert NAME.service"),
    verify=_("Spikes a day down by 80 %, the slowest requests below twice the median for seven days."),
    measure="e2e_mean_s",
    sources=("docs.kernel.org/accounting/psi.html", "www.freedesktop.org: systemd.resource-control"),
)
