"""What the server sees of its own accord: nodes and GPUs that are gone, sources that lag or stand still, and what a site's Alertmanager told."""

from typing import Final

from advisor.event_rule import BY_ALERTMANAGER, BY_WATCH, NEVER_S, Health
from advisor.finding import Change
from advisor.text import _

_STATUS: Final = Change("command", "ssh {node} systemctl status fettle-agent")
_LOG: Final = Change("command", "ssh {node} journalctl -u fettle-agent -n 50")
_LOOKS: Final = _("None: these steps only look.")
_NOTHING: Final = _("Nothing to roll back.")

INVENTORY_RULES: Final = (
    Health(
        rule="node-silent",
        severity="warn",
        confidence="high",
        title=_("The node has gone silent"),
        summary=_("Nothing has come from the node's agent for {silent_s:.0f} s: what its GPUs do is unknown."),
        change=(Change("command", "ping -c 3 {node}"), _STATUS, _LOG),
        risk=_LOOKS,
        rollback=_NOTHING,
        verify=_("The node is heard again."),
        quiet_s=NEVER_S,
        opens=BY_WATCH,
        scope="node",
        group="capacity",
    ),
    Health(
        rule="many-nodes-silent",
        severity="critical",
        confidence="high",
        title=_("Most nodes have gone silent at once"),
        summary=_("{silent} of {known} nodes went silent together: look at the network and at this server before any node."),
        change=(
            Change("command", "curl -fsS http://127.0.0.1:8000/healthz  # on the server"),
            Change("command", "journalctl -u fettle-web -n 100  # on the server: does it take agents in?"),
        ),
        risk=_LOOKS,
        rollback=_NOTHING,
        verify=_("The nodes are heard again."),
        quiet_s=NEVER_S,
        opens=BY_WATCH,
        scope="fleet",
        group="capacity",
    ),
    Health(
        rule="gpu-missing",
        severity="critical",
        confidence="high",
        title=_("The node lists fewer GPUs than it should"),
        summary=_("The node lists {present} GPU(s); before it listed {before}."),
        change=(
            Change("command", 'scontrol update nodename={node} state=drain reason="GPU missing"'),
            Change("command", "nvidia-bug-report.sh && lspci -d 10de: && dmesg | grep -i -e xid -e nvrm"),
            Change("command", "fettle agent doctor  # after a power cycle: are all of them back?"),
        ),
        risk=_("The node's capacity is lost while it is drained."),
        rollback=_(
            "Put the node back into service; a card that was taken out for good: tell the site's number anew (expected_gpus)."
        ),
        verify=_("The node lists all of them for seven days."),
        quiet_s=NEVER_S,
        opens=BY_WATCH,
        scope="node",
    ),
    Health(
        rule="source-lagging",
        severity="advice",
        confidence="high",
        title=_("The node's samples come late"),
        summary=_(
            "The newest sample of this node is {late_s:.0f} s old, though its agent is heard: what pages and rules say of it is that old."
        ),
        change=(
            Change("command", "fettle agent doctor  # on the node: its clock, its spool, its way to the server"),
            _LOG,
        ),
        risk=_LOOKS,
        rollback=_NOTHING,
        verify=_("Samples arrive within seconds."),
        quiet_s=NEVER_S,
        opens=BY_WATCH,
        scope="node",
        group="capacity",
    ),
    Health(
        rule="source-frozen",
        severity="warn",
        confidence="high",
        title=_("A source of the node's readings stands still"),
        summary=_("The driver does not answer the agent of this node: {readings} readings of {gpus} GPU(s) are absent."),
        change=(
            Change("command", "fettle agent doctor  # on the node: which source answers, which does not"),
            Change("command", "dmesg | grep -i -e xid -e nvrm"),
        ),
        risk=_LOOKS,
        rollback=_NOTHING,
        verify=_("The source answers again, and its values move."),
        quiet_s=NEVER_S,
        opens=BY_WATCH,
        scope="node",
        group="capacity",
    ),
    Health(
        rule="clock-skew",
        severity="advice",
        confidence="high",
        title=_("The node's clock is wrong"),
        summary=_(
            "The node's clock is off by {skew_s:+.1f} s: its own logs, jobs and events bear times that others do not have."
        ),
        change=(
            Change("command", "ssh {node} timedatectl status"),
            Change("command", "ssh {node} chronyc tracking"),
        ),
        risk=_LOOKS,
        rollback=_NOTHING,
        verify=_("The clock is right to half the limit."),
        quiet_s=NEVER_S,
        opens=BY_WATCH,
        scope="node",
        group="capacity",
    ),
    Health(
        rule="told-by-alertmanager",
        severity="warn",
        confidence="medium",
        title=_("Alertmanager tells: {alertname}"),
        summary=_("{said}"),
        change=(Change("command", "amtool alert query"),),
        risk=_LOOKS,
        rollback=_NOTHING,
        verify=_("Alertmanager says that the alert is resolved."),
        quiet_s=NEVER_S,
        opens=BY_ALERTMANAGER,
        group="capacity",
    ),
)
"""None of them is judged in windows: fleet/watch looks every few seconds, and each ends by a certain word alone."""

FEWER_THAN_SAID: Final = _("The node lists {present} GPU(s), and the site says that it has {before}.")
FEWER_THAN_PEERS: Final = _("The node lists {present} GPU(s); {peers} nodes with the same model list {before} each.")
FROZEN_VALUES: Final = _("What dcgm-exporter tells of this node stands still: {readings} readings of {gpus} GPU(s) are absent.")
FROZEN_LOG: Final = _("The kernel's log is not read on this node: XIDs that the driver does not report itself go unseen.")
FROZEN_ENGINE: Final = _("The serving engine {engine} on this node does not answer its agent.")
FROZEN_CARDS: Final = _("The readings of {gpus} GPU(s) of this node have not moved for {still_s:.0f} s, while others do.")
