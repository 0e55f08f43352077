"""GPUs that are missing: fewer than the node listed before, than the site says, or than its peers list."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from django.db.models import Count
from django.utils.translation import gettext_noop

from advisor.finding import Evidence, Severity
from advisor.inventory_rules import FEWER_THAN_PEERS, FEWER_THAN_SAID
from fleet.inventory.models import Gpu
from fleet.slow import node_facts
from fleet.watch.alerts import MAINTENANCE, Alerts
from fleet.watch.nodes import Watched

RULE: Final = "gpu-missing"
LASTS_S: Final = 8.0
"""Two looks: a driver that is loaded anew lists its cards again within seconds."""
LEAST_PEERS: Final = 4
ALIKE: Final = 0.8
"""Of the nodes with the model, those that list as many: else there is no number that a node of it has."""
BACK: Final = gettext_noop("The GPUs are listed again.")


class _Lack(NamedTuple):
    present: int
    before: int
    gpus: tuple[int, ...] = ()
    summary: str | None = None
    severity: Severity | None = None
    peers: int = 0


def look(alerts: Alerts, nodes: Sequence[Watched], heard: Collection[int]) -> None:
    """Open and end what the inventory says of nodes that are heard; of a silent one it says nothing."""
    here = [one for one in nodes if one.pk in heard]
    present: dict[int, Counter[str]] = defaultdict(Counter)
    absent: set[int] = set()
    rows = Gpu.objects.filter(parent_uuid="").order_by().values_list("node", "model", "present").annotate(Count("pk"))
    for node, model, is_present, count in rows:
        if is_present:
            present[node][model] += count
        else:
            absent.add(node)
    missing: dict[int, list[int]] = defaultdict(list)
    cards = node_facts.cards(absent & set(heard)) if absent else []
    gone = node_facts.missing(cards)
    for card in cards:
        if card.pk in gone:
            missing[card.node].append(card.pk)
    usual = _usual({one.pk: present[one.pk] for one in here})
    for one in here:
        lack = None if one.maintenance else _lack(one, present[one.pk], missing[one.pk], usual)
        _decide(alerts, one, lack)


def _usual(present: Mapping[int, Counter[str]]) -> dict[str, tuple[int, int]]:
    """By model how many GPUs a node with it lists, and how many nodes do; models without such a number are left out."""
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for models in present.values():
        if len(models) == 1:
            ((model, count),) = models.items()
            counts[model][count] += 1
    found = {}
    for model, numbers in counts.items():
        usual, nodes = max(numbers.items(), key=lambda item: (item[1], item[0]))
        if numbers.total() > LEAST_PEERS and nodes >= ALIKE * numbers.total():
            found[model] = (usual, nodes)
    return found


def _lack(one: Watched, models: Counter[str], missing: Sequence[int], usual: Mapping[str, tuple[int, int]]) -> _Lack | None:
    count = models.total()
    if missing:
        return _Lack(count, count + len(missing), tuple(missing))
    if one.expected_gpus is not None:  # the site's word outweighs what its peers have
        return _Lack(count, one.expected_gpus, summary=FEWER_THAN_SAID) if count < one.expected_gpus else None
    if len(models) == 1:
        ((model, has),) = models.items()
        wanted, peers = usual.get(model, (0, 0))
        if has < wanted:
            return _Lack(has, wanted, summary=FEWER_THAN_PEERS, severity="warn", peers=peers)
    return None


def _decide(alerts: Alerts, one: Watched, lack: _Lack | None) -> None:
    target = str(one.pk)
    if not alerts.lasts(f"{RULE} {target}", lack is not None, LASTS_S):
        if lack is None:
            alerts.end(RULE, target, MAINTENANCE if one.maintenance else BACK)
        return
    assert lack is not None  # noqa: S101 - it lasts
    alerts.tell(
        RULE,
        target,
        {"present": lack.present, "before": lack.before, "peers": lack.peers},
        (Evidence("node_gpus_present", lack.present, "gpus", lack.before, "<"), Evidence("node_gpus", lack.before, "gpus")),
        node=one.pk,
        name=one.name,
        gpus=lack.gpus,
        severity=lack.severity,
        summary=lack.summary,
    )
